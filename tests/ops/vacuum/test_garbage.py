"""What goes, what stays and why; each rule at its edge, without Spark."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ConflictError, UsageError
from singerlake.format.log import Entry, Operation
from singerlake.lake import Lake, Table
from singerlake.log.checkpoint import write_checkpoint
from singerlake.log.commit import Draft, commit, draft_entry
from singerlake.log.lease import ReaderLease, leases
from singerlake.log.staging import StagedTable
from singerlake.log.table_state import TableState
from singerlake.ops.vacuum import garbage
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.combine import commit_combine, write_group
from singerlake.ops.vacuum.items import Item
from singerlake.ops.vacuum.plan import DELETE, VacuumOptions, plan_vacuum
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.log.broken import HASH, PROPERTIES, TABLE, staged_rows
from tests.ops.vacuum.plain_table import cutoff_at, erase, freeze

NAME = TABLE
NOTHING = VacuumOptions(
    retain_seconds=0, guard=False, lease_wait_seconds=0, lock_wait_seconds=1, stale_seconds=0.5
)
AT_ONCE = float("inf")


def write(lake: Lake, *ids: int) -> TableState:
    return commit_rows(lake, str(NAME), PROPERTIES, [], [{"id": n} for n in ids])


def combine(table: Table) -> TableState:
    """Drops the references to all files but one new one."""
    plan = plan_vacuum(table.store, table.snapshot(), NOTHING)
    written = [(g, write_group(table.store, table.name, g)) for g in plan.combine]
    return commit_combine(table.store, plan.snapshot, written, writer_id="test")


def run(table: Table, options: VacuumOptions = NOTHING, **changes: Any) -> list[str]:
    """The deletion alone, as the job does it; names of what went."""
    options = replace(options, parts=(DELETE,), **changes)
    plan = plan_vacuum(table.store, table.snapshot(), options)
    after, found = vacuum.announce(table.store, plan, options, "vacuum-1")
    deleted, kept = vacuum.delete_garbage(table.store, after, found, options, check=lambda: None)
    vacuum.finish(
        table.store, after, deleted, found.vanished, writer_id="vacuum-1", metrics={"n": len(kept)}
    )
    return sorted(item.key.removeprefix(table.name.folder) for item in deleted)


def root(lake: Lake) -> Path:
    assert isinstance(lake.store, LocalStore)
    return lake.store.root


def put(lake: Lake, key: str, age: float = 0.0) -> Path:
    path = root(lake) / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 10)
    stamp = path.stat().st_mtime - age
    os.utime(path, (stamp, stamp))
    return path


def reasons(items: list[Item]) -> dict[str, str]:
    return {item.key.rpartition("/")[2]: item.reason for item in items}


def test_a_retention_below_a_day_is_refused_and_never_changed() -> None:
    for seconds in (0.0, 86_399.0):
        with pytest.raises(UsageError, match=r"--no-retention-guard"):
            VacuumOptions(retain_seconds=seconds).check()
        VacuumOptions(retain_seconds=seconds, guard=False).check()
    VacuumOptions(retain_seconds=86_400).check()
    with pytest.raises(UsageError, match="cannot be negative"):
        VacuumOptions(retain_seconds=-1, guard=False).check()


def test_dropped_files_go_by_the_log_s_time_and_leftovers_by_their_own(lake: Lake) -> None:
    write(lake, 1)
    write(lake, 2)
    table = lake.table(NAME)
    files = {b.file.rpartition("/")[2] for b in table.snapshot().blocks}
    after = combine(table)
    # Old files, but dropped only just now.
    for name in files:
        os.utime(root(lake) / NAME.folder / HASH / name, (0, 0))
    young = put(
        lake, f"{NAME.folder}{HASH}/a-20260101T000000000000Z-20260101T000000000000Z-9.singer.gz"
    )
    when = cutoff_at(after, after.number)
    cases = {when - 1e-3: set(), when: files, when + 1e9: files | {young.name}}
    for cutoff, going in cases.items():
        found = garbage.find(lake.store, after, cutoff, listed=lake.store.list(NAME.folder))
        assert {item.key.rpartition("/")[2] for item in found.files} == going
        both = {item.key.rpartition("/")[2] for item in (*found.files, *found.kept)}
        assert both == files | {young.name}, "and what stays is told of"
        for item in found.kept:
            assert "retention" in item.reason
            assert item.bytes > 0


def test_what_is_not_singerlake_s_is_left_alone(lake: Lake) -> None:
    write(lake, 1)
    table = lake.table(NAME)
    foreign = [
        put(lake, NAME.folder + name, age=1e8)
        for name in (
            "README.md",
            f"{HASH}/notes.txt",
            f"{HASH}/mine.singer.gz",
            f"{HASH}/deeper/a-1-1.singer.gz",
            "x.singer.gz",
            "transactions/copy-of-000000000001.json",
            "leases/notes.txt.bak",
        )
    ]
    foreign += [put(lake, NAME.indexes + name, age=1e8) for name in ("1/notes", "old/_index.json")]
    foreign.append(put(lake, "raw/other.txt", age=1e8))
    plan = plan_vacuum(lake.store, table.snapshot(), NOTHING)
    assert [item.key for item in plan.garbage.everything] == []
    assert run(table) == []
    assert all(path.exists() for path in foreign)


def test_lite_deletes_what_the_log_says_and_looks_for_nothing(lake: Lake) -> None:
    write(lake, 1)
    write(lake, 2)
    table = lake.table(NAME)
    old = sorted(b.file for b in table.snapshot().blocks)
    combine(table)
    left = put(
        lake,
        f"{NAME.folder}{HASH}/a-20260101T000000000000Z-20260101T000000000000Z-9.singer.gz",
        age=1e8,
    )
    marker = put(lake, f"{NAME.index(1)}_index.json", age=1e8)
    assert run(table, full=False) == old
    assert left.exists()
    assert marker.exists()
    assert table.snapshot().dropped == {}
    assert run(table) == [f"{HASH}/{left.name}"]
    assert not left.exists()
    assert marker.exists(), "the newest materialized snapshot"


def index(lake: Lake, number: int, commit_id: str = "", age: float = 1e8) -> list[Path]:
    """A finished index by its marker, with one file; and one file that it does not name."""
    part, stray = (f"part-{c * 32}.parquet" for c in "ab")
    files = [put(lake, NAME.index(number) + name, age=age) for name in (part, stray)]
    marker = {
        "format": 1,
        "transaction": number,
        "commit": commit_id,
        "schema_hash": HASH,
        "rows": 1,
        "files": [{"path": part, "rows": 1, "bytes": 10}],
    }
    path = put(lake, f"{NAME.index(number)}_index.json", age=age)
    stamp = path.stat().st_mtime
    path.write_text(json.dumps(marker))
    os.utime(path, (stamp, stamp))
    return [path, *files]


def test_indexes_that_no_version_needs_go_and_the_newest_stays(lake: Lake) -> None:
    for n in range(4):
        write(lake, n)
    table = lake.table(NAME)
    freeze(table, 2)
    made = {number: index(lake, number) for number in (1, 2, 3, 4)}
    (unfinished,) = [put(lake, f"{NAME.index(5)}part-{'c' * 32}.parquet", age=1e8)]
    young = put(lake, f"{NAME.index(6)}part-{'d' * 32}.parquet")
    options = VacuumOptions(retain_seconds=86_400)
    plan = plan_vacuum(lake.store, table.snapshot(), options)
    assert {i.key for i in plan.garbage.markers} == {f"{NAME.index(n)}_index.json" for n in (1, 3)}
    assert young.name in reasons(plan.garbage.kept)
    run(table, options)
    for number in (1, 3):
        assert not any(path.exists() for path in made[number])
    for number in (2, 4):
        marker, part, stray = made[number]
        assert (marker.exists(), part.exists(), stray.exists()) == (True, True, False)
    assert not unfinished.exists()
    assert young.exists()


def test_files_of_an_index_that_is_finished_meanwhile_stay(lake: Lake) -> None:
    write(lake, 1)
    table = lake.table(NAME)
    marker, part, stray = index(lake, 1)
    text = marker.read_bytes()
    marker.unlink()
    plan = plan_vacuum(lake.store, table.snapshot(), NOTHING)
    assert len(plan.garbage.index_files) == 2
    marker.write_bytes(text)  # its builder was only slow
    vacuum.delete_garbage(lake.store, plan.snapshot, plan.garbage, NOTHING, check=lambda: None)
    assert (part.exists(), stray.exists()) == (True, False)


def test_a_reader_older_than_the_drop_keeps_files_and_a_later_one_does_not(lake: Lake) -> None:
    write(lake, 1)
    write(lake, 2)
    table = lake.table(NAME)
    old = sorted(b.file for b in table.snapshot().blocks)
    with ReaderLease(lake.store, table.snapshot()) as lease:
        combine(table)
        assert run(table) == []
        assert all(lake.store.exists(NAME.data(file)) for file in old)
        plan = plan_vacuum(lake.store, table.snapshot(), NOTHING)
        assert [one.transaction for one in plan.leases] == [lease.snapshot.number]
    with ReaderLease(lake.store, table.snapshot()):
        assert run(table) == old
    assert list(lake.store.list(NAME.leases)) == []


def test_a_dead_reader_s_lease_times_out_and_a_damaged_one_protects_meanwhile(lake: Lake) -> None:
    write(lake, 1)
    write(lake, 2)
    table = lake.table(NAME)
    old = sorted(b.file for b in table.snapshot().blocks)
    combine(table)
    for data in (b'{"reader-id": "dead", "transaction": 1, "acquired": "", "refreshed": ""}', b"{"):
        lake.store.put_if_absent(NAME.lease(f"r{len(data)}"), data)
    assert run(table, lease_wait_seconds=0) == []
    assert run(table, lease_wait_seconds=60, stale_seconds=0.3) == old
    assert list(lake.store.list(NAME.leases)) == []


def test_a_killed_vacuum_s_deletions_are_noted_by_the_next(lake: Lake) -> None:
    write(lake, 1)
    write(lake, 2)
    table = lake.table(NAME)
    first, second = sorted(b.file for b in table.snapshot().blocks)
    combine(table)
    lake.store.delete(NAME.data(first))
    plan = plan_vacuum(lake.store, table.snapshot(), NOTHING)
    assert plan.garbage.vanished == [first]
    assert run(table) == [second]
    assert table.snapshot().dropped == {}
    assert plan_vacuum(lake.store, table.snapshot(), NOTHING).empty


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("when", ["before the plan", "before the word", "before the deletion"])
def test_rows_that_come_again_while_their_old_file_goes_stay(
    lake: Lake, full: bool, when: str
) -> None:
    """The file went by a vacuum that was killed before it said so; the same rows come again."""
    write(lake, 1)
    write(lake, 2)
    table = lake.table(NAME)
    first, second = sorted(b.file for b in table.snapshot().blocks)
    combine(table)
    lake.store.delete(NAME.data(first))

    def again() -> None:
        assert write(lake, 3) is not None

    if when == "before the plan":
        again()
    options = VacuumOptions(
        retain_seconds=0, guard=False, full=full, parts=(DELETE,), lock_wait_seconds=1
    )
    plan = plan_vacuum(lake.store, table.snapshot(), options)
    if when == "before the word":
        again()
    after, found = vacuum.announce(lake.store, plan, options, "v")
    if when == "before the deletion":
        again()
    deleted, _ = vacuum.delete_garbage(lake.store, after, found, options, check=lambda: None)
    vacuum.finish(lake.store, after, deleted, found.vanished, writer_id="v", metrics={})
    head = table.snapshot()
    for block in head.blocks:
        assert table.read_block(block)
    assert head.blocks[-1].number == 3
    assert not lake.store.exists(NAME.data(second))
    assert head.blocks[-1].file not in (first, second)
    assert write(lake, 4).blocks[-1].number == 4


def adding(staged: StagedTable) -> Draft:
    """A commit of what was published, past all that a writer looks at before."""

    def draft(present: TableState) -> Entry:
        blocks = staged.numbered(present.last_block)
        return draft_entry(NAME, Operation.SYNC, schema_hash=HASH, blocks=blocks)

    return draft


def test_a_writer_held_up_since_before_cannot_commit_what_goes(lake: Lake) -> None:
    """What is to go is named in the log first, and found there however late."""
    write(lake, 1)
    table = lake.table(NAME)
    stale = table.snapshot()
    staged = staged_rows(lake.store, 7)
    staged.publish()
    (block,) = staged.numbered(stale.last_block)
    assert run(table) == [block.file]
    write_checkpoint(lake.store, table.snapshot())
    with pytest.raises(ConflictError, match="nothing was committed; run it again"):
        commit(lake.store, stale, adding(staged))
    assert block.file not in {b.file for b in table.snapshot().blocks}


def test_what_is_about_to_go_is_known_from_the_manifest_too(lake: Lake) -> None:
    write(lake, 1)
    table = lake.table(NAME)
    left = staged_rows(lake.store, 7)
    left.publish()
    (lost,) = left.numbered(1)
    plan = plan_vacuum(lake.store, table.snapshot(), NOTHING)
    after, _ = vacuum.announce(lake.store, plan, NOTHING, "v")
    assert after.pending_deletes == {lost.file: after.number}
    write_checkpoint(lake.store, after)
    with pytest.raises(ConflictError, match="nothing was committed; run it again"):
        commit(lake.store, table.snapshot(), adding(left))
    done = vacuum.finish(lake.store, after, [], [], writer_id="v", metrics={})
    write_checkpoint(lake.store, done)
    assert table.snapshot().pending_deletes == {}


def test_a_lost_lock_ends_the_deletion(lake: Lake) -> None:
    write(lake, 1)
    write(lake, 2)
    table = lake.table(NAME)
    after = combine(table)
    found = garbage.find(lake.store, after, AT_ONCE)

    def lost() -> None:
        raise ConflictError("the lock was lost")

    with pytest.raises(ConflictError, match="lock was lost"):
        vacuum.delete_garbage(lake.store, after, found, NOTHING, check=lost)
    assert all(lake.store.exists(item.key) for item in found.files)


def test_a_table_without_its_log_is_refused(lake: Lake) -> None:
    write(lake, 1)
    lake.store.delete(NAME.transaction(1))
    lake.store.delete(NAME.manifest)
    with pytest.raises(UsageError, match="singerlake rebuild"):
        plan_vacuum(lake.store, lake.table(NAME).snapshot(), NOTHING)


def test_the_lease_of_a_reader_that_died_goes_after_a_day(lake: Lake) -> None:
    write(lake, 1)
    table = lake.table(NAME)
    assert isinstance(table.store, LocalStore)
    dead, alive = table.lease().acquire(), table.lease().acquire()
    path = table.store.root / table.name.lease(dead._lease.reader_id)
    a_day_ago = path.stat().st_mtime - 86_500
    os.utime(path, (a_day_ago, a_day_ago))
    plan = plan_vacuum(table.store, table.snapshot(), NOTHING)
    assert plan.empty, "who does not wait cannot know"
    assert ["seems dead" in item.reason for item in plan.garbage.kept] == [True]
    dead._heartbeat.stop()
    assert run(table, lease_wait_seconds=60) == [f"leases/{path.name}"]
    assert [one.reader_id for one in leases(table.store, NAME)] == [alive._lease.reader_id]
    alive.release()
    dead.release()


@pytest.mark.usefixtures("many_cases")
def test_a_clock_that_is_days_ahead_takes_no_live_reader_s_lease_nor_its_files(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(lake, 1)
    write(lake, 2)
    table = lake.table(NAME)
    old = sorted(b.file for b in table.snapshot().blocks)
    stale = 2.0
    with ReaderLease(lake.store, table.snapshot(), stale_seconds=stale) as lease:
        combine(table)
        ahead = time.time() + 8 * 86_400
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: ahead)
            plan = plan_vacuum(lake.store, table.snapshot(), VacuumOptions())
            assert len(plan.garbage.dead) == 1, "by that clock it is dead"
            assert len(plan.garbage.files) == 2, "and its files are older than the retention"
            assert run(table, lease_wait_seconds=2 * stale, stale_seconds=stale) == []
        assert [one.reader_id for one in leases(lake.store, NAME)] == [lease._lease.reader_id]
        for file in old:
            assert lake.store.exists(NAME.data(file))
    assert run(table) == old


def test_what_is_older_than_an_erasure_has_no_retention(lake: Lake) -> None:
    """Dropped files, leftovers and files of an index: any of them may hold the rows."""
    write(lake, 1, 2)
    write(lake, 3)
    table = lake.table(NAME)
    (block, other) = table.snapshot().blocks
    left = f"{block.file.removesuffix('.singer.gz')[:-16]}0123456789abcdef.singer.gz"
    part = f"{table.name.index(1)}part-{0:032x}.parquet"
    for key in (table.name.key(left), part):
        lake.store.put_if_absent(key, b"hers")

    def found() -> set[str]:
        objects = [*lake.store.list(table.name.folder)]
        listed = garbage.find(lake.store, table.snapshot(), 0.0, listed=objects)
        return {item.key for item in listed.everything}

    assert found() == set()
    erase(table, {(block.number, 0)}, [])
    assert found() == {table.name.data(block.file), table.name.key(left), part}
    lake.store.put_if_absent(table.name.key(left.replace("0123", "4567")), b"of later")
    assert len(found()) == 3
    assert table.name.data(other.file) not in found()
