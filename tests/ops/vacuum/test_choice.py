"""A vacuum is refused before it begins, or done to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from singerlake import extras
from singerlake.engine.choice import ENGINES, LOCAL, SPARK, EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import RuntimeMissingError
from singerlake.lake import Lake, Table
from singerlake.ops.vacuum import expire
from singerlake.ops.vacuum.drop_history import plan_drop_history
from singerlake.ops.vacuum.plan import COMBINE, DELETE, DROP_HISTORY, VacuumOptions
from singerlake.ops.vacuum.vacuum import vacuum
from tests.build import commit_rows
from tests.ops.vacuum.plain_table import freeze

ROOT = Path(__file__).parents[3]
EXPIRING = VacuumOptions(retain_seconds=0, parts=(DROP_HISTORY, DELETE), guard=False)
COMPACTING = VacuumOptions(retain_seconds=0, parts=(COMBINE, DELETE), guard=False)


@pytest.fixture
def table(lake: Lake) -> Table:
    for number in range(3):
        commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}, {"id": number}])
    return lake.find("tap.s")[0]


@pytest.mark.parametrize("options", [EXPIRING, COMPACTING], ids=["expiring", "compacting"])
def test_spark_is_asked_for_before_anything_is_announced(
    table: Table, monkeypatch: pytest.MonkeyPatch, options: VacuumOptions
) -> None:
    started: list[tuple[int, bool]] = []

    def start() -> NoReturn:
        locked = table.store.exists(table.name.vacuum_lock)
        started.append((table.snapshot().number, locked))
        raise RuntimeMissingError("there is no Java")

    with pytest.raises(RuntimeMissingError, match="there is no Java"):
        vacuum(table, options, EngineChoice(limit=Work(), start=start))
    with pytest.raises(RuntimeMissingError, match="there is no Java"):
        vacuum(table, options, EngineChoice(SPARK, start))
    assert started == [(3, False)] * 2
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(RuntimeMissingError, match="this vacuum needs pyspark"):
        vacuum(table, options, EngineChoice(SPARK, start))
    assert not table.store.exists(table.name.vacuum_lock)
    assert table.snapshot().number == 3


def test_each_version_that_is_read_again_counts(table: Table) -> None:
    head = table.snapshot()
    plan = plan_drop_history(head, float("inf"))
    assert plan is not None
    whole = sum(block.bytes for block in head.blocks)
    assert expire.work_of(head, plan) == Work(whole, 6)
    freeze(table, 2)
    plan = plan_drop_history(head := table.snapshot(), float("inf"))
    assert plan is not None
    until_version = sum(block.bytes for block in head.blocks[:2])
    assert expire.work_of(head, plan) == Work(whole + until_version, 6)


@pytest.mark.parametrize("name", ENGINES)
def test_deleting_needs_no_pyspark(
    table: Table, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    vacuum(table, VacuumOptions(retain_seconds=0, parts=(COMBINE,), guard=False))
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    deleting = VacuumOptions(retain_seconds=0, parts=(DELETE,), guard=False)
    assert vacuum(table, deleting, EngineChoice(name)).files_deleted >= 3


@pytest.mark.usefixtures("processes")
def test_small_tables_need_no_pyspark(table: Table) -> None:
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from singerlake.lake import Lake\n"
        "from singerlake.ops.vacuum.plan import PARTS, VacuumOptions\n"
        "from singerlake.ops.vacuum.vacuum import vacuum\n"
        f"table = Lake.open({table.store.uri!r}).find('tap.s')[0]\n"
        "done = vacuum(table, VacuumOptions(retain_seconds=0, parts=PARTS, guard=False))\n"
        "print(done.rows_dropped, done.files_deleted)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("3 3\n", 0), done.stderr


def test_compaction_in_this_process(table: Table) -> None:
    done = vacuum(table, COMPACTING, EngineChoice(LOCAL))
    assert (done.files_in, done.files_out) == (3, 1)
