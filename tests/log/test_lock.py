"""The writers' lock: what it says, who waits, who takes over, who has lost it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from singerlake.errors import ConflictError, LockTimeoutError, OutcomeUnknownError
from singerlake.format import times
from singerlake.lake import Lake
from singerlake.log.locks import lock as lock_module
from singerlake.log.locks.lock import WriterLock
from singerlake.storage.base import Capabilities, KeyExistsError, KeyMissingError
from tests.log.broken import NO_ANSWER, BrokenStore, raising

KEY = "raw/tap-x/a/abcdefg/singerlake.lock"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: Any) -> None:
    monkeypatch.setattr(lock_module, "POLL_SECONDS", 0.01)


def foreign(writer: str = "other", refreshed: str = "x") -> bytes:
    return json.dumps({"writer-id": writer, "acquired": "x", "refreshed": refreshed}).encode()


def there(lake: Lake) -> bool:
    return lake.store.exists(KEY)


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_the_file_holds_exactly_what_was_published(lake: Lake) -> None:
    with WriterLock(lake.store, KEY, "w1") as lock:
        content = json.loads(lake.store.get(KEY).data)
        assert set(content) == {"writer-id", "acquired", "refreshed", "beat"}
        assert content["writer-id"] == "w1"
        assert times.parse(content["acquired"]) is not None
        assert content["acquired"] <= content["refreshed"]
        lock.check()
    assert not there(lake)


def test_it_lives_though_the_clock_stands_still(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(times, "now", lambda: times.from_micros(10**18))  # beyond the last
    with WriterLock(lake.store, KEY, "w1", stale_seconds=0.04):
        first = lake.store.get(KEY)
        assert json.loads(first.data)["refreshed"] == "9999-12-31T23:59:59.999999Z"
        until(lambda: lake.store.get(KEY).etag != first.etag)


def test_it_is_refreshed_in_the_background(lake: Lake) -> None:
    with WriterLock(lake.store, KEY, "w1", stale_seconds=0.04):
        first = json.loads(lake.store.get(KEY).data)
        until(lambda: json.loads(lake.store.get(KEY).data)["refreshed"] > first["refreshed"])
        later = json.loads(lake.store.get(KEY).data)
        assert later["acquired"] == first["acquired"]


def test_a_second_writer_waits_and_then_gives_up(lake: Lake) -> None:
    with WriterLock(lake.store, KEY, "w1"):
        second = WriterLock(lake.store, KEY, "w2", wait_seconds=0.05)
        with pytest.raises(LockTimeoutError, match="held by w1") as caught:
            second.acquire()
        assert caught.value.exit_code == 4
        second.release()  # gives up nothing of the first one's
        assert there(lake)


def test_a_second_writer_goes_on_once_the_first_is_done(lake: Lake) -> None:
    first = WriterLock(lake.store, KEY, "w1")
    first.acquire()
    order: list[str] = []

    def second() -> None:
        with WriterLock(lake.store, KEY, "w2"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    time.sleep(0.05)
    order.append("first")
    first.release()
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_that_stands_still_is_taken_over(lake: Lake) -> None:
    lake.store.put_if_absent(KEY, foreign())
    with WriterLock(lake.store, KEY, "w1", stale_seconds=0.05, wait_seconds=20) as lock:
        lock.check()
    assert not there(lake)


def test_the_clock_in_the_file_does_not_matter(lake: Lake) -> None:
    """A lock that lives is not broken however old it says it is."""
    lake.store.put_if_absent(KEY, foreign(refreshed="1970-01-01T00:00:00.000000Z"))
    stamps = iter(range(10_000))

    def refresh() -> None:
        lake.store.replace(KEY, foreign(refreshed=f"1970-01-01 {next(stamps)}"), None)

    now = [0.0]

    def clock() -> float:
        now[0] += 1  # a second passes at each look, and the other refreshes in it
        return now[0]

    with pytest.raises(LockTimeoutError):
        WriterLock(
            lake.store,
            KEY,
            "w1",
            wait_seconds=50,
            stale_seconds=2,
            clock=clock,
            while_waiting=refresh,
        ).acquire()


def test_a_lock_lost_is_noticed(lake: Lake) -> None:
    with WriterLock(lake.store, KEY, "w1") as lock:
        lake.store.replace(KEY, foreign(), None)
        with pytest.raises(ConflictError, match="lost"):
            lock.check()
    assert lake.store.get(KEY).data == foreign()  # not ours to delete
    lake.store.delete(KEY)
    with WriterLock(lake.store, KEY, "w1") as lock:
        lake.store.delete(KEY)
        with pytest.raises(ConflictError):
            lock.check()


def test_a_lock_lost_is_not_refreshed_back(lake: Lake) -> None:
    with WriterLock(lake.store, KEY, "w1", stale_seconds=0.02):
        lake.store.replace(KEY, foreign(), None)
        time.sleep(0.1)
        assert lake.store.get(KEY).data == foreign()


def test_a_damaged_lock_goes_stale_as_any_other(lake: Lake) -> None:
    lake.store.put_if_absent(KEY, b"junk")
    with pytest.raises(LockTimeoutError):
        WriterLock(lake.store, KEY, "w1", wait_seconds=0.02).acquire()
    with WriterLock(lake.store, KEY, "w1", stale_seconds=0.05) as lock:
        lock.check()


def test_the_wait_may_be_ended_from_outside(lake: Lake) -> None:
    lake.store.put_if_absent(KEY, foreign())

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        WriterLock(lake.store, KEY, "w1", while_waiting=stop).acquire()
    assert lake.store.get(KEY).data == foreign()


def test_one_reply_lost_does_not_stop_the_refreshing(lake: Lake) -> None:
    """The refresh happened and its answer did not come: the lock is still ours."""
    store = BrokenStore(lake.store)
    with WriterLock(store, KEY, "w1", stale_seconds=0.04) as lock:
        store.after = raising(KEY, NO_ANSWER, times=1)
        until(lambda: sum(key == KEY for _, key in store.writes) >= 3)
        lock.check()
        seen = store.store.get(KEY).data
        until(lambda: store.store.get(KEY).data != seen)


def test_a_retry_that_finds_its_own_lock_has_it(lake: Lake) -> None:
    """Else it would wait for itself until it is stale, and refresh nothing."""
    store = BrokenStore(lake.store)
    store.after = raising(KEY, KeyExistsError("412"), times=1)
    with WriterLock(store, KEY, "w1", wait_seconds=0, stale_seconds=0.04) as lock:
        lock.check()
        seen = store.store.get(KEY).data
        until(lambda: store.store.get(KEY).data != seen)


def test_only_one_of_many_has_it(lake: Lake) -> None:
    inside, most = [0], [0]

    def one(n: int) -> None:
        with WriterLock(lake.store, KEY, f"w{n}"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.005)
            inside[0] -= 1

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    with pytest.raises(KeyMissingError):
        lake.store.get(KEY)


def reads(store: BrokenStore) -> list[str]:
    """Every key that is read from now on."""
    found: list[str] = []
    store.before = lambda method, key: found.append(key) if method == "get" else None
    return found


def test_right_after_a_check_it_is_given_up_unread(lake: Lake) -> None:
    store = BrokenStore(lake.store)
    with WriterLock(store, KEY, "w1") as lock:
        lock.check()
        found = reads(store)
    assert found == []
    assert not there(lake)


@pytest.mark.parametrize("checked", [False, True])
def test_else_it_is_read_and_anothers_is_left(lake: Lake, checked: bool) -> None:
    now = [100.0]
    lock = WriterLock(lake.store, KEY, "w1", stale_seconds=60, clock=lambda: now[0])
    lock.acquire()
    if checked:
        lock.check()
        now[0] += 15  # others may have taken it over, had it stood still
    lake.store.replace(KEY, foreign(), None)
    lock.release()
    assert lake.store.get(KEY).data == foreign()


def test_a_check_that_failed_counts_for_nothing(lake: Lake) -> None:
    lock = WriterLock(lake.store, KEY, "w1")
    lock.acquire()
    lock.check()
    lake.store.replace(KEY, foreign(), None)
    with pytest.raises(ConflictError):
        lock.check()
    lock.release()
    assert lake.store.get(KEY).data == foreign()


def test_where_it_is_the_last_word_it_is_always_read(lake: Lake) -> None:
    store = BrokenStore(lake.store)
    store._capabilities = Capabilities(False, 0.01)
    with WriterLock(store, KEY, "w1") as lock:
        lock.check()
        found = reads(store)
    assert found == [KEY]
    assert not there(lake)


@pytest.mark.parametrize("error", [KeyExistsError("it is taken"), NO_ANSWER])
@pytest.mark.parametrize("stale", [False, True])
def test_a_lost_reply_is_resolved_by_reading_back(
    lake: Lake, error: Exception, stale: bool
) -> None:
    """Its creation, or the replacement that takes a dead writer's over."""
    if stale:
        lake.store.put_if_absent(KEY, foreign())
    store = BrokenStore(lake.store)
    store.after = raising(KEY, error, times=1)
    with WriterLock(store, KEY, "w1", stale_seconds=0.05, wait_seconds=10) as lock:
        lock.check()
        writes = [method for method, _ in store.writes]
        assert writes[0] == ("replace" if stale else "put")
    assert not there(lake)


def test_a_write_that_may_still_arrive_is_not_waited_for(lake: Lake) -> None:
    store = BrokenStore(lake.store)
    store.before = raising(KEY, NO_ANSWER, times=1)
    with pytest.raises(OutcomeUnknownError), WriterLock(store, KEY, "w1"):
        pass
