"""What keeps locks and leases alive: one thread waits for all, and none holds up another."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from singerlake.log.locks import heartbeat
from singerlake.log.locks.heartbeat import Heartbeat

WAIT = 60
NEVER = 3600.0


@pytest.fixture(autouse=True)
def waiter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(heartbeat, "_waiter", heartbeat._Waiter())
    yield
    for left in [*heartbeat._waiter._due]:
        left.stop()


def nothing() -> bool:
    raise AssertionError("too early")


def test_what_is_held_for_a_moment_takes_no_thread_of_its_own() -> None:
    before = {*threading.enumerate()}  # some of which may end meanwhile
    held = [Heartbeat(NEVER, nothing) for _ in range(50)]
    for one in held:
        one.start()
    assert len({*threading.enumerate()} - before) == 1
    for one in held:
        one.stop()
        one.stop()
    assert heartbeat._waiter._due == {}


def test_it_beats_until_it_says_no() -> None:
    beats: list[int] = []
    done = threading.Event()

    def beat() -> bool:
        beats.append(len(beats))
        if len(beats) < 4:
            return True
        done.set()
        return False

    one = Heartbeat(0.01, beat)
    one.start()
    assert done.wait(WAIT)
    one.stop()
    assert beats == [0, 1, 2, 3]


def test_where_no_thread_can_be_had_it_is_tried_again_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused: list[Heartbeat] = []
    due = Heartbeat.due

    def now_and_then(one: Heartbeat) -> None:
        if not refused:
            refused.append(one)
            raise RuntimeError("can't start new thread")
        due(one)

    monkeypatch.setattr(Heartbeat, "due", now_and_then)
    beats = [threading.Event(), threading.Event()]

    def beating(event: threading.Event) -> Heartbeat:
        def beat() -> bool:
            event.set()
            return False

        return Heartbeat(0.01, beat)

    held = [beating(event) for event in beats]
    for one in held:
        one.start()
    assert all(event.wait(WAIT) for event in beats)
    for one in held:
        one.stop()


def test_a_sooner_one_that_comes_later_is_not_late() -> None:
    late = Heartbeat(NEVER, nothing)
    late.start()
    done = threading.Event()

    def beat() -> bool:
        done.set()
        return False

    soon = Heartbeat(0.01, beat)
    soon.start()
    assert done.wait(WAIT)
    soon.stop()
    late.stop()


def test_a_slow_beat_holds_up_no_other_and_is_waited_for() -> None:
    begun, go_on, other = threading.Event(), threading.Event(), threading.Event()
    ended: list[str] = []

    def slow_beat() -> bool:
        begun.set()
        go_on.wait(WAIT)
        ended.append("slow")
        return True

    def quick_beat() -> bool:
        other.set()
        return True

    slow, quick = Heartbeat(0.01, slow_beat), Heartbeat(0.02, quick_beat)
    slow.start()
    assert begun.wait(WAIT)
    quick.start()
    assert other.wait(WAIT)
    quick.stop()
    slow.stop(wait=False)
    assert ended == []
    go_on.set()
    slow.stop()
    assert ended == ["slow"]


def test_the_thread_that_waits_ends_and_comes_back() -> None:
    for _ in range(3):
        done = threading.Event()
        one = Heartbeat(0.01, lambda done=done: bool(done.set()))  # type: ignore[misc]
        one.start()
        assert done.wait(WAIT)
        one.stop()


def test_a_forked_process_begins_anew() -> None:
    held = Heartbeat(NEVER, nothing)
    held.start()
    heartbeat._begin_anew()
    done = threading.Event()
    own = Heartbeat(0.01, lambda: bool(done.set()))
    own.start()
    assert done.wait(WAIT)
    own.stop()
    held.stop()
