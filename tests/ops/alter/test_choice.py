"""This process alters small tables, and Spark where SQL has to be asked."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from singerlake.engine import choice as engines
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import ConflictError, UsageError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.log.lease import leases
from singerlake.ops.alter.alter import alter
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions
from singerlake_cli import shared
from tests.build import commit_rows
from tests.cli.call import run, run_json

ROOT = Path(__file__).parents[3]
NAME = "tap.s"
COLUMNS: dict[str, Any] = {"id": {"type": "integer"}, "code": {"type": ["null", "string"]}}
BY_CODE = partial(says.with_key, names=["code"])
NOT_NULL = partial(
    says.with_constraint, name="codes", constraint=Constraint(kind="not-null", columns=["code"])
)


@pytest.fixture
def table(lake: Lake) -> Table:
    commit_rows(lake, NAME, COLUMNS, ["id"], [{"id": 1, "code": "1"}, {"id": 2, "code": "2"}])
    return lake.find(NAME)[0]


def test_size_of_the_table_counts(table: Table, no_java: EngineChoice) -> None:
    bytes_ = sum(block.bytes for block in table.snapshot().blocks)
    for options in (AlterOptions(), AlterOptions(new_version=True)):
        with pytest.raises(UsageError, match="Java starts"):
            alter(table, BY_CODE, options, replace(no_java, limit=Work(bytes_ - 1, 1_000)))
    done = alter(table, BY_CODE, None, replace(no_java, limit=Work(bytes_, 1_000)))
    assert (done.transaction, done.rows) == (2, None)
    assert not [*leases(table.store, table.name)]


def test_constraints_are_checked_in_this_process(table: Table, no_java: EngineChoice) -> None:
    assert alter(table, NOT_NULL, AlterOptions(dry_run=True), EngineChoice(LOCAL)).changes
    long = Constraint("check", ["code"], sql="length(`code`) > 0")
    other = partial(says.with_constraint, name="long", constraint=long)
    words = r"the function length\(\) in the constraint long of tap\.s can only be checked by Spark"
    for options in (AlterOptions(), AlterOptions(new_version=True)):
        with pytest.raises(UsageError, match="Java starts"):
            alter(table, other, options, no_java)
        with pytest.raises(UsageError, match=words):
            alter(table, other, options, EngineChoice(LOCAL))
    assert alter(table, NOT_NULL, AlterOptions(new_version=True), no_java).transaction == 2


def test_what_needs_no_row_starts_no_java(table: Table, no_java: EngineChoice) -> None:
    nothing = replace(no_java, limit=Work())
    rename = partial(says.with_name, name="code", new="mark")
    assert alter(table, rename, None, nothing).transaction == 2
    with pytest.raises(ConflictError):
        alter(table, BY_CODE, AlterOptions(if_transaction=1), nothing)
    same = partial(says.with_key, names=["id"])
    assert alter(table, same, None, nothing).transaction in (None, 3)


def test_command_starts_no_java_for_a_small_table(
    lake: Lake, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> NoReturn:
        raise UsageError("Java starts")

    monkeypatch.setattr(shared, "begin_spark", started)
    monkeypatch.setattr(shared, "start_spark", started)
    keyed = ("alter", NAME, "set-key", "code")
    for more in (["--master", "local[1]"], ["--engine", "spark"]):
        assert "Java starts" in run(lake, *keyed, *more).stderr
    with monkeypatch.context() as patch:
        patch.setattr(engines, "SMALL", Work(100, 1_000))
        assert "Java starts" in run(lake, *keyed).stderr
        assert run_json(lake, *keyed, "--engine", "local", "--dry-run")["rows"] is None
    check = ("alter", NAME, "add-constraint", "c", "--check")
    assert "Java starts" in run(lake, *check, "length(code) > 0").stderr
    refused = run(lake, *check, "length(code) > 0", "--engine", "local")
    assert "a constraint with the function length() needs Spark" in refused.stderr
    kept = run_json(lake, *check, "code is not null", "--dry-run")
    assert kept["changes"] == ["constraint c: `code` is not null"]
    assert run_json(lake, *keyed, "--new-version")["version"]["rows"] == 2
    retyped = run_json(lake, "alter", NAME, "retype", "id", "integer", "--allow-type-mismatches")
    assert retyped["transaction"] in (None, 3)


@pytest.mark.usefixtures("processes")
def test_alter_needs_no_pyspark(table: Table) -> None:
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from singerlake_cli.main import main\n"
        f"main(['--lake', {table.store.uri!r}, 'alter', {NAME!r}, *sys.argv[1:]])\n"
    )
    for said in (["set-key", "code"], ["retype", "id", "decimal(4,0)", "--new-version"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *said],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert table.snapshot().frozen[-1].rows == 2
