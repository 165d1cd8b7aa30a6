"""Some members of a record set anew in its line, every other byte left as the tap wrote it.

A change of three cells must not re-spell the rest: ``1.10`` stays ``1.10``, members keep their
order and their escapes, and what the schema does not declare stays as well. So a line is not
read and written again, but cut where the members lie and put together with the new ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import astuple

from singerlake.errors import DamagedError
from singerlake.format.values import shown

# A match may take back any of its repeats, which costs memory for each: so they are bounded, and
# a longer string is read in several matches.
_INSIDE = rb'[^"\\]*(?:\\.[^"\\]*){0,999}'
_STRING = rb'"%b"' % _INSIDE
_WHITE = rb"[ \t\r\n]*"
_NAME = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
# With its value, where that is no object, array or long string.
_MEMBER = re.compile(
    rb'(%b)%b:%b(%b|[^][{}",: \t\r\n]+)?' % (_NAME, _WHITE, _WHITE, _STRING), re.DOTALL
)
_LONG_STRING = re.compile(_INSIDE, re.DOTALL)
_BRACKET = re.compile(rb'[^][{}"]*(?:%b[^][{}"]*){0,999}([][{}"])' % _STRING, re.DOTALL)
_OPENING = re.compile(rb"%b\{%b(\}?)" % (_WHITE, _WHITE))
_NEXT = re.compile(rb"%b(,%b|\})" % (_WHITE, _WHITE))
_COLON = re.compile(rb"%b:%b" % (_WHITE, _WHITE))
_ESCAPED_NAME = re.compile(rb'\\.[^"\\]*"%b:' % _WHITE, re.DOTALL)


class _Line(msgspec.Struct, gc=False):
    record: msgspec.Raw


_LINE = msgspec.json.Decoder(_Line)
_RECORD = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Member(NamedTuple):
    """The place of a member: the quote before its name, and its value."""

    name: str
    start: int
    value: int
    end: int


class _Object(NamedTuple):
    """The place of an object's first member, and the members that it has."""

    start: int
    members: list[_Member]


class _Edit(NamedTuple):
    """A span of bytes, and what takes their place."""

    start: int
    end: int
    text: bytes


_Span: TypeAlias = tuple[int, int, bytes]


def patched(line: bytes, changed: Mapping[str, bytes | None], stamp: str | None = None) -> bytes:
    """Set some members of the record of a RECORD line.

    A new member comes last. Of a name that stands twice the last one counts, so that one is set;
    those before it go, for some readers would heed them.

    Args:
        line: The line, without its newline.
        changed: The members' new values, as JSON texts without ends of lines; None takes a member
            away.
        stamp: The ``time_extracted`` that the line gets; None leaves it its own.

    Raises:
        DamagedError: The line is not that of a RECORD.
    """
    time = None if stamp is None else b'"%b"' % stamp.encode("ascii")
    edits = _quick_edits(line, changed, time)
    if edits is None:
        edits = [edit[:3] for edit in _exact_edits(line, changed, time)]
        edits.sort(key=lambda edit: edit[:2])
    else:
        edits.sort()
    pieces: list[bytes] = []
    done = 0
    for start, end, text in edits:
        pieces += (line[done:start], text)
        done = end
    pieces.append(line[done:])
    return b"".join(pieces)


def name_text(name: str) -> bytes:
    """Spell a member's name in JSON."""
    return msgspec.json.encode(name)


def _quick_edits(
    line: bytes, changed: Mapping[str, bytes | None], time: bytes | None
) -> list[_Span] | None:
    """Find the edits to a line in which there is one place to look for each name.

    Returns:
        None where a member goes, or where a name may be in the line twice: as another member's,
        as a text, or in other letters.
    """
    if line.count(b'"record"') != 1 or (b"\\" in line and _ESCAPED_NAME.search(line)):
        return None
    quick = _quick(tuple(changed))
    if quick is None or None in changed.values():
        return None
    decoder, names = quick
    try:
        envelope = decoder.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    edits: list[_Span] = []
    for quoted, raw, text in zip(names, astuple(envelope.record), changed.values(), strict=True):
        edit = _quick_edit(line, quoted, text or b"", bytes(raw))
        if edit is None and (edit := _added(line, quoted, text or b"", raw, _record_end)) is None:
            return None
        edits.append(edit)
    if time is not None:
        raw = envelope.time_extracted
        edit = _quick_edit(line, _TIME, time, bytes(raw))
        if edit is None and (edit := _added(line, _TIME, time, raw, _line_end)) is None:
            return None
        edits.append(edit)
    return edits


def _added(
    line: bytes, quoted: bytes, text: bytes, old: msgspec.Raw, end: Callable[[bytes], int | None]
) -> _Span | None:
    """Put a member last that is not there."""
    if bytes(old) or quoted in line or (last := end(line)) is None:
        return None
    return last, last, b", %b: %b" % (quoted, text)


def _line_end(line: bytes) -> int:
    """Return where the last member of a line ends."""
    return _last_value_end(line, len(line))


def _quick_edit(line: bytes, quoted: bytes, text: bytes, old: bytes) -> _Span | None:
    """Find the value of a name that stands in a line once, as a member's."""
    if not old or line.count(quoted) != 1:
        return None
    at = line.index(quoted) + len(quoted) + 1
    if line[at - 1] != _COLON_BYTE:
        return None
    if line[at] == _SPACE:
        at += 1
    return (at, at + len(old), text) if line.startswith(old, at) else None


@lru_cache(maxsize=256)
def _quick(
    names: tuple[str, ...],
) -> tuple[msgspec.json.Decoder[Any], tuple[bytes, ...]] | None:
    """Make what reads the values of some members and no others, with the names as they stand."""
    fields = [f"f{number}" for number in range(len(names))]
    defined: list[tuple[str, Any, Any]] = [(name, msgspec.Raw, msgspec.Raw()) for name in fields]
    own = dict(zip(fields, names, strict=True))
    try:
        record = msgspec.defstruct("Record", defined, rename=own, gc=False)
    except ValueError:  # a name with a quote or a control character in it
        return None
    line = msgspec.defstruct(
        "Line",
        [("record", record), ("time_extracted", msgspec.Raw, msgspec.Raw())],
        gc=False,
    )
    return msgspec.json.Decoder(line), tuple(name_text(name) for name in names)


def _record_end(line: bytes) -> int | None:
    """Return where the last member of a line's record ends; None where it has none."""
    try:
        record = _LINE.decode(line).record
        if not _RECORD.decode(record):
            return None  # nothing for a comma to follow
    except (msgspec.DecodeError, RecursionError):
        return None
    match = _COLON.match(line, line.index(b'"record"') + len(b'"record"'))
    return None if match is None else _last_value_end(line, match.end() + len(record))


def _last_value_end(line: bytes, end: int) -> int:
    """Return where the last member ends of an object that ends at a place."""
    return len(line[:end].rstrip()[:-1].rstrip())


def _exact_edits(
    line: bytes, changed: Mapping[str, bytes | None], time: bytes | None
) -> list[_Edit]:
    try:
        envelope = _object(line, 0)
        records = [member.value for member in envelope.members if member.name == "record"]
        edits = _edits(_object(line, records[-1]), changed)
        if time is not None:
            edits += _edits(envelope, {"time_extracted": time})
    except (ValueError, IndexError) as error:
        raise DamagedError(f"a line is not that of a RECORD: {shown(line)}") from error
    return edits


def _edits(spans: _Object, changed: Mapping[str, bytes | None]) -> list[_Edit]:
    """Work out what to cut out of an object and what to put in."""
    members = spans.members
    counts = {member.name: index for index, member in enumerate(members)}
    edits = []
    behind_another = False
    for index, (name, start, value, end) in enumerate(members):
        if name not in changed:
            behind_another = True
            continue
        text = changed[name]
        if text is not None and counts[name] == index:
            edits.append(_Edit(value, end, text))
            behind_another = True
        elif behind_another:
            edits.append(_Edit(members[index - 1].end, end, b""))
        else:
            following = members[index + 1].start if index + 1 < len(members) else end
            edits.append(_Edit(start, following, b""))
    last = members[-1].end if members else spans.start
    for name, text in changed.items():
        if text is not None and name not in counts:
            comma = b", " if behind_another else b""
            edits.append(_Edit(last, last, b"%b%b: %b" % (comma, name_text(name), text)))
            behind_another = True
    return edits


def _object(line: bytes, start: int) -> _Object:
    """Find the members of the object that begins at a place.

    Raises:
        ValueError: There is none, or it does not end.
    """
    match = _matched(_OPENING, line, start)
    at, closed = match.start(1), match[1] == b"}"
    members: list[_Member] = []
    while not closed:
        match = _matched(_MEMBER, line, match.end())
        name = match[1][1:-1].decode("utf-8") if b"\\" not in match[1] else json.loads(match[1])
        value, end = (match.end(), 0) if match[2] is None else match.span(2)
        members.append(_Member(name, match.start(), value, end or _value_end(line, value)))
        match = _matched(_NEXT, line, members[-1].end)
        closed = match[1] == b"}"
    return _Object(at, members)


def _value_end(line: bytes, start: int) -> int:
    """Find where a long string, an object or an array ends."""
    if line[start : start + 1] == b'"':
        return _string_end(line, start)
    depth, at = 0, start
    while depth or at == start:
        match = _matched(_BRACKET, line, at)
        at = match.end()
        if match[1] == b'"':
            at = _string_end(line, at - 1)
        else:
            depth += 1 if match[1] in b"[{" else -1
    return at


def _string_end(line: bytes, start: int) -> int:
    at = start + 1
    while line[at] != _QUOTE:
        at = _matched(_LONG_STRING, line, at).end()
    return at + 1


def _matched(pattern: re.Pattern[bytes], line: bytes, at: int) -> re.Match[bytes]:
    match = pattern.match(line, at)
    if match is None:
        raise ValueError(f"not a JSON object at byte {at}")
    return match


_QUOTE = ord('"')
_TIME = b'"time_extracted"'
_COLON_BYTE, _SPACE = ord(":"), ord(" ")
