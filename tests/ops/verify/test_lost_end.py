"""The log's end lost, or all of it with the manifest: never fewer rows without a word."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.errors import DamagedError, NotFoundError, StoreError
from singerlake.format import block as format_block
from singerlake.format import metadata
from singerlake.format.metadata import Manifest
from singerlake.format.names import FileNamer, TableName
from singerlake.lake import Lake
from singerlake.log.log import check_whole, read_snapshot
from singerlake.log.staging import publish_file
from singerlake.log.writer import TableWriter, WriteOptions, update_checkpoint
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.combine import commit_combine, write_group
from singerlake.ops.vacuum.plan import DELETE, VacuumOptions, plan_vacuum
from singerlake.ops.verify.plan import CheckedLog, check_log, unnamed_files
from singerlake.storage.local.store import LocalStore
from singerlake_cli.main import cli
from tests.build import resealed, retype
from tests.faults.plain import dump_folder, tables
from tests.log.broken import HASH, TABLE, BrokenStore, ids_in, staged_rows
from tests.log.test_writer import OTHER

AT_ONCE = VacuumOptions(retain_seconds=0, guard=False, lease_wait_seconds=0, lock_wait_seconds=0)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "lake")
    for n in (1, 2):
        write(store, n)
    return store


def write(store: LocalStore, *ids: int) -> None:
    TableWriter(store, TABLE).commit(staged_rows(store, *ids))


def lose_log(store: LocalStore, *, manifest: bytes | None = None) -> None:
    """The log's folder goes; the manifest is as it was once."""
    shutil.rmtree(store.root / TABLE.log)
    if manifest is not None:
        (store.root / TABLE.manifest).write_bytes(manifest)


def lose_all(store: LocalStore) -> None:
    shutil.rmtree(store.root / TABLE.log)
    store.delete(TABLE.manifest)


def behind(store: LocalStore) -> None:
    """A third transaction, its log lost, and the manifest of the second."""
    manifest = store.get(TABLE.manifest).data
    write(store, 3)
    lose_log(store, manifest=manifest)


def lock(store: LocalStore, age: float = 0.0) -> None:
    path = store.root / TABLE.lock(HASH)
    path.write_bytes(b"{}")
    os.utime(path, (time.time() - age, time.time() - age))


def run(store: LocalStore, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["--lake", store.uri, *words])
    assert "Traceback" not in result.output
    return result.exit_code, result.output


def test_a_manifest_behind_a_lost_log_is_no_shorter_table(store: LocalStore) -> None:
    behind(store)
    table = Lake(store).table(TABLE)
    for work in (
        lambda: ids_in(store),
        lambda: table.lease().acquire(),
        lambda: write(store, 9),
        lambda: plan_vacuum(store, table.snapshot(), AT_ONCE),
    ):
        with pytest.raises(DamagedError, match=f"singerlake rebuild {TABLE}"):
            work()
    for words in (["ls"], ["show", str(TABLE)], ["vacuum", str(TABLE)], ["history", str(TABLE)]):
        assert run(store, *words)[0] == 5, words
    assert check_log(store, TABLE).problems


def test_a_rebuild_takes_in_what_is_behind_the_manifest(store: LocalStore) -> None:
    behind(store)
    done = rebuild_table(store, TABLE)
    assert (done.transactions, done.restored, done.adopted) == (3, 2, 1)
    assert ids_in(store) == [1, 2, 3]
    assert not check_log(store, TABLE).problems
    assert len(tables(dump_folder(store.root))[str(TABLE)].log) == 3
    write(store, 4)
    assert ids_in(store) == [1, 2, 3, 4]


@pytest.mark.parametrize("stop", [0, 1, 2, 3])
def test_a_rebuild_that_died_goes_on(store: LocalStore, stop: int) -> None:
    """Once the manifest's last entry is back, nothing tells that others were lost."""
    behind(store)
    broken = BrokenStore(store)
    count = [0]

    def before(method: str, key: str) -> None:
        if method == "put" and "/transactions/" in key:
            if count[0] == stop:
                raise StoreError("died")
            count[0] += 1

    broken.before = before
    if stop < 3:
        with pytest.raises(StoreError):
            rebuild_table(broken, TABLE)
    rebuild_table(store, TABLE)
    assert ids_in(store) == [1, 2, 3]
    assert not check_log(store, TABLE).problems


def test_a_lost_log_that_the_manifest_holds_whole(
    store: LocalStore, caplog: pytest.LogCaptureFixture
) -> None:
    lose_log(store)
    assert ids_in(store) == [1, 2]
    assert f"restore the log with: singerlake rebuild {TABLE}" in caplog.text
    rebuild_table(store, TABLE)
    assert not check_log(store, TABLE).problems


def test_an_end_that_is_there_costs_one_look(store: LocalStore) -> None:
    looked: list[str] = []
    broken = BrokenStore(store)
    broken.exists = lambda key: looked.append(key) or True  # type: ignore[method-assign,func-returns-value]
    snapshot = read_snapshot(broken, TABLE)
    assert snapshot is not None
    assert looked == [TABLE.transaction(2)]
    (store.root / TABLE.transaction(1)).rename(
        store.root / TABLE.transaction(1).replace("1.", "x.")
    )
    assert ids_in(store) == [1, 2], "only the end is looked at"


def test_files_of_a_living_writer_are_not_taken_for_lost_rows(store: LocalStore) -> None:
    lose_log(store)
    staged_rows(store, 9).publish()
    lock(store)
    assert ids_in(store) == [1, 2]


def test_files_beside_a_lock_are_left_aside_only_when_told(store: LocalStore) -> None:
    lose_log(store)
    staged_rows(store, 9).publish()
    lock(store, age=3600)
    with pytest.raises(DamagedError, match="--include-locked.* --leave-locked"):
        rebuild_table(store, TABLE)
    assert not store.exists(TABLE.transaction(1))
    assert run(store, "rebuild", str(TABLE))[0] == 5
    done = rebuild_table(store, TABLE, leave_locked=True)
    assert (done.restored, done.adopted, done.left) == (2, 0, 1)
    assert ids_in(store) == [1, 2]


def test_files_beside_a_lock_are_taken_in_when_told(store: LocalStore) -> None:
    lose_log(store)
    staged_rows(store, 9).publish()
    lock(store, age=3600)
    code, said = run(store, "rebuild", str(TABLE), "--include-locked")
    assert (code, ids_in(store)) == (0, [1, 2, 9])
    assert "killed before they committed" in said


def test_copies_that_a_lost_vacuum_made_are_no_new_rows(store: LocalStore) -> None:
    manifest = store.get(TABLE.manifest).data
    write(store, 3)
    plan = plan_vacuum(store, Lake(store).table(TABLE).snapshot(), AT_ONCE)
    written = [(group, write_group(store, TABLE, group)) for group in plan.combine]
    commit_combine(store, plan.snapshot, written, writer_id="v")
    lose_log(store, manifest=manifest)
    assert rebuild_table(store, TABLE).adopted == 1
    assert ids_in(store) == [1, 2, 3]


def test_equal_rows_that_came_twice_stay_twice(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy is told from rows that came again by when its block was made."""
    manifest = store.get(TABLE.manifest).data
    encode = format_block.encode
    monkeypatch.setattr(format_block, "encode", lambda text, rows, _: encode(text, rows, 2))
    write(store, 2)
    lose_log(store, manifest=manifest)
    assert rebuild_table(store, TABLE).adopted == 1
    assert ids_in(store) == [1, 2, 2]


@pytest.mark.parametrize("harm", ["flip", "lose", "exchange", "manifest"])
def test_a_vacuum_deletes_nothing_where_the_log_does_not_check(
    store: LocalStore, harm: str
) -> None:
    write(store, 3)
    left = staged_rows(store, 9)
    left.publish()
    table = Lake(store).table(TABLE)
    options = VacuumOptions(retain_seconds=0, guard=False, parts=(DELETE,))
    plan = plan_vacuum(store, table.snapshot(), options)
    assert plan.garbage.files
    path = store.root / TABLE.transaction(2)
    good = path.read_bytes()
    if harm == "flip":
        path.write_bytes(good.replace(b'"blocks"', b'"blocjs"'))
    elif harm == "lose":
        path.unlink()
    elif harm == "exchange":
        path.write_bytes(resealed({**json.loads(good), "commit": "another"}))
    else:
        value = json.loads(store.get(TABLE.manifest).data)
        value["files"][1]["blocks"][0][3] = 7
        (store.root / TABLE.manifest).write_bytes(resealed(value))
        plan = plan_vacuum(store, table.snapshot(), options)
    before = sorted(item.key for item in store.list(TABLE.folder))
    with pytest.raises(DamagedError, match="singerlake (verify|rebuild)"):
        vacuum.announce(store, plan, options, "v")
    assert sorted(item.key for item in store.list(TABLE.folder)) == before
    assert run(store, "vacuum", str(TABLE), "--retain", "0s", "--no-retention-guard")[0] == 5


def test_with_all_lost_rows_that_were_never_committed_may_appear(
    store: LocalStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing tells them apart any more, and that is said."""
    staged_rows(store, 9).publish()  # its writer was killed, and its lock went
    lose_all(store)
    snapshot = Lake(store).table(TABLE).snapshot()
    assert sum(block.rows for block in snapshot.blocks) == 3
    assert "killed before they committed" in caplog.text


def test_with_all_lost_a_stale_lock_hides_nothing_in_silence(
    store: LocalStore, caplog: pytest.LogCaptureFixture
) -> None:
    lose_all(store)
    lock(store, age=3600)
    with pytest.raises(NotFoundError):
        Lake(store).table(TABLE).snapshot()
    assert "--include-locked" in caplog.text
    with pytest.raises(DamagedError, match="--include-locked"):
        rebuild_table(store, TABLE)
    assert run(store, "rebuild", "--all")[0] == 5
    assert [p.what for p in check_log(store, TABLE).problems] == ["log"]
    rebuild_table(store, TABLE, include_locked=True)
    assert sorted(ids_in(store)) == [1, 2]


def test_with_all_lost_a_lock_on_some_folders_is_an_error(store: LocalStore) -> None:
    TableWriter(store, TABLE).commit(staged_rows(store, 3, schema=OTHER))
    lose_all(store)
    lock(store, age=3600)
    with pytest.raises(DamagedError, match="2 data files of .* are next to a writer's lock"):
        Lake(store).table(TABLE).snapshot()
    assert run(store, "ls")[0] == 5


def test_a_first_sync_at_work_is_no_damage(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake")
    staged_rows(store, 1).publish()
    lock(store)
    with pytest.raises(NotFoundError, match="nothing was committed"):
        check_log(store, TABLE)
    assert run(store, "verify", "--all")[0] == 0
    assert run(store, "rebuild", "--all")[0] == 0
    assert run(store, "ls")[0] == 0
    with pytest.raises(NotFoundError):
        rebuild_table(store, TABLE)


def test_the_manifest_of_a_rebuilt_table_names_the_chain_s_end(store: LocalStore) -> None:
    behind(store)
    rebuild_table(store, TABLE)
    manifest = metadata.decode(store.get(TABLE.manifest).data, Manifest, "it")
    assert manifest.chain == tables(dump_folder(store.root))[str(TABLE)].chain


def test_a_stale_lock_hides_no_lost_end(store: LocalStore) -> None:
    behind(store)
    lock(store, age=86400)
    for work in (lambda: ids_in(store), lambda: write(store, 9), lambda: run_ok(store, "ls")):
        with pytest.raises(DamagedError, match="--include-locked.* --leave-locked"):
            work()
    assert run(store, "ls")[0] == 5
    assert rebuild_table(store, TABLE, include_locked=True).adopted == 1
    assert ids_in(store) == [1, 2, 3]


def run_ok(store: LocalStore, *words: str) -> None:
    code, said = run(store, *words)
    if code:
        raise DamagedError(said)


def test_nothing_is_committed_while_a_lost_end_may_come_back(
    store: LocalStore, caplog: pytest.LogCaptureFixture
) -> None:
    """A living writer's files, or rows of transaction 3: a reader goes on, a writer does not."""
    behind(store)
    lock(store)
    table = Lake(store).table(TABLE)
    assert ids_in(store) == [1, 2]
    assert ".singer.gz" in caplog.text
    head = table.snapshot()
    column = next(iter(head.schema.schema["properties"]))
    for work in (lambda: write(store, 9), lambda: retype(store, head, column)):
        with pytest.raises(DamagedError, match="nothing can be committed"):
            work()
    assert not store.exists(TABLE.transaction(3))


def test_a_sync_stops_where_the_catalogue_tells_of_a_lost_table(store: LocalStore) -> None:
    lose_all(store)
    lock(store, age=86400)
    with pytest.raises(
        DamagedError, match="catalog of its tap.*run the copy again.*--include-locked"
    ) as told:
        write(store, 9)
    assert "--leave-locked" not in str(told.value)
    assert not store.exists(TABLE.transaction(1))
    rebuild_table(store, TABLE, include_locked=True)
    TableWriter(store, TABLE, WriteOptions(lock_stale_seconds=0.2)).commit(staged_rows(store, 9))
    assert sorted(ids_in(store)) == [1, 2, 9]


def unnamed(store: LocalStore, found: CheckedLog) -> list[str]:
    return [*unnamed_files(found, store.list(TABLE.folder))]


def test_a_first_sync_that_died_is_gone_on_with(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake")
    staged_rows(store, 1).publish()
    lock(store, age=86400)
    TableWriter(store, TABLE, WriteOptions(lock_stale_seconds=0.2)).commit(staged_rows(store, 9))
    assert ids_in(store) == [9]
    found = check_log(store, TABLE)
    assert not found.problems
    (note,) = unnamed(store, found)
    assert "no log entry lists 1 of its data files" in note


def test_verify_tells_of_files_that_a_shorter_log_no_longer_names(store: LocalStore) -> None:
    write(store, 3)
    assert not unnamed(store, check_log(store, TABLE))
    store.delete(TABLE.manifest)
    store.delete(TABLE.transaction(3))
    assert ids_in(store) == [1, 2], "nothing tells that there was a third"
    found = check_log(store, TABLE)
    assert not found.problems
    (note,) = unnamed(store, found)
    assert "their log entries are lost" in note


@pytest.mark.parametrize("age", [0.0, 3600.0])
def test_a_rebuild_says_what_lies_beside_a_lock(tmp_path: Path, age: float) -> None:
    store = LocalStore(tmp_path / "lake")
    staged_rows(store, 1).publish()
    lock(store, age)
    with pytest.raises(
        NotFoundError, match="nothing is left of .* but 1 data files next to"
    ) as told:
        rebuild_table(store, TABLE, leave_locked=True)
    assert "--leave-locked" not in str(told.value)
    if age:
        with pytest.raises(DamagedError, match="--include-locked") as said:
            rebuild_table(store, TABLE)
        assert "--leave-locked" not in str(said.value)


def rewrite_without_first(store: LocalStore) -> None:
    """What a vacuum writes that drops history: row 2 alone, as block 2 made of blocks 1 and 2."""
    head = read_snapshot(store, TABLE)
    assert head is not None
    first, last = head.blocks
    made = [
        format_block.header(store.get_range(TABLE.data(b.file), b.offset, b.length), "it").written
        for b in (first, last)
    ]
    schema, rest = format_block.lines(Lake(store).table(TABLE).read_block(last))
    line = {**json.loads(rest), "row_version": 2, "row_ordinal": 0}
    text = schema + json.dumps(line).encode() + b"\n"
    staged = store.stage()
    staged.write(format_block.encode(text, 1, made[1] + 5, format_block.Origin(2, tuple(made))))
    publish_file(store, staged, FileNamer(TABLE, HASH, first.first, last.last))
    staged.discard()


@pytest.mark.parametrize("deleted", [True, False])
def test_what_a_lost_vacuum_rewrote_is_never_thrown_away_in_silence(
    store: LocalStore, deleted: bool
) -> None:
    manifest, head = store.get(TABLE.manifest).data, read_snapshot(store, TABLE)
    assert head is not None
    rewrite_without_first(store)
    if deleted:
        for block in head.blocks:
            store.delete(TABLE.data(block.file))
    lose_log(store, manifest=manifest)
    if deleted:
        with pytest.raises(DamagedError, match="restore the log from a backup"):
            rebuild_table(store, TABLE)
        assert not store.exists(TABLE.transaction(1))
    else:
        assert rebuild_table(store, TABLE).adopted == 0
        assert ids_in(store) == [1, 2]


def test_a_manifest_without_hash_is_held_against_the_log_whole(tmp_path: Path) -> None:
    """By the transactions' last blocks it is told which states are kept."""
    shutil.copytree(Path(__file__).parents[2] / "lakes" / "format-1", tmp_path / "lake")
    store, table = LocalStore(tmp_path / "lake"), TableName("tap-shop", "orders")
    good = json.loads(store.get(table.manifest).data)
    assert "hash" not in good
    head = read_snapshot(store, table)
    assert head is not None
    check_whole(store, head)
    for number, member, value in ((3, "last_block", 3), (2, "time", "2099-01-01T00:00:00.000000Z")):
        wrong = json.loads(json.dumps(good))
        wrong["transactions"][number - 1][member] = value
        (store.root / table.manifest).write_bytes(json.dumps(wrong).encode())
        plan = plan_vacuum(store, Lake(store).table(table).snapshot(), AT_ONCE)
        with pytest.raises(DamagedError, match=r"disagrees with the log \(transactions\)"):
            vacuum.announce(store, plan, AT_ONCE, "v")


@pytest.mark.parametrize(
    "lost", [(3,), (1,), (1, 3), (1, 2, 3), (4,), (5,), (4, 5), (3, 5), (1, 2, 3, 4, 5)], ids=str
)
def test_a_vacuum_goes_on_after_a_rebuild(store: LocalStore, lost: tuple[int, ...]) -> None:
    """Transactions 3 to 5 are a vacuum's; whichever entries were lost, the log checks again."""
    head = Lake(store).table(TABLE).snapshot()
    plan = plan_vacuum(store, head, AT_ONCE)
    written = [(group, write_group(store, TABLE, group)) for group in plan.combine]
    head = commit_combine(store, head, written, writer_id="v")
    options = dataclasses.replace(AT_ONCE, parts=(DELETE,))
    head, found = vacuum.announce(store, plan_vacuum(store, head, options), options, "v")
    gone, _ = vacuum.delete_garbage(store, head, found, options, check=lambda: None)
    head = vacuum.finish(store, head, gone, found.vanished, writer_id="v", metrics={})
    update_checkpoint(store, head, always=True)
    assert head.number == 5
    assert len(gone) == 2
    for number in lost:
        store.delete(TABLE.transaction(number))
    rebuild_table(store, TABLE)
    assert ids_in(store) == [1, 2]
    assert not check_log(store, TABLE).problems
    present = read_snapshot(store, TABLE)
    assert present is not None
    check_whole(store, present)
    assert not present.dropped
    write(store, 3)
    assert ids_in(store) == [1, 2, 3]


def test_a_rebuilt_announcement_still_names_pending_deletes(store: LocalStore) -> None:
    left = staged_rows(store, 9)
    left.publish()
    options = dataclasses.replace(AT_ONCE, parts=(DELETE,))
    plan = plan_vacuum(store, Lake(store).table(TABLE).snapshot(), options)
    head, _ = vacuum.announce(store, plan, options, "v")
    update_checkpoint(store, head, always=True)
    assert head.pending_deletes
    store.delete(TABLE.transaction(head.number))
    rebuild_table(store, TABLE)
    store.delete(TABLE.manifest)
    again = read_snapshot(store, TABLE)
    assert again is not None
    assert again.pending_deletes == head.pending_deletes
