"""Files that are shared out to tasks, and their rows merged with new ones."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest

from singerlake.publish.keys import Keys
from singerlake.publish.merging import Order, merged, without
from singerlake.publish.projection import OrderKey, PartitionKey
from singerlake.publish.published import DataFile
from singerlake.publish.ranges import Places
from singerlake.publish.shares import MOST_MERGED, Shares, shares

SCHEMA = pa.schema([("x", pa.float64()), ("id", pa.int64())])
VALUES = [None, math.nan, math.inf, -math.inf, 0.0, 1.5, 2.0, 7.0]


def table(rows: list[tuple[Any, int]]) -> pa.Table:
    return pa.Table.from_pylist([{"x": x, "id": n} for x, n in rows], schema=SCHEMA)


def sorted_as_spark_does(rows: list[tuple[Any, int]], *, down: bool) -> list[tuple[Any, int]]:
    def compare(a: tuple[Any, int], b: tuple[Any, int]) -> int:
        if (a[0] is None) != (b[0] is None):
            return 1 if a[0] is None else -1
        one, other = (_number(x) for x in (a[0], b[0]))
        found = (one > other) - (one < other)
        return (-found if down else found) or a[1] - b[1]

    return sorted(rows, key=cmp_to_key(compare))


def _number(value: Any) -> tuple[bool, float]:
    value = 0.0 if value is None else value
    return (True, 0.0) if math.isnan(value) else (False, value)


def batches(rows: list[tuple[Any, int]], size: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist([], schema=SCHEMA)
    yield from table(rows).to_batches(max_chunksize=size)


@pytest.mark.parametrize("down", [False, True])
def test_merged_rows_are_in_order(down: bool) -> None:
    order = Order([OrderKey("x", down), OrderKey("id")])
    for seed in range(40):
        chance = random.Random(seed)
        rows = [(chance.choice(VALUES), n) for n in range(chance.randrange(1, 60))]
        whole = sorted_as_spark_does(rows, down=down)
        new = set(chance.sample(range(len(rows)), chance.randrange(len(rows) + 1)))
        old = [row for row in whole if row[1] not in new]
        cut = chance.randrange(len(old) + 1)
        one = [row for row in old[:cut] if row[1] % 2]
        other = [row for row in old[:cut] if not row[1] % 2]
        runs = [[batches(part, 3) for part in run] for run in ([one, other], [old[cut:]])]
        added = order.sorted(table([row for row in rows if row[1] in new]))
        found = pa.Table.from_batches(merged(runs, added, order), SCHEMA).to_pylist()
        assert [row["id"] for row in found] == [n for _, n in whole], seed


def test_rows_of_keys_are_left_out() -> None:
    rows = table([(1.0, 1), (1.0, 2), (2.0, 1), (None, 3)]).to_batches()[0]
    gone = table([(1.0, 1), (2.0, 2), (1.0, 1)])
    assert without(rows, Keys(gone.select(["id"]))).column("id").to_pylist() == [3]
    assert without(rows, Keys(gone)).to_pylist() == rows.slice(1).to_pylist()
    assert without(rows, Keys(gone.slice(0, 0))).num_rows == 4
    null = table([(None, 3), (None, 1)])
    assert without(rows, Keys(null)).to_pylist() == rows.slice(0, 3).to_pylist()


def test_rows_without_an_order_stay_as_they_lie() -> None:
    runs = [[batches([(1.0, 9), (1.0, 3)], 9)]]
    found = pa.Table.from_batches(merged(runs, table([(0.0, 1)]), Order([])), SCHEMA)
    assert found.column("id").to_pylist() == [9, 3, 1]


def data_file(low: Any, high: Any, *, nulls: bool = False, partition: str = "p=1") -> DataFile:
    return DataFile(f"{low}", 10, 1, (partition,), low, high, nulls)


FILES = [
    data_file(0.0, 1.0),
    data_file(1.0, 2.0),
    data_file(3.0, 4.0, nulls=True),
    data_file(5.0, math.nan),
    data_file(None, None, nulls=True),
    data_file(0.0, 9.0, partition="p=2"),
]
PLACES = Places(FILES, (PartitionKey("p"),), "x")


def shared(touched: set[int], size: int = 10, *, down: bool = False) -> Shares:
    found = shares(PLACES, touched, size, ordered=True, descending=down)
    assert found is not None
    return found


def rows_of(*rows: tuple[int, float | None]) -> pa.RecordBatch:
    schema = pa.schema([("p", pa.int64()), ("x", pa.float64())])
    return pa.RecordBatch.from_pylist([{"p": p, "x": x} for p, x in rows], schema=schema)


def test_a_share_is_a_range_of_a_partition() -> None:
    found = shared(set(range(6)))
    # What shares a value is read side by side, and so is all behind a null.
    assert found.runs == [[(0, 1)], [(2,)], [(3,), (4,)], [(5,)]]
    come = rows_of((1, 0.5), (1, 2.5), (1, 3.0), (1, math.nan), (1, None), (2, 77.0), (3, 1.0))
    told = {share: rows.column("x").to_pylist() for share, rows in found.come(come)}
    assert told[0] == [0.5, 2.5]
    assert told[1] == [3.0]
    assert math.isnan(told[2][0])
    assert told[2][1:] == [None]
    assert (told[3], told[4]) == ([77.0], [1.0])
    gone = [(share, rows.num_rows) for share, rows in found.gone(rows_of((1, None), (3, 1.0)))]
    assert sorted(gone) == [(0, 1), (1, 1), (2, 1)]


def test_shares_in_the_order_of_rows() -> None:
    # All of one share: nulls are last, so nothing that has none may follow.
    assert shared({0, 1, 2, 3}, 1000).runs == [[(0, 1), (2, 3)]]
    assert shared({0, 1, 2, 3, 4}, 1000, down=True).runs == [[(3,), (2, 0, 1, 4)]]
    assert shared({4}).runs == [[(4,)]]


def test_what_cannot_be_merged() -> None:
    cases = [[data_file(0.0, 9.0)] * (MOST_MERGED + 1), [data_file(None, None)]]
    for files in cases:
        places = Places(files, (PartitionKey("p"),), "x")
        everything = set(range(len(files)))
        assert shares(places, everything, 10, ordered=True, descending=False) is None
