"""Files that are written again, shared out to tasks, each with the changed rows that belong there.

A share is a range of one partition, so that no file's rows are in two. Rows of partitions of which
no file is written again are a share of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from singerlake.publish.bounds import rank
from singerlake.publish.projection import PartitionKey
from singerlake.publish.published import DataFile
from singerlake.publish.ranges import Partition, Places, Slots, parted

MOST_MERGED = 16
"""Files whose ranges cross that are read side by side; each holds a batch of rows in memory."""
Run = tuple[int, ...]
"""Files by index: those of one cross, those of the next lie behind all of them."""


@dataclass(frozen=True)
class Shares:
    """The shares of files that belong together, and of rows. Sent to executors.

    Attributes:
        runs: Of each share, its files in the order of the rows.
        first: Of each partition, the first of its shares, which are in the order of values.
        starts: Of each partition, the values with which its other shares begin.
        partition_by: What keeps files apart.
        bounded: The column whose bounds they have.
    """

    runs: Sequence[Sequence[Run]]
    first: Mapping[Partition, int]
    starts: Mapping[Partition, Sequence[Any]]
    partition_by: Sequence[PartitionKey]
    bounded: str | None

    def come(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Share new rows out."""
        for partition, some in parted(rows, self.partition_by):
            first = self.first.get(partition)
            if first is None:
                yield len(self.runs), some
            else:
                yield from self._by_range(partition, first, some)

    def gone(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Share rows out that are in files; nulls may be in all of a partition."""
        for partition, some in parted(rows, self.partition_by):
            first = self.first.get(partition)
            if first is None:
                continue
            yield from self._by_range(partition, first, some)
            if self.bounded is not None and some.column(self.bounded).null_count:
                nulls = some.filter(some.column(self.bounded).is_null())
                for share in range(len(self.starts[partition])):
                    yield first + share, nulls

    def _by_range(
        self, partition: Partition, first: int, rows: pa.RecordBatch
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        slots = Slots({(): self.starts[partition]}, (), self.bounded)(rows)
        numbers = np.asarray(slots)
        for number in np.unique(numbers).tolist():
            yield first + number, rows.filter(pa.array(numbers == number))


def shares(
    places: Places, touched: set[int], size: int, *, ordered: bool, descending: bool
) -> Shares | None:
    """Share files out.

    Args:
        places: The files.
        touched: Which of them are written again, by index.
        size: Bytes of files that are enough for a task.
        ordered: Whether there is an order at all.
        descending: Whether the rows of files begin with the greatest values.

    Returns:
        The shares; None where too many files cross to be read side by side.
    """
    by_partition: dict[Partition, list[int]] = {}
    for index in sorted(touched):
        by_partition.setdefault(places.files[index].partition, []).append(index)
    made: list[Sequence[Run]] = []
    first: dict[Partition, int] = {}
    starts: dict[Partition, Sequence[Any]] = {}
    for partition, indexes in by_partition.items():
        first[partition] = len(made)
        if places.bounded is None:
            made.append([tuple(indexes)] if ordered else [(index,) for index in indexes])
            starts[partition] = ()
            continue
        valued = [index for index in indexes if places.files[index].low is not None]
        cut, starts[partition] = _cut(places.files, _runs(places.files, valued), size)
        of_null = tuple(index for index in indexes if places.files[index].low is None)
        cut[-1].insert(0 if descending else len(cut[-1]), of_null)
        made += [_read_in_order(places.files, share, descending=descending) for share in cut]
    if any(len(run) > MOST_MERGED for share in made for run in share):
        return None
    if any(_is_unknown(places, index) for index in touched):
        return None
    return Shares(made, first, starts, tuple(places.partition_by), places.bounded)


def _is_unknown(places: Places, index: int) -> bool:
    """Tell whether nobody knows which values a file has."""
    file = places.files[index]
    return places.bounded is not None and file.low is None and bool(file.rows) and not file.nulls


def _runs(files: Sequence[DataFile], indexes: Sequence[int]) -> list[Run]:
    """Put files together that share a value."""
    runs: list[list[int]] = []
    reach: Any = None
    for index in sorted(indexes, key=lambda one: rank(files[one].low)):
        low, high = rank(files[index].low), rank(files[index].high)
        if reach is None or low > reach:
            runs.append([])
            reach = high
        runs[-1].append(index)
        reach = max(reach, high)
    return [tuple(run) for run in runs]


def _read_in_order(
    files: Sequence[DataFile], share: Sequence[Run], *, descending: bool
) -> list[Run]:
    """Bring runs into the order of rows: where one has nulls, which are last, no other follows."""
    found: list[Run] = []
    for run in share[::-1] if descending else share:
        if found and any(files[index].nulls for index in found[-1]):
            found[-1] += run
        elif run:
            found.append(run)
    return found


def _cut(
    files: Sequence[DataFile], runs: Sequence[Run], size: int
) -> tuple[list[list[Run]], list[Any]]:
    """Cut runs into shares; gives the values with which those after the first begin."""
    cut: list[list[Run]] = [[]]
    begins: list[Any] = []
    filled = 0
    for run in runs:
        low = files[run[0]].low
        if filled >= size and not (isinstance(low, float) and math.isnan(low)):
            begins.append(low)
            cut.append([])
            filled = 0
        cut[-1].append(run)
        filled += sum(files[index].bytes for index in run)
    return cut, begins
