"""Small tables with a past, whose rows go back: each has what reverts and undos go by."""

from __future__ import annotations

import json
import random
from functools import partial
from itertools import pairwise
from typing import Any

from singerlake.lake import Lake, Table
from singerlake.overlay import overlay_changes
from singerlake.overlay.alter import alter
from tests.build import commit_rows
from tests.histories.model import messages_of

NAME = "tap.s"
GONE = "_sdc_deleted_at"
AT = "2026-01-02T03:04:05Z"
ROW: dict[str, Any] = {
    "id": {"type": "integer"},
    "n": {"type": "integer"},
    "part": {"type": ["null", "string"]},
    GONE: {"type": "string", "format": "date-time"},
}
WIDER = {**ROW, "more": {"type": ["null", "number"]}}
KINDS: dict[str, Any] = {
    "moment": {"type": "string", "format": "date-time"},
    "amount": {"type": "number"},
    "price": {"type": "number", "multipleOf": 0.01},
    "inner": {"type": ["null", "object"], "properties": {"x": {"type": "integer"}}},
    "flag": {"type": ["null", "boolean"]},
    "v": {"type": "integer"},
}


def random_messages(lake: Lake, seed: int, keys: list[str]) -> Table:
    """Four transactions of rows over few keys, with deletions, activations and other schemas."""
    chance = random.Random(seed)
    messages = messages_of(seed, keys, 300)
    bounds = [0, *sorted(chance.sample(range(20, len(messages)), 3)), len(messages)]
    for number, (start, stop) in enumerate(pairwise(bounds)):
        properties = WIDER if number == 2 else ROW
        commit_rows(lake, NAME, properties, keys, messages[start:stop], block_rows=17)
    return lake.find(NAME)[0]


def keys_of_all_kinds(lake: Lake) -> Table:
    """Keys of several columns that are equal in ways of their own, and texts that are not."""
    keys = ["moment", "amount", "price", "inner", "flag"]
    first = [
        _line(moment, amount, price, inner, flag, 1)
        for moment in ('"2026-01-02T03:04:05Z"', '"2026-01-02T04:04:05.5+01:00"')
        for amount in ("0.0", "1.5", "12345678901234.12")
        for price in ("1.10", "2")
        for inner in ('{"x": 0, "y": 2}', '{"x": 1, "y": 2}')
        for flag in ("false", "true")
    ]
    again = [
        # the first one
        _line('"2026-01-02T04:04:05+01:00"', "-0.0", "1.1", '{"y": 2, "x": 0}', "false", 1),
        _line('"2026-01-02T03:04:05Z"', "1.5e0", "2.00", '{"y": 9, "x": 1}', "true", 2),
        _line('"2026-01-02T03:04:05Z"', "7", "2", '{"x": 2}', "false", 3),
        first[5],
        first[6].replace('"v": 1', f'"v": 1, "{GONE}": "{AT}"'),
    ]
    commit_rows(lake, NAME, KINDS, keys, [*first], block_rows=10)
    commit_rows(lake, NAME, KINDS, keys, [*again])
    return lake.find(NAME)[0]


def _line(moment: str, amount: str, price: str, inner: str, flag: str, v: int) -> str:
    return (
        f'{{"moment": {moment}, "amount": {amount}, "price": {price}, "inner": {inner}, '
        f'"flag": {flag}, "v": {v}}}'
    )


def other_schemas_and_defaults(lake: Lake) -> Table:
    """Columns come and go, one of them by hand, with one default after another."""
    plain = {"id": {"type": "integer"}, "name": {"type": "string"}}
    rows = [f'{{"id": {n}, "name": "n{n}", "kept": 1.10}}' for n in range(12)]
    commit_rows(lake, NAME, plain, ["id"], [*rows], block_rows=5)
    number: dict[str, Any] = {"type": ["null", "integer"]}
    table = lake.find(NAME)[0]
    add = partial(overlay_changes.with_column, name="c", schema=number, initial=0, default=5)
    alter(table.store, table.snapshot(), add)
    commit_rows(lake, NAME, plain, ["id"], [rows[1], rows[2].replace("1.10", "1.1")])
    wide = {**plain, "vip": {"type": "boolean"}}
    changed: list[Any] = [{"id": 3, "name": "x", "vip": True}, rows[4], {"id": 20, "name": "y"}]
    gone = {"id": 5, "name": "n5", GONE: AT}
    commit_rows(lake, NAME, wide, ["id"], [*changed, gone])
    return table


def without_a_key(lake: Lake) -> Table:
    """Rows that nothing tells apart, some of them removed by an activation."""
    a: dict[str, Any] = {"a": {"type": "integer"}}
    commit_rows(lake, NAME, a, [], [{"a": n % 3} for n in range(10)], block_rows=4)
    commit_rows(lake, NAME, a, [], [{"a": 3}, 5, ({"a": 4}, 5), json.dumps({"a": 4, "b": 1})])
    return lake.find(NAME)[0]


def keys_that_cannot_be_read(lake: Lake) -> Table:
    """A key that was a number, and then a text."""
    commit_rows(lake, NAME, {"id": {"type": "integer"}}, ["id"], [{"id": 1}, {"id": 2}])
    commit_rows(lake, NAME, {"id": {"type": "string"}}, ["id"], [{"id": "x"}, {"id": "1"}])
    return lake.find(NAME)[0]
