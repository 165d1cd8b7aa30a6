"""Deleting a version: what is told of it, what it no longer keeps, and what survives any loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ConflictError, NotFoundError, UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log import conflicts, versions
from singerlake.log.checkpoint import write_checkpoint
from singerlake.log.table_state import TableState
from singerlake.ops.delete_version import delete_version
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.vacuum import drop_history
from singerlake.ops.verify.plan import check_log
from singerlake.overlay.alter import AlterOptions
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.ops.vacuum.plain_table import cutoff_at, drop, events, freeze
from tests.tap.run import run as run_tap

NAME = TableName("tap", "s")
BASE: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": "integer"}}
WHY = "rows of a customer who left"


@pytest.fixture
def table(lake: Lake) -> Table:
    """Transactions 1 to 3 each replace the one row; 4 and 5 freeze the first two as versions."""
    for n in range(1, 4):
        commit_rows(lake, "tap.s", BASE, ["id"], [{"id": 1, "n": n}])
    table = lake.table(NAME)
    freeze(table, 1)
    freeze(table, 2)
    return table


def delete(table: Table, number: int) -> TableState:
    delete_version(table.store, table.snapshot(), str(number), WHY)
    return table.snapshot()


def sweep(table: Table, floor: int) -> None:
    """Drop the history before a transaction."""
    before = table.snapshot()
    plan = drop_history.plan_drop_history(before, cutoff_at(before, floor))
    if plan is not None:
        drop(table, before, plan)


def kept(table: Table) -> list[int]:
    return [event.record["n"] for event in events(table, table.snapshot())]


def test_a_deleted_version_is_told_by_whoever_asks_for_it(table: Table, lake: Lake) -> None:
    done = run_json(lake, "versions", "tap.s", "--delete", "2", "--reason", WHY)
    assert (done["transaction"], done["version"]["number"], done["reason"]) == (6, 2, WHY)
    assert done["becomes_history"] is True
    says = f"version 2 of tap.s was deleted by {done['by']} on 20"
    for args in (
        ["diff", "tap.s", "2"],
        ["show", "tap.s.2"],
        ["data-files", "tap.s.2"],
        ["revert", "tap.s", "--to", "2"],
        ["copy", lake.store.uri, f"{lake.store.uri}-copy", "tap.s.2"],
        ["versions", "tap.s.2"],
        ["versions", "tap.s", "--delete", "2", "--reason", "again"],
    ):
        result = run(lake, *args)
        assert (result.exit_code, result.stdout) == (3, ""), args
        assert says in result.stderr and f"(transaction 6): {WHY}" in result.stderr, args
    with pytest.raises(NotFoundError, match=WHY):
        run_tap(lake, table_version="2")
    shown = run(lake, "versions", "tap.s").stdout
    assert f"deleted: {WHY}" in shown and says in shown
    listed = run_json(lake, "versions", "tap.s")
    assert [one["deleted"] and one["deleted"]["reason"] for one in listed] == [None, WHY]
    assert f"deleted version 2: {WHY}" in run(lake, "history", "tap.s").stdout
    assert run_json(lake, "history", "tap.s")[0]["deletion"]["version"] == 2
    freeze(table, 2)
    assert table.snapshot().frozen[-1].number == 3  # never again 2


def test_what_is_asked_wrongly(table: Table, lake: Lake) -> None:
    for args, code in (
        (["tap.s", "--delete", "2"], 2),
        (["tap.s", "--reason", "x"], 2),
        (["tap.s.2", "--delete", "2", "--reason", "x"], 2),
        (["tap.s", "--delete", "9", "--reason", "x"], 3),
        (["tap.s", "--delete", "", "--reason", "x"], 2),
        (["tap.s", "--delete", "2", "--reason", " "], 2),
        (["tap.s", "--delete", "2", "--reason", "a\nb"], 2),
    ):
        assert run(lake, "versions", *args).exit_code == code, args
    would = run(lake, "versions", "tap.s", "--delete", "2", "--reason", "x", "--dry-run")
    assert "would be deleted" in would.stdout and "would be history" in would.stdout
    assert table.snapshot().number == 5


def test_two_at_once_delete_it_once(table: Table) -> None:
    seen = table.snapshot()
    delete_version(table.store, seen, "2", WHY)
    with pytest.raises(ConflictError, match="deleted by another process in the meantime"):
        delete_version(table.store, seen, "2", "me too")
    freeze(table, 3)  # a freeze in between is no conflict
    delete_version(table.store, seen, "1", WHY)
    assert [v.number for v in table.snapshot().frozen] == [3]


def test_a_label_may_be_used_again(lake: Lake, table: Table) -> None:
    from singerlake.ops import freeze as freezing

    def label(at: int) -> None:
        head = table.snapshot()
        wanted = freezing.plan(head, at=at, label="monday")
        freezing.commit_version(lake.store, head, wanted, rows=0, fingerprint="0" * 32)

    label(3)
    delete_version(lake.store, table.snapshot(), "monday", WHY)
    with pytest.raises(NotFoundError, match=r"version 3 \(monday\) of tap.s was deleted"):
        table.snapshot().version("monday")
    label(3)
    assert table.snapshot().version("monday").number == 4


def test_what_it_alone_protected_goes_once_the_deletion_is_history(table: Table) -> None:
    commit_rows(Lake.open(table.store.uri), "tap.s", BASE, ["id"], [{"id": 1, "n": 4}])
    sweep(table, 6)
    assert kept(table) == [1, 2, 4]  # two versions and the head
    deleted = delete(table, 1).number
    after = commit_rows(Lake.open(table.store.uri), "tap.s", BASE, ["id"], [{"id": 1, "n": 5}])
    sweep(table, deleted - 1)
    assert table.snapshot().readable(1), "the retention of the deletion is not over"
    freeze(table, 1)  # until then its state can be frozen again
    assert delete(table, 3).number > after.number
    sweep(table, table.snapshot().number)
    assert kept(table) == [2, 5]
    assert not table.snapshot().readable(1) and table.snapshot().readable(2)
    assert check_log(table.store, NAME).problems == []


def test_a_deletion_between_a_plan_and_its_commit_keeps_the_rows(table: Table) -> None:
    before = table.snapshot()
    plan = drop_history.plan_drop_history(before, cutoff_at(before, 5))
    assert plan is not None
    freeze(table, 3)
    deleted = delete(table, 2)
    assert [v.number for v in versions.deleted_since(deleted, plan.floor)] == [2]
    drop(table, before, plan)
    assert kept(table) == [1, 2, 3]
    assert table.snapshot().readable(2)
    # One that was frozen and deleted in between would have needed what went.
    planned = {before.summary(number).last_block for number in plan.protected} - {2}
    with pytest.raises(ConflictError, match="version 2 of tap.s was frozen in the meantime"):
        conflicts.check_versions_kept(deleted, planned, plan.floor)


@pytest.mark.parametrize("lost", ["log", "manifest", "the entry"])
def test_it_stays_deleted_whatever_is_lost(table: Table, lost: str, lake: Lake) -> None:
    head = delete(table, 2)
    write_checkpoint(table.store, head)
    folder = Path(lake.store.uri) / NAME.folder
    gone = {
        "log": [*(folder / "transactions").iterdir()],
        "manifest": [folder / "manifest.json"],
        "the entry": [folder / "transactions" / "000000000006.json"],
    }
    for path in gone[lost]:
        path.unlink()
    rebuild_table(lake.store, NAME)
    (folder / "manifest.json").unlink()
    again = table.snapshot()
    assert (again.frozen, again.deleted_versions) == (head.frozen, head.deleted_versions)
    assert check_log(lake.store, NAME).problems == []


def test_it_stays_deleted_when_its_table_comes_back(table: Table) -> None:
    head = delete(table, 2)
    drop_table(table.store, head, AlterOptions(), with_versions=True)
    dropped = table.snapshot(dropped=True)
    assert (list(dropped.deleted_versions), dropped.last_version) == ([], 2)
    undrop_table(table.store, dropped, AlterOptions())
    again = table.snapshot()
    assert (again.frozen, again.deleted_versions) == (head.frozen, head.deleted_versions)
    with pytest.raises(NotFoundError, match="was deleted"):
        again.version("2")


@pytest.mark.parametrize("swept", [True, False])
def test_a_copy_of_another_version_knows_that_it_went(
    table: Table, lake: Lake, swept: bool
) -> None:
    commit_rows(lake, "tap.s", BASE, ["id"], [{"id": 1, "n": 4}])
    freeze(table, 6)
    delete(table, 1)
    if swept:
        sweep(table, table.snapshot().number)
    backup = f"{lake.store.uri}-copy"
    copied = run(lake, "copy", lake.store.uri, backup, "tap.s.3")
    assert copied.exit_code == 0, copied.output
    there = Lake.open(backup).find("tap.s")[0]
    assert [v.number for v in there.snapshot().frozen] == [2, 3]
    with pytest.raises(NotFoundError, match="version 1 of tap.s was deleted"):
        there.snapshot().version("1")
    assert there.snapshot().readable(1) is not swept
    assert [there.snapshot().readable(n) for n in (2, 6)] == [True, True]
    assert check_log(there.store, NAME).problems == []


def test_from_python(table: Table) -> None:
    import singerlake

    orders = singerlake.open(table.store.uri)["tap.s"]
    assert orders.delete_version(2, reason=WHY).transaction == 6
    with pytest.raises(UsageError, match="the reason is empty"):
        orders.delete_version(1, reason="")
