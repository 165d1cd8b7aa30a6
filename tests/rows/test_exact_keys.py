"""A table has as many rows as it has distinct keys, whatever the keys' columns can hold."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import DamagedError, UsageError
from singerlake.format import times
from singerlake.format.types import NUMBER as NUMBERS_TYPE
from singerlake.format.types import RULES, TIMESTAMP, exact
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.ops.delete_version import delete_version
from singerlake.ops.freeze import FreezePlan, commit_version
from singerlake.ops.vacuum import garbage
from singerlake.ops.verify.whole_table import check_indexes
from singerlake.rows.columns import key_text
from singerlake.rows.state.row_key import check_key
from singerlake.snapshot import from_blocks as blocks_read
from singerlake.snapshot import index
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows, retype
from tests.frozen import freeze_here as freeze_small
from tests.frozen import index_here
from tests.frozen import revert_here as revert_small
from tests.tap.run import run as run_tap

NUMBER = {"type": ["null", "number"]}
TIME = {"type": ["null", "string"], "format": "date-time"}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def of_number(text: str) -> Hashable:
    return Decimal(text)


def of_time(text: str) -> Hashable:
    """An instant with all its digits, in seconds."""
    plain, _, rest = json.loads(text).partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    whole = times.parse(plain + rest[len(digits) :])
    assert whole is not None
    seconds = Fraction((whole - _EPOCH) // timedelta(microseconds=1), 1_000_000)
    return seconds + Fraction(int(digits or 0), 10 ** len(digits))


def of_list(text: str) -> Hashable:
    return tuple(json.loads(text, parse_float=Decimal, parse_int=Decimal))


def of_struct(text: str) -> Hashable:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal).get("a")


SNOWFLAKES = [str(1234567890123456780 + n) for n in range(20)]
NUMBERS = st.sampled_from(
    [
        *SNOWFLAKES,
        *(
            "1",
            "1.0",
            "1e0",
            "10e-1",
            "0",
            "-0",
            "-0.0",
            "0.1",
            "1e300",
            "1e301",
            "5e-324",
            "1e-400",
        ),
        *("9007199254740992", "9007199254740993", "9007199254740994"),
        *("12345678901234567890.1", "12345678901234567890.10", "1.00000000000000000001"),
        *("0.10000000000000000000001", "1.2345678901234567801e18", "1234567890123456780.10"),
    ]
)
TIMES = st.sampled_from(
    [
        json.dumps(f"2026-01-01T{hour}:00:00{fraction}{offset}")
        for hour, offset in (("00", ""), ("00", "Z"), ("01", "+01:00"), ("02", "Z"))
        for fraction in ("", ".1", ".123456", ".1234567", ".12345670", ".123456789", ".1234567891")
    ]
)
KINDS: dict[str, tuple[dict[str, Any], st.SearchStrategy[str], Callable[[str], Hashable]]] = {
    "number": (NUMBER, NUMBERS, of_number),
    "fine steps": ({**NUMBER, "multipleOf": 1e-38, "maximum": 1e38}, NUMBERS, of_number),
    "integer or number": ({"type": ["integer", "number"]}, NUMBERS, of_number),
    "time": (TIME, TIMES, of_time),
    "list": (
        {"type": "array", "items": NUMBER},
        st.lists(NUMBERS, max_size=2).map(lambda cells: f"[{', '.join(cells)}]"),
        of_list,
    ),
    "struct": (
        {"type": "object", "properties": {"a": NUMBER}},
        NUMBERS.map(lambda cell: f'{{"a": {cell}}}') | st.just("{}"),
        of_struct,
    ),
    "integer": (
        {"type": "integer"},
        st.sampled_from(["1", "1.0", "1e0", "9007199254740993", "9007199254740992"]),
        of_number,
    ),
    "decimal": (
        {"type": "number", "multipleOf": 0.01},
        st.sampled_from(["1", "1.0", "1.10", "1.1", "-0", "12345678901234567.01", "1e2"]),
        of_number,
    ),
    "string": (
        {"type": "string"},
        st.sampled_from(['"\u00e9"', '"e\u0301"', '"1"', '"1.0"', '"\\u00e9"', '""', '" "']),
        json.loads,
    ),
    "boolean": ({"type": "boolean"}, st.sampled_from(["true", "false"]), json.loads),
    "date": (
        {"type": "string", "format": "date"},
        st.sampled_from(['"2026-01-01"', '"2026-01-01T00:00:00.0000000Z"', '"2026-01-02"']),
        lambda text: json.loads(text)[:10],
    ),
}


def lake(path: Any, name: str = "lake") -> Lake:
    return Lake(LocalStore(path / name))


def table(made: Lake) -> Table:
    return made.find("tap.t")[0]


def rows(there: Table, at: TableState | None = None) -> list[dict[str, Any]]:
    return [
        row
        for batch in blocks_read.local_rows(there, at or there.snapshot())
        for row in batch.to_pylist()
    ]


@pytest.mark.usefixtures("many_cases")
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_table_has_a_row_for_each_exact_key(tmp_path_factory: Any, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([*KINDS]))
    schema, values, exactly = KINDS[kind]
    cells = data.draw(st.lists(values, min_size=1, max_size=12))
    made = lake(tmp_path_factory.mktemp("exact"))
    records: list[Any] = [f'{{"id": {cell}, "x": {n}}}' for n, cell in enumerate(cells)]
    properties = {"id": schema, "x": {"type": "integer"}}
    block_rows = data.draw(st.sampled_from([1, 3, 100]))
    commit_rows(made, "tap.t", properties, ["id"], records, block_rows=block_rows)
    newest = {exactly(cell): n for n, cell in enumerate(cells)}
    assert sorted(row["c1"] for row in rows(table(made))) == sorted(newest.values())


@pytest.mark.parametrize(
    "cells",
    [
        SNOWFLAKES,
        ["9007199254740992", "9007199254740993", "9007199254740994"],
        ["12345678901234567890.1", "12345678901234567890.2", "12345678901234567890.3"],
    ],
)
def test_column_shows_no_key_that_it_would_round(tmp_path: Any, cells: list[str]) -> None:
    made = lake(tmp_path)
    records: list[Any] = [f'{{"id": {cell}}}' for cell in cells]
    commit_rows(made, "tap.t", {"id": NUMBER}, ["id"], records)
    found = rows(table(made))
    assert len(found) == len(cells)
    for row, cell in zip(found, cells, strict=True):
        if Decimal(repr(float(cell))) == Decimal(cell):
            assert (row["c0"], row["p4"]) == (float(cell), None)
        else:
            assert row["c0"] is None
            assert cell in dict(row["p4"])[0]
    with pytest.raises(Exception, match="do not fit") as error:
        freeze_small(table(made))
    assert "decimal(38,0)" in str(error.value)


def test_rows_are_not_found_by_keys_that_their_column_rounds(tmp_path: Any) -> None:
    made = lake(tmp_path)
    records: list[Any] = [f'{{"id": {cell}}}' for cell in SNOWFLAKES]
    commit_rows(made, "tap.t", {"id": NUMBER}, ["id"], records[:10])
    commit_rows(made, "tap.t", {"id": NUMBER}, ["id"], records[10:])
    with pytest.raises(DamagedError, match=r"singerlake alter tap\.t retype id TYPE"):
        revert_small(table(made), 1)
    assert table(made).snapshot().number == 2


def test_version_of_old_rules_keeps_its_answer_and_the_head_does_not_take_it(
    tmp_path: Any,
) -> None:
    made = lake(tmp_path)
    records: list[Any] = [f'{{"id": {cell}, "x": {n}}}' for n, cell in enumerate(SNOWFLAKES)]
    properties = {"id": NUMBER, "x": {"type": "integer"}}
    head = commit_rows(made, "tap.t", properties, ["id"], records)
    plan = FreezePlan(head.by_rules(2), "old", None)
    version = commit_version(made.store, head, plan, rows=1, fingerprint="0" * 32)
    assert version.types == 2
    head = table(made).snapshot()
    assert (head.rules, head.at(1).rules, head.named("@1")[1].rules) == (RULES,) * 3
    for name in ("1", "old"):
        state = head.named(name)[1]
        assert [row["c1"] for row in rows(table(made), state)] == [19]
        assert state.earliest_equal().rules == 2
    assert len(rows(table(made))) == len(rows(table(made), head.at(1))) == 20
    one = index_here(table(made), head.named("1")[1].earliest_equal())
    assert one.marker.rows == 1
    every = index_here(table(made), head.earliest_equal())
    assert every.marker.rows == 20
    # Each has an index of its own, which the other's does not replace.
    for built, name in ((one, "1"), (every, "@1")):
        found = index.load(table(made), head.named(name)[1].earliest_equal())
        assert found is not None
        assert found.marker == built.marker
        assert all(made.store.exists(part.key) for part in found.parts)
    assert [row["id"] for row in run_tap(made, mode="rows", table_version="1").records()] == [
        int(SNOWFLAKES[-1])
    ]
    assert check_indexes(made.store, head)[0] == []
    unneeded = garbage.find(
        made.store, head, time.time() + 1, listed=made.store.list(head.table.folder)
    )
    assert (unneeded.markers, unneeded.index_files) == ([], [])
    # And it is gone with its version.
    delete_version(made.store, head, "1", "a test")
    head = table(made).snapshot()
    unneeded = garbage.find(
        made.store, head, time.time() + 1, listed=made.store.list(head.table.folder)
    )
    assert [item.key for item in unneeded.markers] == [f"{head.table.index(1, 2)}_index.json"]


def test_row_with_a_null_in_its_key_is_a_row_of_its_own(tmp_path: Any) -> None:
    made = lake(tmp_path)
    properties = {"id": {"type": ["null", "integer"]}, "n": {"type": "string"}}
    records: list[Any] = [{"id": None, "n": "x"}, {"id": None, "n": "y"}, {"id": 1, "n": "z"}]
    head = commit_rows(made, "tap.t", properties, ["id"], records)
    assert [row["c1"] for row in rows(table(made))] == ["x", "y", "z"]
    old = head.by_rules(2)
    assert [row["c1"] for row in rows(table(made), old)] == ["y", "z"]


def test_key_that_goes_from_type_to_type_loses_no_digit(tmp_path: Any) -> None:
    made = lake(tmp_path)
    records: list[Any] = [f'{{"id": {cell}}}' for cell in SNOWFLAKES]
    commit_rows(made, "tap.t", {"id": NUMBER}, ["id"], records)
    whole = {"id": {"type": ["null", "number"], "multipleOf": 1}}
    again: list[Any] = [f'{{"id": {cell}}}' for cell in SNOWFLAKES[:3]]
    commit_rows(made, "tap.t", whole, ["id"], again)
    found = [row["c0"] for row in rows(table(made))]
    assert sorted(found) == sorted(map(Decimal, SNOWFLAKES))


def test_key_made_text_has_all_its_digits(tmp_path: Any) -> None:
    made = lake(tmp_path)
    cells = [*SNOWFLAKES, "1.0", "1", "12345678901234567890.10"]
    records: list[Any] = [f'{{"id": {cell}}}' for cell in cells]
    commit_rows(made, "tap.t", {"id": NUMBER}, ["id"], records)
    retype(made.store, table(made).snapshot(), "id")
    found = [row["c0"] for row in rows(table(made))]
    assert sorted(found) == sorted([*SNOWFLAKES, "1", "12345678901234567890.1"])


def test_day_takes_no_time_of_day_however_short(tmp_path: Any) -> None:
    """It would be one key with midnight. As in a column that is no key, it reads as midnight."""
    day = {"type": "string", "format": "date"}
    late = '{"id": "2026-01-01T00:00:00.0000001Z"}'
    made = lake(tmp_path)
    commit_rows(made, "tap.t", {"id": day}, ["id"], [late, {"id": "2026-01-01"}])
    with pytest.raises(DamagedError, match="is not a valid date"):
        rows(table(made))
    commit_rows(made, "tap.u", {"id": day}, [], [late])
    assert len(rows(made.find("tap.u")[0])) == 1
    commit_rows(made, "tap.v", {"id": TIME}, ["id"], [late, '{"id": "2026-01-01T00:00:00Z"}'])
    commit_rows(made, "tap.v", {"id": day}, ["id"], [{"id": "2026-01-01"}])
    with pytest.raises(DamagedError, match="cannot become date"):
        rows(made.find("tap.v")[0])


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("1e-400", "1.0e-400"),
        ("9007199254740993", f"9007199254740993.{'0' * 401}"),
        ("1000e999996", "1e999999"),
    ],
)
def test_number_made_text_is_one_text(one: str, same: str) -> None:
    read = key_text.reader(exact(NUMBERS_TYPE))
    assert read(one.encode()) == read(same.encode())


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('"2026-01-01T00:00:00.1234567Z"', "2026-01-01T00:00:00.1234567Z"),
        ('"2026-01-01T01:00:00.12345670+01:00"', "2026-01-01T00:00:00.1234567Z"),
        ('"2026-01-01"', "2026-01-01T00:00:00.000000Z"),
        ('"never"', "never"),
    ],
)
def test_instant_made_text_is_one_text(raw: str, text: str) -> None:
    assert key_text.reader(exact(TIMESTAMP))(raw.encode()) == text


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (NUMBER, ["1234567890123456800", "0.1", "1e3"], ["1234567890123456780", "0.1e-400"]),
        (TIME, ["2026-01-01T00:00:00.120000000Z"], ["2026-01-01T00:00:00.1234567Z"]),
    ],
)
def test_key_that_a_column_would_round_is_refused_where_a_person_says_it(
    tmp_path: Any, schema: dict[str, Any], good: list[str], bad: list[str]
) -> None:
    made = lake(tmp_path)
    head = commit_rows(made, "tap.t", {"id": schema}, ["id"], [{"id": None}])
    for text in good:
        check_key(head, {"id": text})
    for text in bad:
        with pytest.raises(UsageError, match="would round"):
            check_key(head, {"id": text})
