"""Looks at many things of a remote store go side by side, and come out in order."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from singerlake.storage.local.store import LocalStore
from singerlake.storage.side_by_side import LOOKS, in_order


@pytest.fixture
def far(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path)
    store.uri = "s3://bucket"
    return store


class Counting:
    """A look that knows how many of its kind go on at once."""

    def __init__(self) -> None:
        self.begun, self.now, self.most = 0, 0, 0
        self._lock = threading.Lock()

    def __call__(self, item: int) -> int:
        with self._lock:
            self.begun += 1
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.002 * (item % 5))  # so that they end in another order
        with self._lock:
            self.now -= 1
        return -item


def test_in_order_and_no_more_than_so_many_at_once(far: LocalStore) -> None:
    look = Counting()
    assert list(in_order(far, look, range(200))) == [-item for item in range(200)]
    assert 1 < look.most <= LOOKS


def test_on_a_disk_one_follows_the_other(tmp_path: Path) -> None:
    look = Counting()
    assert list(in_order(LocalStore(tmp_path), look, range(20))) == [-item for item in range(20)]
    assert look.most == 1


def test_no_look_runs_far_ahead_of_who_takes_what_is_found(far: LocalStore) -> None:
    look = Counting()
    taken = in_order(far, look, range(1000))
    assert [next(taken), next(taken)] == [0, -1]
    time.sleep(0.1)
    assert look.begun <= LOOKS + 2
    taken.close()  # type: ignore[attr-defined]
    assert look.begun <= LOOKS + 2


def test_an_error_comes_where_its_item_has_its_turn(far: LocalStore) -> None:
    def look(item: int) -> int:
        if item == 40:
            raise ValueError(item)
        return item

    taken = in_order(far, look, range(100))
    assert [next(taken) for _ in range(40)] == list(range(40))
    with pytest.raises(ValueError, match="40"):
        next(taken)


def test_who_gives_it_up_waits_for_no_look(far: LocalStore) -> None:
    """Python may collect it while it starts a thread: to wait there would be for ever."""
    end = threading.Event()
    taken = in_order(far, lambda item: item == 0 or end.wait(60), range(10))
    assert next(taken)
    closing = threading.Thread(target=taken.close)  # type: ignore[attr-defined]
    closing.start()
    closing.join(30)
    waits = closing.is_alive()
    end.set()
    closing.join()
    assert not waits
