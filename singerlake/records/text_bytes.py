"""The bytes of a whole column of texts, where they lie: what they all are is soon seen there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def ends(texts: pa.Array) -> NDArray[np.int64]:
    """Return where in their buffer texts begin and end: one number more than there are texts.

    Args:
        texts: Strings or binary, small or large.
    """
    large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    offsets = texts.buffers()[1]
    if offsets is None or not len(texts):
        return np.zeros(1, np.int64)
    every = np.frombuffer(offsets, np.int64 if large else np.int32)
    return every[texts.offset : texts.offset + len(texts) + 1]


def written(texts: pa.Array) -> NDArray[np.uint8]:
    """Return the bytes of all texts, one behind the other.

    Where there are nulls, bytes may be among them that are in no text.

    Args:
        texts: Strings or binary, small or large.
    """
    data, around = texts.buffers()[2], ends(texts)
    if data is None:
        return np.zeros(0, np.uint8)
    return np.frombuffer(data, np.uint8)[around[0] : around[-1]]


def least(texts: pa.Array) -> int:
    """Return the least byte of all texts, or one past all bytes."""
    return int(written(texts).min(initial=0xFF))


def most(texts: pa.Array) -> int:
    """Return the greatest byte of all texts, or 0."""
    return int(written(texts).max(initial=0))
