"""A copy is the lake: whole, byte for byte, gone on with, never over what somebody else wrote."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.errors import (
    ConflictError,
    DamagedError,
    LockTimeoutError,
    NotFoundError,
    StoreError,
    UsageError,
)
from singerlake.format.metadata import Catalogue
from singerlake.lake import Lake, Table
from singerlake.log.lease import ReaderLease
from singerlake.log.writer import WriteOptions
from singerlake.ops.copy import destination as destinations
from singerlake.ops.copy import transfers
from singerlake.ops.copy.run import choose
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.point import point
from singerlake.overlay.alter import AlterOptions
from singerlake.storage.local.store import LocalStore
from tests.faults import plain
from tests.faults.faulty_store import OUTAGE, FaultyStore
from tests.log.broken import BrokenStore
from tests.ops.copy.world import (
    AGAIN,
    NAME,
    ONE_BY_ONE,
    QUICK,
    combine,
    copy,
    data_files,
    delete,
    log_of,
    opens,
    problems,
    rows,
    write,
)
from tests.ops.vacuum.plain_table import freeze

LAKES = Path(__file__).parents[2] / "lakes"
SYNC = replace(QUICK, sync=True)
VERIFY = replace(QUICK, verify=True)


@pytest.fixture
def source(tmp_path: Path) -> Lake:
    return Lake(LocalStore(tmp_path / "source"))


@pytest.fixture
def backup(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "backup")


@pytest.fixture
def vacuumed(source: Lake) -> Lake:
    """Early entries of the log name files that are gone: no part of it could be read alone."""
    write(source, 1, 2, 3)
    write(source, 4)
    combine(source)
    delete(source)
    write(source, 5)
    return source


def table_of(lake: Lake, name: str = NAME) -> Table:
    return lake.find(name)[0]


def test_a_copy_is_a_lake_of_the_same_bytes(vacuumed: Lake, backup: LocalStore) -> None:
    write(vacuumed, 1, table="tap-other.x")
    copied = copy(vacuumed.store, backup)
    assert [(one.transactions, one.files) for one in copied] == [(1, 1), (6, 2)]
    assert log_of(backup) == log_of(vacuumed.store)
    assert data_files(backup) == data_files(vacuumed.store)
    assert problems(backup) == [] and opens(backup) == rows(backup) == [1, 2, 3, 4, 5]
    dump = plain.dump_folder(backup.root)
    assert plain.leftovers(dump) == []
    assert {"raw/tap-test/catalogue.json", "raw/tap-test/t/manifest.json"} <= dump.keys()
    assert Lake.open(backup.uri).taps() == ["tap-other", "tap-test"]
    again = copy(vacuumed.store, backup)
    assert [(one.transactions, one.files) for one in again] == [(0, 0), (0, 0)]
    assert plain.dump_folder(backup.root) == dump


def test_what_is_new_is_copied_and_what_the_source_deleted_goes_with_sync(
    vacuumed: Lake, backup: LocalStore
) -> None:
    copy(vacuumed.store, backup)
    write(vacuumed, 6)
    combine(vacuumed)
    write(vacuumed, 7)
    [more] = copy(vacuumed.store, backup)
    assert (more.transactions, more.files) == (3, 2)
    assert opens(backup) == rows(backup) == [1, 2, 3, 4, 5, 6, 7]
    kept = data_files(backup)
    deleted = delete(vacuumed)
    [followed] = copy(vacuumed.store, backup)
    assert followed.deleted == 0 and data_files(backup) == kept
    [followed] = copy(vacuumed.store, backup, options=SYNC)
    assert followed.deleted == len(kept.keys() & {*deleted}) == 2
    assert data_files(backup) == data_files(vacuumed.store)
    assert problems(backup) == [] and rows(backup) == [1, 2, 3, 4, 5, 6, 7]


def test_sync_leaves_what_a_reader_of_the_copy_needs_and_what_no_log_names(
    vacuumed: Lake, backup: LocalStore
) -> None:
    copy(vacuumed.store, backup)
    stray = next(iter(data_files(backup))).replace(".singer.gz", "")[:-16] + "0" * 16
    backup.put_if_absent(f"{stray}.singer.gz", b"a writer's")
    with ReaderLease(backup, table_of(Lake(backup)).snapshot()) as reader:
        write(vacuumed, 6)
        combine(vacuumed)
        delete(vacuumed)
        [done] = copy(vacuumed.store, backup, options=SYNC)
        assert (done.deleted, done.kept) == (0, 2)
        for block in reader.snapshot.blocks:
            table_of(Lake(backup)).read_block(block)
    [done] = copy(vacuumed.store, backup, options=SYNC)
    assert (done.deleted, done.kept) == (2, 0)
    assert backup.get(f"{stray}.singer.gz").data == b"a writer's"


@pytest.mark.parametrize("behind", [False, True], ids=["new", "known"])
def test_a_copy_goes_on_where_one_died(vacuumed: Lake, backup: LocalStore, behind: bool) -> None:
    if behind:
        copy(vacuumed.store, backup)
    for number in range(6, 10):
        write(vacuumed, number)
    tried = Path(backup.root.parent, "tried")
    if behind:
        shutil.copytree(backup.root, tried)
    copy(vacuumed.store, trace := FaultyStore(LocalStore(tried)), options=ONE_BY_ONE)
    third = [n for n, done in enumerate(trace.trace, 1) if done.method == "publish"][2]
    watched = FaultyStore(backup, third, OUTAGE)
    with pytest.raises(StoreError, match="gone"):
        copy(vacuumed.store, watched, options=ONE_BY_ONE)
    if behind:
        assert opens(backup) == [1, 2, 3, 4, 5]
    else:
        with pytest.raises(NotFoundError):
            table_of(Lake(backup)).snapshot()
    there = data_files(backup)
    assert len(there) == (4 if behind else 2)
    [done] = copy(vacuumed.store, backup, options=AGAIN)
    assert done.files == (2 if behind else 4)
    assert opens(backup) == rows(backup) == [*range(1, 10)] and problems(backup) == []


def test_the_locks_of_a_copy_that_failed_are_nobodys(
    vacuumed: Lake, backup: LocalStore, tmp_path: Path
) -> None:
    """Its files lie beside them, so that they are not taken for a table's; who copies goes on."""
    copy(vacuumed.store, trace := FaultyStore(LocalStore(tmp_path / "tried")), options=ONE_BY_ONE)
    first = next(n for n, done in enumerate(trace.trace, 1) if done.method == "publish")
    hasty = replace(ONE_BY_ONE, writing=WriteOptions(lock_wait_seconds=0.1))
    with pytest.raises(StoreError):
        copy(vacuumed.store, FaultyStore(backup, first + 1, OUTAGE), options=hasty)
    folder = next(iter(data_files(backup))).rpartition("/")[0]
    left = Path(backup.root, folder, "singerlake.lock")
    locked = left.read_bytes()
    assert b'"writer-id": "copy-' in locked
    left.write_bytes(locked.replace(b"copy-", b"sync-"))
    for lock in backup.root.rglob("t/singerlake.lock"):
        lock.unlink()  # the outage kept it from being given up; it goes stale
    with pytest.raises(LockTimeoutError):
        copy(vacuumed.store, backup, options=hasty)
    left.write_bytes(locked)
    copy(vacuumed.store, backup, options=hasty)
    assert not left.exists() and problems(backup) == []


def test_a_damaged_source_is_not_copied_and_the_other_tables_are(
    vacuumed: Lake, backup: LocalStore
) -> None:
    write(vacuumed, 1, table="tap-test.good")
    key, data = next(iter(data_files(vacuumed.store).items()))
    Path(vacuumed.store.uri, key).write_bytes(data[:-20] + b"\0" + data[-19:])
    with pytest.raises(DamagedError, match="damaged at byte"):
        copy(vacuumed.store, backup)
    assert problems(backup, "tap-test.good") == []
    with pytest.raises(NotFoundError):
        table_of(Lake(backup)).snapshot()
    Path(vacuumed.store.uri, key).write_bytes(data)
    copy(vacuumed.store, backup, options=AGAIN)
    assert problems(backup) == []


def test_a_log_that_is_no_chain_is_not_copied(source: Lake, backup: LocalStore) -> None:
    for number in (1, 2, 3):
        write(source, number)
    other = Lake(LocalStore(backup.root.parent / "other"))
    for number in (1, 2):
        write(other, number)
    key = table_of(source).name.transaction(2)
    Path(source.store.uri, key).write_bytes(other.store.get(key).data)
    with pytest.raises(DamagedError, match="was written after a different transaction"):
        copy(source.store, backup)
    Path(source.store.uri, key).unlink()
    with pytest.raises(DamagedError, match="lacks transaction 2"):
        copy(source.store, backup)
    assert not Path(backup.uri, table_of(source).name.log).exists()


def test_a_copy_that_was_written_to_is_refused_with_the_transaction(
    vacuumed: Lake, backup: LocalStore
) -> None:
    copy(vacuumed.store, backup)
    write(Lake(backup), 99)
    write(Lake(backup), 100)
    before = plain.dump_folder(backup.root)
    with pytest.raises(ConflictError, match=r"transaction 7 \(sync of .*\) is not at the source"):
        copy(vacuumed.store, backup)
    for number in range(6, 12):
        write(vacuumed, number)
    with pytest.raises(ConflictError, match=r"transaction 7 is sync of .*, and sync of .* at the"):
        copy(vacuumed.store, backup)
    assert plain.dump_folder(backup.root) == before and 100 in rows(backup)


def test_a_table_of_another_lake_is_refused(source: Lake, backup: LocalStore) -> None:
    write(source, 1)
    write(Lake(backup), 1)
    with pytest.raises(ConflictError, match="transaction 1 is sync"):
        copy(source.store, backup)
    entry = table_of(source).name.transaction(1)
    manifest = table_of(source).name.manifest
    Path(backup.uri, entry).unlink()
    with pytest.raises(ConflictError, match="an incomplete copy of another"):
        copy(source.store, backup)
    Path(backup.uri, manifest).unlink()
    with pytest.raises(DamagedError, match="neither log nor manifest"):
        copy(source.store, backup)


def test_entries_put_ahead_are_taken_back_where_somebody_else_was_sooner(
    source: Lake, backup: LocalStore
) -> None:
    write(source, 1)
    copy(source.store, backup)
    for number in (2, 3, 4, 5):
        write(source, number)
    broken = BrokenStore(backup)
    broken._capabilities = backup._capabilities
    last = table_of(source).name.transaction(2)

    def somebody(method: str, key: str) -> None:
        if (method, key) == ("put", last) and not commits:
            commits.append(key)
            freeze(table_of(Lake(backup)), at=1)  # a sync would wait for the copy's locks

    commits: list[str] = []
    broken.before = somebody
    with pytest.raises(ConflictError):
        copy(source.store, broken)
    assert commits and opens(backup) == [1] and problems(backup) == []
    assert len(log_of(backup)) == 2 and len(table_of(Lake(backup)).versions()) == 1

    # Killed before its last entry, and somebody else wrote that one.
    second = LocalStore(backup.root.parent / "second")
    copy(LocalStore(backup.root), second)
    write(Lake(backup), 100)
    write(Lake(backup), 101)
    key = table_of(source).name.transaction(4)
    second.put_if_absent(key, backup.get(key).data)
    write(Lake(second), 77)
    with pytest.raises(DamagedError):
        opens(second)
    with pytest.raises((ConflictError, DamagedError)):
        copy(backup, second)
    assert opens(second) == [1, 77] and problems(second) == []


def test_two_copies_at_once_make_one(vacuumed: Lake, backup: LocalStore) -> None:
    for number in range(6, 20):
        write(vacuumed, number)
    stores = [LocalStore(backup.root) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        done = [*pool.map(lambda store: copy(LocalStore(Path(vacuumed.store.uri)), store), stores)]
    assert sum(one.transactions for [one] in done) == len(log_of(backup))
    assert log_of(backup) == log_of(vacuumed.store) and problems(backup) == []
    assert plain.leftovers(plain.dump_folder(backup.root)) == []


def test_a_source_that_moves_on_is_copied_as_of_a_moment(
    vacuumed: Lake, backup: LocalStore
) -> None:
    class Moving(LocalStore):
        """A source that nobody may write to, so that no lease holds its vacuum off."""

        moved = False

        def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
            raise StoreError("read only")

        def get_range(self, key: str, offset: int, length: int) -> bytes:
            if not self.moved and key.endswith(".singer.gz"):
                self.moved = True
                write(vacuumed, 6)
                combine(vacuumed)
                delete(vacuumed)
            return super().get_range(key, offset, length)

    copy(Moving(Path(vacuumed.store.uri)), backup, options=replace(AGAIN, transfers=1))
    assert opens(backup) == [1, 2, 3, 4, 5, 6] and problems(backup) == []


def test_while_it_is_copied_the_source_is_leased(vacuumed: Lake, backup: LocalStore) -> None:
    seen: list[list[str]] = []

    class Watched(LocalStore):
        def get_range(self, key: str, offset: int, length: int) -> bytes:
            if key.endswith(".singer.gz"):
                seen.append([item.key for item in self.list(table_of(vacuumed).name.leases)])
            return super().get_range(key, offset, length)

    copy(Watched(Path(vacuumed.store.uri)), backup)
    assert all(len(leases) == 1 for leases in seen) and len(seen) == 2
    assert [*vacuumed.store.list(table_of(vacuumed).name.leases)] == []
    assert not Path(backup.uri, table_of(vacuumed).name.leases).exists()


def test_a_dropped_table_comes_back_in_the_copy_too(source: Lake, backup: LocalStore) -> None:
    write(source, 1, 2)
    copy(source.store, backup)
    drop_table(source.store, table_of(source).snapshot(), AlterOptions())
    fresh = LocalStore(backup.root.parent / "fresh")
    for store in (backup, fresh):
        copy(source.store, store, options=SYNC)
        assert table_of(Lake(store)).snapshot(dropped=True).dropped_at == 2
        assert Lake(store).catalogue("tap-test") in (None, Catalogue())
        assert len(data_files(store)) == 1
    undrop_table(fresh, table_of(Lake(fresh)).snapshot(dropped=True), AlterOptions())
    assert opens(fresh) == [1, 2]
    delete(source)
    copy(source.store, backup, options=SYNC)
    assert data_files(backup) == {} and problems(backup) == []


def test_verify_finds_what_changed_in_the_copy_and_a_lost_file_comes_again(
    vacuumed: Lake, backup: LocalStore
) -> None:
    copy(vacuumed.store, backup)
    [fine] = copy(vacuumed.store, backup, options=VERIFY)
    assert fine.verified == 2
    key, data = next(iter(data_files(backup).items()))
    path = Path(backup.uri, key)
    path.write_bytes(data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])
    assert copy(vacuumed.store, backup)[0].files == 0
    with pytest.raises(DamagedError, match="is damaged at byte|is cut"):
        copy(vacuumed.store, backup, options=VERIFY)
    path.write_bytes(data[:50])
    with pytest.raises(DamagedError, match="is cut"):
        copy(vacuumed.store, backup, options=VERIFY)
    path.unlink()
    [mended] = copy(vacuumed.store, backup, options=VERIFY)
    assert (mended.files, mended.verified) == (1, 2) and problems(backup) == []
    log = table_of(vacuumed).name.transaction(3)
    Path(backup.uri, log).unlink()
    with pytest.raises(DamagedError, match="lacks transaction 3"):
        copy(vacuumed.store, backup, options=VERIFY)


def test_a_file_of_the_same_name_with_other_bytes_is_not_overwritten(
    vacuumed: Lake, backup: LocalStore
) -> None:
    key, data = next(iter(data_files(vacuumed.store).items()))

    class Late(LocalStore):
        """Somebody puts a file there after it was looked whether it is."""

        def link(self, staging: int, source: str, key_: str, **options: Any) -> None:
            if key_ == key and not Path(self.uri, key).exists():
                Path(self.uri, key).parent.mkdir(parents=True, exist_ok=True)
                Path(self.uri, key).write_bytes(b"x" * len(data))
            super().link(staging, source, key_, **options)

    with pytest.raises(DamagedError, match="is not overwritten"):
        copy(vacuumed.store, Late(backup.root))
    assert backup.get(key).data == b"x" * len(data)


def test_files_go_by_in_pieces(
    vacuumed: Lake, backup: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for piece in (1, 7, 64, 100_000, len(next(iter(data_files(vacuumed.store).values())))):
        monkeypatch.setattr(transfers, "PIECE", piece)
        store = LocalStore(backup.root / f"{piece}")
        copy(vacuumed.store, store)
        assert data_files(store) == data_files(vacuumed.store)


def test_a_dry_run_says_the_same_and_changes_nothing(vacuumed: Lake, backup: LocalStore) -> None:
    before = plain.dump_folder(Path(vacuumed.store.uri))
    [planned] = copy(vacuumed.store, backup, options=replace(QUICK, dry_run=True))
    assert not backup.root.exists() and plain.dump_folder(Path(vacuumed.store.uri)) == before
    [done] = copy(vacuumed.store, backup)
    same = ("transactions", "files", "bytes")
    assert [getattr(planned, name) for name in same] == [getattr(done, name) for name in same]


def test_only_a_lake_or_an_empty_place_is_copied_to(vacuumed: Lake, tmp_path: Path) -> None:
    check: Callable[[LocalStore], None] = lambda store: destinations.check_place(  # noqa: E731
        vacuumed.store, store
    )
    check(LocalStore(tmp_path / "not there"))
    (tmp_path / "staged" / ".staging").mkdir(parents=True)
    (tmp_path / "staged" / ".staging" / "x").write_bytes(b"")
    check(LocalStore(tmp_path / "staged"))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(b"")
    with pytest.raises(UsageError, match="not a lake, and not empty"):
        check(LocalStore(tmp_path / "photos"))
    (tmp_path / "link").symlink_to(tmp_path / "source")
    for inside in (tmp_path / "source", tmp_path / "source/raw/copy", tmp_path, tmp_path / "link"):
        with pytest.raises(UsageError, match="outside"):
            check(LocalStore(inside))


def test_peoples_words_are_copied_and_what_is_of_the_place_is_not(
    source: Lake, backup: LocalStore
) -> None:
    def said(store: LocalStore) -> dict[str, object]:
        return dict(msgspec.json.decode(store.get("raw/singerlake.json").data))

    write(source, 1)
    write(source, 1, table="tap-test.u")
    words = said(source.store) | {"owner": "ada", "later": {"x": 1}, "probed": "elsewhere"}
    # The tap that has no table stays away: a lake that names one without a folder has lost it.
    tap = {"owner": "eve", "tables": {"t": {"owner": "t"}, "u": {"owner": "u"}}}
    words["taps"] = {"tap-test": tap, "tap-none": {"owner": "nobody"}}
    source.store.replace("raw/singerlake.json", msgspec.json.encode(words), None)
    copy(source.store, backup, NAME)
    only = said(backup)
    assert only["owner"] is None and only["taps"] == {
        "tap-test": {"owner": "eve", "tables": {"t": {"owner": "t"}}}
    }
    copy(source.store, backup)
    after = said(backup)
    assert after["owner"] == "ada" and after["later"] == {"x": 1} and after["probed"] is None
    assert after["taps"] == {"tap-test": tap}


def test_what_is_said_of_the_destination_s_own_tables_stays(
    source: Lake, backup: LocalStore
) -> None:
    write(source, 1)
    write(Lake(backup), 2, table="tap-test.own")
    copy(source.store, backup, NAME)
    words = dict(msgspec.json.decode(backup.get("raw/singerlake.json").data))
    own = {"own": {"owner": "eve"}, "t": {"owner": "not the source's"}}
    words["taps"] = {"tap-test": {"owner": "ada", "tables": own}}
    backup.replace("raw/singerlake.json", msgspec.json.encode(words), None)
    for names, owner in (([NAME], {"owner": "ada"}), ([], {})):
        copy(source.store, backup, *names)
        words = dict(msgspec.json.decode(backup.get("raw/singerlake.json").data))
        assert words["taps"] == {"tap-test": {**owner, "tables": {"own": {"owner": "eve"}}}}


@pytest.mark.parametrize("name", sorted(p.name for p in LAKES.iterdir() if p.is_dir()))
def test_lakes_of_earlier_releases_are_copied(name: str, backup: LocalStore) -> None:
    lake = Lake.open(str(LAKES / name))
    before = plain.dump_folder(LAKES / name)

    class ReadOnly(LocalStore):
        def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
            raise StoreError("read only")

    for _ in range(2):
        copy(ReadOnly(LAKES / name), backup, options=VERIFY)
    for table in lake.tables():
        assert log_of(backup, str(table)) == log_of(lake.store, str(table))
        assert problems(backup, str(table)) == []
    assert plain.dump_folder(LAKES / name) == before


def test_a_version_alone_is_a_table_with_its_number_and_its_transaction(
    source: Lake, backup: LocalStore
) -> None:
    write(source, 1, 2, 3)
    write(source, 4)
    freeze(table_of(source), at=1)
    write(source, 5)
    freeze(table_of(source), at=4)
    combine(source)
    delete(source)
    write(source, 6)
    copied = copy(source.store, backup, f"{NAME}.2")
    assert [(one.snapshot.number, one.files) for one in copied] == [(5, 1)]
    there = table_of(Lake(backup)).snapshot()
    assert [v.number for v in there.frozen] == [1, 2]
    assert there.frozen == table_of(source).snapshot().frozen
    assert problems(backup) == [] and rows(backup) == rows(backup, 4) == [1, 2, 3, 4, 5]
    assert copy(source.store, backup, f"{NAME}.2", f"{NAME}.1")[0].files == 0
    with pytest.raises(
        ConflictError, match="no longer a copy of the source.*copy of versions only"
    ):
        copy(source.store, backup)
    first = LocalStore(backup.root.parent / "first")
    copy(source.store, first, f"{NAME}.1", options=VERIFY)
    assert [v.number for v in table_of(Lake(first)).snapshot().frozen] == [1]
    assert problems(first) == [] and rows(first) == [1, 2, 3]
    with pytest.raises(ConflictError, match="it is a copy of versions only"):
        copy(source.store, first, f"{NAME}.2")
    with pytest.raises(NotFoundError, match="no version"):
        copy(source.store, first, f"{NAME}.3")
    with pytest.raises(UsageError, match="whole and by a version"):
        copy(source.store, first, NAME, f"{NAME}.1")
    with pytest.raises(UsageError, match="whole and by a version"):
        copy(source.store, first, f"{NAME}.1", NAME)
    assert choose(source, [NAME, NAME]) == {table_of(source).name: []}
    assert choose(source, [f"{NAME}.1", f"{NAME}.2", f"{NAME}.1"]) == {
        table_of(source).name: ["1", "2"]
    }
    with pytest.raises(UsageError, match="is a transaction"):
        copy(source.store, first, f"{NAME}.@1")
    point(source.store, table_of(source).snapshot(), "current", "2")
    assert choose(source, [f"{NAME}@current"]) == {table_of(source).name: ["2"]}
    with pytest.raises(NotFoundError, match="no pointer @next"):
        choose(source, [f"{NAME}@next"])


def test_a_plan_says_what_is_missing_and_what_would_be_deleted(
    source: Lake, backup: LocalStore
) -> None:
    for number in (1, 2, 3):
        write(source, number)
    copy(source.store, backup)
    combine(source)
    delete(source)
    planned = replace(QUICK, dry_run=True)
    [plan] = copy(source.store, backup, options=replace(planned, sync=True))
    assert (plan.files, plan.deleted) == (1, 3) and len(data_files(backup)) == 3
    [done] = copy(source.store, backup, options=SYNC)
    assert (done.files, done.deleted) == (1, 3)
    [plan] = copy(source.store, backup, options=replace(planned, sync=True))
    assert (plan.files, plan.deleted) == (0, 0)
    [left] = data_files(backup)
    (backup.root / left).unlink()
    for options in (replace(planned, verify=True), replace(planned, sync=True)):
        assert copy(source.store, backup, options=options)[0].files == 1


def test_an_idle_run_asks_little(vacuumed: Lake, backup: LocalStore) -> None:
    """What a nightly run costs that finds nothing to do, in requests to each of the two."""
    copy(vacuumed.store, backup)
    here, there = FaultyStore(vacuumed.store), FaultyStore(backup)
    copy(here, there)
    asked = [(len(store.trace), {done.method for done in store.trace}) for store in (here, there)]
    assert [count for count, _ in asked] == [7, 6]
    assert {method for _, methods in asked for method in methods} == {"get", "get_range", "folders"}


def test_what_a_copy_at_work_has_put_ahead_stays(source: Lake, backup: LocalStore) -> None:
    """Another run that finds nothing to agree with waits for it, and takes nothing from it."""
    write(source, 1)
    copy(source.store, backup)
    for number in (2, 3, 4):
        write(source, number)
    freeze(table_of(source), at=4)
    others: list[object] = []

    class Copying(LocalStore):
        def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
            if key == table_of(source).name.transaction(2):
                hasty = replace(QUICK, writing=WriteOptions(lock_wait_seconds=0.1))
                for tables in ((f"{NAME}.1",), ()):
                    with pytest.raises((ConflictError, DamagedError)) as told:
                        copy(source.store, LocalStore(backup.root), *tables, options=hasty)
                    others.append(told.value)
            return super().put_if_absent(key, data, durable=durable)

    copy(source.store, Copying(backup.root))
    assert len(others) == 2 and log_of(backup) == log_of(source.store)
    assert opens(backup) == [1, 2, 3, 4] and problems(backup) == []
