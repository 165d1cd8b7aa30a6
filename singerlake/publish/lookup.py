"""Looks rows up among published ones, by their keys, and tells which of them are as they were."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.publish.keys import Keys, Matches
from singerlake.rows.batches.packing import one_array

_PLAIN = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal,
)


def can_look_up(type_: pa.DataType) -> bool:
    """Tell whether values of a type are found by what they are: NaN and structs are not."""
    return any(known(type_) for known in _PLAIN)


@dataclass(frozen=True)
class Lookup:
    """Keys that are looked for. Sent to executors.

    Attributes:
        keys: The keys, each once; its columns are called as those of the rows.
        rows: Rows of now, in the columns of published rows.
        of_key: Of each key, the place of its row of now; -1 where there is none.
    """

    keys: pa.Table
    rows: pa.Table
    of_key: NDArray[np.int64]

    @cached_property
    def _sorted(self) -> dict[str, list[Any]]:
        # Bounds say nothing of nulls: a column in which a key has one rules nothing out.
        return {
            name: pc.unique(self.keys.column(name)).sort().to_pylist()
            for name in self.keys.column_names
            if not self.keys.column(name).null_count
        }

    @cached_property
    def _index(self) -> Keys:
        return Keys(self.keys)

    def may_be_within(self, bounds: Mapping[str, tuple[Any, Any]]) -> bool:
        """Tell whether a key may be among rows.

        Args:
            bounds: Of columns of which it is known, the least and the greatest value besides null.
        """
        if not len(self.keys):
            return False
        for name, (low, high) in bounds.items():
            if name not in self._sorted:
                continue
            values = self._sorted[name]
            at = bisect_left(values, low)
            if at == len(values) or values[at] > high:
                return False
        return True

    def find(self, rows: pa.Table) -> Matches:
        """Find rows by their keys.

        Args:
            rows: Rows; columns besides the key's are not looked at.
        """
        return self._index.find(rows)

    def same(self, found: pa.Table, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which published rows are as the rows of now.

        Args:
            found: Published rows, whole.
            keys: The number of each one's key.
        """
        places = self.of_key[keys]
        same = places >= 0
        now = self.rows.take(pa.array(np.maximum(places, 0))) if same.any() else self.rows
        if not same.any():
            return same
        for name in found.column_names:
            same &= _equal(one_array(found.column(name)), one_array(now.column(name)))
        return same


def _equal(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Tell of pairs of values whether they are the same, null as null, to the bit."""
    if one.type.num_fields:
        return _equal_nested(one, other)
    if pa.types.is_floating(one.type):
        whole = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[one.type.bit_width]
        one, other = one.view(whole), other.view(whole)
    same = pc.or_(
        pc.fill_null(pc.equal(one, other), fill_value=False),
        pc.and_(one.is_null(), other.is_null()),
    )
    found: NDArray[np.bool_] = np.asarray(same)
    return found


def _equal_nested(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Tell it of lists, maps and structs by the values inside."""
    same: NDArray[np.bool_] = np.asarray(pc.equal(one.is_null(), other.is_null()))
    if pa.types.is_struct(one.type):
        for mine, its in zip(one.flatten(), other.flatten(), strict=True):
            same = same & _equal(mine, its)
        return same
    lengths = (pc.fill_null(_as_list(each).value_lengths(), 0) for each in (one, other))
    same = same & np.asarray(pc.equal(*lengths))
    places = np.flatnonzero(same)
    mine, its = (_as_list(each.take(pa.array(places))) for each in (one, other))
    differ = ~_equal(mine.flatten(), its.flatten())
    same[places[np.asarray(pc.list_parent_indices(mine))[differ]]] = False
    return same


def _as_list(array: pa.Array) -> pa.Array:
    """Return a map as the list of its pairs."""
    if not pa.types.is_map(array.type):
        return array
    pair = pa.struct([array.type.key_field, array.type.item_field])
    return array.cast(pa.list_(pair))
