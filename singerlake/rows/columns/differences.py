"""Differences of cells in two Arrow columns of one type, compared as Spark does."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask: TypeAlias = NDArray[np.bool_]


def differ(left: pa.Array, right: pa.Array) -> Mask:
    """Tell where two columns differ; two nulls do not, nor do two NaN, nor 0.0 and -0.0.

    Args:
        left: One column.
        right: The other, of the same type and length.
    """
    here, there = _valid(left), _valid(right)
    found: Mask = here != there
    both = here & there
    if pa.types.is_struct(left.type):
        for index in range(left.type.num_fields):
            found |= both & differ(left.field(index), right.field(index))
        return found
    if pa.types.is_list(left.type):
        return found | _lists_differ(left, right, both)
    return found | (both & _values_differ(left, right))


def _values_differ(left: pa.Array, right: pa.Array) -> Mask:
    """Do as :func:`differ` where both sides have a value."""
    other = _truths(pc.not_equal(left, right))
    if pa.types.is_floating(left.type):
        other &= ~(_truths(pc.is_nan(left)) & _truths(pc.is_nan(right)))
    return other


def _lists_differ(left: pa.Array, right: pa.Array, both: Mask) -> Mask:
    lengths = [pc.fill_null(pc.list_value_length(side), 0).to_numpy() for side in (left, right)]
    found: Mask = both & (lengths[0] != lengths[1])
    rows = np.flatnonzero(both & ~found & (lengths[0] > 0))
    if len(rows):
        items = [side.take(pa.array(rows)).flatten() for side in (left, right)]
        owners = np.repeat(rows, lengths[0][rows])
        found[owners[differ(*items)]] = True
    return found


def _valid(column: pa.Array) -> Mask:
    found: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return found.copy() if not found.flags.writeable else found


def _truths(column: pa.Array) -> Mask:
    found: Mask = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return found.copy() if not found.flags.writeable else found
