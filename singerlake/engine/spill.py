"""Batches that are read again: in memory up to a limit, beyond it in a temporary file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import IO, NamedTuple

import pyarrow as pa

from singerlake.rows.batches.packing import pack, unpack

HELD_BYTES = 64 << 20
"""What one exchange holds in memory, about."""
SEGMENT_BYTES = 1 << 20
"""What is read back at once of rows that are read in order, about."""


class Span(NamedTuple):
    """The place of some rows in the file."""

    start: int
    length: int


class SpillFile:
    """A temporary file of packed rows, without a name, gone with this object."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._end = 0

    def __del__(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def write(self, rows: pa.Table) -> Span:
        """Append rows."""
        if self._file is None:
            self._file = tempfile.TemporaryFile("w+b")  # noqa: SIM115  # closed in __del__
        data = pack(rows)
        self._file.write(data)
        span = Span(self._end, len(data))
        self._end += len(data)
        return span

    def read(self, span: Span) -> pa.Table:
        """Read rows that were written, as often as wanted."""
        assert self._file is not None, "spans come from write()"  # noqa: S101
        self._file.flush()
        return unpack(os.pread(self._file.fileno(), span.length, span.start))


class SpilledParts:
    """Batches by part."""

    def __init__(self, count: int) -> None:
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
        self._spans: list[list[Span]] = [[] for _ in range(count)]
        self._file = SpillFile()
        self._bytes = 0

    def add(self, part: int, batch: pa.RecordBatch) -> None:
        """Add rows to a part."""
        self._held[part].append(batch)
        self._bytes += batch.nbytes
        if self._bytes > HELD_BYTES:
            for number, batches in enumerate(self._held):
                self._spans[number] += written(self._file, batches)
                batches.clear()
            self._bytes = 0

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """Give a part's rows in the order in which they came, as often as wanted."""
        for span in self._spans[part]:
            yield from self._file.read(span).to_batches()
        yield from self._held[part]


def written(file: SpillFile, batches: Sequence[pa.RecordBatch]) -> Iterator[Span]:
    """Write rows so that about :data:`SEGMENT_BYTES` of them are read back at once."""
    # Rows of a union may have their columns in several orders.
    for _, some in groupby(batches, attrgetter("schema")):
        rows = pa.Table.from_batches(some)
        most = max(1, SEGMENT_BYTES * len(rows) // max(1, rows.nbytes))
        for start in range(0, len(rows), most):
            yield file.write(rows.slice(start, most).combine_chunks())
