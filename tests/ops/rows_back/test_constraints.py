"""Rows that come back are held against the constraints of now by DuckDB as by Spark."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import SingerlakeError, UsageError, ViolationsError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.ops.revert import RevertOptions, revert
from singerlake.ops.undo import UndoOptions, undo
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import alter
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
}
CHECK = Constraint("check", ["n"], sql="`n` > 0")
ONCE = Constraint("unique", ["s"])
GONE = "2026-01-01T00:00:00Z"


def say(table: Table, change: Any) -> None:
    alter(table.store, table.snapshot(), change)


def constrain(table: Table, **asked: Constraint) -> None:
    for name, one in asked.items():
        say(table, partial(says.with_constraint, name=name, constraint=one))


def table_of(lake: Lake, keys: list[str]) -> Table:
    """Transactions 1 to 3: rows, others, and one without a row that has the text of another."""
    rows: list[Any] = [{"id": 1, "n": -1, "s": "a"}, {"id": 2, "n": 2, "s": "b"}]
    commit_rows(lake, NAME, COLUMNS, keys, [*rows, {"id": 3, "n": 3, "s": "c"}])
    commit_rows(lake, NAME, COLUMNS, keys, [{"id": 1, "n": 1, "s": "x"}, {"id": 4, "s": "a"}])
    commit_rows(lake, NAME, COLUMNS, keys, [{"id": 2, "n": 5, "s": "y"}])
    return lake.find(NAME)[0]


def outcome(table: Table, what: str, choice: EngineChoice, **options: Any) -> Any:
    try:
        if what.startswith("revert"):
            back = revert(table, RevertOptions(1, **options), choice)
            done, number = (back.put_back, back.deleted, back.violations), back.transaction
        else:
            numbers = [int(one) for one in what.split()[1:]]
            undone = undo(table, UndoOptions(numbers, **options), choice)
            done, number = (undone.put_back, undone.deleted, undone.violations), undone.transaction
    except SingerlakeError as error:
        return type(error), str(error)
    assert number is not None
    return done, written_untimed(table, number), sorted(map(str, here.rows(table)))


@pytest.mark.parametrize(
    ("keys", "what", "altered"),
    [
        (["id"], "undo 2", False),
        pytest.param(["id"], "revert", False, marks=MORE),
        pytest.param(["id"], "revert", True, marks=MORE),
        pytest.param(["id"], "undo 2", True, marks=MORE),
        pytest.param(["id"], "undo 3", False, marks=MORE),
        pytest.param(["id"], "undo 2 3", False, marks=MORE),
        pytest.param([], "revert", False, marks=MORE),
        pytest.param([], "undo 2", False, marks=MORE),
        pytest.param(["id", "n"], "undo 2", False, marks=MORE),
    ],
)
@pytest.mark.usefixtures("each_operation")
def test_both_engines_bring_the_same_back(
    spark: SparkSession, lake: Lake, tmp_path: Path, keys: list[str], what: str, altered: bool
) -> None:
    table = table_of(lake, keys)
    constrain(table, positive=CHECK, once=ONCE, there=Constraint("not-null", ["s"]))
    if altered:
        say(table, partial(says.with_name, name="s", new="t"))
        say(table, partial(says.with_column, name="more", schema={"type": ["null", "string"]}))
    for options in ({}, {"allow_violations": True}):
        found = []
        for number, choice in enumerate((HERE, EngineChoice.of(spark=spark))):
            to = tmp_path / f"{number}{len(options)}"
            copy = Lake.open(str(shutil.copytree(lake.store.uri, to))).find(NAME)[0]
            found.append(outcome(copy, what, choice, **options))
        assert found[0] == found[1], options


def test_rows_that_come_back_are_named(lake: Lake, engine: EngineChoice) -> None:
    table = table_of(lake, ["id"])
    constrain(table, positive=CHECK, once=ONCE)
    kind, text = outcome(table, "undo 2", engine)
    assert kind is ViolationsError
    assert text.splitlines()[1:3] == ["  1 row breaks positive (`n` > 0):", "    id 1, n -1"]
    kind, text = outcome(table, "revert", engine)
    assert (kind, "id 1, n -1" in text) == (ViolationsError, True)
    back = outcome(table, "undo 2", engine, allow_violations=True)
    assert back[0] == (1, 1, ["positive"])


def test_all_rows_are_unique_together(lake: Lake, engine: EngineChoice) -> None:
    commit_rows(lake, NAME, COLUMNS, ["id"], [{"id": 1, "s": "a"}, {"id": 2, "s": "b"}])
    commit_rows(lake, NAME, COLUMNS, ["id"], [{"id": 1, "s": "x"}])
    commit_rows(lake, NAME, COLUMNS, ["id"], [{"id": 3, "s": "a"}, {"id": 4, "s": "q"}])
    table = lake.find(NAME)[0]
    constrain(table, once=ONCE)
    kind, text = outcome(table, "undo 2", engine)
    assert (kind, "    s a: 2 rows" in text.splitlines()) == (ViolationsError, True)
    assert outcome(table, "undo 2 3", engine)[0] == (1, 2, [])


def test_other_constraints_are_sparks(lake: Lake) -> None:
    def started() -> NoReturn:
        raise UsageError("Java starts")

    table = table_of(lake, ["id"])
    constrain(table, long=Constraint("check", ["s"], sql="length(`s`) > 0"))
    for what in ("revert", "undo 3"):
        words = "the function length() in the constraint long of tap.s can only be checked by Spark"
        assert outcome(table, what, HERE)[1].startswith(words)
        assert outcome(table, what, EngineChoice(start=started)) == (UsageError, "Java starts")


def test_commands_need_no_java(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singerlake_cli.shared.begin_spark", None)
    constrain(table_of(lake, ["id"]), once=ONCE)
    assert run(lake, "undo", NAME, "3").exit_code == 0
    assert run(lake, "revert", NAME, "--to-transaction", "1").exit_code == 0
