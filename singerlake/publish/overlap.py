"""The overlap of published files: how far they are from being in one order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from singerlake.publish.bounds import rank
from singerlake.publish.published import DataFile


def overlap(files: Iterable[DataFile]) -> float:
    """Tell the share of rows that lie in files whose ranges overlap those of others.

    Files of different partitions never do, and neither do those that only meet at an end: the rows
    of one value may be too many for one file. A file whose values are all null comes last, and has
    no range.

    Returns:
        From 0, where readers of a range open just the files that hold it, to 1.
    """
    every = sorted(files, key=lambda file: file.partition)
    rows = sum(file.rows for file in every)
    within = 0
    for _, those in groupby(every, key=lambda file: file.partition):
        ranged = [
            (rank(file.low), rank(file.high), file.rows) for file in those if _has_range(file)
        ]
        within += _rows_in_overlaps(sorted(ranged, key=lambda one: one[:2]))
    return within / rows if rows else 0.0


def _has_range(file: DataFile) -> bool:
    return file.low is not None and file.high is not None


def _rows_in_overlaps(ranges: list[tuple[Any, Any, int]]) -> int:
    """Count the rows of ranges, in order of where they begin, that another one reaches into."""
    rows, reached = 0, None
    for index, (low, high, count) in enumerate(ranges):
        before = reached is not None and low < reached
        after = index + 1 < len(ranges) and ranges[index + 1][0] < high
        rows += count if before or after else 0
        reached = high if reached is None else max(reached, high)
    return rows
