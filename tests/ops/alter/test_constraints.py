"""New constraints, types and defaults are held against rows by DuckDB as by Spark."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import SingerlakeError, ViolationsError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.ops.alter.alter import alter
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.needs import MORE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "tap.s"
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "code": {"type": ["null", "string"]},
    "n": {"type": ["null", "integer"]},
}
ROWS: list[Any] = [
    {"id": 1, "code": "1", "n": 5},
    {"id": 2, "code": "01", "n": None},
    {"id": 3, "code": None, "n": 5},
]
UNIQUE = Constraint("unique", ["code"])
EVEN = Constraint("check", ["n"], sql="`n` in (5, 6)")


def adding(name: str, one: Constraint) -> Any:
    return partial(says.with_constraint, name=name, constraint=one)


CHANGES: dict[str, Any] = {
    "null": adding("c", Constraint("not-null", ["code", "n"])),
    "check": adding("c", Constraint("check", ["n", "id"], sql="`n` > 5 or `id` = 2")),
    "unique": adding("c", Constraint("unique", ["n"])),
    "pattern": adding("c", Constraint("pattern", ["code"], pattern="^.$")),
    "kept": adding("c", Constraint("check", ["id"], sql="`id` < 4")),
    "retyped": partial(says.with_type, name="code", schema={"type": ["null", "integer"]}),
    "default": partial(says.with_default, name="n", default=7),
}


@pytest.fixture
def table(lake: Lake) -> Table:
    commit_rows(lake, NAME, COLUMNS, ["id"], ROWS)
    table = lake.find(NAME)[0]
    for name, one in (("once", UNIQUE), ("even", EVEN)):
        alter(table, adding(name, one), None, EngineChoice(LOCAL))
    return table


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "check" else MORE) for name in CHANGES]
)
@pytest.mark.usefixtures("each_operation")
def test_both_engines_refuse_alike(spark: SparkSession, table: Table, name: str) -> None:
    found = []
    for choice in (EngineChoice(LOCAL), EngineChoice.of(spark=spark)):
        try:
            done = alter(table, CHANGES[name], AlterOptions(dry_run=True), choice)
        except SingerlakeError as error:
            found.append((type(error), str(error)))
        else:
            found.append((Any, str(done)))
    assert found[0] == found[1]
    assert (found[0][0] is Any) == (name == "kept"), found


def test_rows_that_break_a_new_constraint_are_named(table: Table) -> None:
    with pytest.raises(ViolationsError) as error:
        alter(table, CHANGES["check"], None, EngineChoice(LOCAL))
    assert str(error.value).splitlines()[1:] == [
        "  2 rows break c (`n` > 5 or `id` = 2):",
        "    id 1, n 5",
        "    id 3, n 5",
        "correct these rows first, or relax the constraint",
    ]


def test_command_needs_no_java(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singerlake_cli.shared.begin_spark", None)
    lake = Lake(table.store)
    add = ("alter", NAME, "add-constraint")
    done = run_json(lake, *add, "few", "--check", "id < 4 or n is null")
    assert done["changes"] == ["constraint few: `id` < 4 or `n` is null"]
    assert run(lake, *add, "all", "--not-null", "id").exit_code == 0
    refused = run(lake, *add, "two", "--unique", "n")
    assert (refused.exit_code, "n 5: 2 rows" in refused.stderr) == (5, True)
