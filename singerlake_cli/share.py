"""The share of a job that is done, and the time that the rest will take."""

from __future__ import annotations

import math

ETA_AFTER_SECONDS = 10
_LEAST = 0.01
"""The share that must have been done, while it was watched, before it says anything of the rest."""


class Share:
    """The share of a job that is done. It never falls.

    A job has one or more parts, such as tables. Within a part the share follows a counter: units
    of work done, of so many that are known so far. Counters count on from part to part.

    Args:
        now: The time when the job begins, in seconds.
    """

    def __init__(self, now: float) -> None:
        self._began = now
        self._shown = 0.0
        self._from, self._to = 0.0, 1.0
        self._before: float = 0  # what was counted before this part
        self._since: tuple[float, float] | None = None

    def begin_part(self, to: float, before: float) -> None:
        """Begin a part of the job; those before it are done.

        Args:
            to: The job's share when the part is done.
            before: The counter's value at the beginning.
        """
        self._shown = max(self._shown, self._to if self._to < 1 else 0.0)
        self._from, self._to, self._before = self._shown, to, before

    def note(self, now: float, done: float, known: float) -> None:
        """Note a counter's value.

        Args:
            now: The time, in seconds.
            done: Units of work that are done.
            known: Units that are known so far; 0 if none are.
        """
        if known <= self._before:
            return
        within = min(max((done - self._before) / (known - self._before), 0.0), 1.0)
        self._shown = max(self._shown, self._from + (self._to - self._from) * within)
        if self._since is None:
            self._since = now, self._shown

    @property
    def value(self) -> float | None:
        """The share that is done, from 0 to 1; None if nothing is known of it."""
        return None if self._since is None else self._shown

    @property
    def percent(self) -> str:
        """The share as text. It reaches 100 % only when the bar is no longer shown."""
        return "" if self._since is None else f"{min(99, int(100 * self._shown))}%"

    def left(self, now: float) -> str:
        """Return the time that the rest will take; empty if it is not known yet.

        Args:
            now: The time, in seconds.
        """
        if self._since is None or now - self._began < ETA_AFTER_SECONDS:
            return ""
        (then, share), done = self._since, self._shown
        if done - share < _LEAST or done >= 1:
            return ""
        return f"{_rounded((now - then) * (1 - done) / (done - share))} left"


def _rounded(seconds: float) -> str:
    """Write a time of which only the order is known: ``25 s``, ``4 min``, ``2.5 h``."""
    if seconds < 60:  # noqa: PLR2004
        return f"{max(5, 5 * math.ceil(seconds / 5))} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"  # noqa: PLR2004
