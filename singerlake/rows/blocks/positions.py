"""The positions of rows: the block that a row came in, and its ordinal there.

Rows are ordered and referred to by them, also after a vacuum has put a row into a later block.
As one number, a code, a position is its block times 2^31 plus its ordinal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.format import rewritten
from singerlake.format.log import Block
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL
from singerlake.rows.batches.steps import Batches

_ORDINAL_BITS = 31


def code(block: int, ordinal: int) -> int:
    """Return a position as one number."""
    return (block << _ORDINAL_BITS) | ordinal


def codes(blocks: NDArray[np.int64], ordinals: NDArray[Any]) -> NDArray[np.int64]:
    """Return positions as numbers."""
    return (blocks << _ORDINAL_BITS) | ordinals.astype(np.int64)


def blocks_of(position_codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the block that each position names."""
    return position_codes >> _ORDINAL_BITS


def ordinals_of(position_codes: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the ordinal in its block that each position names."""
    return (position_codes & ((1 << _ORDINAL_BITS) - 1)).astype(np.int32)


def codes_in(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return the positions of a batch's rows."""
    return codes(batch.column(BLOCK).to_numpy(), batch.column(ORDINAL).to_numpy())


def each_code(batches: Batches) -> Batches:
    """Give the positions of rows, in a column ``codes``."""
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array(codes_in(batch))], ["codes"])


def of_block(text: bytes, block: Block) -> NDArray[np.int64]:
    """Return the position of each row of an inflated block, rising.

    Raises:
        DamagedError: A block that a vacuum put together does not say.
    """
    if not block.rewritten:
        first = code(block.number, 0)
        return np.arange(first, first + block.rows, dtype=np.int64)
    pairs = np.array(rewritten.positions(text, block), dtype=np.int64).reshape(-1, 2)
    return codes(pairs[:, 0], pairs[:, 1])


def block_holding(blocks: Sequence[Block], version: int) -> Block:
    """Return the block that rows of a version lie in: a vacuum may have put them into a later one.

    Args:
        blocks: In order of number.
        version: The block that the rows came in.
    """
    return blocks[bisect_left(blocks, version, key=lambda block: block.number)]
