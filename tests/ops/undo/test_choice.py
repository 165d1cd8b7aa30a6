"""This process undoes transactions of small tables, and Spark if SQL has to be asked."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

import singerlake
from singerlake.engine import choice as engines
from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import ConflictError, UsageError
from singerlake.lake import Lake, Table
from singerlake.log.lease import leases
from singerlake.ops.undo import UndoOptions, undo
from singerlake_cli import shared
from tests.cli.call import run, run_json
from tests.ops.rows_back import histories
from tests.ops.rows_back.histories import NAME

ROOT = Path(__file__).parents[3]
LAST = UndoOptions([4])


@pytest.fixture
def table(lake: Lake) -> Table:
    return histories.random_messages(lake, 1, ["id"])


def test_blocks_since_and_the_state_before_count(table: Table, no_java: EngineChoice) -> None:
    bytes_ = sum(block.bytes for block in table.snapshot().blocks)
    with pytest.raises(UsageError, match="Java starts"):
        undo(table, LAST, replace(no_java, limit=Work(bytes_ - 1, 10_000)))
    done = undo(table, LAST, replace(no_java, limit=Work(bytes_, 10_000)))
    assert done.transaction == 5
    assert not [*leases(table.store, table.name)]


def test_what_is_refused_starts_no_java(table: Table, no_java: EngineChoice) -> None:
    nothing = replace(no_java, limit=Work())
    with pytest.raises(ConflictError):
        undo(table, replace(LAST, if_transaction=2), nothing)
    with pytest.raises(UsageError, match="name the transactions"):
        undo(table, UndoOptions([]), nothing)


def test_command_starts_no_java_for_a_small_table(
    lake: Lake, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> NoReturn:
        raise UsageError("Java starts")

    monkeypatch.setattr(shared, "begin_spark", started)
    monkeypatch.setattr(shared, "start_spark", started)
    for more in (["--master", "local[1]"], ["--conf", "spark.x=y"], ["--engine", "spark"]):
        assert "Java starts" in run(lake, "undo", NAME, "4", *more).stderr
    with monkeypatch.context() as patch:
        patch.setattr(engines, "SMALL", Work(100, 1_000))
        assert "Java starts" in run(lake, "undo", NAME, "4").stderr
    both = ("--engine", "local", "--master", "local[1]")
    assert "leave them out, or --engine local" in run(lake, "undo", NAME, "4", *both).stderr
    done = run_json(lake, "undo", NAME, "4", "--comment", "x")
    assert done["transaction"] == 5
    assert done["put_back"] + done["deleted"] > 0


def test_program_starts_no_java_for_a_small_table(
    lake: Lake, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> NoReturn:
        raise UsageError("Java starts")

    monkeypatch.setattr(EngineChoice, "spark_engine", started)
    own = singerlake.Lake.open(lake.store.uri).table(NAME)
    assert own.undo(4, comment="x").transaction == 5
    for how in ({"engine": "spark"}, {"spark": SimpleNamespace()}):
        with pytest.raises(UsageError, match="Java starts"):
            own.undo(5, **how)  # type: ignore[arg-type]
    monkeypatch.setattr(engines, "SMALL", Work())
    with pytest.raises(UsageError, match="Java starts"):
        own.undo(5)
    assert singerlake.open(lake.store.uri, engine="local").table(NAME).undo(5).transaction == 6


@pytest.mark.usefixtures("processes")
def test_undo_needs_no_pyspark(table: Table) -> None:
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from singerlake import Lake\n"
        f"table = Lake.open({table.store.uri!r})[{NAME!r}]\n"
        "print(table.undo(4).transaction)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("5\n", 0), done.stderr
