"""The order of published rows in Arrow: how they are sorted, and cut into ranges.

Rows are ordered by what keeps files apart, then by the columns of the order. Nulls are last,
whatever the direction, and NaN is greater than all numbers, as Spark has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.publish import partitions
from singerlake.publish.projection import OrderKey, PartitionKey

MOST_SAMPLED = 4096
"""Rows that a sample keeps of a task's."""


@dataclass(frozen=True)
class Sorting:
    """The columns that rows are sorted by. Sent to executors.

    Attributes:
        by: Columns and directions.
        partition_by: What goes before them.
    """

    by: Sequence[OrderKey]
    partition_by: Sequence[PartitionKey] = ()

    @property
    def columns(self) -> list[str]:
        """The columns that it needs; none where rows stay as they lie."""
        apart = (key.column for key in self.partition_by)
        return list(dict.fromkeys((*apart, *(key.column for key in self.by))))

    def keys(self, rows: pa.RecordBatch | pa.Table) -> Keys:
        """Compute what rows are compared by."""
        found: list[tuple[pa.Array | pa.ChunkedArray, bool]] = []
        for key in self.partition_by:
            found.append((partitions.values(_whole(rows.column(key.column)), key), False))
        for one in self.by:
            values = rows.column(one.column)
            if pa.types.is_floating(values.type):
                nan = pc.is_nan(values)
                found.append((nan, one.descending))
                values = pc.if_else(nan, pa.scalar(0, values.type), values)
            found.append((values, one.descending))
        names = [f"k{at}" for at in range(len(found))]
        values = pa.table([one for one, _ in found], names)
        return Keys(values, [descending for _, descending in found])

    def sorted(self, rows: pa.Table) -> pa.Table:
        """Sort rows."""
        return rows.take(self.keys(rows).order()) if self.columns else rows


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(values, pa.ChunkedArray):
        return values
    whole = values.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


@dataclass(frozen=True)
class Keys:
    """The values that rows are compared by, column by column; no value is NaN.

    Attributes:
        values: A row for each row.
        descending: Of each column, whether the greatest values come first.
    """

    values: pa.Table
    descending: Sequence[bool]

    def order(self) -> pa.Array:
        """Give the rows' places in order."""
        keys = [
            (name, "descending" if descending else "ascending")
            for name, descending in zip(self.values.column_names, self.descending, strict=True)
        ]
        return pc.sort_indices(self.values, sort_keys=keys)  # nulls are last

    def take(self, places: pa.Array) -> Keys:
        """Give those of some rows."""
        return Keys(self.values.take(places), self.descending)

    def compare(self, other: Sequence[pa.Scalar]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Tell of each row whether it comes after another, and whether it is the same."""
        after = np.zeros(len(self.values), bool)
        same = np.ones(len(self.values), bool)
        for values, descending, one in zip(
            self.values.columns, self.descending, other, strict=True
        ):
            nulls = _flags(pc.is_null(values))
            if not one.is_valid:
                same &= nulls
            else:
                beyond = pc.less(values, one) if descending else pc.greater(values, one)
                after |= same & (_flags(beyond) | nulls)
                same &= _flags(pc.equal(values, one))
            if not same.any():
                break
        return after, same


def _flags(array: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.asarray(pc.fill_null(array, fill_value=False))
    return found


@dataclass(frozen=True)
class Cuts:
    """The beginnings of ranges of rows. Sent to executors.

    Attributes:
        keys: What the first row of each range but the first is compared by, rising. Several are
            the same where that many ranges are to share rows that are all the same.
    """

    keys: Keys

    @property
    def ranges(self) -> int:
        """The number of ranges."""
        return len(self.keys.values) + 1

    def number(self, rows: Keys) -> NDArray[np.int32]:
        """Number the range of each row, from 0."""
        found = np.zeros(len(rows.values), np.int32)
        firsts = self._firsts()
        self._number(rows, np.arange(len(found)), (0, len(firsts)), firsts, found)
        return found

    def _firsts(self) -> list[int]:
        """Return the first of the cuts that are equal to each."""
        values = self.keys.values.to_pylist()
        firsts: list[int] = []
        for at, value in enumerate(values):
            firsts.append(firsts[-1] if at and value == values[at - 1] else at)
        return firsts

    def _number(
        self,
        rows: Keys,
        places: NDArray[np.int64],
        cuts: tuple[int, int],
        firsts: list[int],
        found: NDArray[np.int32],
    ) -> None:
        """Number rows that lie between two cuts, by halves."""
        low, high = cuts
        if low >= high or not len(places):
            found[places] = low
            return
        middle = (low + high) // 2
        first = firsts[middle]
        last = middle
        while last + 1 < len(firsts) and firsts[last + 1] == first:
            last += 1
        row = [column[middle] for column in self.keys.values.columns]
        after, same = rows.compare(row)
        # Rows that are the same may lie in any range that begins with them.
        alike = places[same]
        found[alike] = first + 1 + np.arange(len(alike)) % (last - first + 1)
        for mask, between in ((after, (last + 1, high)), (~(after | same), (low, first))):
            some = np.flatnonzero(mask)
            self._number(rows.take(pa.array(some)), places[some], between, firsts, found)


@dataclass
class Sample:
    """Some of the rows of a task, evenly.

    Attributes:
        sorting: What they are compared by.
        stride: Each of so many rows is in it.
        rows: How many rows there were.
        bytes: What they took in memory.
    """

    sorting: Sorting
    stride: int = 1
    rows: int = 0
    bytes: int = 0
    kept: pa.Table | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Look at more rows."""
        places = np.arange(-self.rows % self.stride, rows.num_rows, self.stride)
        self.rows += rows.num_rows
        self.bytes += rows.nbytes
        some = pa.Table.from_batches([rows]).select(self.sorting.columns).take(pa.array(places))
        self.kept = some if self.kept is None else pa.concat_tables([self.kept, some])
        while len(self.kept) > MOST_SAMPLED:
            self.stride *= 2
            self.kept = self.kept.take(pa.array(np.arange(0, len(self.kept), 2)))


def cuts(samples: Sequence[Sample], ranges: int) -> Cuts | None:
    """Find where to begin ranges of about as many rows each; None for a single range."""
    there = [one for one in samples if one.kept is not None and len(one.kept)]
    if ranges <= 1 or not there:
        return None
    tables = [one.kept for one in there if one.kept is not None]
    keys = there[0].sorting.keys(pa.concat_tables(tables).combine_chunks())
    weights = np.repeat([one.stride for one in there], [len(one) for one in tables])
    order = keys.order()
    reached = np.cumsum(weights[np.asarray(order)])
    wanted = reached[-1] * np.arange(1, ranges) / ranges
    places = np.searchsorted(reached, wanted, "right")
    return Cuts(keys.take(order.take(pa.array(np.minimum(places, len(order) - 1)))))
