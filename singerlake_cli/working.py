"""Progress of long work: one bar a job, on standard error, and only on a terminal."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO, TypeVar

import click

from singerlake.safe_text import visible
from singerlake_cli import live_line
from singerlake_cli.output import terminal_width
from singerlake_cli.share import Share

Progress = Callable[[], tuple[str, int, int]]
"""What the running job is at, in words; units of work that are done; and units known so far."""

EVERY_SECONDS = 0.2
BAR_WIDTH = 12
BAR_ROOM = 70
"""Columns of a terminal that has room for the bar itself; a narrower one shows the share alone."""
_DUMB = ("dumb", "unknown")
_T = TypeVar("_T")
_progress: Progress | None = None
_bar: Bar | None = None


def follow(progress: Progress, *, to: float = 1.0) -> None:
    """Set the source of the progress of the work under way.

    Args:
        progress: Tells it; its counts begin at 0 now.
        to: The share of the whole job that is done when this part of it is.
    """
    global _progress  # noqa: PLW0603  # one terminal, one bar
    _progress = progress
    if _bar is not None:
        _bar.share.begin_part(to, 0)


def _now() -> tuple[str, int, int]:
    with suppress(Exception):  # Java may be going down: the work says so, not its bar
        if _progress is not None:
            return _progress()
    return "", 0, 0


class Bar:
    """A job's bar.

    Args:
        stream: Writes to a terminal; None draws nothing.
        clock: Gives seconds.
    """

    def __init__(
        self, what: str, stream: TextIO | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._turns = itertools.cycle("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if _can_draw(stream) else "|/-\\")
        self.share = Share(self._began)

    def each(self, parts: Sequence[_T], weigh: Callable[[_T], float]) -> Iterator[_T]:
        """Go through the parts of a job, such as tables.

        Args:
            weigh: Tells how much work one is; not asked if no bar is drawn.
        """
        if self._stream is None:
            yield from parts
            return
        weights = [weigh(part) for part in parts]
        whole, reached = sum(weights) or 1, 0.0
        for part, weight in zip(parts, weights, strict=True):
            reached += weight
            self.begin(reached / whole)
            yield part

    def begin(self, to: float = 1.0) -> None:
        """Begin a part of the job, after which a share of the whole is done."""
        if self._stream is not None:
            self.share.begin_part(to, _now()[1])

    def draw(self) -> None:
        """Draw the bar as the work is now."""
        if self._stream is None:
            return
        words, done, known = _now()
        now = self._clock()
        self.share.note(now, done, known)
        what = visible(f"{self._what}: {words}" if words else self._what)
        live_line.draw(self._stream, self._line(what, now, terminal_width(self._stream) - 1))

    def _line(self, what: str, now: float, width: int) -> str:
        """Return the bar, in so many columns."""
        from rich.cells import cell_len, set_cell_size

        seconds = int(now - self._began)
        times = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        if left := self.share.left(now):
            times += f"  {left}"
        tail = f" {self.share.percent:>4} {times}"
        bar = self._drawn() if width >= BAR_ROOM else ""
        room = max(0, width - 2 - len(click.unstyle(bar)) - len(tail))
        if cell_len(what) > room:
            dots = "…" if _can_draw(self._stream) else "~"
            what = set_cell_size(what, max(0, room - 1)) + dots[:room]
        else:
            what = set_cell_size(what, room)
        return f"{next(self._turns)} {what}{bar}{tail}"

    def _drawn(self) -> str:
        """Draw a bar whose length is the share."""
        piece = "━" if _can_draw(self._stream) else "="
        full = int(BAR_WIDTH * (self.share.value or 0))
        if os.environ.get("NO_COLOR"):
            return f" {piece * full:<{BAR_WIDTH}}"
        rest = click.style(piece * (BAR_WIDTH - full), dim=True)
        return f" {click.style(piece * full, fg='green')}{rest}"


def _can_draw(stream: TextIO | None) -> bool:
    return (getattr(stream, "encoding", None) or "").lower().startswith("utf")


def _terminal() -> TextIO | None:
    """Return standard error, if it is a terminal on which a line can be redrawn."""
    drawable = sys.stderr.isatty() and os.environ.get("TERM", "") not in _DUMB
    return sys.stderr if drawable else None


@contextmanager
def working(what: str) -> Iterator[Bar]:
    """Show a bar for as long as a job takes, and then erase it.

    Args:
        what: The job, for example ``freezing tap-shop.orders``.
    """
    global _bar  # noqa: PLW0603  # one terminal, one bar
    bar = Bar(what, stream := _terminal())
    if stream is None:
        yield bar
        return
    bar.begin()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(EVERY_SECONDS):
            bar.draw()

    watcher = threading.Thread(target=watch, daemon=True)
    _bar = bar
    try:
        watcher.start()
        yield bar
    finally:
        _bar = None
        ended.set()
        try:
            watcher.join()
        finally:
            live_line.erase()
