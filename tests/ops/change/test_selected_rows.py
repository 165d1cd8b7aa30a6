"""Rows that a condition selects are changed alike on both engines, and in this process first."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake import extras
from singerlake.engine.choice import LOCAL, SPARK, EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import (
    InvalidQueryError,
    RejectedRowsError,
    RuntimeMissingError,
    SingerlakeError,
    UsageError,
)
from singerlake.lake import Lake, Table
from singerlake.ops.change.job import Changed
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.change.selected_rows import SelectedRows, change_selected
from singerlake.ops.update import UpdateOptions, update
from tests.build import commit_rows, retype
from tests.cli.call import run, run_json
from tests.histories import here
from tests.needs import MORE
from tests.ops.rows_back.written import written_untimed

NAME = "tap.s"
HERE = EngineChoice(LOCAL)
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "d": {"type": ["null", "number"], "multipleOf": 0.01},
    "x": {"type": ["null", "number"]},
    "s": {"type": ["null", "string"]},
    "b": {"type": ["null", "boolean"]},
    "a b`c": {"type": ["null", "string"]},
    "_row_id": {"type": ["null", "string"]},
}
ROWS: list[Any] = [
    {"id": 1, "at": "2026-01-01T00:00:00.000001Z", "d": 1.5, "x": 0.5, "s": "a", "b": True},
    {"id": 2, "at": "2026-01-02T00:00:00+02:00", "d": -1.25, "x": -0.0, "s": None, "b": None},
    {
        "id": 3,
        "at": "0001-01-01T00:00:00Z",
        "d": 1.5,
        "x": None,
        "s": "b",
        "b": False,
        "more": 1.50,
    },
    {"id": 4, "at": "2026-01-01T00:00:00Z", "d": 0, "x": 1e300, "s": "a", "a b`c": "q"},
    {"id": 4, "at": "2026-01-03T00:00:00Z", "d": 0, "x": 1e300, "s": "a", "a b`c": "q"},
]
KEYS = {"key": ["id"], "three": ["a b`c", "at", "d"], "double": ["x"], "none": []}
CONDITIONS = [
    "s = 'a'",
    "not s = 'a' -- nor null",
    "b",
    "d = 1.5 or b is null and x > 0",
    "`a b``c` like 'q%' and at < '2026-01-02'",
    "s.id in (1, 3) and tap.s.x is not null",
    "__row_version = 1 and __transaction <> 2",
    "id > 99",
]


def lake_of(lake: Lake, keys: list[str]) -> Table:
    rows = [{**row, "a b`c": row.get("a b`c", "z")} for row in ROWS]
    commit_rows(lake, NAME, COLUMNS, keys, [*rows[:3], *rows[:1]])
    commit_rows(lake, NAME, COLUMNS, keys, [*rows[3:], {**rows[1], "b": True}])
    return lake.find(NAME)[0]


def outcome(
    table: Table,
    mode: Mode,
    where: str | None,
    choice: EngineChoice,
    values: dict[str, str] | None = None,
) -> Any:
    values = values or ({"s": "'new'", "b": "null"} if mode is Mode.UPDATE else {})
    try:
        done = change_selected(Lake(table.store), table, mode, where, values, choice=choice)
    except SingerlakeError as error:
        return type(error), str(error)
    if done.transaction is None:
        return done, None
    return done, written_untimed(table, done.transaction)


@pytest.mark.parametrize(
    ("keys", "most"),
    [("key", 3), *(pytest.param(one, len(CONDITIONS), marks=MORE) for one in KEYS)],
)
@pytest.mark.usefixtures("each_operation")
def test_both_engines_change_the_same_rows(
    spark: SparkSession, lake: Lake, keys: str, most: int, tmp_path: Path
) -> None:
    lake_of(lake, KEYS[keys])
    changed = 0
    for number, where in enumerate(CONDITIONS[:most]):
        for mode in (Mode.DELETE, Mode.UPDATE):
            found = []
            for name, choice in (("here", HERE), ("spark", EngineChoice.of(spark=spark))):
                to = tmp_path / f"{number}-{mode}-{name}"
                copy = Lake.open(str(shutil.copytree(lake.store.uri, to)))
                found.append(outcome(copy.find(NAME)[0], mode, where, choice))
            assert found[0] == found[1], (where, mode)
            if isinstance(found[0][0], Changed):
                changed += found[0][0].deleted + found[0][0].updated
            else:  # the row with a null in its key
                assert (keys, found[0][0]) == ("double", RejectedRowsError)
    assert changed > most


SETS: list[tuple[dict[str, str], str | None]] = [
    ({"s": "concat(upper(s), ' was ', `a b``c`)", "d": "d * 2 - 0.5", "b": "null"}, "id > 1"),
    ({"d": "d + d", "x": "coalesce(x, 1)"}, None),
    ({"s": "case when b then 'yes' when x > 0 then s end -- or null", "b": "d > 0 or b"}, "d < 9"),
    ({"b": "coalesce(b, __transaction = 2)", "s": "__row_id"}, "id = 2"),
    ({"s": "nope"}, None),
]


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize(
    ("keys", "number"),
    [
        ("key", 0),
        *(pytest.param(k, n, marks=MORE) for k in ("key", "none") for n in range(len(SETS))),
    ],
)
def test_both_engines_set_the_same_values(
    spark: SparkSession, lake: Lake, keys: str, number: int, tmp_path: Path
) -> None:
    lake_of(lake, KEYS[keys])
    values, where = SETS[number]
    found = []
    for name, choice in (("here", HERE), ("spark", EngineChoice.of(spark=spark))):
        copy = Lake.open(str(shutil.copytree(lake.store.uri, tmp_path / name)))
        found.append(outcome(copy.find(NAME)[0], Mode.UPDATE, where, choice, values))
    assert found[0] == found[1]
    assert isinstance(found[0][0], Changed) == (values != SETS[-1][0])


def test_computed_values_need_no_java(lake: Lake, no_java: EngineChoice) -> None:
    table = lake_of(lake, ["id"])
    done = update(lake, table, UpdateOptions({"d": "d * 2", "s": "'x'"}, where="id < 3"), no_java)
    assert done.updated == 2
    assert update(lake, table, UpdateOptions({"x": "coalesce(x, 7)"}), no_java).updated == 1
    found = {row["id"]: row for row in here.rows(table)}
    assert [found[n]["d"] for n in (1, 2, 3)] == [
        Decimal("3.00"),
        Decimal("-2.50"),
        Decimal("1.50"),
    ]
    assert (found[1]["s"], found[3]["x"]) == ("x", 7.0)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"d": "d + id"}, r"decimal\(38,2\) \+ bigint"),
        ({"d": "id + 1"}, r"bigint as a new value of decimal\(38,2\)"),
        ({"s": "1) as a, (s"}, "something else than a value"),
        ({"s": "s) as a from tap.s where (b"}, "needs Spark"),
        ({"s": "max(s)"}, "a column that is neither in GROUP BY"),
        ({"s": "(select max(s) from tap.s)"}, "needs Spark"),
        ({"s": "upper(concat(s, 'é'))"}, "beyond ASCII"),
    ],
)
def test_other_values_are_sparks(
    lake: Lake, no_java: EngineChoice, values: dict[str, str], words: str
) -> None:
    table = lake_of(lake, ["id"])
    with pytest.raises(UsageError, match=words):
        change_selected(lake, table, Mode.UPDATE, "id = 1", values, choice=HERE)
    with pytest.raises(UsageError, match="Java starts"):
        change_selected(lake, table, Mode.UPDATE, "id = 1", values, choice=no_java)
    assert table.snapshot().number == 2


def test_a_column_that_gets_another_type_meanwhile_is_left_to_spark(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake_of(lake, ["id"])
    row_set = SelectedRows.row_set

    def late(self: SelectedRows, engine: Any, present: Any, source: str) -> Any:
        retype(lake.store, table.snapshot(), "x")  # as text
        return row_set(self, engine, table.snapshot(), source)

    monkeypatch.setattr(SelectedRows, "row_set", late)
    with pytest.raises(UsageError, match="a choice between|needs Spark"):
        change_selected(lake, table, Mode.UPDATE, "id = 1", {"x": "coalesce(x, 1)"}, choice=HERE)


@pytest.mark.parametrize("keys", KEYS)
def test_rows_are_changed_in_this_process(lake: Lake, no_java: EngineChoice, keys: str) -> None:
    table = lake_of(lake, KEYS[keys])
    before = here.rows(table)
    dry = ChangeOptions(dry_run=True)
    asked = change_selected(lake, table, Mode.DELETE, "s = 'a'", options=dry, choice=no_java)
    done = change_selected(lake, table, Mode.DELETE, "s = 'a'", choice=no_java)
    gone = [row for row in before if row["s"] == "a"]
    assert len(gone) == asked.deleted == done.deleted
    assert here.rows(table) == [row for row in before if row["s"] != "a"]
    values = {"d": "2.5"} if keys != "three" else {"x": "2.5"}
    done = change_selected(lake, table, Mode.UPDATE, "b is null", values, choice=no_java)
    assert done.updated == sum(row["s"] != "a" and row["b"] is None for row in before)


def test_three_valued_logic_selects_what_is_true(lake: Lake) -> None:
    table = lake_of(lake, ["id"])
    for where, count in (("s = 'a' or s <> 'a'", 3), ("not b", 1), ("b is null", 1)):
        dry = ChangeOptions(dry_run=True)
        done = change_selected(lake, table, Mode.DELETE, where, options=dry, choice=HERE)
        assert done.deleted == count, where


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("upper(s) = 'A'", r"a condition on the function upper\(\) needs Spark: use the engine"),
        ("true) or (true", "a change with something else than a condition"),
        ("id = 1) group by (id", "a change with something else than a condition"),
        ("id = 1) order by (id", "a change with something else than a condition"),
        ("id in (select id from tap.s)", "needs Spark"),
        ("count(*) > 1", "an aggregate in WHERE"),
        ("id = 1; select 1", "needs Spark"),
        ("id notnull", "a change with notnull after id"),
        ("no_column notnull", "a change with notnull after no_column"),
        ("id in (1,)", r"a change with \) after ,"),
        ("id = 1 /*+ x */", "a change with a hint"),
        ("s", "string as a condition"),
        ("", "needs Spark"),
    ],
)
def test_other_conditions_are_sparks(
    lake: Lake, no_java: EngineChoice, where: str, words: str
) -> None:
    table = lake_of(lake, ["id"])
    for mode, values in ((Mode.DELETE, {}), (Mode.UPDATE, {"s": "'x'"})):
        with pytest.raises(UsageError, match=words):
            change_selected(lake, table, mode, where, values, choice=HERE)
        with pytest.raises(UsageError, match="Java starts"):
            change_selected(lake, table, mode, where, values, choice=no_java)
    assert table.snapshot().number == 2


def test_engines_are_chosen_as_for_a_query(lake: Lake, no_java: EngineChoice) -> None:
    table = lake_of(lake, ["id"])
    spark = EngineChoice(SPARK, start=no_java.start)
    large = EngineChoice(start=no_java.start, limit=Work())
    for choice in (spark, large):
        with pytest.raises(UsageError, match="Java starts"):
            change_selected(lake, table, Mode.DELETE, "id = 1", choice=choice)
    with pytest.raises(UsageError, match="a change with the sign / needs Spark"):
        change_selected(lake, table, Mode.UPDATE, "id = 1", {"d": "d / 1"}, choice=HERE)
    with pytest.raises(InvalidQueryError, match="there is no column `idd`: did you mean id of"):
        change_selected(lake, table, Mode.DELETE, "idd = 1", choice=no_java)
    with pytest.raises(UsageError, match="is part of the key of"):
        change_selected(lake, table, Mode.UPDATE, "id = 1", {"id": "1"}, choice=no_java)


def test_values_that_do_not_fit_are_sparks(lake: Lake, no_java: EngineChoice) -> None:
    commit_rows(lake, NAME, COLUMNS, ["id"], [{"id": 1, "d": "n/a"}])
    table = lake.find(NAME)[0]
    words = "the column d, which has values that do not fit its type"
    with pytest.raises(UsageError, match=words):
        change_selected(lake, table, Mode.DELETE, "d = 1", choice=HERE)
    with pytest.raises(UsageError, match="Java starts"):
        change_selected(lake, table, Mode.DELETE, "d = 1", choice=no_java)
    assert change_selected(lake, table, Mode.DELETE, "id = 1", choice=no_java).deleted == 1


def test_rows_with_a_null_in_their_key_are_refused(lake: Lake) -> None:
    keys = ["id", "s"]
    commit_rows(lake, NAME, COLUMNS, keys, [{"id": 1, "s": None}, {"id": 2, "s": "a"}])
    table = lake.find(NAME)[0]
    with pytest.raises(RejectedRowsError, match="is null in a row of the table"):
        change_selected(lake, table, Mode.DELETE, "id > 0", choice=HERE)
    assert change_selected(lake, table, Mode.DELETE, "s is not null", choice=HERE).deleted == 1


def test_what_is_missing_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake_of(lake, ["id"])
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(RuntimeMissingError, match=r"engine local needs duckdb.*singerlake\[sql\]"):
        change_selected(lake, table, Mode.DELETE, "id = 1", choice=HERE)
    with pytest.raises(RuntimeMissingError, match=r"pyspark.*simple SQL needs less.*\[sql\]"):
        change_selected(lake, table, Mode.DELETE, "id = 1")


def test_rows_changed_in_between_are_selected_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake_of(lake, ["id"])
    asked: list[int] = []
    row_set = SelectedRows.row_set

    def late(self: SelectedRows, engine: Any, present: Any, source: str) -> Any:
        found = row_set(self, engine, present, source)
        if not asked:
            commit_rows(lake, NAME, COLUMNS, ["id"], [{**ROWS[0], "b": False}])
        asked.append(present.number)
        return found

    monkeypatch.setattr(SelectedRows, "row_set", late)
    done = change_selected(lake, table, Mode.DELETE, "b", choice=HERE)
    assert (asked, done.deleted) == ([2, 3], 1)
    assert [row["id"] for row in here.rows(table)] == [3, 4, 1]


def test_commands_need_no_java(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singerlake_cli.shared.begin_spark", None)
    lake_of(lake, ["id"])
    sets = ("--set", "d = 7, b = true", "--where", "s = 'b' or id = 2")
    assert run_json(lake, "update", NAME, *sets)["updated"] == 2
    assert run_json(lake, "delete", NAME, "--where", "d = 7")["deleted"] == 2
    refused = run(lake, "delete", NAME, "--where", "id + 1 = 2", "--engine", "local")
    assert (
        refused.exit_code,
        "a change with ADD as a side of a comparison needs" in refused.stderr,
    ) == (
        2,
        True,
    )
