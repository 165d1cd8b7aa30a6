"""The STATE that was let out once a transaction was in the log: where a tap goes on from there.

A revert or an undo turns it back: see :func:`turned_back_to`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from singerlake.errors import NotFoundError
from singerlake.format import tap_state
from singerlake.format.log import Entry, Operation
from singerlake.log.log import read_entries, sound_entries
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store

KEEP = "keep_bookmark"
"""The member of a revert's metadata which says that bookmarks stay as they are."""
_AT_ONCE = 16
"""Log entries that are read together, from the newest back."""


@dataclass(frozen=True)
class Acknowledged:
    """A STATE that a run put out.

    Attributes:
        transaction: The sync that it went out after.
        time: When that was committed, ISO 8601 in UTC.
        state: Its value, as the tap spelled it.
    """

    transaction: int
    time: str
    state: str


def acknowledged_by(
    store: Store, head: TableState, number: int, *, looks: int | None = None
) -> Acknowledged:
    """Find the STATE with which a tap sends again just what came after a transaction.

    That is the last one that went out after this transaction or one before it. A sync that ended
    without one has none: what it brought after the STATE before comes again, which does no harm.
    Where rows were taken back, it is that of the state they went back to.

    Args:
        looks: How often to read some more entries at the most; as often as it takes by default.

    Raises:
        NotFoundError: The log keeps none: a release before it did wrote it, or it was too long.
    """
    sought, limit, too_long = number, number, 0
    while sought >= head.first and not too_long and looks != 0:
        looks = None if looks is None else looks - 1
        telling = _telling(head, sought, limit)
        sought = 0 if len(telling) < _AT_ONCE else telling[-1] - 1
        for at, entry in read_entries(store, head.table, telling):
            if head.summary(at).operation == Operation.REVERT:
                back = _back(entry if isinstance(entry, Entry) else None)
                limit = min(limit, back.to)
                if back.whole:
                    sought = back.to
                    break
            elif at <= limit and isinstance(entry, Entry):
                if (state := tap_state.read(entry.metadata)) is not None:
                    return Acknowledged(entry.number, entry.time, state)
                if too_long := entry.metadata.get(tap_state.OMITTED, 0):
                    break
    why = (
        f"it has {too_long:,} bytes, and no more than {tap_state.MAX_BYTES:,} are kept"
        if too_long
        else "no run emitted one, or an earlier release wrote these transactions"
    )
    raise NotFoundError(
        f"the log of {head.table} keeps no STATE for transaction {number}: {why}; to have the tap "
        "send everything again, run it without a STATE"
    )


def is_state_kept(store: Store, head: TableState, number: int) -> bool:
    """Tell whether the log keeps the STATE that belongs to a transaction, as far as one look tells.

    A table that an earlier release wrote may have a long log without any.
    """
    try:
        acknowledged_by(store, head, number, looks=1)
    except NotFoundError:
        return False
    return True


def turned_back_to(store: Store, head: TableState, since: int, until: int) -> int | None:
    """Return the transaction to which a table was turned back, if a bookmark's rows are gone by it.

    Goes from the head back, and past what reverts took back: the syncs that are passed by, and
    those since one that was undone, are those whose rows are gone. A revert of a revert brings them
    back.

    Args:
        since: The table's last transaction when the run read the bookmark that it began with. What
            was taken back before then, the run has sent again.
        until: A transaction at or after the last one that the bookmark's run had committed.

    Returns:
        The transaction whose STATE counts; None if no rows that the bookmark counts as sent are
        gone.

    Raises:
        DamagedError: An entry of the log is lost or damaged.
    """
    if head.number < until:
        return head.number  # the log lost its end, and the rows of a sync with it
    at, found = head.number, None
    while at > since:
        if head.summary(at).operation == Operation.REVERT:
            (entry,) = sound_entries(store, head.table, [at])
            back = _back(entry)
            if _synced(head, back.to, min(at - 1, until)):
                found = back.to if found is None else min(found, back.to)
            if back.whole:
                at = back.to
                continue
        at -= 1
    return found


def keeping_bookmark(*, keep: bool) -> dict[str, bool]:
    """Return what the metadata of a revert or an undo record of bookmarks."""
    return {KEEP: True} if keep else {}


def _synced(head: TableState, after: int, last: int) -> bool:
    return any(one.operation == Operation.SYNC for one in head.transactions[after:last])


def _telling(head: TableState, last: int, limit: int) -> list[int]:
    """Return the next transactions to read, from one back: reverts, and syncs up to a limit."""
    found: list[int] = []
    for one in reversed(head.transactions[head.first - 1 : last]):
        if one.operation == Operation.REVERT or (
            one.operation == Operation.SYNC and one.number <= limit
        ):
            found.append(one.number)
            if len(found) == _AT_ONCE:
                break
    return found


class _Back(NamedTuple):
    """What a revert or an undo does to bookmarks.

    Attributes:
        to: The transaction whose STATE counts.
        whole: Whether the table is at the state of that transaction. After an undo it is not: what
            other reverts in between did stays.
    """

    to: int
    whole: bool


def _back(entry: Entry | None) -> _Back:
    """Read a revert's entry; if it is lost, or was restored without metadata, nothing counts."""
    if entry is None:
        return _Back(0, whole=True)
    if entry.metadata.get(KEEP) is True:
        return _Back(entry.number, whole=False)
    to, undone = (entry.metadata.get(name) for name in ("reverted_to", "undone"))
    if isinstance(to, int) and 0 < to < entry.number:
        return _Back(to, whole=True)
    if isinstance(undone, list) and undone and all(isinstance(one, int) for one in undone):
        return _Back(max(0, int(min(undone)) - 1), whole=False)
    return _Back(0, whole=True)
