"""Which files a vacuum deletes: those that no state needs, told by lists, and announced before."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path

import pytest

from singerlake.errors import ConflictError, DamagedError, InputError
from singerlake.files.contents import Contents
from singerlake.format import block as format_block
from singerlake.format import file_paths
from singerlake.format.log import Entry, Operation
from singerlake.lake import Lake, Table
from singerlake.log import log
from singerlake.log.commit import commit, draft_entry
from singerlake.log.staging import StagedTable, replace_block
from singerlake.log.table_state import TableState
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.vacuum import plan as vacuum
from singerlake.overlay.alter import AlterOptions
from tests.files.photos import (
    AT_ONCE,
    NAME,
    clean,
    finish,
    forget,
    listed,
    lists,
    stored,
    sync,
    table_of,
)
from tests.ops.vacuum.plain_table import freeze


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Three syncs: one photo that goes, one that stays, one that comes."""
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode())
    sync("lake", {1: "a", 2: "b"})
    sync("lake", {1: "b"})
    sync("lake", {1: "c"})
    return table_of("lake")


def test_files_of_dropped_history_go_with_a_later_vacuum(table: Table) -> None:
    before = stored(table.store)
    assert len(before) == 3
    clean(table)
    assert stored(table.store) == before
    forget(table)
    needed = listed(table)
    assert len(needed) == 2
    clean(table)
    assert stored(table.store) == needed
    clean(table)
    assert {path.split("/")[1] for path in lists(table.store)} == {"lists"}
    whole = log.read_whole(table.store, NAME, table.snapshot().number)
    log.check_whole(table.store, table.snapshot())
    assert whole.blocks == table.snapshot().blocks


def test_which_files_are_needed_is_known_without_reading_rows(table: Table) -> None:
    forget(table)
    needed = listed(table)
    for block in table.snapshot().blocks:
        Path(table.store.uri, NAME.data(block.file)).write_bytes(b"")
    clean(table)
    assert stored(table.store) == needed


def test_a_version_pins_its_files(table: Table) -> None:
    freeze(table, at=1)
    forget(table)
    clean(table)
    assert len(stored(table.store)) == 3


def test_the_retention_begins_when_the_last_row_went(table: Table) -> None:
    forget(table)
    old = replace(AT_ONCE, retain_seconds=3600.0)
    for path in (Path("lake") / NAME.content).rglob("*-*"):
        os.utime(path, (0, 0))  # it is not by their age that they stay
    plan = vacuum.plan_vacuum(table.store, table.snapshot(), old)
    assert not plan.garbage.content
    start = len(NAME.folder)
    [kept] = [i for i in plan.garbage.kept if file_paths.is_content(i.key[start:])]
    assert "referenced by no row since transaction 4" in kept.reason
    later = vacuum.plan_vacuum(table.store, table.snapshot(), old, now=time.time() + 3601)
    assert len(later.garbage.content) == 1


def test_a_reader_keeps_the_files_of_its_snapshot(table: Table) -> None:
    with table.lease():
        forget(table)
        clean(table)
        assert len(stored(table.store)) == 3
    clean(table)
    assert len(stored(table.store)) == 2


def test_files_of_a_run_that_failed_are_leftovers(table: Table) -> None:
    (Path("d")).write_bytes(b"d")
    with pytest.raises(InputError):
        sync("lake", {7: "d", 8: "gone"})
    assert len(stored(table.store)) == 4
    young = vacuum.plan_vacuum(table.store, table.snapshot(), replace(AT_ONCE, retain_seconds=60.0))
    assert "no row references" in next(i for i in young.garbage.kept if "files/" in i.key).reason
    clean(table)
    assert stored(table.store) == listed(table)


def test_a_list_that_is_lost_stops_the_vacuum(table: Table) -> None:
    [first, *_] = sorted(lists(table.store))
    table.store.delete(NAME.key(first))
    before = stored(table.store)
    with pytest.raises(DamagedError, match="list"):
        clean(table)
    assert stored(table.store) == before


def at_commit(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Do something between a sync's storing of files and its commit."""
    publish = StagedTable.publish

    def publish_then(staged: StagedTable) -> None:
        monkeypatch.setattr(StagedTable, "publish", publish)
        do()  # before: without a retention, what is published now were a leftover
        publish(staged)

    monkeypatch.setattr(StagedTable, "publish", publish_then)


def test_what_was_announced_is_not_named_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_commit(monkeypatch, lambda: (forget(table), clean(table))[-1])
    with pytest.raises(ConflictError, match="about to delete"):
        sync("lake", {3: "a"})
    assert stored(table.store) == listed(table)
    sync("lake", {3: "a"})  # the next run stores it again, under another name
    assert stored(table.store) == listed(table)
    assert len(stored(table.store)) == 3


def test_what_a_finished_vacuum_announced_is_not_named_again_either(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice() -> None:
        forget(table)
        clean(table)
        clean(table)  # takes the list of the first away

    at_commit(monkeypatch, twice)
    with pytest.raises(ConflictError, match="nothing was committed"):
        sync("lake", {3: "a"})


def test_who_begins_after_a_vacuum_is_not_in_its_way(table: Table) -> None:
    # Neither of the two has written a manifest, and the second took away the list of the first.
    forget(table)
    clean(table)
    clean(table)
    sync("lake", {3: "a"})
    assert stored(table.store) == listed(table)


def test_what_was_named_again_since_the_plan_is_not_announced(table: Table) -> None:
    forget(table)
    plan = vacuum.plan_vacuum(table.store, table.snapshot(), AT_ONCE)
    [going] = plan.garbage.content
    # A run that began before the history went knows the file, and names it again.
    staged = StagedTable(table.store, NAME)
    block = table.snapshot().blocks[0]
    head = table.snapshot()
    staged.set_schema(head.schema_hash, head.tap_schema)
    path = going.key[len(NAME.folder) :]
    text = table.read_block(block)
    said = next(p for p in listed(table) if p.encode() in text)
    text = text.replace(said.encode(), path.encode())
    data = format_block.encode(text, block.rows, 1)
    staged.add(head.schema_hash, data, replace_block(block, first_version=0, bytes=len(text)))
    assert table.writer().commit(staged) is not None
    after, garbage = vacuum.announce(table.store, plan, AT_ONCE, "v")
    assert garbage.content == []
    assert after.pending_lists == []
    finish(table, after, garbage)
    assert path in stored(table.store)


def test_a_change_names_no_file_for_lying_there(table: Table) -> None:
    """Of one that no list names, nobody knows whether a vacuum that sleeps has announced it."""
    forget(table)
    plan = vacuum.plan_vacuum(table.store, table.snapshot(), AT_ONCE)
    after, garbage = vacuum.announce(table.store, plan, AT_ONCE, "sleeper")
    # Another ends, and what was announced before is not kept for those who come now.
    vacuum.finish(table.store, after, [], [], writer_id="another", metrics={})
    [going] = garbage.content
    path = going.key[len(NAME.folder) :]
    with pytest.raises(InputError, match="does not have"):
        change_naming(table, path)
    finish(table, after, garbage)
    assert path not in stored(table.store)


def test_a_change_names_what_was_stored_for_it(table: Table) -> None:
    contents = Contents(table.store, NAME, table.snapshot)
    path = contents.put([b"new"]).path
    change_naming(table, path, contents)
    assert path in listed(table)
    lost = contents.put([b"lost"]).path
    table.store.delete(NAME.key(lost))
    with pytest.raises(InputError, match="does not have"):
        change_naming(table, lost, contents)
    contents.close()


def change_naming(table: Table, path: str, files: Container[str] = ()) -> None:
    """Commit a change of the first row alone, as the job does: its photo is another."""
    head = table.snapshot()
    block = head.blocks[0]
    staged = StagedTable(table.store, NAME)
    staged.set_schema(head.schema_hash, head.tap_schema)
    text = table.read_block(block)
    said = next(p for p in listed(table) if p.encode() in text)
    text = text.replace(said.encode(), path.encode())
    data = format_block.encode(text, block.rows, 1)
    staged.add(head.schema_hash, data, replace_block(block, first_version=0, bytes=len(text)))
    staged.publish()

    def draft(present: TableState) -> Entry:
        return draft_entry(NAME, Operation.CHANGE, blocks=staged.numbered(present.last_block))

    commit(table.store, table.snapshot(), draft, files=files)


def test_a_vacuum_that_wakes_up_late_deletes_nothing_that_is_needed(table: Table) -> None:
    forget(table)
    plan = vacuum.plan_vacuum(table.store, table.snapshot(), AT_ONCE)
    after, garbage = vacuum.announce(table.store, plan, AT_ONCE, "sleeper")
    clean(table)
    sync("lake", {3: "a"})
    finish(table, after, garbage)
    assert stored(table.store) == listed(table)


def test_a_dropped_table_comes_back_with_its_files_until_they_are_named(table: Table) -> None:
    drop_table(table.store, table.snapshot(), AlterOptions())
    assert len(stored(table.store)) == 3
    undrop_table(table.store, table.snapshot(dropped=True), AlterOptions())
    assert len(listed(table)) == 3
    clean(table)
    assert stored(table.store) == listed(table)
    drop_table(table.store, table.snapshot(), AlterOptions())
    clean(table)
    clean(table)
    assert stored(table.store) == set()
    assert {path.split("/")[1] for path in lists(table.store)} <= {"doomed"}


def test_a_new_table_of_the_name_stores_its_files_anew(table: Table) -> None:
    old = stored(table.store)
    drop_table(table.store, table.snapshot(), AlterOptions())
    sync("lake", {1: "a"})
    assert listed(table).isdisjoint(old)
    clean(table)
    assert stored(table.store) == listed(table)


def test_a_manifest_and_the_log_say_the_same(table: Table) -> None:
    forget(table)
    clean(table)
    clean(table)
    table.store.delete(NAME.manifest)
    again = Lake.open("lake").table(NAME).snapshot()
    assert listed(table) == stored(table.store)
    assert again.blocks == table.snapshot().blocks
