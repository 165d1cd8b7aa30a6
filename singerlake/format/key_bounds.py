"""The smallest and the largest key of a block, in its gzip header: what it cannot hold, unread.

They are keys of rows, so they lie where the rows lie and go with them: a log entry is there for
ever. A bound is always a key of a row of this very block, or how it begins; an erased row's would
otherwise stay in the header of a neighbour that is not written again.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

Bound: TypeAlias = "int | str"
Bounds: TypeAlias = "dict[str, tuple[Bound, Bound]]"
"""Smallest and largest value of members of records, by the members' names."""

ID = b"SK"
MOST_CHARACTERS = 64
"""Longer texts are cut: what begins like them may be there as well."""
MOST_COLUMNS = 2
"""Columns of a key whose values are noted: its first whole numbers and strings."""
MOST_BYTES = 4096
"""A header has 65,535 bytes for all that it says; names of columns may be long."""
_HEAD = struct.Struct("<2sHI")
_TRAILER = struct.Struct("<II")
_TEXT: msgspec.json.Decoder[Bounds] = msgspec.json.Decoder(dict[str, tuple[int | str, int | str]])


def span(values: list[Bound | None]) -> tuple[Bound, Bound] | None:
    """Find the smallest and the largest of some values of one type; None where all are null.

    Args:
        values: They; sorted afterwards, or not.
    """
    try:
        # They often rise already: then this takes a quarter of the time of min() and max().
        values.sort()
        known: Sequence[Bound | None] = values
    except TypeError:
        known = sorted(value for value in values if value is not None)
    if not known or known[0] is None or known[-1] is None:
        return None
    return cut(known[0]), cut(known[-1])


def cut(value: Bound) -> Bound:
    """Cut a text as bounds are cut. What is not greater than another is not greater cut, either."""
    return value[:MOST_CHARACTERS] if isinstance(value, str) else value


def widened(bounds: Bounds, name: str, found: tuple[Bound, Bound] | None) -> None:
    """Let a member's bounds hold others too."""
    if found is not None:
        least, most = bounds.get(name, found)
        bounds[name] = min(least, found[0]), max(most, found[1])


def encode(bounds: Bounds, crc: int, size: int) -> bytes:
    """Make the subfield of a gzip header.

    Args:
        crc: The CRC-32 of the block's lines, and
        size: their number of bytes: by these it belongs to no other block.

    Returns:
        Nothing where there is nothing to say, or too much.
    """
    try:
        text = msgspec.json.encode(bounds) if bounds else b""
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate; beyond 64 bits
        text = b""
    if not text or len(text) > MOST_BYTES:
        return b""
    return _HEAD.pack(ID, 4 + len(text), _sum(text, crc, size)) + text


def decode(field: bytes, crc: int, size: int) -> Bounds:
    """Read such a subfield; nothing is known where it is damaged, or another block's.

    Args:
        field: The subfield, whole.
        crc: The CRC-32 that the log has for the block.
        size: The bytes that it has for it.
    """
    if len(field) < _HEAD.size:
        return {}
    _, length, checksum = _HEAD.unpack_from(field)
    text = field[_HEAD.size :]
    if length != 4 + len(text) or checksum != _sum(text, crc, size):
        return {}
    try:
        return _TEXT.decode(text)
    except msgspec.DecodeError:  # of a later release
        return {}


def _sum(text: bytes, crc: int, size: int) -> int:
    return zlib.crc32(text, zlib.crc32(_TRAILER.pack(crc, size & 0xFFFFFFFF)))
