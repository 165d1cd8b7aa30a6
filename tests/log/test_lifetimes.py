"""When a table was there, by the operations of its log."""

from __future__ import annotations

import pytest

from singerlake.format.metadata import TransactionSummary
from singerlake.log import lifetimes
from singerlake.log.lifetimes import Drop, Drops


def drops(*operations: str) -> Drops:
    return lifetimes.of_log(
        TransactionSummary(number=n, commit=f"c{n}", operation=operation, time="t")
        for n, operation in enumerate(operations, start=1)
    )


@pytest.mark.parametrize(
    ("operations", "dropped_at", "first", "there"),
    [
        (["sync", "freeze"], 0, 1, [1, 2]),
        (["sync", "drop"], 2, 1, []),
        (["sync", "drop", "vacuum-start", "vacuum"], 2, 1, []),
        (["sync", "drop", "vacuum-start", "vacuum", "sync"], 0, 5, [5]),
        (["sync", "drop", "undrop", "sync"], 0, 1, [1, 3, 4]),
        (["sync", "drop", "of-a-later-release"], 0, 3, [3]),
        (["sync", "drop", "create", "drop", "undrop"], 0, 3, [3, 5]),
        (["sync", "drop", "create", "drop"], 4, 3, []),
        (["sync", "undrop"], 0, 1, [1, 2]),
        (["sync", "drop", "drop", "undrop"], 0, 1, [1, 4]),
    ],
)
def test_which_states_there_are(
    operations: list[str], dropped_at: int, first: int, there: list[int]
) -> None:
    found = drops(*operations)
    assert (lifetimes.dropped_at(found), lifetimes.first(found)) == (dropped_at, first)
    numbers = range(1, len(operations) + 1)
    assert [n for n in numbers if lifetimes.was_there(found, n)] == there


def test_what_was_known_after_an_earlier_transaction() -> None:
    operations = ["sync", "drop", "vacuum", "undrop", "drop", "sync"]
    found = drops(*operations)
    assert found == (Drop(2, 4, undone=True), Drop(5, 6))
    for number in range(1, len(operations) + 1):
        assert lifetimes.as_of(found, number) == drops(*operations[:number])
