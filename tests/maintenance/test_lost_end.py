"""The log's end lost, or all of it with the manifest: never fewer rows without a word."""

from __future__ import annotations

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
from singerlake.lake import Lake
from singerlake.maintenance import vacuum
from singerlake.maintenance.combine import commit_combine, write_group
from singerlake.maintenance.rebuild import rebuild_table
from singerlake.maintenance.vacuum import DELETE, VacuumOptions, plan_vacuum
from singerlake.maintenance.verify import check_log
from singerlake.storage.local import LocalStore
from singerlake.transactions.log import read_snapshot
from singerlake.transactions.writer import TableWriter
from singerlake_cli.main import cli
from tests.build import resealed
from tests.faults.plain import dump_folder, tables
from tests.transactions.broken import HASH, TABLE, BrokenStore, ids_in, staged_rows
from tests.transactions.test_writer import OTHER

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
    assert f"bring the log back with: singerlake rebuild {TABLE}" in caplog.text
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
    with pytest.raises(DamagedError, match="2 data files of .* lie beside a writer's lock"):
        Lake(store).table(TABLE).snapshot()
    assert run(store, "ls")[0] == 5


def test_a_first_sync_at_work_is_no_damage(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake")
    staged_rows(store, 1).publish()
    lock(store)
    assert not check_log(store, TABLE).problems
    assert run(store, "rebuild", "--all")[0] == 0
    assert run(store, "ls")[0] == 0
    with pytest.raises(NotFoundError):
        rebuild_table(store, TABLE)


def test_the_manifest_of_a_rebuilt_table_names_the_chain_s_end(store: LocalStore) -> None:
    behind(store)
    rebuild_table(store, TABLE)
    manifest = metadata.decode(store.get(TABLE.manifest).data, Manifest, "it")
    assert manifest.chain == tables(dump_folder(store.root))[str(TABLE)].chain
