"""Ages, by clocks that may disagree.

A log entry has the time of its writer's clock. For retention, times in a log never run backwards:
an entry is as old as the latest time among it and all entries before it. A clock that contradicts
the log, or the store, tells no age at all.
"""

from __future__ import annotations

import math
import time
from functools import cached_property
from itertools import accumulate

from singerlake.errors import SingerlakeError
from singerlake.format import times
from singerlake.log.table_state import TableState
from singerlake.quantities import span
from singerlake.storage.base import Store

TOLERANCE = 600.0
"""Seconds by which clocks may differ before nothing is deleted by them."""
_AT_ONCE = "singerlake vacuum {} --retain 0s --no-retention-guard"
_SPELLED = len("2020-08-19T13:01:56.245769Z")


class Ages:
    """The times of a table's transactions, as retention counts them."""

    def __init__(self, snapshot: TableState) -> None:
        self._snapshot = snapshot

    @cached_property
    def _times(self) -> list[str]:
        # Compared as text, as all of ours are spelled alike: there may be very many.
        return [*accumulate((_alike(one.time) for one in self._snapshot.transactions), max)]

    def at(self, number: int) -> str:
        """Return since when a transaction counts as made, ISO 8601 in UTC."""
        return self._times[number - 1]

    def seconds(self, number: int) -> float:
        """Return the same in seconds since 1970; none is ever old whose time cannot be read."""
        if times.parse(self._snapshot.transactions[number - 1].time) is None:
            return math.inf
        return _seconds(self.at(number))

    @property
    def newest(self) -> str:
        """The latest time of all, ISO 8601 in UTC; empty where there is none."""
        return self._times[-1] if self._times else ""

    @property
    def newest_number(self) -> int:
        """The transaction that has it."""
        return self._times.index(self.newest) + 1


def _alike(text: str) -> str:
    """A time as :func:`times.iso` spells it; empty where it is none."""
    if len(text) == _SPELLED and text[10] == "T" and text.endswith("Z"):
        return text
    instant = times.parse(text)
    return "" if instant is None else times.iso(instant)


def _seconds(text: str) -> float:
    instant = times.parse(text)
    return instant.timestamp() if instant is not None else 0.0


def limit(snapshot: TableState, retain_seconds: float, now: float | None = None) -> float:
    """Return the time, in seconds since 1970, after which whatever was needed or made stays.

    Args:
        retain_seconds: The retention; with none, no age matters, nor does a clock.
        now: The time, in seconds since 1970.

    Raises:
        SingerlakeError: The clock is behind the log.
    """
    if not retain_seconds:
        return math.inf
    present = time.time() if now is None else now
    check_log(snapshot, present)
    return present - retain_seconds


def check_log(snapshot: TableState, now: float | None = None, way_out: str = "") -> None:
    """Refuse a clock that is behind the log.

    Args:
        now: The time, in seconds since 1970.
        way_out: What to do if it is the log's time that is wrong.

    Raises:
        SingerlakeError: It is, by more than ``TOLERANCE``.
    """
    ages, present = Ages(snapshot), time.time() if now is None else now
    behind = _seconds(ages.newest) - present
    if behind > TOLERANCE:
        table = snapshot.table
        raise SingerlakeError(
            f"nothing was deleted: this machine's clock is {span(behind)} behind transaction "
            f"{ages.newest_number} of {table} ({ages.newest[:19]}Z), so it cannot tell how old "
            "anything is. Set the clock, and run it again. If the transaction has the wrong time, "
            "wait until that time is past, or "
            + (way_out or f"delete all unneeded files, of any age: {_AT_ONCE.format(table)}")
        )


def check_store(store: Store) -> None:
    """Refuse a clock that is far from the store's, if the store tells the time.

    Raises:
        SingerlakeError: It is, by more than ``TOLERANCE``.
    """
    ahead = store.clock_ahead()
    if ahead is not None and abs(ahead) > TOLERANCE:
        side = "ahead of" if ahead > 0 else "behind"
        raise SingerlakeError(
            f"nothing was deleted: this machine's clock is {span(abs(ahead))} {side} the clock of "
            f"{store.uri}, so it cannot tell how old anything is: set the clock, and run it again"
        )
