"""Files that rows name: where a schema has them, what a block names, and the lists of them.

A property of ``{"type": "object", "format": "singer.file"}`` says of a file what Parquet's type
FILE says: ``uri``, ``size``, ``content_type``, ``checksum``. Where the file itself is in the lake,
its ``path`` says where, within the table's folder. Which files a block names is found in its lines
and kept in a list beside it, so that nobody has to read rows to know which are still needed.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format import file_paths, json_schema
from singerlake.format.log import FileList

FORMAT = "singer.file"
_DEEPEST = 8
"""Levels of a schema that are looked at."""
_MOST_LINE = 160
"""Bytes that a line of a list has at most."""
_MOST_BYTES = 1 << 30
"""Bytes that a list inflates to at most."""

_A_FILE = f"a property of the format {FORMAT}"
_ELSEWHERE = frozenset(
    """
    additionalItems additionalProperties contains dependencies dependentSchemas else
    patternProperties prefixItems then unevaluatedItems unevaluatedProperties
    """.split()  # noqa: SIM905
)
"""Words that hold schemas of values in which no files are looked for."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Words that hold values, which only look like schemas."""

_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_ITEMS = msgspec.json.Decoder(list[Raw])


class _Line(msgspec.Struct, gc=False):
    record: Raw = Raw(b"{}")


class _SchemaLine(msgspec.Struct):
    schema: dict[str, Any]


class _Stored(msgspec.Struct, gc=False):
    path: Any = None
    size: Any = None


_LINES = msgspec.json.Decoder(_Line)
_SCHEMA = msgspec.json.Decoder(_SchemaLine)
_STORED = msgspec.json.Decoder(_Stored)


@dataclass(frozen=True)
class Place:
    """Where files may be in a value.

    Attributes:
        is_file: Whether the value itself says of one, if it is an object.
        members: Its members in which files may be, by name.
        items: Where they may be in its items; None for nowhere.
    """

    is_file: bool = False
    members: Mapping[str, Place] = field(default_factory=dict)
    items: Place | None = None

    def files(self, raw: Raw | bytes) -> Iterator[bytes]:
        """Yield the JSON of each object in a value that says of a file.

        Raises:
            msgspec.DecodeError: The value is no JSON.
        """
        first = bytes(raw).lstrip()[:1]
        if first == b"{":
            if self.is_file:
                yield bytes(raw)
                return
            if self.members:
                found = _MEMBERS.decode(raw)
                for name, place in self.members.items():
                    if name in found:
                        yield from place.files(found[name])
        elif first == b"[" and self.items is not None:
            for item in _ITEMS.decode(raw):
                yield from self.items.files(item)

    def replaced(self, raw: Raw | bytes, change: Callable[[bytes], bytes]) -> bytes:
        """Return a value's JSON with each such object changed, all else as it was.

        Raises:
            msgspec.DecodeError: The value is no JSON.
        """
        text = bytes(raw)
        first = text.lstrip()[:1]
        if first == b"{":
            if self.is_file:
                return change(text)
            if self.members:
                members = _MEMBERS.decode(text)
                changed = {
                    name: place.replaced(members[name], change)
                    for name, place in self.members.items()
                    if name in members
                }
                if any(bytes(members[name]) != new for name, new in changed.items()):
                    return spelled({**members, **changed})
        elif first == b"[" and self.items is not None:
            items = [bytes(item) for item in _ITEMS.decode(text)]
            new = [self.items.replaced(item, change) for item in items]
            if new != items:
                return b"[%b]" % b", ".join(new)
        return text


def spelled(members: Mapping[str, Raw | bytes]) -> bytes:
    """Spell an object whose members' values are JSON already."""
    pairs = (b"%b: %b" % (msgspec.json.encode(name), bytes(raw)) for name, raw in members.items())
    return b"{%b}" % b", ".join(pairs)


def place_in(
    schema: Mapping[str, Any], lost: Callable[[str], None] = lambda _why: None
) -> Place | None:
    """Find where the records of a schema have files; None where nowhere.

    Args:
        schema: The schema.
        lost: Told why, in words, of each file that the schema has where none can be.
    """
    root = dict(schema)
    if not _has_file(root, root):  # nearly always
        return None
    place = _place(root, root, 0, lost)
    if place is not None and place.is_file:  # a record is no file, whatever its schema says
        lost(f"the record itself is {_A_FILE}")
    return place and (Place(members=place.members) if place.members else None)


def _place(
    spec: Any, root: dict[str, Any], depth: int, lost: Callable[[str], None]
) -> Place | None:
    if not isinstance(spec, dict):
        return None
    if depth > _DEEPEST:
        if _has_file(spec, root):
            lost(f"{_A_FILE} is more than {_DEEPEST} levels deep")
        return None
    spec = json_schema.resolved(spec, root)
    _tell_lost(spec, root, lost)
    place = Place(is_file=spec.get("format") == FORMAT)
    properties = spec.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if (found := _place(inner, root, depth + 1, lost)) is not None:
            place = _joined(place, Place(members={name: found}))
    place = _joined(place, Place(items=_place(spec.get("items"), root, depth + 1, lost)))
    for branch in _branches(spec):
        if (found := _place(branch, root, depth + 1, lost)) is not None:
            place = _joined(place, found)
    return place if place.is_file or place.members or place.items else None


def _branches(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas of which some hold beside a schema."""
    beside = {"type": spec["type"]} if "type" in spec else {}
    for word in ("anyOf", "oneOf", "allOf"):
        branches = spec.get(word)
        for branch in branches if isinstance(branches, list) else ():
            if isinstance(branch, dict):
                yield {**beside, **branch}


def _tell_lost(spec: dict[str, Any], root: dict[str, Any], lost: Callable[[str], None]) -> None:
    """Tell of files right in a schema that are not looked for."""
    if spec.get("format") == FORMAT and not _is_object(spec, root):
        lost(f'{_A_FILE} has not the type "object", or "object" and "null"')
    for word in _ELSEWHERE & spec.keys():
        if _has_file(spec[word], root):
            lost(f"{_A_FILE} stands under {word!r}")
    if isinstance(spec.get("items"), list) and _has_file(spec["items"], root):
        lost(f"{_A_FILE} stands under a list of 'items'")


def _joined(one: Place, other: Place) -> Place:
    """Where files may be by either of two."""
    members = dict(one.members)
    for name, place in other.members.items():
        members[name] = _joined(members[name], place) if name in members else place
    both = one.items and other.items and _joined(one.items, other.items)
    return Place(one.is_file or other.is_file, members, both or one.items or other.items)


def _is_object(spec: dict[str, Any], root: dict[str, Any]) -> bool:
    """Tell whether what a schema allows can be an object, and else null at most."""
    others = ("string", "array", "number", "boolean")
    may_be = json_schema.may_be
    return may_be(spec, root, "object") and not any(may_be(spec, root, one) for one in others)


def _has_file(spec: Any, root: dict[str, Any]) -> bool:
    """Tell whether a file is anywhere in a schema, or in what it refers to."""
    waiting, seen = [spec], set[str]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += [inner for inner in part if isinstance(inner, (dict, list))]
        elif isinstance(part, dict):
            if part.get("format") == FORMAT:
                return True
            waiting += [
                inner
                for word, inner in part.items()
                if isinstance(inner, (dict, list)) and word not in _VALUES
            ]
            ref = part.get("$ref")
            if isinstance(ref, str) and ref not in seen:
                seen.add(ref)
                waiting.append(json_schema.look_up(ref, root))
    return False


def place_in_line(schema_line: bytes) -> Place | None:
    """Find where the records behind a SCHEMA line have files; None where nowhere.

    Raises:
        DamagedError: It is no such line.
    """
    # Nearly always it is not in it at all, and an escape may hide it.
    if FORMAT.encode() not in schema_line and b"\\" not in schema_line:
        return None
    try:
        return place_in(_SCHEMA.decode(schema_line).schema)
    except msgspec.DecodeError as error:
        raise DamagedError(f"a block does not begin with a SCHEMA line: {error}") from error


def schema_line_of(member: bytes) -> bytes:
    """Inflate a block up to the end of its SCHEMA line."""
    inflater = zlib.decompressobj(wbits=31)
    line = bytearray()
    data = member
    while b"\n" not in line[-65536:] and data and not inflater.eof:
        line += inflater.decompress(data, 65536)
        data = inflater.unconsumed_tail
    return bytes(line[: line.find(b"\n") + 1])


def named_in(text: bytes, place: Place) -> dict[str, int]:
    """Find the files that an inflated block's rows name: their paths, and the sizes said of them.

    Of a file that no row says a size of, it is 0.

    Raises:
        DamagedError: It holds a line that is no message.
    """
    named: dict[str, int] = {}
    try:
        for line in _LINES.decode_lines(format_block.lines(text)[1]):
            for raw in Place(members=place.members).files(line.record):
                stored = _STORED.decode(raw)
                if isinstance(stored.path, str) and file_paths.is_content(stored.path):
                    size = stored.size if type(stored.size) is int else 0
                    named[stored.path] = max(0, size, named.get(stored.path, 0))
    except msgspec.DecodeError as error:
        raise DamagedError(f"a block holds a line that is not a message: {error}") from error
    return named


def encode_list(named: Mapping[str, int], *, doomed: bool = False) -> tuple[FileList, bytes]:
    """Spell a list of files: gzip of lines with path and size, in order.

    Args:
        named: The files' paths, and their sizes.
        doomed: Whether it is of what a vacuum is about to delete.

    Returns:
        What names it, under a path that nobody has had, and its bytes.
    """
    lines = b"".join(b"%b %d\n" % (path.encode(), named[path]) for path in sorted(named))
    data = gzip.compress(lines, 6, mtime=0)
    digest = hashlib.sha256(data).hexdigest()
    path = file_paths.new_list(doomed=doomed)
    return FileList(path, len(named), sum(named.values()), digest), data


def decode_list(data: bytes, listed: FileList | str) -> dict[str, int]:
    """Read a list of files.

    Args:
        data: Its bytes.
        listed: What the log says of it; or its path, where the log says no more than that.

    Raises:
        DamagedError: It is another one, or cut or altered.
    """
    path = listed if isinstance(listed, str) else listed.path
    where = f"the list {path}"
    if isinstance(listed, FileList) and hashlib.sha256(data).hexdigest() != listed.hash:
        raise DamagedError(f"{where} is damaged: its bytes do not have the hash in the log")
    inflater = zlib.decompressobj(wbits=31)
    try:
        # No more than its lines can have, whatever somebody forged together with the log.
        most = listed.files * _MOST_LINE + 1 if isinstance(listed, FileList) else _MOST_BYTES
        text = inflater.decompress(data, most)
        pairs = (line.split(" ") for line in text.decode("ascii").splitlines())
        named = {path: int(size) for path, size in pairs}
    except (zlib.error, ValueError) as error:
        raise DamagedError(f"{where} is damaged: {error}") from error
    whole = inflater.eof and (isinstance(listed, str) or len(named) == listed.files)
    if not whole:
        raise DamagedError(f"{where} is damaged: it does not list the files that it should")
    if bad := next((path for path in named if not file_paths.is_content(path)), None):
        raise DamagedError(f"{where} is damaged: it lists {bad[:200]!r}")
    return named
