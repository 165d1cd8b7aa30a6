"""The exact way to read CSV: cell by cell, and each fault with its line, column and value.

It is slow, and reads only what ``fast.py`` is not sure of. Where a quote is out of place
nobody knows which of those behind it are out of place too. Then the file is read as if that one
record were alone in its fault, so that the faults behind it are found as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from singerlake.rows.given.csv.dialect import Dialect
from singerlake.rows.given.csv.ranges import MAX_RECORD

_STRAY = "has a quote in it: put the cell in quotes, and double those within"
_BEHIND = "continues after its closing quote: double a quote within quotes"
_OPEN = "begins with an unclosed quote"
_RETURN = "has a carriage return in it: put the cell in quotes, or end lines in LF or CRLF"


class Fault(NamedTuple):
    """Something wrong with a record: the cell's index, its bytes, and what, as words that follow.

    Also whether it is a quote that is out of place.
    """

    cell: int
    value: bytes
    reason: str
    misquoted: bool


@dataclass
class Record:
    """One record as it stands in a file.

    Attributes:
        line: The line on which it begins, from 1.
        start: Where it begins, counted from the first byte that was read.
        end: Where the next begins, likewise.
        cells: Its cells' bytes, without quotes.
        bare: Of each whether it stood without quotes.
        faults: What is wrong with how it is written; then the cells need not be all.
    """

    line: int
    start: int
    end: int = 0
    cells: list[bytes] = field(default_factory=list)
    bare: list[bool] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def records(chunks: Iterator[bytes], line: int, dialect: Dialect) -> Iterator[Record]:
    """Read records one by one, from where one begins.

    Args:
        chunks: Bytes of a file, to its end.
        line: The line on which they begin, from 1.
        dialect: How the file is written.
    """
    parser = _Parser(dialect.delimiter.encode())
    data, at, offset, final = b"", 0, 0, False
    while True:
        record, end = parser.record(data, at, final=final) if at < len(data) else (None, 0)
        if record is not None:
            record.line, record.start, record.end = line, offset + at, offset + end
            yield record
            line += data.count(b"\n", at, end)
            at = end
        elif final:
            return
        else:
            chunk = next(chunks, b"")
            data, offset, at = data[at:] + chunk, offset + at, 0
            # A record that is longer than any may be is read as if it ended here.
            final = not chunk or len(data) > MAX_RECORD + len(chunk)


class _Parser:
    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._bare_text = re.compile(b"[^\n" + re.escape(delimiter) + b"]*")

    def record(self, data: bytes, start: int, *, final: bool) -> tuple[Record | None, int]:
        """Read the record that begins at some byte.

        Args:
            data: Some bytes.
            start: Where the record begins.
            final: Whether no more bytes follow.

        Returns:
            The record, and where the next begins; no record if more bytes are needed.
        """
        record, at = Record(0, 0), start
        while True:
            quoted = data[at : at + 1] == b'"'
            end = _closed(data, at) if quoted else self._bare(data, at)
            if not final and (end < 0 or end + 1 >= len(data)):
                return None, 0
            behind = data[end : end + 1]
            ended = behind != self._delimiter
            if quoted and ended and (end < 0 or not _ends_line(data, end)):
                reason = _OPEN if end < 0 else _BEHIND
                return self._misquoted(record, data, at, reason, final=final)
            text = data[at + 1 : end - 1].replace(b'""', b'"') if quoted else data[at:end]
            if not quoted:
                text = self._checked(record, text, ended=ended)
            record.cells.append(text)
            record.bare.append(not quoted)
            if ended:
                return record, data.find(b"\n", end) + 1 or len(data)
            at = end + 1

    def _bare(self, data: bytes, start: int) -> int:
        match = self._bare_text.match(data, start)
        return match.end() if match else start

    def _checked(self, record: Record, text: bytes, *, ended: bool) -> bytes:
        if ended:
            text = text.removesuffix(b"\r")
        index = len(record.cells)
        if b'"' in text:
            record.faults.append(Fault(index, text, _STRAY, misquoted=True))
        elif b"\r" in text:
            record.faults.append(Fault(index, text, _RETURN, misquoted=False))
        return text

    def _misquoted(
        self, record: Record, data: bytes, start: int, reason: str, *, final: bool
    ) -> tuple[Record | None, int]:
        """Give a record up at one of its cells, and go on with the line behind."""
        newline = data.find(b"\n", start)
        if newline < 0 and not final:
            return None, 0
        end = newline if newline >= 0 else len(data)
        value = data[start:end].removesuffix(b"\r")
        record.faults.append(Fault(len(record.cells), value, reason, misquoted=True))
        return record, min(end + 1, len(data))


def _closed(data: bytes, start: int) -> int:
    """Find where the cell ends whose opening quote stands here, behind its closing one; else -1."""
    at = start + 1
    while (quote := data.find(b'"', at)) >= 0:
        if data[quote + 1 : quote + 2] != b'"':
            return quote + 1
        at = quote + 2
    return -1


def _ends_line(data: bytes, at: int) -> bool:
    return data[at : at + 1] in (b"", b"\n") or data[at : at + 2] in (b"\r", b"\r\n")
