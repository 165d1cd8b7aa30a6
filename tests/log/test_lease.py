"""Leases: put before the look, refreshed while they live, and never in a reader's way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from singerlake.errors import ConflictError, DamagedError, StoreError
from singerlake.format import metadata, times
from singerlake.format.metadata import Lease
from singerlake.lake import Lake, Table
from singerlake.log import checkpoint
from singerlake.log import lease as leases_module
from singerlake.log.lease import ReaderLease, Watch, leases, wait_out
from singerlake.storage.base import KeyExistsError
from tests.build import commit_rows
from tests.log.broken import NO_ANSWER, PROPERTIES, TABLE, BrokenStore, raising

DEADLINE = 60.0


def until(what: Callable[[], bool]) -> None:
    """Wait for the very thing."""
    end = time.monotonic() + DEADLINE
    while not what():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


@pytest.fixture
def filled(lake: Lake) -> Lake:
    commit_rows(lake, str(TABLE), PROPERTIES, [], [{"id": 1}])
    return lake


def test_what_was_committed_before_the_lease_was_there_is_seen(filled: Lake) -> None:
    old = filled.table(TABLE).snapshot()
    store = BrokenStore(filled.store)

    def commit_first(method: str, key: str) -> None:
        if method == "put" and key.startswith(TABLE.leases):
            commit_rows(filled, str(TABLE), PROPERTIES, [], [{"id": 2}])

    store.before = commit_first
    with ReaderLease(store, old) as lease:
        assert lease.snapshot.number == 2
        (found,) = leases(store, TABLE)
        assert found.transaction == 1, "it protects all that its holder may have in hand"
        assert old.number == 1, "a snapshot does not move"
    assert leases(store, TABLE) == []
    lease.release()
    assert [method for method, key in store.writes if "leases/" in key] == ["put", "delete"]


def test_it_begins_with_the_manifest_and_reads_the_log_once(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "checkpoint_due", lambda _: False)
    commit_rows(filled, str(TABLE), PROPERTIES, [], [{"id": 2}])
    store = BrokenStore(filled.store)
    order: list[str] = []
    store.before = lambda method, key: order.append(f"{method} {key}")
    with Table(store, TABLE).lease() as lease:
        (found,) = leases(filled.store, TABLE)
        assert (found.transaction, lease.snapshot.number) == (1, 2)
        assert order == [
            f"get {TABLE.manifest}",
            f"put {found.key}",
            f"get {TABLE.transaction(2)}",
            f"get {TABLE.transaction(3)}",
        ]


def test_without_a_manifest_it_begins_with_the_head(filled: Lake) -> None:
    commit_rows(filled, str(TABLE), PROPERTIES, [], [{"id": 2}])
    filled.store.delete(TABLE.manifest)
    with filled.table(TABLE).lease() as lease:
        (found,) = leases(filled.store, TABLE)
        assert (found.transaction, lease.snapshot.number) == (2, 2)


def test_the_lease_is_there_before_the_log_is_looked_at_again(filled: Lake) -> None:
    store = BrokenStore(filled.store)
    order: list[str] = []
    store.before = lambda method, key: order.append(f"{method} {key}")
    with ReaderLease(store, filled.table(TABLE).snapshot()):
        assert order[0].startswith(f"put {TABLE.leases}")
        assert order[1] == f"get {TABLE.transaction(2)}"


def test_a_lease_that_lives_is_refreshed_and_one_removed_comes_back(filled: Lake) -> None:
    store = filled.store
    with ReaderLease(store, filled.table(TABLE).snapshot(), stale_seconds=0.2):
        (first,) = leases(store, TABLE)
        until(lambda: leases(store, TABLE)[0].etag != first.etag)
        store.delete(first.key)  # by a vacuum that was sure it is dead
        until(lambda: [one.key for one in leases(store, TABLE)] == [first.key])
    assert leases(store, TABLE) == []


def test_a_lease_lives_though_the_clock_stands_still(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(times, "now", lambda: times.from_micros(10**18))  # beyond the last
    with ReaderLease(filled.store, filled.table(TABLE).snapshot(), stale_seconds=0.2):
        (first,) = leases(filled.store, TABLE)
        until(lambda: leases(filled.store, TABLE)[0].etag != first.etag)


def test_a_lake_that_cannot_be_written_is_read_without(filled: Lake) -> None:
    store = BrokenStore(filled.store)

    def refuse(method: str, _key: str) -> None:
        if method != "get":
            raise StoreError("permission denied")

    store.before = refuse
    with ReaderLease(store, filled.table(TABLE).snapshot()) as lease:
        assert lease.snapshot.number == 1
    assert store.writes == []


def test_a_release_that_fails_is_nobody_s_error(filled: Lake) -> None:
    store = BrokenStore(filled.store)
    lease = ReaderLease(store, filled.table(TABLE).snapshot()).acquire()

    def refuse(_method: str, _key: str) -> None:
        raise StoreError("no")

    store.before = refuse
    lease.release()
    lease.release()


def test_a_log_that_cannot_be_read_leaves_no_lease(filled: Lake) -> None:
    snapshot = filled.table(TABLE).snapshot()
    filled.store.put_if_absent(TABLE.transaction(2), b"{")
    with pytest.raises(DamagedError):
        ReaderLease(filled.store, snapshot).acquire()
    assert leases(filled.store, TABLE) == []


def test_a_table_without_its_log_needs_none(filled: Lake) -> None:
    filled.store.delete(TABLE.transaction(1))
    filled.store.delete(TABLE.manifest)
    with ReaderLease(filled.store, filled.table(TABLE).snapshot()) as lease:
        assert not lease.snapshot.from_log
        assert leases(filled.store, TABLE) == []


class Clock:
    """Goes on by one second at each look, and refreshes who is to live."""

    def __init__(self, on_look: Callable[[int], None] = lambda _now: None) -> None:
        self.now = 0
        self._on_look = on_look

    def __call__(self) -> float:
        self.now += 1
        self._on_look(self.now)
        return self.now


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases_module, "POLL_SECONDS", 0)


def put_lease(lake: Lake, name: str, beat: int = 0) -> str:
    key = TABLE.lease(name)
    data = Lease(reader_id=name, transaction=1, acquired="", refreshed=str(beat))
    lake.store.replace(key, metadata.encode(data), None)
    return key


@pytest.mark.usefixtures("impatient")
def test_only_one_that_stood_still_for_the_stale_time_goes(filled: Lake) -> None:
    dead, other = put_lease(filled, "dead"), put_lease(filled, "other")
    alive = put_lease(filled, "alive")
    clock = Clock(lambda now: put_lease(filled, "alive", now) and None)
    looks: list[int] = []
    left = wait_out(
        filled.store,
        TABLE,
        {dead, alive},
        wait_seconds=100,
        stale_seconds=10,
        watch=Watch(clock),
        tick=lambda: looks.append(clock.now),
    )
    assert [one.reader_id for one in left] == ["alive"]
    assert clock.now >= 100
    assert len(looks) > 45, "the wait can be ended by who waits"
    assert {one.key for one in leases(filled.store, TABLE)} == {alive, other}, "nobody else's"


@pytest.mark.usefixtures("impatient")
def test_a_reader_that_ends_ends_the_wait(filled: Lake) -> None:
    key = put_lease(filled, "short")
    clock = Clock(lambda now: filled.store.delete(key) if now == 5 else put_lease_if(now))

    def put_lease_if(now: int) -> None:
        if now < 5:
            put_lease(filled, "short", now)

    assert wait_out(filled.store, TABLE, {key}, wait_seconds=1000, watch=Watch(clock)) == []
    assert clock.now < 10


@pytest.mark.usefixtures("impatient")
def test_a_wait_below_the_stale_time_removes_nothing(filled: Lake) -> None:
    key = put_lease(filled, "quiet")
    watch = Watch(Clock())
    left = wait_out(filled.store, TABLE, {key}, wait_seconds=5, stale_seconds=10, watch=watch)
    assert [one.key for one in left] == [key]
    assert filled.store.exists(key)
    assert wait_out(filled.store, TABLE, set(), wait_seconds=10**9) == []


@pytest.mark.usefixtures("impatient")
def test_a_lease_that_was_watched_before_is_not_watched_again(filled: Lake) -> None:
    dead = put_lease(filled, "dead")
    alive = put_lease(filled, "alive")
    clock = Clock()
    watch = Watch(clock)
    watch.note(leases(filled.store, TABLE))
    clock.now += 10
    put_lease(filled, "alive", 1)
    left = wait_out(
        filled.store, TABLE, {dead, alive}, wait_seconds=2, stale_seconds=10, watch=watch
    )
    assert [one.key for one in left] == [alive], "it was refreshed since"
    assert clock.now < 20


@pytest.mark.parametrize("error", [KeyExistsError("it is taken"), NO_ANSWER])
@pytest.mark.parametrize("arrives", [True, False])
def test_a_lost_reply_to_its_creation_is_resolved_by_reading_back(
    filled: Lake, error: Exception, arrives: bool
) -> None:
    """A store that repeats a request whose reply was lost finds the name taken: by the first."""
    store = BrokenStore(filled.store)
    hook = raising(TABLE.leases, error, times=1)
    if arrives:
        store.after = hook
    else:
        store.before = hook
    with ReaderLease(store, filled.table(TABLE).snapshot()) as lease:
        (found,) = leases(filled.store, TABLE)
        assert found.reader_id == lease._lease.reader_id
    assert leases(filled.store, TABLE) == []


def test_another_reader_s_lease_is_not_taken_for_one_s_own(filled: Lake) -> None:
    lease = ReaderLease(filled.store, filled.table(TABLE).snapshot())
    theirs = metadata.encode(Lease(reader_id="other", transaction=1, acquired="", refreshed=""))
    filled.store.put_if_absent(lease._key, theirs)
    with pytest.raises(ConflictError, match="another reader's"):
        lease.acquire()
    lease.release()
    assert filled.store.get(lease._key).data == theirs


def test_many_readers_have_a_lease_each(filled: Lake) -> None:
    snapshot = filled.table(TABLE).snapshot()
    held = [ReaderLease(filled.store, snapshot).acquire() for _ in range(5)]
    assert len(leases(filled.store, TABLE)) == 5
    threads = [threading.Thread(target=one.release) for one in held]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert leases(filled.store, TABLE) == []
