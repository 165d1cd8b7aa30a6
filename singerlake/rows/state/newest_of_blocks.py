"""The step that reads some blocks and keeps the newest row of each key, deletions too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.format.log import Block
from singerlake.rows.batches.row_columns import BLOCK, alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import positions
from singerlake.rows.blocks.block_reader import BlockReader, combined
from singerlake.rows.state import keys


@dataclass
class NewestOfBlocks:
    """Reads the rows that came after a block. Sent to executors by value.

    Attributes:
        reader: Reads the blocks; one task has all of them.
        key: Indexes of the key's columns; without any, all rows are given.
        after: The number of that block: one that a vacuum put together may hold earlier rows too.
    """

    reader: BlockReader
    key: tuple[int, ...]
    after: int

    def __call__(self, numbers: Batches) -> Batches:
        """Read the tasks whose numbers come in."""
        for _, blocks in self.reader.given(numbers):
            yield from combined(iter(self._newest(blocks)))

    def _newest(self, blocks: list[Block]) -> list[pa.RecordBatch]:
        read = [self._later(rows) for rows in self.reader.rows(blocks)]
        if not self.key or not read:
            return read
        newest = keys.newest([self._keys(rows) for rows in read], apart=self.reader.apart)
        stays = np.sort(newest.column(keys.AT).to_numpy())
        return [rows.filter(pa.array(_among(positions.codes_in(rows), stays))) for rows in read]

    def _later(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        later = rows.column(BLOCK).to_numpy() > self.after
        return rows if later.all() else rows.filter(pa.array(later))

    def _keys(self, rows: pa.RecordBatch) -> pa.Table:
        arrays = [rows.column(alias(index)) for index in self.key]
        columns = tuple(self.reader.target[index] for index in self.key)
        return keys.table(arrays, columns, positions.codes_in(rows))


def _among(codes: NDArray[np.int64], those: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which numbers are among others, which are in order."""
    at = np.minimum(np.searchsorted(those, codes), len(those) - 1)
    found: NDArray[np.bool_] = those[at] == codes
    return found
