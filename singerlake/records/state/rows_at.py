"""The step that reads rows at given positions, and nothing else of their blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.errors import DamagedError
from singerlake.format.log import Block
from singerlake.records.blocks import block_tasks, positions
from singerlake.records.blocks.block_reader import BlockReader, combined
from singerlake.records.rows.row_columns import MISFITS, aliases
from singerlake.records.rows.steps import Batches
from singerlake.records.state.activations import Survival
from singerlake.records.state.newest_rows import RowStep


@dataclass
class RowsAt:
    """Reads rows by their positions. Sent to executors by value.

    Attributes:
        reader: Reads the columns wanted.
        blocks: Where rows are, encoded as ``block_tasks`` does; where there are several tasks,
            each brings its own in a row before its others.
        kept: Names of the columns of a request that its row is to have as well.
    """

    reader: BlockReader
    blocks: bytes
    kept: tuple[str, ...]

    def __call__(self, requests: Batches) -> Batches:
        """Read the rows asked for.

        Args:
            requests: ``task``, then ``block`` and ``row``, which are a position, any other
                columns, and ``work``: a task's blocks, in a row of its own. Sorted by the first
                three, and no position twice.

        Returns:
            The reader's columns, what does not fit them, and those kept of the requests.

        Raises:
            DamagedError: A block cannot be read, or has no such row.
        """
        return combined(self._rows(requests))

    def _rows(self, requests: Batches) -> Batches:
        step = RowStep(self.reader, Survival(), iter)
        for blocks, wanted in self._tasks(requests):
            codes = positions.codes(
                wanted.column("block").to_numpy(), wanted.column("row").to_numpy()
            )
            done = 0
            for rows in step.rows(blocks, codes, self.reader.texts):
                end = done + len(rows)
                if not np.array_equal(positions.codes_in(rows), codes[done:end]):
                    break
                kept = wanted.slice(done, len(rows)).select(self.kept).combine_chunks()
                yield self._batch(rows, kept)
                done = end
            if done < len(codes):
                raise DamagedError(
                    f"{self.reader.table} has no row where an index says there is one: an index "
                    f"is only a cache, delete the folder {self.reader.table.indexes} and run it "
                    "again"
                )

    def _batch(self, rows: pa.RecordBatch, kept: pa.Table) -> pa.RecordBatch:
        names = [*aliases(self.reader.target), MISFITS]
        columns = [rows.column(name) for name in names]
        columns += [kept.column(name).combine_chunks() for name in self.kept]
        return pa.RecordBatch.from_arrays(columns, names=[*names, *self.kept])

    def _tasks(self, requests: Batches) -> Iterator[tuple[list[Block], pa.Table]]:
        """Each task's blocks, and its rows."""
        pieces: list[pa.RecordBatch] = []
        task: int | None = None
        for batch in requests:
            numbers = batch.column("task").to_numpy()
            starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
            for start, end in pairwise([*starts.tolist(), len(batch)]):
                if task is not None and numbers[start] != task:
                    yield self._task(pieces)
                    pieces = []
                task = int(numbers[start])
                pieces.append(batch.slice(start, end - start))
        if pieces:
            yield self._task(pieces)

    def _task(self, pieces: list[pa.RecordBatch]) -> tuple[list[Block], pa.Table]:
        whole = pa.Table.from_batches(pieces)
        is_mark = pc.is_valid(whole.column("work"))
        marks = whole.column("work").filter(is_mark)
        blocks = marks[0].as_py() if len(marks) else self.blocks
        return block_tasks.decode(blocks), whole.filter(pc.invert(is_mark))
