"""What the log's own module works out."""

from __future__ import annotations

import pytest

from singerlake.format.log import joined


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        ([(3, 3)], [(3, 3)]),
        ([(1, 1), (2, 2), (4, 6), (7, 7), (9, 9)], [(1, 2), (4, 7), (9, 9)]),
    ],
)
def test_ranges_that_meet_are_one(
    ranges: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert joined(ranges) == expected
