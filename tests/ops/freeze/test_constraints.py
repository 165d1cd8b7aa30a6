"""Constraints are checked by a freeze, on DuckDB as on Spark: the same rows, counts and words."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from singerlake import extras
from singerlake.engine.choice import LOCAL, SPARK, EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import RuntimeMissingError, UsageError, ViolationsError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.overlay import overlay_changes
from singerlake.overlay.alter import alter
from singerlake.sql.local import duck
from singerlake.sql.local.outside import OutsideError
from tests.build import commit_rows
from tests.cli.call import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "tap.s"
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "n": {"type": ["null", "integer"]},
    "s": {"type": ["null", "string"]},
}
ASKED = {
    "positive": Constraint("check", ["n"], sql="`n` > 0"),
    "once": Constraint("unique", ["s"]),
    "there": Constraint("not-null", ["s"]),
    "listed": Constraint("enum", ["s"], ["a", "b", "c"]),
    "kept": Constraint("range", ["id"], minimum=0),
}
ANYWAY = FreezeOptions(allow_violations=True, again=True)
MESSAGE = """rows of tap.s at transaction 7 do not keep its constraints, and nothing was frozen:
  2 rows break positive (`n` > 0):
    id 2, n -1
    id 3, n 0
  1 row breaks there (s not null):
    id 4, s null
  2 rows break once (s unique):
    s a: 2 rows
correct these rows, drop the constraint (singerlake alter), or freeze them all the same with \
--allow-violations, which marks the version"""


def constrain(table: Table, name: str, one: Constraint) -> None:
    change = partial(overlay_changes.with_constraint, name=name, constraint=one)
    alter(table.store, table.snapshot(), change)


@pytest.fixture
def table(lake: Lake) -> Table:
    rows: list[Any] = [{"id": 1, "n": 1, "s": "a"}, {"id": 2, "n": -1, "s": "a"}]
    rows += [{"id": 3, "n": 0, "s": "b"}, {"id": 4, "n": None, "s": None}]
    commit_rows(lake, NAME, COLUMNS, ["id"], rows)
    commit_rows(lake, NAME, COLUMNS, ["id"], [{"id": 5, "n": 5, "s": "c"}])
    table = lake.find(NAME)[0]
    for name, one in ASKED.items():
        constrain(table, name, one)
    return table


def test_violations_are_named_and_counted(table: Table, engine: EngineChoice) -> None:
    with pytest.raises(ViolationsError) as error:
        freeze(table, None, engine)
    assert str(error.value) == MESSAGE
    assert not table.snapshot().frozen
    done = freeze(table, ANYWAY, engine)
    assert done.version.violations == ["positive", "there", "once"]


@pytest.mark.usefixtures("each_operation")
def test_both_engines_freeze_alike(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    found: list[Any] = []
    for name, choice in ((LOCAL, EngineChoice(LOCAL)), (SPARK, EngineChoice.of(spark=spark))):
        copy = Lake.open(str(shutil.copytree(table.store.uri, tmp_path / name))).find(NAME)[0]
        with pytest.raises(ViolationsError) as error:
            freeze(copy, None, choice)
        version = freeze(copy, ANYWAY, choice).version
        found.append((str(error.value), version.violations, version.fingerprint))
    assert found[0] == found[1]
    assert found[0][0] == MESSAGE


def test_rows_that_keep_constraints_are_frozen_without_java(
    lake: Lake, no_java: EngineChoice
) -> None:
    commit_rows(lake, NAME, COLUMNS, ["id"], [{"id": 1, "n": 1, "s": "a"}])
    table = lake.find(NAME)[0]
    for name, one in ASKED.items():
        constrain(table, name, one)
    done = freeze(table, None, no_java)
    assert (done.version.number, done.version.violations) == (1, [])
    for args in (["--all"], [NAME, "--label", "x"]):
        assert run(lake, "freeze", *args, "--engine", "local").exit_code == 0


def test_other_constraints_are_sparks(table: Table, no_java: EngineChoice) -> None:
    constrain(table, "long", Constraint("check", ["s"], sql="length(`s`) = 1"))
    words = r"the function length\(\) in the constraint long of tap\.s can only be checked by Spark"
    with pytest.raises(UsageError, match=words):
        freeze(table, None, EngineChoice(LOCAL))
    with pytest.raises(UsageError, match="Java starts"):
        freeze(table, None, no_java)


def test_engines_are_chosen_as_for_any_freeze(
    table: Table, no_java: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    for choice in (EngineChoice(SPARK, no_java.start), EngineChoice("auto", no_java.start, Work())):
        with pytest.raises(UsageError, match="Java starts"):
            freeze(table, None, choice)
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(RuntimeMissingError, match=r"a constraint with the engine local needs"):
        freeze(table, None, EngineChoice(LOCAL))
    with pytest.raises(RuntimeMissingError, match="freezing a version needs pyspark"):
        freeze(table, None, EngineChoice())


def test_what_duckdb_gives_up_is_sparks(
    table: Table, no_java: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> NoReturn:
        raise OutsideError("more memory")

    monkeypatch.setattr(duck, "answered", refused)
    with pytest.raises(UsageError, match="checking constraints with more memory needs Spark"):
        freeze(table, None, EngineChoice(LOCAL))
    with pytest.raises(UsageError, match="Java starts"):
        freeze(table, None, no_java)
