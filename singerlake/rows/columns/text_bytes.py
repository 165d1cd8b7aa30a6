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


def all_like(first: str, texts: pa.Array) -> bool:
    """Tell whether texts have digits where the first of them has, and else are the same.

    Args:
        first: The first of them.
        texts: Strings; none is null.
    """
    model = np.frombuffer(first.encode(), np.uint8)
    if not len(model) or not (np.diff(ends(texts)) == len(model)).all():
        return False
    digits = (model >= _ZERO) & (model <= _NINE)
    least, spread = np.where(digits, _ZERO, model), np.where(digits, 9, 0).astype(np.uint8)
    least, spread = np.tile(least, _AT_ONCE), np.tile(spread, _AT_ONCE)
    data = written(texts)
    whole = len(data) - len(data) % len(least)
    rest = data[whole:]
    return bool(
        (data[:whole].reshape(-1, len(least)) - least <= spread).all()
        and (rest - least[: len(rest)] <= spread[: len(rest)]).all()
    )


_ZERO, _NINE = np.frombuffer(b"09", np.uint8)
_AT_ONCE = 256
"""Texts that are compared in one stroke: NumPy takes long to begin with each row of an array."""
