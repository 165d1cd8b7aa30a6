"""A consistent cut: the heads that many tables had at one moment of the lake.

No store reads many logs at once. So all heads are read, and then looked at again: where none has
moved, all of them were the heads at every moment between the two looks. Where one has moved, the
second look counts as the first, and so on. Writers are never held up for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from singerlake.errors import ConflictError
from singerlake.format import times
from singerlake.format.names import TableName
from singerlake.storage.base import Store
from singerlake.transactions import log

LOOKERS = 16
"""Tables that are looked at at the same time; on a bucket, most of that is waiting."""
PATIENCE_SECONDS = 60.0
"""How long to wait for a moment in which no table moves."""
_SHOWN = 3


@dataclass(frozen=True)
class Head:
    """Where a table's log ends.

    Attributes:
        number: Its last transaction.
        commit: That one's id.
        dropped: Whether the table was dropped.
    """

    number: int
    commit: str
    dropped: bool


@dataclass(frozen=True)
class Cut:
    """Heads of one moment.

    Attributes:
        heads: By table; a table in which nothing was ever committed has none.
        time: A moment at which these were the heads, ISO 8601 in UTC, by this machine's clock.
    """

    heads: Mapping[TableName, Head]
    time: str


def take_cut(
    store: Store,
    tables: Callable[[], Iterable[TableName]],
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Cut:
    """Read the heads that tables had at one moment.

    Args:
        store: The lake's store.
        tables: Lists the tables, each time anew: one that somebody makes meanwhile moves, too.
        patience_seconds: How long to wait for a moment in which no table moves.

    Raises:
        ConflictError: There was none.
        DamagedError: A log cannot be read.
    """
    deadline = time.monotonic() + patience_seconds
    heads = _look(store, tables(), {})
    while True:
        moment = times.iso(times.now())
        again = _look(store, tables(), heads)
        if again == heads:
            return Cut(heads, moment)
        if time.monotonic() >= deadline:
            moved = sorted(t for t in {*heads, *again} if heads.get(t) != again.get(t))
            more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
            raise ConflictError(
                f"there was no moment in {patience_seconds:g} s in which no table moved: the last "
                f"to move were {', '.join(map(str, moved[:_SHOWN]))}{more}; nothing was frozen: "
                "run it again when fewer writers are at work, or name fewer tables"
            )
        heads = again


def _look(
    store: Store, tables: Iterable[TableName], known: Mapping[TableName, Head]
) -> dict[TableName, Head]:
    """The tables' heads now; of one that is known, it is enough that no entry follows."""

    def head(table: TableName) -> Head | None:
        before = known.get(table)
        if before is not None and not store.exists(table.transaction(before.number + 1)):
            return before
        snapshot = log.read_snapshot(store, table)
        if snapshot is None:
            return None
        return Head(snapshot.number, snapshot.commit, bool(snapshot.dropped_at))

    listed = sorted(set(tables))
    with ThreadPoolExecutor(LOOKERS, "cut") as pool:
        found = zip(listed, pool.map(head, listed), strict=True)
        return {table: one for table, one in found if one is not None}
