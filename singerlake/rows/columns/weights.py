"""About how many bytes each row of Arrow columns takes, as ``row_weight.py`` weighs it in SQL."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.errors import InvalidQueryError

ROW_BYTES = 128 << 20
"""The most that a row of a result may weigh."""
GLIMPSE_CHARACTERS = 10_000
GLIMPSE_BYTES = 1 << 20
"""What a text and a row are cut to where many rows are held at once, to be looked at."""
Weights: TypeAlias = NDArray[np.int64]
ITEM_BYTES = 16
"""Bytes of an item of a list, the largest whose size its type tells; besides those of its texts."""


def weights(column: pa.Array) -> Weights:
    """Weigh each value: its texts and lists, for all else is small. A null weighs nothing."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return _lengths(pc.binary_length(column))
    if pa.types.is_struct(column.type):
        found = np.zeros(len(column), np.int64)
        for inner in column.flatten():  # these are null where the struct is
            found += weights(inner)
        return found
    if pa.types.is_list(column.type):
        lengths = _lengths(pc.list_value_length(column))
        owners = np.repeat(np.arange(len(column)), lengths)
        inside = np.bincount(owners, weights(column.flatten()), minlength=len(column))
        return lengths * ITEM_BYTES + inside.astype(np.int64)
    return np.zeros(len(column), np.int64)


def _lengths(column: pa.Array) -> Weights:
    found: Weights = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    return found


def too_heavy(weight: int, most: int = ROW_BYTES) -> InvalidQueryError:
    """Return the error for a row of a result that weighs too much."""
    return InvalidQueryError(
        f"a row of the result takes {weight:,} bytes, and {most:,} is the maximum: select less of "
        "it, or make many rows instead of one long value, with range() or explode()"
    )
