"""Rows that are there on their way to the tasks that write them again, each with its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.changes.change_writer import ChangeWriter
from singerlake.changes.changed_blocks import WRITTEN
from singerlake.engine.base import Engine
from singerlake.format.log import Block
from singerlake.records.blocks import block_tasks, positions
from singerlake.records.changes.merge_terms import DELETED, POSITION_BLOCK, POSITION_ROW, STATUS
from singerlake.records.rows import packing
from singerlake.records.rows.packing import one_array
from singerlake.records.rows.steps import BATCH_ROWS, Batches

ROUTED = "task int, rows binary, places binary"
"""What goes to a task: packed rows that change, or positions of all rows, int64 each."""


@dataclass
class Route:
    """Sends rows, or all positions of a table, to the tasks that write them.

    Attributes:
        first: The first row version of each task, rising: a vacuum puts rows into later blocks
            only, and blocks that follow each other have versions that do.
    """

    first: NDArray[np.int64]

    @classmethod
    def to(cls, tasks: Sequence[Sequence[Block]]) -> Route:
        """Make one for tasks by their blocks."""
        return cls(np.array([task[0].lowest_version for task in tasks]))

    def __call__(self, batches: Batches) -> Batches:
        """Split the packed rows in the column ``there``, or the positions in ``codes``."""
        for batch in batches:
            if "codes" in batch.schema.names:
                codes = batch.column("codes").to_numpy()
                tasks = self._tasks(positions.blocks_of(codes))
                for number in np.unique(tasks).tolist():
                    yield _routed(number, None, codes[tasks == number].tobytes())
                continue
            for data in batch.column("there").to_pylist():
                rows = packing.unpack(data)
                tasks = self._tasks(rows.column(POSITION_BLOCK).to_numpy())
                for number, some in packing.split(rows, tasks, len(self.first)):
                    yield _routed(number, packing.pack(some), None)

    def _tasks(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.searchsorted(self.first, blocks, "right") - 1
        return found


def _routed(task: int, rows: bytes | None, places: bytes | None) -> pa.RecordBatch:
    types = (pa.int32(), pa.binary(), pa.binary())
    arrays = [pa.array([v], t) for v, t in zip((task, rows, places), types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["task", "rows", "places"])


def written(
    engine: Engine[Any],
    routed: Any,
    tasks: Sequence[list[Block]],
    writer: ChangeWriter,
    schema: pa.Schema,
) -> Any:
    """Have rows written by their tasks; gives what writers give.

    Args:
        engine: Runs the tasks.
        routed: Of :data:`ROUTED`.
        tasks: The blocks of each.
        writer: Writes rows, once it knows their blocks.
        schema: Of the packed rows.
    """
    told = engine.exchange(routed, len(tasks), "task", [*map(block_tasks.encode, tasks)])
    return engine.map(told, _Write(writer, schema), WRITTEN)


@dataclass
class _Write:
    """Writes the rows of a task in the order of their positions.

    Attributes:
        writer: As for :func:`written`.
        schema: As there.
    """

    writer: ChangeWriter
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Take all rows of one task, and its blocks."""
        tables, places = [self.schema.empty_table()], list[bytes]()
        blocks: list[Block] = []
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("rows", "places"))
            for data, some, sent in zip(*columns, block_tasks.sent(batch), strict=True):
                if data is not None:
                    tables.append(self._unpacked(data))
                elif some is not None:
                    places.append(some)
                elif sent is not None:
                    blocks = block_tasks.decode(sent)
        rows = pa.concat_tables(tables)
        if places:
            rows = _with_others(rows, np.sort(np.frombuffer(b"".join(places), dtype=np.int64)))
        else:
            rows = rows.sort_by([(POSITION_BLOCK, "ascending"), (POSITION_ROW, "ascending")])
        if len(rows):
            ready = rows.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
            yield from replace(self.writer, blocks=blocks)(iter(ready))

    def _unpacked(self, data: bytes) -> pa.Table:
        return packing.unpack(data).select(self.schema.names).cast(self.schema)


def _with_others(changed: pa.Table, codes: NDArray[np.int64]) -> pa.Table:
    """Put rows that stay as they are between those that change, without those that go.

    Args:
        changed: Rows that change or go.
        codes: The positions of all rows, rising.
    """
    block, row = (one_array(changed.column(n)).to_numpy() for n in (POSITION_BLOCK, POSITION_ROW))
    own = positions.codes(block, row)
    order = np.argsort(own)
    at = np.searchsorted(own[order], codes)
    known = at < len(own)
    known[known] = own[order[at[known]]] == codes[known]
    chosen = np.full(len(codes), -1, dtype=np.int64)
    chosen[known] = order[at[known]]
    rows = changed.take(pa.array(chosen, mask=chosen < 0))
    for name, values in (
        (POSITION_BLOCK, positions.blocks_of(codes)),
        (POSITION_ROW, positions.ordinals_of(codes)),
    ):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
    gone = np.array([status == DELETED for status in rows.column(STATUS).to_pylist()], dtype=bool)
    return rows.filter(pa.array(~gone))
