"""A file of lines split by byte ranges: each range has the lines that begin in it.

An end of line is one wherever it stands, so any split is exact. Lines keep their numbers in the
file: the ends of lines in each range are counted first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from singerlake.errors import InputError, UsageError
from singerlake.quantities import size as size_text
from singerlake.rows.given import byte_sources
from singerlake.rows.given.byte_sources import CHUNK, ByteSource

RANGE_BYTES = 32 << 20
"""Bytes of a file that one task reads, about."""
LONGEST_LINE = 256 << 20
_NEWLINE = b"\n"


@dataclass(frozen=True)
class Range:
    """Part of a file.

    Attributes:
        source: The index of the file among those that are read.
        start: The first byte.
        end: The byte after the last.
    """

    source: int
    start: int
    end: int


def ranges_of(sources: Sequence[ByteSource], length: int = RANGE_BYTES) -> list[Range]:
    """Split files into ranges of about one length."""
    return [
        Range(index, start, min(start + length, source.size))
        for index, source in enumerate(sources)
        for start in range(0, source.size, length)
    ]


def count_ends(source: ByteSource, part: Range) -> int:
    """Count the ends of lines that the number of the range's first line depends on, and no other.

    Those are the ends from the byte before the range to the one before the next range's.
    """
    at, end = max(0, part.start - 1), part.end - 1
    count = 0
    while at < end:
        data = source.read(at, min(CHUNK, end - at))
        if not data:
            break
        count += data.count(_NEWLINE)
        at += len(data)
    return count


def first_lines(parts: Sequence[Range], ends: Sequence[int]) -> list[int]:
    """Number the first line that begins in each range, from 1.

    Args:
        parts: The ranges of :func:`ranges_of`.
        ends: What :func:`count_ends` gave for each.
    """
    before = [0, *accumulate(ends)][: len(parts)]
    begins = {part.source: count for part, count in reversed(list(zip(parts, before, strict=True)))}
    return [
        1 if part.start == 0 else count - begins[part.source] + 2
        for part, count in zip(parts, before, strict=True)
    ]


def check_encoding(source: ByteSource) -> None:
    """Refuse a file in UTF-16, or UTF-32, before each of its lines is refused.

    Raises:
        InputError: It is in one.
    """
    begins = source.read(0, 4)
    if byte_sources.encoding_of(begins) is not None or b"\0" in begins:
        encoding = (byte_sources.encoding_of(begins) or "utf-16").upper()
        raise InputError(
            f"{source.name} is in {encoding}, and JSON lines are read in UTF-8: convert it first, "
            f"for example with: iconv -f {encoding} -t UTF-8 FILE > NEW"
        )


def line_blocks(source: ByteSource, part: Range) -> Iterator[bytes]:
    """Read the lines that begin in a range, some megabytes of whole lines at a time.

    Raises:
        UsageError: A line is longer than any that a person has written.
    """
    at = begins = _first_begin(source, part)
    pending = b""
    while begins < part.end and at < source.size:
        data = source.read(at, CHUNK)
        if not data:
            break
        at += len(data)
        pending += data
        if at >= part.end:
            last = pending.find(_NEWLINE, max(0, part.end - 1 - begins))
            if last >= 0:
                yield pending[: last + 1]
                return
        cut = pending.rfind(_NEWLINE) + 1
        if cut:
            yield pending[:cut]
            pending, begins = pending[cut:], begins + cut
        elif len(pending) > LONGEST_LINE:
            raise UsageError(
                f"{source.name} has a line of more than {size_text(LONGEST_LINE)}: write one "
                "record per line"
            )
    if pending:
        yield pending


def _first_begin(source: ByteSource, part: Range) -> int:
    """Where the first line begins that begins in a range or behind it."""
    at = part.start - 1
    while 0 <= at < source.size:
        data = source.read(at, CHUNK)
        if not data:
            break
        found = data.find(_NEWLINE)
        if found >= 0:
            return at + found + 1
        at += len(data)
    return max(at, 0)
