"""A vacuum's plan is of the table as it was: one that lost its lock may have moved blocks since.

The model found it (``CheckUnmovedSincePlan`` in ``model/History.tla``). A vacuum that was taken for
dead had looked at its lock, slept, and committed what it had written, after the next had made
its plan and before that one was announced. The second's moves then named blocks that were gone,
and the table could not be read any more.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.errors import ConflictError
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.combine import commit_combine, write_group
from singerlake.ops.vacuum.drop_history import plan_drop_history
from singerlake.ops.vacuum.plan import COMBINE, DELETE, VacuumOptions, VacuumPlan, plan_vacuum
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.ops.vacuum.plain_table import cutoff_at, drop, states
from tests.ops.vacuum.test_combine import combine

NAME = TableName("tap", "s")
AT_ONCE = VacuumOptions(
    retain_seconds=0,
    guard=False,
    lease_wait_seconds=0,
    lock_wait_seconds=0,
    parts=(COMBINE, DELETE),
)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = Lake(LocalStore(tmp_path / "lake"))
    for n in range(4):
        commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": n % 2}])
    return lake.table(NAME)


def go_on(table: Table, plan: VacuumPlan) -> None:
    """As the job does from the announcement to the combined files."""
    after, _ = vacuum.announce(table.store, plan, AT_ONCE, "second")
    written = [(group, write_group(table.store, NAME, group)) for group in plan.combine]
    commit_combine(table.store, after, written, writer_id="second")


def test_history_that_was_dropped_since_the_plan(table: Table) -> None:
    plan = plan_vacuum(table.store, table.snapshot(), AT_ONCE)
    before = table.snapshot()
    dropped = plan_drop_history(before, cutoff_at(before, before.number))
    assert dropped is not None
    drop(table, before, dropped)
    promised = states(table, table.snapshot())
    with pytest.raises(ConflictError, match="drop-history"):
        go_on(table, plan)
    assert states(table, table.snapshot()) == promised


def test_files_that_were_combined_since_the_plan(table: Table) -> None:
    """Nothing would be lost, but each block would be copied once more, and nothing announced."""
    plan = plan_vacuum(table.store, table.snapshot(), AT_ONCE)
    assert combine(table, AT_ONCE.target_file_bytes) is not None
    number = table.snapshot().number
    with pytest.raises(ConflictError, match="combine"):
        go_on(table, plan)
    assert table.snapshot().number == number
