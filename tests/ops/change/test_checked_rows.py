"""What a change leaves is held against constraints by DuckDB as by Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import RejectedRowsError, SingerlakeError, UsageError, ViolationsError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.change.rows_after import LocalChecks
from singerlake.ops.change.table_change import TableChange
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import alter
from singerlake.sql.local.outside import OutsideError
from tests.build import commit_rows
from tests.cli.call import run
from tests.histories import here
from tests.needs import MORE
from tests.ops.rows_back.written import written_untimed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "tap.s"
HERE = EngineChoice(LOCAL)
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "n": {"type": ["null", "integer"]},
    "s": {"type": ["null", "string"]},
    "d": {"type": ["null", "number"], "multipleOf": 0.01},
    "obj": {"type": ["null", "object"], "properties": {"a": {"type": "integer"}}},
    "at": {"type": ["null", "string"], "format": "date-time"},
}
ROWS: list[Any] = [
    {"id": 1, "n": 1, "s": "a", "d": 1.5, "obj": {"a": 1}, "at": "2026-01-01T00:00:00Z"},
    {"id": 2, "n": -1, "s": "b", "d": 0},
    {"id": 3, "n": 0, "s": "c", "at": "2026-01-01T00:00:00.5Z"},
    {"id": 4, "n": None, "s": None},
    {"id": 5, "n": 5, "s": None},
]
POSITIVE = Constraint("check", ["n"], sql="`n` > -2")
ONCE = Constraint("unique", ["s"])
Steps = Callable[[TableChange], None]


def _say(change: TableChange, name: str, one: Constraint) -> None:
    change._say(partial(says.with_constraint, name=name, constraint=one))


def _steps(change: TableChange) -> None:
    change.delete([1])
    change.insert([{"id": 1, "s": "x"}, {"id": 11, "s": "x", "n": -9}])
    change.update([{"id": 2, "n": -7}])


def _default(change: TableChange) -> None:
    change.add_column("e", {"type": ["null", "integer"]}, default=7, initial=0)
    _say(change, "small", Constraint("check", ["e", "n"], sql="`e` < 8 and `n` < 6"))
    change.upsert([{"id": 5, "n": 6}, {"id": 6, "e": 8}, {"id": 8}])


def _bad_default(change: TableChange) -> None:
    change.set_default("n", 3)
    _say(change, "odd", Constraint("check", ["n"], sql="`n` > 3"))


def _keyed(change: TableChange) -> None:
    change.set_key("id", "n")
    change.update([{"id": 1, "n": 1, "s": "b"}])


CHANGES: dict[str, Steps] = {
    "inserted": lambda c: c.insert([{"id": 7, "n": -2, "s": "a"}, {"id": 8, "n": -3, "s": "z"}]),
    "updated": lambda c: c.update([{"id": 1, "s": "b"}, {"id": 2, "n": -5}, {"id": 3, "d": 2}]),
    "swapped": lambda c: c.update([{"id": 1, "s": "b"}, {"id": 2, "s": "a"}]),
    "kept": lambda c: c.upsert([{"id": 1, "n": 1, "s": "new"}, {"id": 9, "n": None}]),
    "nulls": lambda c: c.upsert([{"id": 1, "n": None, "s": None, "obj": None}]),
    "deleted": lambda c: c.delete([1, 2]),
    "replaced": lambda c: c.replace([{"id": 1, "s": "q"}, {"id": 2, "s": "q", "n": -2}]),
    "steps": _steps,
    "default": _default,
    "bad default": _bad_default,
    "key": _keyed,
    "new": lambda c: _say(c, "c", Constraint("check", ["id"], sql="`id` < 4")),
    "new unique": lambda c: _say(c, "c", Constraint("unique", ["n"])),
    "time": lambda c: _say(c, "c", Constraint("check", ["at"], sql="`at` < '2026-01-01'")),
    "version": lambda c: c.update([{"id": 1, "n": 2}]),
}


def constrained(lake: Lake, keys: list[str]) -> Table:
    commit_rows(lake, NAME, COLUMNS, keys, ROWS[:3])
    commit_rows(lake, NAME, COLUMNS, keys, ROWS[3:])
    table = lake.find(NAME)[0]
    for name, one in (("positive", POSITIVE), ("once", ONCE)):
        change = partial(says.with_constraint, name=name, constraint=one)
        alter(table.store, table.snapshot(), change)
    return table


def outcome(table: Table, steps: Steps, choice: EngineChoice, **options: Any) -> Any:
    change = TableChange(table, ChangeOptions(**options), choice)
    try:
        with change:
            steps(change)
    except SingerlakeError as error:
        problems = getattr(error, "problems", None)
        return type(error), str(error), problems
    assert change.result is not None
    if change.result.transaction is None:
        return change.result, here.rows(table)
    text = written_untimed(table, change.result.transaction)
    return (change.result.inserted, change.result.updated), text, here.rows(table)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "updated" else MORE) for name in CHANGES]
)
@pytest.mark.usefixtures("each_operation")
def test_both_engines_leave_the_same(
    spark: SparkSession, lake: Lake, name: str, tmp_path: Path
) -> None:
    constrained(lake, ["id"])
    options: dict[str, Any] = {"new_version": True} if name == "version" else {}
    found = []
    for number, choice in enumerate((HERE, EngineChoice.of(spark=spark))):
        to = tmp_path / str(number)
        copy = Lake.open(str(shutil.copytree(lake.store.uri, to))).find(NAME)[0]
        found.append(outcome(copy, CHANGES[name], choice, **options))
    assert found[0] == found[1]


def test_rows_of_a_change_that_break_constraints_are_named(
    lake: Lake, engine: EngineChoice
) -> None:
    table = constrained(lake, ["id"])
    kind, text, problems = outcome(table, CHANGES["updated"], engine)
    assert kind is ViolationsError
    assert text.splitlines() == [
        "rows of tap.s would violate a constraint; nothing was changed:",
        "  2 rows break once (s unique):",
        "    s b: 2 rows",
        "  1 row breaks positive (`n` > -2):",
        "    id 2, n -5",
        "give these rows other values, or drop the constraint first",
    ]
    assert list(map(str, problems.first)) == [
        "step 1, line 1, column 's': 'b' would be in 2 rows, and must be unique",
        "step 1, line 2, column 's': 'b' would be in 2 rows, and must be unique",
        "step 1, line 2, column 'n': '-5' breaks positive (`n` > -2)",
    ]
    assert table.snapshot().number == 4


def test_rows_of_a_table_without_a_key_are_checked(lake: Lake, engine: EngineChoice) -> None:
    table = constrained(lake, [])

    def insert(change: TableChange) -> None:
        change.upsert([{"id": 9, "s": "a"}, {"_row_id": "1:1", "n": -2}])

    kind, text, problems = outcome(table, insert, engine)
    assert (kind, "s a: 2 rows" in text, "row 1:1, n -2" in text) == (ViolationsError, True, True)
    assert problems.total == 2
    keeps = outcome(table, lambda c: c.upsert([{"_row_id": "1:1", "n": 7, "s": "z"}]), engine)
    assert keeps[0] == (0, 1)
    assert [(row["n"], row["s"]) for row in here.rows(table) if row["id"] == 2] == [(7, "z")]


def test_commands_need_no_java(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singerlake_cli.shared.begin_spark", None)
    constrained(lake, ["id"])
    (tmp_path / "rows.csv").write_text("id,s\n7,a\n8,b\n")
    refused = run(lake, "upload", NAME, str(tmp_path / "rows.csv"))
    assert refused.exit_code == 5, refused.stderr
    assert "  4 rows break once (s unique):\n    s a: 2 rows\n" in refused.stderr
    for args in (["update", NAME, "--set", "n = 3", "--where", "id = 1"],
                 ["delete", NAME, "--key", "2", "--new-version"]):  # fmt: skip
        done = run(lake, *args)
        assert done.exit_code == 0, done.stderr


def test_what_duckdb_gives_up_is_sparks(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = constrained(lake, ["id"])

    def refused(*_: object, **__: object) -> NoReturn:
        raise OutsideError("more memory")

    def started() -> NoReturn:
        raise UsageError("Java starts")

    monkeypatch.setattr(LocalChecks, "violations", refused)
    for choice, words in (
        (HERE, "a change with more memory needs Spark: use the engine auto or spark"),
        (EngineChoice(start=started), "Java starts"),
    ):
        kind, text, _ = outcome(table, CHANGES["kept"], choice)
        assert (kind, text) == (UsageError, words)
    assert table.snapshot().number == 4


def test_other_constraints_are_sparks(lake: Lake) -> None:
    table = constrained(lake, ["id"])
    long = Constraint("check", ["s"], sql="length(`s`) = 1")
    alter(table.store, table.snapshot(), partial(says.with_constraint, name="c", constraint=long))
    kind, text, _ = outcome(table, CHANGES["kept"], HERE)
    assert kind is UsageError
    assert text.startswith("the function length() in the constraint c of tap.s can only be")


def test_a_rejected_row_is_named_before_constraints(lake: Lake) -> None:
    table = constrained(lake, ["id"])
    kind, *_ = outcome(table, lambda c: c.update([{"id": 77, "s": "a"}]), HERE)
    assert kind is RejectedRowsError
