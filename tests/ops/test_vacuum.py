"""A vacuum is refused before it begins, or done to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from singerlake import extras
from singerlake.errors import RuntimeMissingError, UsageError
from singerlake.lake import Lake, Table
from singerlake.maintenance.vacuum import COMBINE, DELETE, DROP_HISTORY, VacuumOptions
from singerlake.ops.engines import ENGINES, LOCAL, EngineChoice
from singerlake.ops.vacuum import vacuum
from tests.build import commit_rows

ROOT = Path(__file__).parents[2]
EXPIRING = VacuumOptions(retain_seconds=0, parts=(DROP_HISTORY, DELETE), guard=False)
COMPACTING = VacuumOptions(retain_seconds=0, parts=(COMBINE, DELETE), guard=False)


@pytest.fixture
def table(lake: Lake) -> Table:
    for number in range(3):
        commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}, {"id": number}])
    return lake.find("tap.s")[0]


def test_expiry_is_refused_before_anything_is_announced(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="history can only be expired by Spark"):
        vacuum(table, EXPIRING, EngineChoice(LOCAL))
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(RuntimeMissingError, match="this vacuum needs pyspark"):
        vacuum(table, EXPIRING)
    assert table.snapshot().number == 3


@pytest.mark.parametrize("name", ENGINES)
def test_deleting_needs_no_pyspark(
    table: Table, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    vacuum(table, VacuumOptions(retain_seconds=0, parts=(COMBINE,), guard=False))
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    deleting = VacuumOptions(retain_seconds=0, parts=(DELETE,), guard=False)
    assert vacuum(table, deleting, EngineChoice(name)).files_deleted >= 3


@pytest.mark.usefixtures("processes")
def test_compaction_needs_no_pyspark(table: Table) -> None:
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from singerlake import Lake\n"
        f"table = Lake.open({table.store.uri!r})['tap.s']\n"
        "done = table.vacuum(engine='local')\n"
        "print(done.files_in, done.files_out)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("3 1\n", 0), done.stderr


def test_compaction_in_this_process(table: Table) -> None:
    done = vacuum(table, COMPACTING, EngineChoice(LOCAL))
    assert (done.files_in, done.files_out) == (3, 1)
