"""Signals end a run only where nothing is half done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from target_singerlake.errors import TerminatedError


class Interrupts:
    """Remembers a signal until the run is at a place where it may end.

    Such places are the wait for input, where the handler raises at once, and every
    :meth:`check`: before a table's commit and while it waits for a lock. In between, a
    commit in progress is completed.
    """

    def __init__(self) -> None:
        self._signum: int | None = None
        self._may_raise = False

    def handle(self, signum: int, _frame: FrameType | None = None) -> None:
        """The signal handler."""
        self._signum = signum
        if self._may_raise:
            self._may_raise = False
            self.check()

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
