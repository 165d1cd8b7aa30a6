"""Rows in the order that a projection says, and cut into ranges that follow each other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timezone
from decimal import Decimal
from functools import cmp_to_key
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from singerlake.publish import sorting
from singerlake.publish.projection import OrderKey, PartitionKey, Transform
from singerlake.publish.sorting import Sample, Sorting, cuts

SCHEMA = pa.schema(
    {
        "x": pa.float64(),
        "s": pa.string(),
        "d": pa.decimal128(9, 2),
        "at": pa.timestamp("us", "UTC"),
        "b": pa.bool_(),
        "id": pa.int64(),
    }
)
VALUES: dict[str, list[Any]] = {
    "x": [None, nan, -inf, -1.5, 0.0, 2.0, inf],
    "s": [None, "", "a", "aa", "z", "ä", "\U0001f600", "￿"],
    "d": [None, Decimal("-1.10"), Decimal("0.00"), Decimal("7.25")],
    "at": [None, *(datetime(2026, month, 3, tzinfo=timezone.utc) for month in (1, 2, 12))],
    "b": [None, False, True],
}
Row = dict[str, Any]
ORDERS: dict[str, tuple[list[OrderKey], list[PartitionKey]]] = {
    "numbers": ([OrderKey("x"), OrderKey("id")], []),
    "texts down": ([OrderKey("s", True), OrderKey("x", True)], []),
    "several": ([OrderKey("b", True), OrderKey("d"), OrderKey("at", True)], []),
    "months": ([OrderKey("s")], [PartitionKey("at", Transform.MONTH), PartitionKey("b")]),
}


def rows_of(chance: random.Random, count: int) -> list[Row]:
    return [
        {**{name: chance.choice(VALUES[name]) for name in VALUES}, "id": n} for n in range(count)
    ]


def compare(one: Any, other: Any, *, down: bool = False) -> int:
    """Nulls are last, and NaN is greater than all numbers."""
    if one is None or other is None:
        return (one is None) - (other is None)
    pair = [(True, 0) if isinstance(v, float) and isnan(v) else (False, v) for v in (one, other)]
    found = (pair[0] > pair[1]) - (pair[0] < pair[1])
    return -found if down else found


def compared(order: str, one: Row, other: Row) -> int:
    by, apart = ORDERS[order]
    for key in apart:
        values = [row[key.column] for row in (one, other)]
        if key.transform is Transform.MONTH:
            values = [value and (value.year, value.month) for value in values]
        if found := compare(*values):
            return found
    for one_key in by:
        name = one_key.column
        if found := compare(one[name], other[name], down=one_key.descending):
            return found
    return 0


@pytest.mark.parametrize("order", ORDERS)
def test_rows_are_sorted_and_cut(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "MOST_SAMPLED", 16)
    by, apart = ORDERS[order]
    how = Sorting(by, apart)
    for seed in range(25):
        chance = random.Random(seed)
        rows = rows_of(chance, chance.randrange(1, 120))
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        found = how.sorted(table).to_pylist()
        expected = sorted(rows, key=cmp_to_key(lambda a, b: compared(order, a, b)))
        assert all(compared(order, a, b) == 0 for a, b in zip(found, expected, strict=True))
        assert sorted(row["id"] for row in found) == list(range(len(rows)))
        check_cuts(how, order, rows, table, chance.randrange(2, 9))


def check_cuts(how: Sorting, order: str, rows: list[Row], table: pa.Table, ranges: int) -> None:
    """No row of a range comes after one of the next; each row is in one."""
    made = cuts(samples(how, table), ranges)
    assert made is not None
    assert made.ranges == ranges
    numbers = made.number(how.keys(table))
    last: Row | None = None
    for number in range(ranges):
        own = [row for row, one in zip(rows, numbers.tolist(), strict=True) if one == number]
        own.sort(key=cmp_to_key(lambda a, b: compared(order, a, b)))
        if own and last is not None:
            assert compared(order, last, own[0]) <= 0
        last = own[-1] if own else last
    assert (numbers >= 0).all()
    assert (numbers < ranges).all()


def samples(how: Sorting, table: pa.Table) -> Sequence[Sample]:
    found = []
    for start in range(0, len(table), 40):
        one = Sample(how)
        for batch in table.slice(start, 40).to_batches(max_chunksize=7):
            one.add(batch)
        assert one.rows == len(table.slice(start, 40))
        assert one.kept is not None
        assert len(one.kept) <= 16
        assert one.stride * len(one.kept) >= one.rows
        found.append(one)
    return [*found, Sample(how)]  # a task without rows


def test_rows_that_are_all_the_same_are_shared_by_ranges() -> None:
    how = Sorting([OrderKey("s")])
    table = pa.table({"s": ["a"] * 10 + ["m"] * 1000 + ["z"] * 10})
    sample = Sample(how)
    sample.add(table.combine_chunks().to_batches()[0])
    made = cuts([sample], 8)
    assert made is not None
    numbers = made.number(how.keys(table))
    assert set(numbers[:10].tolist()) == {0}
    assert set(numbers[-10:].tolist()) == {7}
    assert np.bincount(numbers, minlength=8).max() < 300
