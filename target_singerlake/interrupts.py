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
"""What is under way when a signal comes has so long to get done; most that send SIGTERM send
SIGKILL after thirty seconds."""


class Interrupts:
    """Remembers a signal until the run is at a place where it may end.

    Such places are the wait for input, where the handler raises at once, and every
    :meth:`check`: before a table's commit and while it waits for a lock. In between, a
    commit in progress is completed. Where something hangs (a network file system that is gone,
    a lock that another process never lets go of), no such place may come: then the process ends
    as if it were killed, which loses nothing that was acknowledged.
    """

    def __init__(self) -> None:
        self._signum: int | None = None
        self._may_raise = False
        self._ultimatum: threading.Timer | None = None

    def handle(self, signum: int, _frame: FrameType | None = None) -> None:
        """The signal handler."""
        self._signum = signum
        if self._ultimatum is None:
            self._ultimatum = threading.Timer(GRACE_SECONDS, self._end_at_once)
            self._ultimatum.daemon = True
            self._ultimatum.start()
        if self._may_raise:
            self._may_raise = False
            self.check()

    def over(self) -> None:
        """The run has ended, one way or the other: nothing of it can hang any more."""
        if self._ultimatum is not None:
            self._ultimatum.cancel()
            self._ultimatum = None

    def _end_at_once(self) -> None:
        signum = self._signum or signal.SIGTERM
        name = signal.Signals(signum).name
        words = (
            f"ended by {name}: something hung for {GRACE_SECONDS:g} s, and was left as it was; "
            "what was acknowledged stays, and the next run brings the rest\n"
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
        """A stretch in which a signal ends the run at once."""
        self._may_raise = True
        try:
            self.check()
            yield
        finally:
            self._may_raise = False
