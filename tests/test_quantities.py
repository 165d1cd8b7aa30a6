"""Numbers of things and sizes, as messages have them."""

from __future__ import annotations

import pytest

from singerlake.quantities import count, size


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (2000, "2,000 files")]
)
def test_count(number: int, words: str) -> None:
    assert count(number, "file") == words


def test_count_of_what_has_no_s() -> None:
    assert [count(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (40_000, "40.0 kB"),
        (51_100_000, "51.1 MB"),
        (10**16, "10.0 PB"),
        (3 * 10**18, "3,000.0 PB"),
        (0.4, "0 B"),
    ],
)
def test_size_is_in_a_unit_that_says_something(number: float, words: str) -> None:
    assert size(number) == words
