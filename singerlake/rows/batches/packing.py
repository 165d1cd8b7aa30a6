"""Rows as bytes: whole Arrow tables that go through Spark as one value each.

Spark turns every cell of a frame into a value of Java's and back. A packed table is one such
value, whatever its rows hold, so that what passes between two steps in Python costs little more
than its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.batches.steps import Batches


def pack(table: pa.Table | pa.RecordBatch) -> bytes:
    """Return a table as bytes."""
    data: bytes = _packed(table).to_pybytes()
    return data


def packed_cell(table: pa.Table | pa.RecordBatch) -> pa.Array:
    """Return a table as the only cell of a column of bytes, which is copied no more."""
    data = _packed(table)
    ends = pa.py_buffer(np.array([0, data.size], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, data])


def _packed(table: pa.Table | pa.RecordBatch) -> pa.Buffer:
    counted = pa.MockOutputStream()
    _write(table, counted)
    # A buffer that grows is copied again and again.
    data = pa.allocate_buffer(counted.size())
    _write(table, pa.FixedSizeBufferWriter(data))
    return data


def _write(table: pa.Table | pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)


def unpack(data: bytes) -> pa.Table:
    """Return the table that :func:`pack` was given."""
    return pa.ipc.open_stream(data).read_all()


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def split(table: pa.Table, part: NDArray[Any], parts: int) -> Iterator[tuple[int, pa.Table]]:
    """Give the rows of each part that has some.

    Args:
        part: The part of each, from 0.
    """
    if parts == 1:
        if len(table):
            yield 0, table
        return
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(parts + 1))
    in_order = table.take(pa.array(order))
    for number, (start, end) in enumerate(pairwise(ends.tolist())):
        if end > start:
            # So that a part is packed without what lies around it.
            yield number, in_order.slice(start, end - start).combine_chunks()


@dataclass
class Unpacked:
    """A step that gives the rows of packed tables.

    Attributes:
        names: The columns that are wanted, to be called by their places; None for all as they are.
        column: The column that has the packed tables.
    """

    names: Sequence[str] | None = None
    column: str = "rows"

    def __call__(self, batches: Batches) -> Batches:
        """Unpack the column."""
        for batch in batches:
            for data in batch.column(self.column).to_pylist():
                rows = unpack(data)
                if self.names is not None:
                    rows = rows.select(self.names).rename_columns(aliases(len(self.names)))
                yield from rows.to_batches()
