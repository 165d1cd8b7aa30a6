"""The share of rows in files whose ranges overlap."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.publish.overlap import overlap
from singerlake.publish.published import DataFile


def file(low: Any, high: Any, rows: int = 1, partition: tuple[str, ...] = ()) -> DataFile:
    return DataFile("f", 1, rows, partition, low, high)


def test_ranges_that_overlap_are_counted_by_their_rows() -> None:
    assert overlap([]) == 0.0
    assert overlap([file(1, 3), file(4, 9), file(None, None)]) == 0.0
    assert overlap([file(4, 9, 30), file(1, 5, 10), file(10, 12, 60)]) == 0.4
    assert overlap([file(1, 5, 1, ("c=DE",)), file(1, 5, 1, ("c=FR",))]) == 0.0
    # One value in several files, which nothing could keep apart.
    assert overlap([file(1, 5), file(5, 5), file(5, 5), file(5, 9)]) == 0.0
    assert overlap([file(1.0, math.nan), file(2.0, 3.0), file("x", "y", 2, ("p",))]) == 0.5


RANGES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5)).map(
        lambda one: (*sorted(one[:2]), one[2])
    ),
    max_size=7,
)


@settings(max_examples=100, deadline=None)
@given(RANGES)
def test_it_is_what_each_pair_says(ranges: list[tuple[int, int, int]]) -> None:
    def reaches(one: int, other: int) -> bool:
        (low, high, _), (start, end, _) = ranges[one], ranges[other]
        return one != other and low < end and start < high

    numbers = range(len(ranges))
    rows = sum(ranges[n][2] for n in numbers if any(reaches(n, other) for other in numbers))
    assert overlap([file(*one) for one in ranges]) == rows / (sum(r for *_, r in ranges) or 1)
