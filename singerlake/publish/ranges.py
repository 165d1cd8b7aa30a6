"""Places of rows among published files, and the files that an increment writes again.

A file covers the rows of its partition whose first order value lies between its bounds. Rows that
change are looked up there, so that only files that may hold them are read back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.publish import partitions
from singerlake.publish.bounds import rank
from singerlake.publish.projection import PartitionKey
from singerlake.publish.published import DataFile

OVERLAP = 0.2
"""The share of rows in files whose ranges overlap, past which these files are sorted anew."""
SMALL = 8
"""A file is small if it has less than this part of the wished size: it grows with its range."""
SLOT = "__singerlake_slot"
"""A column of numbers: rows of two are not in one file."""
Partition: TypeAlias = tuple[str, ...]
Counts: TypeAlias = NDArray[np.int64]


def overlapping(files: Sequence[DataFile]) -> set[int]:
    """Find the files, by index, whose ranges overlap another's of the same partition.

    That one ends with the value with which the next begins is none: many rows may have it.
    """
    found: set[int] = set()
    for indexes in _sorted(files).values():
        reach: int | None = None
        for index in indexes:
            if reach is not None:
                before, high = files[index].low, files[reach].high
                if rank(before) < rank(high):
                    found |= {index, reach}
            if reach is None or rank(files[index].high) > rank(files[reach].high):
                reach = index
    return found


def _sorted(files: Sequence[DataFile]) -> dict[Partition, list[int]]:
    """The files of each partition by index, in the order of their ranges; without those of null."""
    found: dict[Partition, list[int]] = {}
    for index, file in enumerate(files):
        if file.low is not None:
            found.setdefault(file.partition, []).append(index)
    for indexes in found.values():
        indexes.sort(key=lambda index: (rank(files[index].low), rank(files[index].high)))
    return found


@dataclass
class Found:
    """The places of some rows.

    Attributes:
        inside: Of each file, how many it may hold.
        behind: Of each file, how many lie in no file, and behind it rather than another. Those
            before all files count for the first.
        alone: How many lie in partitions without a file.
    """

    inside: Counts
    behind: Counts
    alone: int = 0

    def add(self, other: Found) -> None:
        """Count others too."""
        self.inside += other.inside
        self.behind += other.behind
        self.alone += other.alone


@dataclass(frozen=True)
class Places:
    """The files of a destination, for looking up rows. Sent to executors.

    Attributes:
        files: The files.
        partition_by: What keeps them apart.
        bounded: The column whose bounds they have; None where any row may lie in any file of its
            partition.
    """

    files: Sequence[DataFile]
    partition_by: Sequence[PartitionKey]
    bounded: str | None

    @cached_property
    def _by_partition(self) -> dict[Partition, list[int]]:
        found: dict[Partition, list[int]] = {}
        for index, file in enumerate(self.files):
            found.setdefault(file.partition, []).append(index)
        return found

    def nothing(self) -> Found:
        """Return the place of no row."""
        count = len(self.files)
        return Found(np.zeros(count, np.int64), np.zeros(count, np.int64))

    def find(self, batch: pa.RecordBatch) -> Found:
        """Look rows up."""
        found = self.nothing()
        for partition, rows in parted(batch, self.partition_by):
            indexes = self._by_partition.get(partition)
            if not indexes:
                found.alone += rows.num_rows
            elif self.bounded is None:
                found.inside[indexes] += rows.num_rows
            else:
                self._find(rows.column(self.bounded), indexes, found)
        return found

    def _find(self, values: pa.Array, indexes: Sequence[int], found: Found) -> None:
        values = _without_nan(values)
        nowhere = np.ones(len(values), bool)
        nearest = np.full(len(values), -1)
        for index in sorted(indexes, key=lambda one: _first(self.files[one])):
            file = self.files[index]
            inside, above = _covers(file, values)
            found.inside[index] += int(inside.sum())
            nowhere &= ~inside
            nearest[above] = index
        least = min(indexes, key=lambda one: _first(self.files[one]))
        nearest[nearest < 0] = least
        np.add.at(found.behind, nearest[nowhere], 1)

    def touched(self, batch: pa.RecordBatch, among: set[int]) -> NDArray[np.bool_]:
        """Tell of each row whether one of some files covers it."""
        numbers = pa.array(np.arange(batch.num_rows))
        batch = pa.RecordBatch.from_arrays(
            [*batch.columns, numbers], names=[*batch.schema.names, _NUMBER]
        )
        found = np.zeros(batch.num_rows, bool)
        for partition, rows in parted(batch, self.partition_by):
            at = np.asarray(rows.column(_NUMBER))
            for index in self._by_partition.get(partition, ()):
                if index not in among:
                    continue
                if self.bounded is None:
                    found[at] = True
                else:
                    values = _without_nan(rows.column(self.bounded))
                    found[at] |= _covers(self.files[index], values)[0]
        return found


_NUMBER = "\0number"
"""No column of a query is called so."""


def _first(file: DataFile) -> tuple[bool, Any]:
    return (True, 0) if file.low is None else (False, rank(file.low))


def _without_nan(values: pa.Array) -> pa.Array:
    """NaN is greater than all others; that it then lies where Infinity does harms nobody."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(math.inf, values.type), values)


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    nan = isinstance(value, float) and math.isnan(value)
    return pa.scalar(math.inf if nan else value, type_)


def _covers(file: DataFile, values: pa.Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell of values whether a file covers them, and whether they are not below it."""
    nulls = np.asarray(values.is_null())
    if file.low is None:
        if file.rows and not file.nulls:  # nobody knows its bounds
            return np.ones(len(values), bool), nulls
        return (nulls if file.nulls else np.zeros(len(values), bool)), nulls
    above = _flags(pc.greater_equal(values, _scalar(file.low, values.type))) | nulls
    inside = _flags(pc.less_equal(values, _scalar(file.high, values.type))) & above & ~nulls
    return (inside | nulls if file.nulls else inside), above


def _flags(array: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.asarray(pc.fill_null(array, fill_value=False))
    return found


def parted(
    batch: pa.RecordBatch, by: Sequence[PartitionKey]
) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """Give the rows of each partition."""
    if not by:
        yield (), batch
        return
    numbers = np.zeros(batch.num_rows, np.int64)
    names: list[list[str]] = []
    for key in by:
        coded = partitions.values(batch.column(key.column), key).dictionary_encode("encode")
        names.append([partitions.folder(key, one) for one in coded.dictionary.to_pylist()])
        numbers = numbers * max(1, len(names[-1])) + np.asarray(coded.indices)
    for number in np.unique(numbers).tolist():
        rest, partition = number, []
        for some in reversed(names):
            rest, at = divmod(rest, max(1, len(some)))
            partition.append(some[at])
        yield tuple(reversed(partition)), batch.filter(pa.array(numbers == number))


@dataclass(frozen=True)
class Slots:
    """Keeps rows that are written anew apart where a file that stays lies between them.

    Attributes:
        starts: Of each partition, with which values files that stay begin, rising.
        partition_by: What keeps files apart.
        bounded: The column whose bounds they have.
    """

    starts: Mapping[Partition, Sequence[Any]] = field(default_factory=dict)
    partition_by: Sequence[PartitionKey] = ()
    bounded: str | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """Number the rows' slots."""
        slots = np.zeros(batch.num_rows, np.int32)
        if self.bounded is None or not any(self.starts.values()):
            return pa.array(slots)
        numbers = pa.array(np.arange(batch.num_rows))
        names = [*batch.schema.names, _NUMBER]
        batch = pa.RecordBatch.from_arrays([*batch.columns, numbers], names=names)
        for partition, rows in parted(batch, self.partition_by):
            values = _without_nan(rows.column(self.bounded))
            at, nulls = np.asarray(rows.column(_NUMBER)), np.asarray(values.is_null())
            for start in self.starts.get(partition, ()):
                slots[at] += _flags(pc.greater_equal(values, _scalar(start, values.type))) | nulls
        return pa.array(slots)


@dataclass(frozen=True)
class Plan:
    """The plan of the files that are written again.

    Attributes:
        touched: They, by index.
        slots: Keeps the rows of new files apart.
        resorted: Whether files are among them only because too many ranges overlapped.
    """

    touched: set[int]
    slots: Slots
    resorted: bool


def plan(places: Places, gone: Found, come: Found, *, small: int, whole_ranges: bool) -> Plan:
    """Work out which files to write again.

    Args:
        gone: Where rows lay that are gone, or are others now.
        come: Where rows lie that are new, or are others now.
        small: Bytes up to which a file is written again, if rows come next to it.
        whole_ranges: Whether the files of a range can only be written again all together, because
            their rows are not read back but computed.
    """
    files = places.files
    touched = {int(index) for index in np.flatnonzero(gone.inside)}
    if places.bounded is None:
        grown = [] if whole_ranges else np.flatnonzero(come.inside).tolist()
    else:
        grown = np.flatnonzero(come.inside + come.behind).tolist()
    touched |= {index for index in grown if files[index].bytes < small}
    crossed: set[int] = set()
    if places.bounded is not None:
        crossed = overlapping(files) | {int(one) for one in np.flatnonzero(come.inside)}
    crossed -= touched
    rows = sum(file.rows for file in files)
    resorted = bool(crossed) and sum(files[one].rows for one in crossed) > OVERLAP * rows
    if resorted:
        touched |= crossed
    if whole_ranges:
        touched = _closed(files, touched, by_range=places.bounded is not None)
    return Plan(touched, _slots(places, touched, come), resorted)


def _closed(files: Sequence[DataFile], touched: set[int], *, by_range: bool) -> set[int]:
    """Add all files that share a value with one of these, be it by way of others."""
    by_partition: dict[Partition, list[int]] = {}
    for index, file in enumerate(files):
        by_partition.setdefault(file.partition, []).append(index)
    found = set(touched)
    for indexes in by_partition.values():
        for run in _runs(files, indexes) if by_range else [indexes]:
            if not found.isdisjoint(run):
                found |= set(run)
    return found


def _runs(files: Sequence[DataFile], indexes: Sequence[int]) -> list[list[int]]:
    """Put files of a partition together that share a value."""
    of_null = [one for one in indexes if files[one].nulls]
    runs: list[list[int]] = []
    reach: Any = None
    valued = (one for one in indexes if files[one].low is not None)
    for index in sorted(valued, key=lambda one: _first(files[one])):
        if reach is None or rank(files[index].low) > reach:
            runs.append([])
            reach = rank(files[index].high)
        runs[-1].append(index)
        reach = max(reach, rank(files[index].high))
    with_null = [run for run in runs if not set(run).isdisjoint(of_null)]
    runs = [run for run in runs if run not in with_null]
    return [*runs, [*of_null, *(one for run in with_null for one in run)]]


def _slots(places: Places, touched: set[int], come: Found) -> Slots:
    """Return where files begin that stay and get no new row."""
    starts: dict[Partition, list[Any]] = {}
    for partition, indexes in _sorted(places.files).items():
        clean = [one for one in indexes if one not in touched and not come.inside[one]]
        if not clean:
            continue
        kept = [clean[0]]
        following = set(pairwise(indexes))
        for before, after in pairwise(clean):
            # Rows are written between two files only if some came there.
            if come.behind[before] or (before, after) not in following:
                kept.append(after)
        starts[partition] = [places.files[one].low for one in kept]
    return Slots(starts, tuple(places.partition_by), places.bounded)
