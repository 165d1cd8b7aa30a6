"""A log entry ``change`` that carries a version: folded, checked, and found again by a rebuild."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.lake import Lake, Table
from singerlake.log.commit import commit, draft_entry
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_checkpoint
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.verify.plan import check_log
from tests.build import commit_rows

ID: dict[str, Any] = {"id": {"type": "integer"}}


def change(present: TableState, *, frozen: bool, means: int | None = None) -> Entry:
    return draft_entry(
        present.table,
        Operation.CHANGE,
        schema_hash=present.schema_hash,
        version=version(present, means or present.number + 1) if frozen else None,
    )


def version(present: TableState, transaction: int) -> FrozenVersion:
    return FrozenVersion(
        number=len(present.frozen) + 1,
        transaction=transaction,
        schema_hash=present.schema_hash,
        rows=1,
        fingerprint="lt1:" + "0" * 64,
        record_fingerprint="lt1:" + "0" * 64,
        types=2,
    )


def table_with(lake: Lake, *operations: str) -> Table:
    """Changes with a version and without one, and freezes of what is there."""
    snapshot = commit_rows(lake, "tap.s", ID, ["id"], [{"id": 1}])
    table = lake.find("tap.s")[0]
    for operation in operations:

        def draft(present: TableState, operation: str = operation) -> Entry:
            if operation == "freeze":
                made = version(present, present.number)
                return draft_entry(present.table, Operation.FREEZE, version=made)
            return change(present, frozen=operation == "frozen change")

        snapshot = commit(lake.store, snapshot, draft)
    update_checkpoint(lake.store, snapshot, always=True)
    return table


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        (["frozen change", "change", "freeze"], [2, 3]),
        (["change", "freeze", "frozen change", "freeze"], [2, 4, 4]),
    ],
)
def test_a_rebuild_gives_each_version_back_to_its_transaction(
    lake: Lake, operations: list[str], expected: list[int]
) -> None:
    table = table_with(lake, *operations)
    before = list(table.entries())
    assert [one.transaction for one in table.snapshot().frozen] == expected
    for entry in before:
        lake.store.delete(table.name.transaction(entry.number))
    rebuild_table(lake.store, table.name)
    after = list(table.entries())
    assert [one.version for one in after] == [one.version for one in before]


@pytest.mark.parametrize("means", [None, 1])
def test_a_change_freezes_what_it_leaves_and_nothing_else(lake: Lake, means: int | None) -> None:
    table = table_with(lake)
    commit(lake.store, table.snapshot(), lambda p: change(p, frozen=True, means=means))
    problems = check_log(lake.store, table.name).problems
    assert [one.expected for one in problems] == ["version 1 of this transaction"] * (means == 1)
