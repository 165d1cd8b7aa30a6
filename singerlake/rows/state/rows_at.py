"""The steps that read rows at given positions, and nothing else of their blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.errors import DamagedError
from singerlake.format.log import Block
from singerlake.rows.batches.row_columns import MISFITS, aliases
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.blocks.block_reader import BlockReader, combined
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.newest_rows import RowStep

PAIRS = "before binary, after binary"
"""Rows that are compared: positions in the first state and in the second, as ``positions.codes``
gives them, int64 each; :data:`NONE` if the row is not in it."""
NONE = -1
ASKED = "task int, codes binary, pairs binary, is_after boolean"
"""Rows to be read: positions, and the pair that each is of."""
PAIR = "pair"
"""A position that names a pair: that in the second state, or if there is none, in the first."""
IS_AFTER = "is_after"
"""Whether a row is that of the second state."""
Numbers = NDArray[np.int64]


def packed_pairs(before: Numbers, after: Numbers) -> pa.RecordBatch:
    """Return pairs as a row of :data:`PAIRS`."""
    sides = {"before": before, "after": after}
    return pa.RecordBatch.from_pydict({n: [side.tobytes()] for n, side in sides.items()})


@dataclass
class AskStep:
    """Sends the positions of both rows of each pair to the task that reads them.

    Attributes:
        ends: The number of each task's last block, rising: a row lies in the first task that does
            not end before its block, for a vacuum puts rows into later blocks only.
    """

    ends: Numbers

    def __call__(self, batches: Batches) -> Batches:
        """Take rows of :data:`PAIRS`."""
        for batch in batches:
            for sides in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                before, after = (np.frombuffer(side, dtype=np.int64) for side in sides)
                pairs = np.where(after == NONE, before, after)
                for codes, is_after in ((before, False), (after, True)):
                    there = codes != NONE
                    yield from self._asked(codes[there], pairs[there], is_after)

    def _asked(self, codes: Numbers, pairs: Numbers, is_after: bool) -> Batches:
        tasks = np.searchsorted(self.ends, positions.blocks_of(codes))
        for task in np.unique(tasks).tolist():
            own = tasks == task
            yield pa.RecordBatch.from_pydict(
                {
                    "task": pa.array([task], pa.int32()),
                    "codes": [codes[own].tobytes()],
                    "pairs": [pairs[own].tobytes()],
                    "is_after": [is_after],
                }
            )


@dataclass
class RowsAt:
    """Reads rows by their positions. Sent to executors by value.

    Attributes:
        reader: Reads the columns wanted.
    """

    reader: BlockReader

    def __call__(self, asked: Batches) -> Batches:
        """Read the rows that are asked of one task.

        Args:
            asked: Rows of :data:`ASKED`, and one with the task's blocks; no position twice.

        Returns:
            The reader's columns, what does not fit them, :data:`PAIR` and :data:`IS_AFTER`.

        Raises:
            DamagedError: A block cannot be read, or has no such row.
        """
        blocks: list[Block] = []
        pieces: list[tuple[Numbers, Numbers, bool]] = []
        for batch in asked:
            columns = (batch.column(name).to_pylist() for name in ("codes", "pairs", "is_after"))
            for codes, pairs, is_after, sent in zip(*columns, block_tasks.sent(batch), strict=True):
                if sent is not None:
                    blocks = block_tasks.decode(sent)
                else:
                    both = (np.frombuffer(some, dtype=np.int64) for some in (codes, pairs))
                    pieces.append((*both, is_after))
        if pieces:
            yield from combined(self._rows(blocks, pieces))

    def _rows(self, blocks: list[Block], pieces: list[tuple[Numbers, Numbers, bool]]) -> Batches:
        codes, pairs = (np.concatenate(some) for some in list(zip(*pieces, strict=True))[:2])
        is_after = np.repeat([piece[2] for piece in pieces], [len(piece[0]) for piece in pieces])
        order = np.argsort(codes)
        codes, pairs, is_after = codes[order], pairs[order], is_after[order]
        done = 0
        for rows in RowStep(self.reader, Survival(), iter).rows(blocks, codes, self.reader.texts):
            some = slice(done, done + len(rows))
            if not np.array_equal(positions.codes_in(rows), codes[some]):
                break
            names = [*aliases(self.reader.target), MISFITS]
            columns = [rows.column(name) for name in names]
            columns += [pa.array(pairs[some]), pa.array(is_after[some])]
            yield pa.RecordBatch.from_arrays(columns, names=[*names, PAIR, IS_AFTER])
            done += len(rows)
        if done < len(codes):
            raise DamagedError(
                f"{self.reader.table} lacks a row that a materialized snapshot lists: it is only a "
                f"cache, so delete the folder {self.reader.table.indexes} and run it again"
            )
