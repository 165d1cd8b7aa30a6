"""Bookmarks: the STATE with which each pipeline's tap resumes, kept in the lake.

A bookmark is never ahead of the lake's tables. It names the transactions that it depends on, and
whoever reads it checks the logs: if a revert or an undo has taken back rows that it counts as sent,
the answer is the STATE that the log acknowledged at the transaction to which the table was turned
back. The revert itself writes nothing but its log entry, so that no crash can part the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from singerlake.errors import NotFoundError, SingerlakeError, UsageError
from singerlake.format import metadata, times
from singerlake.format.metadata import Bookmark, Span
from singerlake.format.names import TableName, bookmark_lock
from singerlake.format.nesting import MAX_LEVELS, too_deep
from singerlake.lake import Lake
from singerlake.log import bookmarks
from singerlake.log.acknowledged import Acknowledged, acknowledged_by, turned_back_to
from singerlake.log.capabilities import open_for_writing
from singerlake.log.locks.lock import Waiting, WriterLock, new_writer_id
from singerlake.log.table_state import TableState

SINGER_STATE = "singer_state"
"""The member of a scheduler's payload with the STATE's value."""
MAX_BYTES = 64 * 1024 * 1024
Heads = Mapping[TableName, TableState]
Seen = dict[str, dict[str, int]]
"""The last transaction of each table, by tap and stream."""


class GivenBookmark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bookmark to be written.

    Attributes:
        completed: What completed runs emitted: an object whose ``singer_state`` is the STATE.
        partial: The same of runs since, which did not complete or only took some streams.
        seen: What the run was told of the lake's tables when it read its bookmark; None if it read
            none. Then what was taken back before now does not count.
    """

    completed: msgspec.Raw = msgspec.Raw(b"null")
    partial: msgspec.Raw = msgspec.Raw(b"null")
    seen: Seen | None = None


_GIVEN = msgspec.json.Decoder(GivenBookmark)


@dataclass(frozen=True)
class TurnedBack:
    """A table that was turned back behind the bookmark.

    Attributes:
        transaction: The transaction that it was turned back to; 0 if that is before its first.
        acknowledged: The transaction whose STATE the log keeps for that; None if there is none.
    """

    table: TableName
    transaction: int
    acknowledged: int | None


@dataclass(frozen=True)
class Answer:
    """The bookmark of a pipeline.

    Attributes:
        tap: The tap whose tables it is about; empty if there is none.
        completed: JSON, as in :class:`GivenBookmark`; both are None if the pipeline has no
            bookmark, or the log keeps no STATE to turn back to: then its tap sends everything.
        partial: JSON.
        seen: To be handed over with what the run writes.
        turned_back: The tables for which it was turned back.
    """

    state_id: str
    tap: str
    completed: bytes | None
    partial: bytes | None
    seen: Seen
    turned_back: list[TurnedBack] = field(default_factory=list)


def parse_bookmark(data: bytes) -> GivenBookmark:
    """Read a bookmark that is to be written.

    Raises:
        UsageError: It is not one; what is wrong is said.
    """
    deep = too_deep(data)
    try:
        given = _GIVEN.decode(data)
        for one in (given.completed, given.partial):
            _state_of(bytes(one))
    except RecursionError:
        deep = True
    except (ValueError, msgspec.DecodeError) as error:
        raise UsageError(
            f'standard input is not a bookmark: {error}; write {{"completed": {{"singer_state": '
            f'{{…}}}}, "partial": {{}}}}'
        ) from None
    if deep:
        raise UsageError(
            f"standard input is not a bookmark: it is nested more than {MAX_LEVELS} levels deep"
        )
    for name in ("completed", "partial"):
        if bytes(getattr(given, name)).lstrip()[:1] not in (b"{", b"n"):
            raise UsageError(f"standard input is not a bookmark: {name} must be an object or null")
    return given


def get_bookmark(lake: Lake, state_id: str) -> Answer:
    """Return a pipeline's bookmark, never ahead of the tables that its tap fills.

    Raises:
        UsageError: The id has no place in a lake.
        DamagedError: The bookmark, or the log of one of the tables, cannot be read.
    """
    kept = bookmarks.read(lake.store, state_id)  # before the heads: it counts no more than they do
    tap = "" if kept is None else kept.tap
    about = tap or _named_tap(lake, state_id)
    heads = _heads(lake, [about] if about else lake.taps(), strict=bool(about))
    seen = _numbers(heads)
    if kept is None:
        return Answer(state_id, tap, None, None, seen)
    found = _turned_back(lake, kept, heads)
    if not found:
        return Answer(state_id, tap, bytes(kept.completed), bytes(kept.partial), seen)
    back = [
        TurnedBack(table, to, None if one is None else one.transaction) for table, to, one in found
    ]
    states = [one for _, _, one in found if one is not None]
    if len(states) < len(found):
        return Answer(state_id, tap, None, None, seen, back)
    earliest = min(states, key=lambda one: one.time)
    completed = b'{"%s":%s}' % (SINGER_STATE.encode(), earliest.state.encode())
    return Answer(state_id, tap, completed, b"{}", seen, back)


def set_bookmark(lake: Lake, state_id: str, given: GivenBookmark) -> Answer:
    """Write a pipeline's bookmark, after the lake has acknowledged what it counts as sent.

    Raises:
        UsageError: The id has no place in a lake.
        DamagedError: The log of one of the tap's tables cannot be read.
    """
    store, key = lake.store, bookmarks.key_of(state_id)
    open_for_writing(store)
    present = bookmarks.read(store, state_id)
    tap = (present.tap if present is not None else "") or _tap_of(lake, state_id, given)
    heads = _heads(lake, [tap] if tap else [], strict=True)
    seen = _numbers(heads) if given.seen is None else given.seen
    new = Bookmark(
        id=state_id,
        tap=tap,
        time=times.iso(times.now()),
        completed=given.completed,
        partial=given.partial,
        tables={
            table.stream: Span(since=seen.get(tap, {}).get(table.stream, 0), until=head.number)
            for table, head in heads.items()
        },
    )
    bookmarks.put(store, key, metadata.encode(new))
    return Answer(state_id, tap, bytes(new.completed), bytes(new.partial), seen)


def delete_bookmark(lake: Lake, state_id: str) -> None:
    """Delete a pipeline's bookmark, if there is one: its next run sends everything.

    Raises:
        UsageError: The id has no place in a lake.
    """
    lake.store.delete(bookmarks.key_of(state_id))


def bookmark_lock_of(lake: Lake, state_id: str, waiting: Waiting) -> WriterLock:
    """Return the lock under which a bookmark is read and written as one, to be entered.

    Raises:
        UsageError: The id has no place in a lake.
    """
    bookmarks.key_of(state_id)
    open_for_writing(lake.store)
    return WriterLock.of(lake.store, bookmark_lock(state_id), new_writer_id(), waiting)


def _turned_back(
    lake: Lake, kept: Bookmark, heads: Heads
) -> list[tuple[TableName, int, Acknowledged | None]]:
    """Find the tables that were turned back behind a bookmark, and the STATE of then of each."""
    found: list[tuple[TableName, int, Acknowledged | None]] = []
    for stream, span in sorted(kept.tables.items()):
        table = TableName(kept.tap, stream)
        head = heads.get(table)
        if head is None:  # its log is gone, and so is what the bookmark counts as sent
            if span.until:
                found.append((table, 0, None))
            continue
        to = turned_back_to(lake.store, head, span.since, span.until)
        if to is None:
            continue
        try:
            found.append((table, to, acknowledged_by(lake.store, head, to)))
        except NotFoundError:
            found.append((table, to, None))
    return found


def _heads(lake: Lake, taps: Iterable[str], *, strict: bool) -> dict[TableName, TableState]:
    """Read the heads of taps' tables, also of dropped ones.

    Args:
        strict: Fail if one cannot be read; otherwise it is left out.
    """
    tables = [table for tap in taps for table in lake.tables(tap)]
    heads = {}
    for table, found in lake.each(tables, lambda table: table.snapshot(dropped=True)):
        if not isinstance(found, SingerlakeError):
            heads[table] = found
        elif strict and not isinstance(found, NotFoundError):  # nothing was ever committed there
            raise found
    return heads


def _numbers(heads: Heads) -> Seen:
    seen: Seen = {}
    for table, head in heads.items():
        seen.setdefault(table.tap, {})[table.stream] = head.number
    return seen


def _named_tap(lake: Lake, state_id: str) -> str:
    """Return the tap that an id names, as ``dev:tap-shop-to-target-singerlake`` does; or empty."""
    named = [
        tap
        for tap in lake.taps()
        if any(part == tap or part.startswith(f"{tap}-to-") for part in state_id.split(":"))
    ]
    return max(named, key=len, default="")


def _tap_of(lake: Lake, state_id: str, given: GivenBookmark) -> str:
    """Find the tap whose tables a bookmark is about; empty if no table or several taps' may be.

    It is the one that the id names, or the only one whose logs acknowledged this STATE last.
    """
    if named := _named_tap(lake, state_id):
        return named
    states = [_state_of(bytes(one)) for one in (given.completed, given.partial)]
    matching = {
        table.tap
        for table, head in _heads(lake, lake.taps(), strict=False).items()
        if _acknowledges(lake, head, [one for one in states if one is not None])
    }
    return matching.pop() if len(matching) == 1 else ""


def _state_of(payload: bytes) -> Any:
    document = json.loads(payload)
    return document.get(SINGER_STATE) if isinstance(document, dict) else None


def _acknowledges(lake: Lake, head: TableState, states: list[Any]) -> bool:
    """Tell whether the last STATE that a table's log keeps is one of some."""
    try:
        found = acknowledged_by(lake.store, head, head.number, looks=1)
    except NotFoundError:
        return False
    try:
        return json.loads(found.state) in states
    except ValueError:
        return False
