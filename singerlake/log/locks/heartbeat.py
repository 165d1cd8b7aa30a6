"""Heartbeats: what keeps a lock or a lease from standing still while it is held.

Most are held for milliseconds only, and starting a thread for each took a fifth of a small
commit's processor time. So one thread waits for all of them. Only for one that is held until
its first beat is due does it start a thread: a beat may take long, and must not hold up another.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable


class Heartbeat:
    """Calls something again and again in the background.

    Args:
        seconds: Between two calls, and before the first.
        beat: What to call; False ends it.
    """

    def __init__(self, seconds: float, beat: Callable[[], bool]) -> None:
        self.seconds = seconds
        self._beat = beat
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to wait for the first beat."""
        _waiter.add(self)

    def stop(self, *, wait: bool = True) -> None:
        """End it; may be called again, and before :meth:`start`.

        Args:
            wait: Whether to wait for a beat that is under way.
        """
        self._stopped.set()
        _waiter.remove(self)
        if wait and self._thread is not None:
            self._thread.join()

    def due(self) -> None:
        """The first beat is due."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set() and self._beat():
            self._stopped.wait(self.seconds)


class _Waiter:
    """The one thread. It ends when it wakes and nothing is left to wait for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[Heartbeat, float] = {}
        self._runs = False
        self._wakes_at = 0.0

    def add(self, heartbeat: Heartbeat) -> None:
        due = time.monotonic() + heartbeat.seconds
        with self._changed:
            self._due[heartbeat] = due
            if not self._runs:
                threading.Thread(target=self._run, daemon=True).start()
                self._runs = True
                self._wakes_at = due
            elif due < self._wakes_at:
                self._changed.notify()

    def remove(self, heartbeat: Heartbeat) -> None:
        with self._changed:  # the thread sleeps on: to wake it would cost what it saves
            self._due.pop(heartbeat, None)

    def _run(self) -> None:
        with self._changed:
            try:
                while self._due:
                    now = time.monotonic()
                    # A copy: what the collector frees meanwhile may be a lease that ends.
                    for heartbeat in [one for one, due in list(self._due.items()) if due <= now]:
                        self._due.pop(heartbeat, None)
                        try:
                            heartbeat.due()
                        except RuntimeError:  # no more threads just now: the others must not wait
                            self._due[heartbeat] = now + heartbeat.seconds
                    self._wakes_at = min(list(self._due.values()), default=now)
                    self._changed.wait(self._wakes_at - now)
            finally:
                self._runs = False


_waiter = _Waiter()


def _begin_anew() -> None:
    global _waiter  # noqa: PLW0603  # a forked process has none of the threads
    _waiter = _Waiter()


os.register_at_fork(after_in_child=_begin_anew)
