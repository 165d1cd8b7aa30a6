"""What an ``erase`` in the log makes of versions, and whom it stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from singerlake.errors import ConflictError, DamagedError
from singerlake.format import log as format_log
from singerlake.format.log import Entry, Operation
from singerlake.format.names import TableName
from singerlake.format.version_notes import ErasedVersion, Erasure
from singerlake.lake import Lake, Table
from singerlake.log.checkpoint import write_checkpoint
from singerlake.log.commit import commit, draft_entry
from singerlake.log.log import refresh
from singerlake.log.table_state import TableState
from singerlake.ops.delete_version import delete_version
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.verify.plan import check_log
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.ops.vacuum.plain_table import freeze

NAME = TableName("tap", "s")
BASE: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": "integer"}}
WHY = Erasure("request 4711", "ada", keys=1, lines=1)
LEFT = [ErasedVersion(version=n, rows_before=2, rows=1, fingerprint="e" * 32) for n in (1, 2)]


@pytest.fixture
def table(lake: Lake) -> Table:
    """Two transactions, a version of each, the second deleted; 6 is another, 7 announces."""
    for n in (1, 2):
        commit_rows(lake, "tap.s", BASE, ["id"], [{"id": 1, "n": n}, {"id": 2, "n": n}])
    table = lake.table(NAME)
    freeze(table, 1)
    freeze(table, 2)
    delete_version(table.store, table.snapshot(), "2", "wrong")
    freeze(table, 2)

    def announcement(present: TableState) -> Entry:
        return draft_entry(present.table, Operation.ERASE_START, erasure=WHY)

    commit(table.store, table.snapshot(), announcement)
    return table


def erase(table: Table, **content: Any) -> TableState:
    def draft(present: TableState) -> Entry:
        said = {"erasure": WHY, "erased": LEFT, **content}
        return draft_entry(present.table, Operation.ERASE, **said)

    return write_checkpoint(table.store, commit(table.store, table.snapshot(), draft))


def told(snapshot: TableState) -> list[tuple[int, int, str, int, int]]:
    every = [*snapshot.frozen, *snapshot.deleted_versions]
    return [
        (v.number, v.rows, v.fingerprint[0], note.rows_before, note.transaction)
        for v in every
        for note in v.erased
    ]


def test_versions_are_what_the_erasure_left(table: Table) -> None:
    """From the entry, from the log alone, and from the manifest alone."""
    after = erase(table)
    expected = [(1, 1, "e", 2, 8), (2, 1, "e", 2, 8)]
    assert told(after) == told(table.snapshot()) == expected
    assert [v.rows for v in after.frozen] == [1, 0], "the third had no such row"
    assert after.erased_at == after.at(1).erased_at == table.snapshot().erased_at == 8
    table.store.delete(NAME.manifest)
    assert told(table.snapshot()) == expected
    assert table.snapshot().erased_at == 8


def test_a_second_erasure_is_told_beside_the_first(table: Table) -> None:
    erase(table)
    again = [ErasedVersion(version=1, rows_before=1, rows=0, fingerprint="f" * 32)]
    after = erase(table, erased=again)
    assert told(after)[:2] == [(1, 0, "f", 2, 8), (1, 0, "f", 1, 9)]
    (frozen, _) = after.frozen
    assert [note.reason for note in frozen.erased] == ["request 4711"] * 2


@pytest.mark.parametrize("lost", [(3,), (8,), (3, 4, 5, 6, 7, 8), (9,)])
def test_lost_entries_are_written_again(table: Table, lost: tuple[int, ...]) -> None:
    erase(table)
    erase(table, erased=[ErasedVersion(version=1, rows_before=1, rows=0, fingerprint="f" * 32)])
    before = table.snapshot()
    for number in lost:
        table.store.delete(NAME.transaction(number))
    rebuild_table(table.store, NAME)
    checked = check_log(table.store, NAME)
    assert not checked.problems
    table.store.delete(NAME.manifest)
    after = table.snapshot()
    assert (after.frozen, after.erased_at) == (before.frozen, 9)
    assert told(after) == told(before)


def test_an_entry_makes_no_version_that_was_erased_from(table: Table) -> None:
    version = erase(table).frozen[0]
    entry = Entry(
        format=2,
        number=1,
        commit="c",
        operation="freeze",
        stream="s",
        time="",
        version=version,
    )
    _, data = format_log.seal_entry(entry)
    with pytest.raises(DamagedError, match="erased from, pointed to or signed already"):
        format_log.decode_entry(data, 1, "it")


@pytest.mark.parametrize("operation", [*Operation])
def test_who_read_rows_before_commits_nothing_after(table: Table, operation: Operation) -> None:
    before = table.snapshot()
    erase(table)
    reads_none = {
        *("sync", "create", "adopt", "drop", "undrop", "delete-version", "point"),
        *("vacuum-start", "vacuum", "erase-start", "block-keys"),
    }

    def draft(present: TableState) -> Entry:
        return draft_entry(present.table, operation)

    commits: Callable[[], object] = lambda: commit(table.store, before, draft)  # noqa: E731
    if operation.value in reads_none:
        commits()
        assert refresh(table.store, before).number == 9
        return
    with pytest.raises(ConflictError, match=r"erased in the meantime \(transaction 8\)"):
        commits()


def test_a_freeze_that_read_before_an_erasure_makes_no_version(table: Table) -> None:
    from singerlake.ops import freeze as freezing

    head = table.snapshot()
    wanted = freezing.plan(head, at=2)
    erase(table)
    with pytest.raises(ConflictError, match="erased in the meantime"):
        freezing.commit_version(table.store, head, wanted, rows=2, fingerprint="0" * 32)
    assert len(table.snapshot().frozen) == 2


def test_versions_tell_of_it(table: Table, lake: Lake) -> None:
    erase(table)
    shown = " ".join(run(lake, "versions", "tap.s").stdout.split())
    assert "rows of version 1 were erased by ada on 20" in shown
    assert "(transaction 8): request 4711; it had 2 until then, and 1 after" in shown
    (first, *_) = run_json(lake, "versions", "tap.s")
    assert (first["rows"], first["erased"][0]["rows_before"]) == (1, 2)
