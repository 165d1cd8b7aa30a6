"""What may be committed between the planning of a revert and its commit."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.errors import ConflictError, UsageError
from singerlake.lake import Lake, Table
from singerlake.ops.freeze import commit_version
from singerlake.ops.freeze import plan as plan_freeze
from singerlake.ops.rows_back.revert_plan import commit_revert, kept, plan
from tests.build import commit_rows, retype

PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "amount": {"type": "number"}}


@pytest.fixture
def table(lake: Lake) -> Table:
    for number in (1, 2):
        commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": number, "amount": 1.5}])
    return lake.find("tap.s")[0]


def test_what_changes_no_row_does_not_stop_it(table: Table) -> None:
    wanted = plan(table.store, table.snapshot(), 1)
    commit_version(
        table.store, table.snapshot(), plan_freeze(table.snapshot()), rows=2, fingerprint="lt1:"
    )
    retype(table.store, table.snapshot(), "amount")
    after = commit_revert(table.store, wanted, [], {}, writer_id="w", metrics={}, metadata={})
    assert [one.operation for one in after.transactions[2:]] == ["freeze", "alter", "revert"]
    assert after.retyped == {"amount"}, "what a person said stays"


def test_new_rows_stop_it(lake: Lake, table: Table) -> None:
    wanted = plan(table.store, table.snapshot(), 1)
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [{"id": 3, "amount": 1}])
    with pytest.raises(ConflictError, match=r"transaction 3\) changed tap.s in the meantime"):
        commit_revert(table.store, wanted, [], {}, writer_id="w", metrics={}, metadata={})
    assert table.snapshot().number == 3


def test_if_transaction_is_checked_before_and_at_the_commit(table: Table) -> None:
    head = table.snapshot()
    with pytest.raises(ConflictError, match="at transaction 2, not 1 any more"):
        plan(table.store, head, 1, if_transaction=1)
    wanted = plan(table.store, head, 1, if_transaction=2)
    commit_version(table.store, head, plan_freeze(head), rows=2, fingerprint="lt1:")
    with pytest.raises(ConflictError, match="at transaction 3, not 2 any more"):
        commit_revert(table.store, wanted, [], {}, writer_id="w", metrics={}, metadata={})
    assert table.snapshot().number == 3


@pytest.mark.parametrize("name", ["by", "comment", "reverted_to", "violations", "misfits"])
def test_metadata_that_a_revert_writes_is_refused(name: str) -> None:
    assert kept({"ticket": "7"}, None) == {"ticket": "7"}
    assert kept({"ticket": "7"}, "why") == {"ticket": "7", "comment": "why"}
    with pytest.raises(UsageError, match=f"'{name}' is written by Singerlake itself"):
        kept({name: "x"}, None)
