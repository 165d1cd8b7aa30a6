"""Lines that differ in their records alone: these are cut out without looking at all of each line.

A tap writes the same text before each record, and behind it the same but for the digits of a time.
What the first line has there is looked for in the others, byte by byte. Where all have it, a
parser need not read it, and a record's digest is of what lies between. So lines are read twice in
which anything else stands around a record: an ACTIVATE_VERSION, another order, a time without
microseconds.

Of lines that are JSON objects, each cut is a record or begins with one and goes on behind a comma,
for ``{"record": {}, "more": {}}`` ends as ``{"record": {}}`` does. A parser of JSON refuses the
comma, so whoever reads the records must read as many as there are lines, or step aside:

- What is before a record has members whose values are strings, without escapes, and its name. So
  after these bytes any line is where its record begins.
- Behind it are an object's end and members whose values are strings without escapes, or numbers.
  Backwards from the line's end, each quote is then one that a string begins or ends with, as no
  backslash is before it, and the first brace ends the value of a member of the line itself. Digits
  within strings may be others, or ``:;<=>?``, which are their neighbours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.format import set_hash
from singerlake.format.types import INT64
from singerlake.records.blocks import digests

_PIECE_BYTES = 400 << 10
"""Lines that are cut at once: their records stay in the processor's cache until they are hashed."""
_STRING = rb'"[^"\\]*"'
_BEFORE = re.compile(rb'\{\s*(?:%b\s*:\s*%b\s*,\s*)*"record"\s*:\s*\{' % (_STRING, _STRING))
_BEHIND = re.compile(rb"\}(?:\s*,\s*%b\s*:\s*(?:%b|-?\d+|null))*\s*\}" % (_STRING, _STRING))


class _Line(msgspec.Struct):
    type: str
    record: msgspec.Raw
    version: int | None = None


_LINE = msgspec.json.Decoder(_Line)


class AlikeRecords(NamedTuple):
    """The records of lines that differ in nothing else.

    Attributes:
        text: One a line, without what was around them.
        digests: The digest of each.
        versions: The Singer version of each: it is the same for all.
    """

    text: bytes
    digests: pa.Array
    versions: pa.Array


@dataclass(frozen=True)
class _Around:
    """What is around the record of a line.

    Attributes:
        before: The bytes up to its first brace, and with it.
        behind: Those from its last brace on, with bits cleared that may be others.
        fixed: Which bits of these may not.
        version: The line's Singer version.
    """

    before: NDArray[np.uint8]
    behind: NDArray[np.uint8]
    fixed: NDArray[np.uint8]
    version: int | None


def read(text: bytes, start: int = 0) -> AlikeRecords | None:
    """Cut the records out of lines, if they differ in these alone.

    Args:
        text: Lines, each one JSON object, and ended by a newline.
        start: Where the first of them begins.

    Returns:
        None if they differ in anything else, or there are none.
    """
    around: _Around | None = None
    texts: list[bytes] = []
    hashes: list[bytes] = []
    while start < len(text):
        end = text.find(b"\n", start + _PIECE_BYTES) + 1 or len(text)
        piece, start = text[start:end], end
        around = around or _around(piece[: piece.find(b"\n")])
        if around is None or (records := _cut(piece, around)) is None:
            return None
        texts.append(b"\n".join(records))
        hashes.append(set_hash.joined_digests(records))
    if around is None:
        return None
    found = digests.column(b"".join(hashes))
    return AlikeRecords(b"\n".join([*texts, b""]), found, _repeated(around.version, len(found)))


def _around(line: bytes) -> _Around | None:
    """Tell what is around the record of a line, if nothing like it can be within one."""
    try:
        message = _LINE.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    before, record = _BEFORE.match(line), bytes(message.record)
    if before is None or message.type != "RECORD" or not _fits(message.version):
        return None
    start = before.end() - 1
    behind = line[start + len(record) - 1 :]
    if line[start : start + len(record)] != record or _BEHIND.fullmatch(behind) is None:
        return None
    fixed = np.full(len(behind), 0xFF, np.uint8)
    for string in re.finditer(_STRING, behind):
        for digit in re.finditer(rb"\d", string[0]):
            fixed[string.start() + digit.start()] = 0xF0
    return _Around(
        before=np.frombuffer(before[0], np.uint8),
        behind=np.frombuffer(behind, np.uint8) & fixed,
        fixed=fixed,
        version=message.version,
    )


def _cut(piece: bytes, around: _Around) -> list[bytes] | None:
    """Cut records out of lines; None where one has something else around it."""
    data = np.frombuffer(piece, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    begins = np.concatenate(([0], ends[:-1] + 1))
    before, behind = len(around.before), len(around.behind)
    if piece[-1:] != b"\n" or (ends - begins < before + behind).any():
        return None
    first = _windows(data, before)[begins]
    last = _windows(data, behind)[ends - behind]
    if (first != around.before).any() or ((last & around.fixed) != around.behind).any():
        return None
    starts, stops = (begins + (before - 1)).tolist(), (ends - (behind - 1)).tolist()
    return [piece[start:stop] for start, stop in zip(starts, stops, strict=True)]


def _windows(data: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    return np.lib.stride_tricks.sliding_window_view(data, size)


def _fits(version: int | None) -> bool:
    return version is None or version in INT64


def _repeated(version: int | None, count: int) -> pa.Array:
    if version is None:
        return pa.nulls(count, pa.int64())
    return pa.array(np.full(count, version, np.int64))
