"""Rows looked up among published ones, by their keys."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from singerlake.publish.lookup import Lookup, can_look_up

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "shop": pa.string(),
        "x": pa.float64(),
        "tags": pa.list_(pa.string()),
        "n": pa.int32(),
        "deep": pa.list_(pa.struct({"x": pa.float64(), "by": pa.map_(pa.string(), pa.float32())})),
    }
)
CELLS: list[tuple[Any, Any, Any, Any]] = [
    (0.0, [], 1, [{"x": 0.0, "by": None}]),
    (0.0, [], 1, [{"x": -0.0, "by": None}]),
    (-0.0, [], 1, []),
    (math.nan, ["a"], 1, [{"x": math.nan, "by": [("b", math.nan)]}, None]),
    (math.nan, ["a"], 1, [{"x": math.nan, "by": [("c", math.nan)]}, None]),
    (None, None, None, None),
    (None, None, None, [None]),
    (1.5, ["a", None], 2, [{"x": None, "by": []}]),
    (1.5, ["a", None], 2, [{"x": None, "by": [("b", 0.0)]}]),
    (1.5, ["a", None], 2, [{"x": None, "by": [("b", -0.0)]}]),
]


def table(rows: list[tuple[int | None, str | None, int]]) -> pa.Table:
    names = SCHEMA.names
    cells = [dict(zip(names, (i, s, *CELLS[c]), strict=True)) for i, s, c in rows]
    return pa.Table.from_pylist(cells, schema=SCHEMA)


@pytest.mark.parametrize("key", [["id"], ["shop", "id"]])
def test_rows_are_found_and_compared(key: list[str]) -> None:
    shops = ["s0", None, "s2"]
    for seed in range(30):
        chance = random.Random(seed)
        numbers = chance.sample(range(60), 30)
        there = {n: chance.randrange(len(CELLS)) for n in numbers[:20]}
        now = {n: chance.randrange(len(CELLS)) for n in numbers[5:25]}
        gone = numbers[:5] + numbers[25:]
        # No shop or no number is part of a key like any other.
        published = table([(n or None, shops[n % 3], c) for n, c in there.items()])
        rows = table([(n or None, shops[n % 3], c) for n, c in now.items()])
        every = list(now) + gone
        keys = table([(n or None, shops[n % 3], 0) for n in every]).select(key)
        of_key = np.array([*range(len(now)), *[-1] * len(gone)])
        looked = Lookup(keys, rows, of_key)
        found = looked.find(published)
        assert {(int(a), every[int(b)]) for a, b in zip(found.rows, found.keys, strict=True)} == {
            (at, n) for at, n in enumerate(there) if n in every
        }
        same = looked.same(published.take(pa.array(found.rows)), found.keys)
        for number, is_same in zip(found.keys.tolist(), same.tolist(), strict=True):
            n = every[number]
            # To the bit: -0.0 is not 0.0, and NaN is what it was.
            assert is_same == (n in now and now[n] == there[n])


def test_pieces_without_a_key_are_left_aside() -> None:
    keys = table([(n, f"s{n}", 0) for n in (5, 9)]).select(["id", "shop"])
    looked = Lookup(keys, table([]), np.array([-1, -1]))
    assert looked.may_be_within({})
    assert looked.may_be_within({"id": (1, 5), "x": (0.0, 1.0)})
    assert not looked.may_be_within({"id": (6, 8)})
    assert not looked.may_be_within({"id": (10, 11)})
    assert not looked.may_be_within({"id": (1, 9), "shop": ("s6", "s8")})
    without_one = table([(5, "s5", 0), (None, "s9", 0)]).select(["id", "shop"])
    nullable = Lookup(without_one, table([]), np.array([-1, -1]))
    assert nullable.may_be_within({"id": (6, 8)})
    assert not nullable.may_be_within({"id": (6, 8), "shop": ("s6", "s8")})
    assert not Lookup(keys.slice(0, 0), table([]), np.array([])).may_be_within({})


def test_keys_are_known_by_what_they_are() -> None:
    assert all(map(can_look_up, (pa.int64(), pa.string(), pa.decimal128(9, 2), pa.date32())))
    assert not any(map(can_look_up, (pa.float64(), pa.list_(pa.int64()), pa.struct([]))))
