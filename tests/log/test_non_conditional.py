"""Writers on a store that ignores conditions take turns, and lose nothing."""

from __future__ import annotations

import json
import threading
import time
import types
from pathlib import Path

import pytest

from singerlake.errors import ConflictError, LockTimeoutError, OutcomeUnknownError
from singerlake.format import names
from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import capabilities, lake_file
from singerlake.log.locks import lock, lock_file
from singerlake.log.locks.lock import WriterLock
from singerlake.log.log import entries, read_snapshot
from singerlake.log.writer import TableWriter, WriteOptions, hold_locks, update_lake
from singerlake.ops import freeze
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.verify.data_files import check_files
from singerlake.ops.verify.plan import check_log
from singerlake.storage.base import Capabilities, KeyMissingError, Store
from tests.build import commit_rows, resealed
from tests.log.broken import (
    NO_ANSWER,
    PROPERTIES,
    TABLE,
    BrokenStore,
    ids_in,
    staged_rows,
    until_done,
)
from tests.log.non_conditional import NonConditionalStore
from tests.log.worker import Worker, run_together
from tests.storage.contract import in_parallel

SETTLE = 0.15
LOG = "/transactions/"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.02)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def store(root: Path) -> NonConditionalStore:
    return NonConditionalStore(root, SETTLE)


def broken(root: Path) -> BrokenStore:
    """A non-conditional store with hooks, known as one already."""
    found = BrokenStore(NonConditionalStore(root, SETTLE))
    found._capabilities = Capabilities(False, SETTLE)
    return found


def commit(store: Store, number: int, column: int = 0) -> None:
    """Commit one row under one of several schemas."""
    until_done(
        lambda: TableWriter(store, TABLE).commit(staged_rows(store, number, schema=schema(column)))
    )


def assert_whole(store: Store, ids: list[int], transactions: int) -> None:
    """Every row once, every number once, every file named, and nothing left behind."""
    found = list(entries(store, TABLE))
    assert [entry.number for entry in found] == list(range(1, transactions + 1))
    assert len({entry.commit for entry in found}) == transactions
    assert sorted(ids_in(store)) == sorted(ids)
    checked = check_log(store, TABLE)
    assert checked.problems == []
    assert check_files(checked.snapshot, store.list(TABLE.folder))[0] == []
    named = {block.file for block in checked.snapshot.blocks}
    there = {i.key for i in store.list(TABLE.folder) if i.key.endswith(names.SUFFIX)}
    assert there == {TABLE.data(file) for file in named}
    assert not [item.key for item in store.list(names.RAW) if item.key.endswith(".lock")]


def schema(number: int) -> SchemaEntry:
    return SchemaEntry({"type": "object", "properties": {**PROPERTIES, f"x{number}": {}}}, [])


@pytest.mark.usefixtures("many_cases")
def test_threads_of_two_schemas(root: Path) -> None:
    lag = 1.0  # what was created within it shows in no listing

    def work(thread: int) -> None:
        own = NonConditionalStore(root, SETTLE, lag)
        for n in range(2):
            commit(own, thread * 10 + n, thread % 2)

    assert in_parallel(3, work) == [None] * 3
    assert_whole(NonConditionalStore(root, SETTLE), [0, 1, 10, 11, 20, 21], 6)


@pytest.mark.usefixtures("processes")
def test_processes(root: Path) -> None:
    settings = {
        "kind": "non-conditional",
        "uri": str(root),
        "settle": 0.2,
        "lag": 2.0,
        "commits": 2,
    }
    workers = [Worker(**settings, first=10 * n, column=f"x{n}") for n in range(2)]
    assert sorted(run_together(workers)) == [0, 1, 10, 11]
    assert_whole(NonConditionalStore(root), [0, 1, 10, 11], 4)


@pytest.mark.usefixtures("many_cases")
def test_freezes_and_syncs_take_turns(store: NonConditionalStore) -> None:
    """A freeze holds no schema's lock; the commit itself takes the table's."""
    commit(store, 0)

    def work(n: int) -> None:
        own = NonConditionalStore(store.inner.root, SETTLE)
        if n == 0:
            commit(own, 1)
            return
        head = read_snapshot(own, TABLE)
        assert head is not None
        wanted = freeze.plan(head, label=f"v{n}")
        until_done(lambda: freeze.commit_version(own, head, wanted, rows=1, fingerprint="0" * 32))

    assert in_parallel(3, work) == [None] * 3
    assert_whole(store, [0, 1], 4)
    found = read_snapshot(store, TABLE)
    assert found is not None
    assert [version.number for version in found.frozen] == [1, 2]


@pytest.mark.usefixtures("many_cases")
def test_a_rebuild_writes_over_nothing(store: NonConditionalStore) -> None:
    """Its listing does not show the newest entries yet, and their metadata must stay."""
    for number in range(3):
        commit(store, number)
    before = [store.get(TABLE.transaction(n)).data for n in (1, 2, 3)]
    store.delete(TABLE.transaction(2))
    blind = NonConditionalStore(store.inner.root, SETTLE, lag=3600)
    rebuild_table(blind, TABLE)
    after = [store.get(TABLE.transaction(n)).data for n in (1, 2, 3)]
    assert (after[0], after[2]) == (before[0], before[2])
    assert_whole(store, [0, 1, 2], 3)


def test_equal_names_are_drawn_not_tried(store: NonConditionalStore) -> None:
    """Files of the same times, published at once by writers that cannot see each other."""
    staged = [staged_rows(store, number) for number in range(4)]
    store.fix_capabilities(Capabilities(False, SETTLE))
    in_parallel(4, lambda n: staged[n].publish())
    files = {one.numbered(0)[0].file for one in staged}
    assert len(files) == 4
    for number, one in enumerate(staged):
        [block] = one.numbered(0)
        assert f'"id": {number}'.encode() in Lake(store).table(TABLE).read_block(block)


@pytest.mark.usefixtures("many_cases")
def test_streams_do_not_vanish_from_what_is_shared(root: Path) -> None:
    """Two find the catalogue without them, and then both write."""
    NonConditionalStore(root).replace(names.LAKE, b'{"format": 1, "owner": "ada"}', None)
    shared = (names.LAKE, names.LAKE_LOCK, names.catalogue("tap"))
    together = threading.Barrier(2)

    def work(n: int) -> None:
        store, met = broken(root), []

        def before(method: str, key: str) -> None:
            if method in ("put", "replace") and key in shared and not met:
                met.append(key)
                together.wait(60)

        store.before = before
        commit_rows(Lake(store), f"tap.s{n}", PROPERTIES, [], [{"id": n}])

    assert in_parallel(2, work) == [None, None]
    store = NonConditionalStore(root)
    streams = json.loads(store.get(names.catalogue("tap")).data)["streams"]
    assert [s["stream"] for s in streams] == ["s0", "s1"]
    file = json.loads(store.get(names.LAKE).data)
    assert (list(file["taps"]), file["owner"]) == (["tap"], "ada")
    assert not store.inner.exists(names.LAKE_LOCK)


@pytest.mark.usefixtures("many_cases")
def test_what_is_shared_is_locked_only_to_be_changed(store: NonConditionalStore) -> None:
    lake = Lake(store)
    snapshot = commit_rows(lake, "tap.s", PROPERTIES, [], [{"id": 1}])
    seen = BrokenStore(store)
    seen._capabilities = Capabilities(False, SETTLE)
    update_lake(seen, [snapshot])
    assert seen.writes == []


def test_two_who_take_the_lock_at_once(root: Path) -> None:
    """Both found it free; who reads back the other's waits."""
    inside: list[str] = []
    most = [0]
    together = threading.Barrier(2)
    key = TABLE.lock("abcdefg")

    def work(n: int) -> None:
        store, met = broken(root), []

        def before(method: str, at: str) -> None:
            if method == "replace" and at == key and not met:
                met.append(n)
                together.wait(60)
                time.sleep(n * SETTLE / 3)  # one's write comes later, but not too late

        def hold() -> None:
            with WriterLock(store, key, f"w{n}") as held:
                inside.append(f"w{n}")
                most[0] = max(most[0], len(inside))
                time.sleep(SETTLE)
                inside.remove(f"w{n}")
                held.check()

        store.before = before
        until_done(hold)

    assert in_parallel(2, work) == [None, None]
    assert most == [1]


@pytest.mark.usefixtures("many_cases")
def test_a_lock_that_is_seen_late_is_waited_for(root: Path) -> None:
    """All within the settle time, and a writer held up for less than two of them after its look.

    The model found it (``SettleTime`` in ``model/Turns.tla``): who read its lock back after one
    settle time did not see one yet whose writer had looked before, had both for own, and wrote
    over an entry that was acknowledged.
    """
    one, other = broken(root), broken(root)
    both_look = threading.Barrier(2)
    looked: list[str] = []
    met: list[str] = []

    def look(method: str, key: str) -> None:
        if (method, key) == ("get", TABLE.table_lock) and len(looked) < 2:
            looked.append(key)
            both_look.wait(60)

    def slow_and_late(method: str, key: str) -> None:
        look(method, key)
        if method == "replace" and key == TABLE.table_lock and not met:
            met.append(key)
            time.sleep(0.7 * SETTLE)

    def seen_late(key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        other.before("replace", key)
        work = lambda: other.store.replace(key, data, etag, durable=durable)  # noqa: E731
        if key != TABLE.table_lock or len(met) > 1:
            return work()
        met.append(key)
        threading.Timer(0.8 * SETTLE, work).start()
        return "late"

    def held_up(method: str, key: str) -> None:
        look(method, key)
        if method == "put" and LOG in key:
            time.sleep(1.95 * SETTLE)

    other.before, one.before = slow_and_late, held_up
    other.replace = seen_late  # type: ignore[method-assign]

    assert in_parallel(2, lambda n: commit((other, one)[n], n, n)) == [None, None]
    assert_whole(one, [0, 1], 2)


def test_a_lock_that_was_slow_to_write_is_given_up(root: Path) -> None:
    """Another may have read its own back before ours came."""
    store, key = broken(root), TABLE.lock("abcdefg")
    store.before = lambda method, at: time.sleep(2 * SETTLE) if method == "replace" else None
    with pytest.raises(LockTimeoutError, match="lock_settle_seconds"):
        WriterLock(store, key, "w1", wait_seconds=0).acquire()
    with pytest.raises(KeyMissingError):
        store.get(key)


@pytest.mark.parametrize("stale_one_there", [True, False])
def test_an_interrupt_while_taking_it_leaves_no_lock(
    root: Path, monkeypatch: pytest.MonkeyPatch, stale_one_there: bool
) -> None:
    store, key = broken(root), TABLE.lock("abcdefg")
    if stale_one_there:
        store.replace(key, b"a dead writer's", None)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lock_file, "time", types.SimpleNamespace(sleep=interrupt))
    options = WriteOptions(lock_stale_seconds=0.01)
    with pytest.raises(KeyboardInterrupt), hold_locks(store, TABLE, ["abcdefg"], "w1", options):
        pass
    assert not store.store.exists(key)


def test_who_was_held_up_does_not_refresh_over_another(root: Path) -> None:
    """Its clock says that the lock may be another's by now: it neither writes nor commits."""
    store, key, now = broken(root), TABLE.lock("abcdefg"), [0.0]
    held = WriterLock(store, key, "w1", stale_seconds=60, clock=lambda: now[0])
    held.acquire()
    held.check()
    now[0] = 61.0
    store.writes.clear()
    assert held._refresh() is False
    assert store.writes == []
    with pytest.raises(ConflictError, match="was not refreshed"):
        held.check()
    held.release()


def test_a_refresh_that_comes_too_late_does_not_count(root: Path) -> None:
    store, key, now = broken(root), TABLE.lock("abcdefg"), [0.0]
    held = WriterLock(store, key, "w1", stale_seconds=60, clock=lambda: now[0])
    held.acquire()

    def held_up(method: str, at: str) -> None:
        if method == "replace":
            now[0] = 61.0

    store.before = held_up
    assert held._refresh() is False
    with pytest.raises(ConflictError, match="was not refreshed"):
        held.check()
    held.release()


@pytest.mark.usefixtures("many_cases")
def test_an_entry_written_over_is_committed_again(root: Path) -> None:
    """Should the locks have failed: who finds another's entry in its place goes on."""
    store = broken(root)
    rival = NonConditionalStore(root, SETTLE)
    TableWriter(rival, TABLE).commit(staged_rows(rival, 1))
    theirs: list[bytes] = []

    def after(method: str, key: str) -> None:
        if method == "put" and LOG in key and not theirs:
            # Another entry of the same number, as another writer would have made it.
            ours = json.loads(store.store.get(key).data)
            theirs.append(resealed({**ours, "commit": "another", "blocks": []}))
            store.store.replace(key, theirs[0], None)

    store.after = after
    snapshot = TableWriter(store, TABLE).commit(staged_rows(store, 2))
    assert theirs
    assert snapshot is not None
    assert snapshot.number == 3
    assert_whole(store.store, [1, 2], 3)


def test_an_unknown_outcome_keeps_the_table_locked(root: Path) -> None:
    """The write may still arrive: nobody else may take its number meanwhile."""
    store = broken(root)

    def before(method: str, key: str) -> None:
        if method == "put" and LOG in key:
            raise NO_ANSWER

    store.before = before
    with pytest.raises(OutcomeUnknownError):
        TableWriter(store, TABLE).commit(staged_rows(store, 1))
    assert store.store.exists(TABLE.table_lock)
    capabilities.open_for_writing(store.store)
    waiting = WriterLock(store.store, TABLE.table_lock, "w2", wait_seconds=0)
    with pytest.raises(LockTimeoutError):
        waiting.acquire()


@pytest.mark.usefixtures("many_cases")
def test_a_lock_on_what_is_shared_that_is_lost_is_taken_again(root: Path) -> None:
    store = broken(root)
    lake_file.add_tap(store, "tap-1")
    broke: list[str] = []

    def after(method: str, key: str) -> None:
        if method == "replace" and key == names.LAKE_LOCK and not broke:
            broke.append(key)

    def before(method: str, key: str) -> None:
        if method == "get" and key == names.LAKE and broke == [names.LAKE_LOCK]:
            broke.append("gone")
            store.store.delete(names.LAKE_LOCK)

    store.after, store.before = after, before
    lake_file.add_tap(store, "tap-2")
    assert "gone" in broke
    assert sorted(json.loads(store.get(names.LAKE).data)["taps"]) == ["tap-1", "tap-2"]


@pytest.mark.usefixtures("many_cases")
def test_another_tables_writers_do_not_wait(root: Path) -> None:
    store = broken(root)
    with WriterLock(store, TableName("tap-x", "b").table_lock, "w1"):
        assert TableWriter(store, TABLE).commit(staged_rows(store, 1)) is not None
