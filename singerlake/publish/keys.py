"""Rows found by their keys, where null is a value like any other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.rows.batches.packing import one_array


class Matches(NamedTuple):
    """Rows that have one of the keys.

    Attributes:
        keys: The number of each one's key.
    """

    rows: NDArray[np.int64]
    keys: NDArray[np.int64]


class _Level(NamedTuple):
    """The keys up to one of their columns.

    Attributes:
        values: Its values, each once.
        codes: What the keys up to this column are numbered by, each once, in order.
    """

    name: str
    values: pa.Array
    codes: NDArray[np.int64]


@dataclass(frozen=True)
class Keys:
    """Keys that rows may have. Sent to executors.

    Joins of Arrow never match a null, so keys are numbered instead, column by column.

    Attributes:
        table: The keys, in columns that are called as those of the rows.
    """

    table: pa.Table

    def find(self, rows: pa.Table | pa.RecordBatch) -> Matches:
        """Find the rows that have one of the keys; of a key that is there twice, the first.

        Args:
            rows: Rows; columns besides the key's are not looked at.
        """
        levels, key_of = self._numbered
        places = np.arange(rows.num_rows)
        code = np.zeros(rows.num_rows, np.int64)
        for level in levels:
            column = rows.column(level.name)
            if len(places) < len(column):
                column = column.take(pa.array(places))
            column = _comparable(column)
            own = _index(column, level.values)
            known = own >= 0
            places, code = places[known], code[known] * len(level.values) + own[known]
            at = np.minimum(np.searchsorted(level.codes, code), len(level.codes) - 1)
            there = level.codes[at] == code
            places, code = places[there], at[there]
        return Matches(places, key_of[code])

    @cached_property
    def _numbered(self) -> tuple[list[_Level], NDArray[np.int64]]:
        """The columns, and the number of the key that has each of the last one's codes."""
        levels = []
        numbers = np.zeros(len(self.table), np.int64)
        first = numbers
        for name in self.table.column_names:
            column = _comparable(one_array(self.table.column(name)))
            values = pc.unique(column)
            # Numbered anew for each column, so that no product grows beyond 64 bits.
            codes, first, numbers = np.unique(
                numbers * len(values) + _index(column, values),
                return_index=True,
                return_inverse=True,
            )
            levels.append(_Level(name, values, codes))
        return levels, first


def _comparable(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return texts for objects and lists, which Arrow does not look up."""
    if not pa.types.is_nested(column.type):
        return column
    values = column.to_pylist()
    return pa.array([None if value is None else repr(value) for value in values], pa.string())


def _index(column: pa.Array | pa.ChunkedArray, values: pa.Array) -> NDArray[np.int64]:
    """The place of each value of a column, a null as well; -1 where it is none of them."""
    found = pc.fill_null(pc.index_in(column, values), -1)
    whole = one_array(found) if isinstance(found, pa.ChunkedArray) else found
    return np.asarray(whole, dtype=np.int64)
