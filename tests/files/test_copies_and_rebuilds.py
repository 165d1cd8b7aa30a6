"""Files that rows name go with copies, and come back with tables whose log is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import DamagedError, InputError, StoreError
from singerlake.format import block as format_block
from singerlake.format import file_paths, messages
from singerlake.format.log import Entry, Operation
from singerlake.lake import Lake, Table
from singerlake.log.commit import commit, draft_entry
from singerlake.log.staging import StagedTable, replace_block
from singerlake.log.table_state import TableState
from singerlake.ops.drop import drop_table
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.verify.files import check_file, check_lists
from singerlake.ops.verify.plan import check_log
from singerlake.ops.verify.whole_table import check_block
from singerlake.overlay.alter import AlterOptions
from singerlake.storage.local.store import LocalStore
from tests.files.photos import NAME, clean, forget, listed, lists, stored, sync, table_of
from tests.ops.copy.world import QUICK, copy
from tests.ops.vacuum.plain_table import freeze

SYNC = replace(QUICK, sync=True)
VERIFY = replace(QUICK, verify=True)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        (tmp_path / name).write_bytes(name.encode() * 10)
    sync("lake", {1: "a", 2: "b"})
    return table_of("lake")


def problems(table: Table) -> list[str]:
    """What a verify without Spark finds."""
    found = check_log(table.store, NAME)
    blocks = found.snapshot.blocks
    wrong, there = check_lists(table.store, NAME, blocks, table.store.list(NAME.folder))
    wrong += found.problems
    wrong += [p for path, _ in there for p in check_file(table.store, NAME, path)]
    wrong += [p for block in blocks for p in check_block(table.store, NAME, block)]
    return [str(problem) for problem in wrong]


def test_a_copy_has_the_files_and_follows(table: Table, tmp_path: Path) -> None:
    backup = LocalStore(tmp_path / "backup")
    freeze(table, at=1)
    copy(table.store, backup)
    assert stored(backup) == stored(table.store)
    sync("lake", {1: "c", 3: "b"})
    copy(table.store, backup, options=VERIFY)
    there = Lake(backup).table(NAME)
    assert stored(backup) == stored(table.store) == listed(there)
    assert problems(there) == problems(table) == []
    drop_table(table.store, table.snapshot(), AlterOptions(), with_versions=True)
    copy(table.store, backup, options=SYNC)
    assert len(stored(backup)) == 3
    clean(table)
    clean(table)
    copy(table.store, backup, options=SYNC)
    assert stored(backup) == set()


def test_a_copy_deletes_files_that_the_source_has_deleted(table: Table, tmp_path: Path) -> None:
    backup = LocalStore(tmp_path / "backup")
    sync("lake", {1: "c"})
    copy(table.store, backup)
    forget(table)
    clean(table)
    copy(table.store, backup, options=SYNC)
    assert stored(backup) == stored(table.store)
    assert len(stored(backup)) == 2


def test_a_file_that_a_copy_could_not_delete_goes_with_the_next(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = LocalStore(tmp_path / "backup")
    copy(table.store, backup)
    sync("lake", {1: "c", 2: "c"})
    forget(table)
    clean(table)
    delete = LocalStore.delete

    def refuse(store: LocalStore, key: str) -> None:
        if file_paths.is_content(key.removeprefix(NAME.folder)):
            raise StoreError(f"cannot delete {key}")
        delete(store, key)

    with monkeypatch.context() as patch, pytest.raises(StoreError):
        patch.setattr(LocalStore, "delete", refuse)
        copy(table.store, backup, options=SYNC)
    copy(table.store, backup, options=SYNC)
    assert stored(backup) == stored(table.store)
    assert len(stored(backup)) == 1


def test_a_copy_of_a_version_has_its_files(table: Table, tmp_path: Path) -> None:
    freeze(table, at=1)
    first = stored(table.store)
    sync("lake", {1: "c"})
    backup = LocalStore(tmp_path / "backup")
    copy(table.store, backup, f"{NAME}")
    assert len(stored(backup)) == 3
    other = LocalStore(tmp_path / "other")
    from singerlake.ops.copy.run import copy_tables
    from singerlake.ops.copy.transfers import Meter

    list(copy_tables(table.store, other, {NAME: ("1",)}, QUICK, Meter()))
    assert stored(other) == first


def test_a_damaged_file_is_not_copied(table: Table, tmp_path: Path) -> None:
    path = sorted(stored(table.store))[0]
    (Path("lake") / NAME.key(path)).write_bytes(b"x" * 10)
    with pytest.raises(DamagedError, match="SHA-256"):
        copy(table.store, LocalStore(tmp_path / "backup"))


@pytest.mark.parametrize("lost", ["log", "log and manifest"])
def test_a_table_whose_log_is_lost_comes_back_with_its_files(table: Table, lost: str) -> None:
    sync("lake", {1: "c"})
    forget(table)
    named = listed(table)
    shutil.rmtree(Path("lake") / NAME.log)
    if lost != "log":
        (Path("lake") / NAME.manifest).unlink()
    rebuild_table(table.store, NAME)
    again = table_of("lake")
    assert named <= listed(again)
    assert not [p for p in problems(again) if "list" in p]
    clean(again)
    assert named <= stored(again.store)
    sync("lake", {4: "b"})
    assert again.snapshot().format == 5


def test_verify_finds_what_is_wrong_with_files(table: Table) -> None:
    assert problems(table) == []
    one, two = sorted(stored(table.store))
    place = Path("lake") / NAME.key(one)
    place.write_bytes(b"z" * 10)
    assert "the SHA-256" in problems(table)[0]
    place.write_bytes(b"z")
    assert "expected 10 bytes, found 1 bytes" in problems(table)[0]
    place.unlink()
    assert "found nothing" in problems(table)[0]
    [listing] = lists(table.store)
    (Path("lake") / NAME.key(listing)).write_bytes(b"z")
    assert any("list" in problem for problem in problems(table))
    assert two


def test_a_change_need_not_say_how_large_a_file_is(table: Table, tmp_path: Path) -> None:
    """A row that a person gives may say a path alone: nothing is damaged for that."""
    change_photo(table, lambda path: {"path": path})
    assert problems(table) == []
    backup = LocalStore(tmp_path / "backup")
    for _ in range(2):
        copy(table.store, backup, options=VERIFY)
    assert problems(Lake(backup).table(NAME)) == []
    clean(table)
    assert problems(table) == []
    sync("lake", {4: "b"})  # is known by the list that says its size, and not stored again
    assert len(stored(table.store)) == 2


def test_a_change_says_no_wrong_size(table: Table) -> None:
    before = table.snapshot().number
    with pytest.raises(InputError, match=r"has 7 bytes, and it has 10: leave out the size"):
        change_photo(table, lambda path: {"path": path, "size": 7})
    assert table.snapshot().number == before
    change_photo(table, lambda path: {"path": path, "size": 10})
    assert problems(table) == []


def change_photo(table: Table, photo: Callable[[str], dict[str, Any]]) -> None:
    """Commit a change as the job does: a new row has the file of another."""
    head = table.snapshot()
    value = photo(sorted(listed(table))[0])
    lines = [messages.schema_line(NAME.stream, head.tap_schema)]
    row = {"type": "RECORD", "stream": NAME.stream, "record": {"id": 9, "photo": value}}
    lines.append(json.dumps(row).encode() + b"\n")
    text = b"".join(lines)
    block = replace_block(head.blocks[0], first_version=0, bytes=len(text), rows=1)
    staged = StagedTable(table.store, NAME)
    staged.set_schema(head.schema_hash, head.tap_schema)
    staged.add(head.schema_hash, format_block.encode(text, 1, 1), block)
    staged.publish()

    def draft(present: TableState) -> Entry:
        return draft_entry(NAME, Operation.CHANGE, blocks=staged.numbered(present.last_block))

    commit(table.store, head, draft)
