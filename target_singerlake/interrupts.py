"""Signals end a run where nothing is half done, or else when their time is up."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from target_singerlake.errors import TerminatedError

GRACE_SECONDS = 25.0
"""How long what is under way when a signal comes may make no progress. Most that send SIGTERM send
SIGKILL after thirty seconds, which loses no more."""


class Interrupts:
    """Remembers a signal until the run is at a point where it may end.

    Such points are the wait for input, where the handler raises at once, and every
    :meth:`check`: before a table's commit and while it waits for a lock. In between, a
    commit in progress is completed: with each table that is done the time begins anew. Where
    something hangs (a network file system that is gone, a lock that another process never lets
    go of), no such point may come: then the process ends as if it were killed, which loses
    nothing that was acknowledged. A freeze is :meth:`unlimited`: it may take long, and goes by
    :meth:`check` as well.
    """

    def __init__(self) -> None:
        self._signum: int | None = None
        self._may_raise = False
        self._ultimatum: threading.Timer | None = None
        self._over = False
        self._lock = threading.RLock()  # again for the handler, which may come within

    def handle(self, signum: int, _frame: FrameType | None = None) -> None:
        """Handle a signal."""
        self._signum = signum
        with self._lock:
            if self._ultimatum is None and not self._over:
                self._arm()
        if self._may_raise:
            self._may_raise = False
            self.check()

    def progress(self) -> None:
        """Something was done, from any thread: what is under way does not hang."""
        with self._lock:
            if self._ultimatum is not None:
                self._ultimatum.cancel()
                self._arm()

    def over(self) -> None:
        """Note that the run has ended, one way or the other: nothing of it can hang any more."""
        with self._lock:
            self._over = True
            if self._ultimatum is not None:
                self._ultimatum.cancel()
                self._ultimatum = None

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Let what is within take any time after a signal; its time begins behind that."""
        self.over()
        try:
            yield
        finally:
            with self._lock:
                self._over = False
                if self._signum is not None:
                    self._arm()

    def _arm(self) -> None:
        self._ultimatum = threading.Timer(GRACE_SECONDS, self._end_at_once)
        self._ultimatum.daemon = True
        self._ultimatum.start()

    def _end_at_once(self) -> None:
        signum = self._signum or signal.SIGTERM
        name = signal.Signals(signum).name
        words = (
            f"ended by {name}: the current operation made no progress within {GRACE_SECONDS:g} s, "
            "and was abandoned; acknowledged records stay, and the next run brings the rest\n"
        )
        with suppress(OSError):  # not by the logger: the thread that hangs may hold its lock
            os.write(2, words.encode())
        os._exit(128 + signum)

    def check(self) -> None:
        """End the run if a signal has come.

        Raises:
            TerminatedError: It has.
        """
        if self._signum is not None:
            raise TerminatedError(self._signum, signal.Signals(self._signum).name)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal end the run at once meanwhile."""
        self._may_raise = True
        try:
            self.check()
            yield
        finally:
            self._may_raise = False
