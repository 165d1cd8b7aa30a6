"""The commit: one creation of a log entry, and nothing else makes data visible.

Where the store ignores conditions, entries are created only under a lock of the whole table;
see ``docs/decisions/008-stores-that-ignore-conditions.md``.
"""

from __future__ import annotations

import functools
import getpass
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from singerlake.errors import (
    ConflictError,
    DamagedError,
    NotDurableError,
    OutcomeUnknownError,
    SingerlakeError,
    UsageError,
)
from singerlake.format import times
from singerlake.format.log import Entry, Operation, needed_format, seal_entry
from singerlake.format.names import TableName
from singerlake.format.sealed import CHAINED
from singerlake.storage.base import KeyExistsError, Store
from singerlake.transactions import conflicts
from singerlake.transactions.capabilities import open_for_writing
from singerlake.transactions.folding import fold
from singerlake.transactions.locks.lock import SURE_SETTLES, Waiting, WriterLock, new_writer_id
from singerlake.transactions.log import check_end_known, read_entry, refresh
from singerlake.transactions.snapshot import Snapshot
from singerlake.version import __version__

__all__ = [
    "ATTEMPTS",
    "Begun",
    "Draft",
    "appending",
    "check_metadata",
    "commit",
    "current_user",
    "draft_entry",
    "new_writer_id",
    "preview",
    "stamped",
]

OWN_METADATA = ("by", "comment")
"""Members of an entry's metadata that say who made it and why."""
_SOFTWARE = f"singerlake {__version__}"
Draft = Callable[[Snapshot], Entry]
"""Drafts the entry that is to follow a snapshot, with :func:`draft_entry`; the commit stamps it. It
is called again whenever another transaction got in first, and raises ``ConflictError`` where what
the operation relied on no longer holds: by the rules of ``conflicts.py``."""
ATTEMPTS = 1000
"""Numbers tried before giving up: each failure means that another writer got through."""


class Begun:
    """Whether this process has begun to create a log entry: until then no commit is its own.

    Attributes:
        any: Whether it has; what became of it is another question.
    """

    any = False


def draft_entry(
    table: TableName, operation: Operation, *, writer: str = "", **content: Any
) -> Entry:
    """Draft a log entry as this release writes it, still without number, commit id and time.

    Args:
        table: Whose log.
        operation: What the transaction does.
        writer: The writer's id.
        content: The other fields of :class:`Entry`.
    """
    return Entry(
        format=CHAINED,
        number=0,
        commit="",
        operation=operation.value,
        stream=table.stream,
        time="",
        writer=writer,
        software=_SOFTWARE,
        **content,
    )


def stamped(draft: Entry, number: int, commit_id: str, **changes: Any) -> Entry:
    """Stamp a draft with its number, its commit's id, and the time."""
    time = times.iso(times.now())
    if draft.version is not None:
        changes["version"] = msgspec.structs.replace(draft.version, time=time)
    return msgspec.structs.replace(draft, number=number, commit=commit_id, time=time, **changes)


def preview(snapshot: Snapshot, draft: Entry) -> Snapshot:
    """Fold a draft into a snapshot: the table as it would be."""
    return fold(snapshot, [stamped(draft, snapshot.number + 1, "")])


def check_metadata(metadata: Iterable[str], *more: str) -> None:
    """Refuse metadata of a user's that Singerlake writes into the entry itself.

    Args:
        metadata: The names of its members.
        more: Names that the operation writes besides those that all write.

    Raises:
        UsageError: One of them is such a name.
    """
    for name in metadata:
        if name in (*OWN_METADATA, *more):
            raise UsageError(f"the metadata {name!r} is written by Singerlake itself: rename it")


def current_user() -> str:
    """Who runs this process, as far as the system says."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _hold_on() -> None:
    """There is no lock to look after."""


def commit(
    store: Store,
    snapshot: Snapshot,
    draft: Draft,
    *,
    waiting: Waiting | None = None,
    check: Callable[[], None] = _hold_on,
) -> Snapshot:
    """Append one transaction to a table's log.

    Where the next number is taken, what the others committed is folded in and the entry is
    drafted anew on top of it. A lost reply is resolved by reading the entry back and comparing
    commit ids.

    Args:
        store: Where the log lies.
        snapshot: The table as last seen.
        draft: Drafts the entry from the snapshot it follows.
        waiting: How to treat other writers, where the store makes them take turns.
        check: Called before each attempt; raises if the caller's own locks are lost.

    Returns:
        The snapshot after the commit.

    Raises:
        ConflictError: ``draft`` or ``check`` raised it, a vacuum is about to delete a file
            that the entry names, or too many others got in first.
        DamagedError: The log cannot be gone on with.
        OutcomeUnknownError: The entry may have been written; delete nothing it names.
        NotDurableError: It was, and may be gone after a power cut; the same.
        StoreError: The store refused; nothing was committed.
    """
    check_end_known(snapshot)
    planned = snapshot
    commit_id = uuid.uuid4().hex
    with appending(store, snapshot.table, waiting) as append:
        for _ in range(ATTEMPTS):
            drafted, previous = draft(snapshot), _chain(store, snapshot)
            conflicts.check_no_pending_delete(snapshot, drafted)
            conflicts.check_same_table(snapshot, planned, drafted)
            form = max(needed_format(drafted), snapshot.format)
            entry = stamped(drafted, snapshot.number + 1, commit_id, previous=previous, format=form)
            check()
            if (written := append(entry)) is not None:
                return fold(snapshot, [written])
            snapshot = refresh(store, snapshot)
    raise ConflictError(f"{snapshot.table} changes faster than this commit can follow: try again")


def _chain(store: Store, snapshot: Snapshot) -> str:
    """The chain id that the next entry must follow; of a manifest of format 1, the log tells."""
    if snapshot.chain or not snapshot.number:
        return snapshot.chain
    last = read_entry(store, snapshot.table, snapshot.number)
    if last is None:
        raise DamagedError(
            f"the log of {snapshot.table} lacks transaction {snapshot.number}, its last: make it "
            f"again first, with: singerlake rebuild {snapshot.table}"
        )
    return last.chain


@contextmanager
def appending(
    store: Store, table: TableName, waiting: Waiting | None = None, *, read_back: bool = True
) -> Iterator[Callable[[Entry], Entry | None]]:
    """The one way into a table's log.

    Gives a function that creates an entry, and gives back what the log has now, with its hash:
    None where the number is another's.

    Args:
        store: Where the log lies.
        table: Whose.
        waiting: How to treat other writers, where the store makes them take turns.
        read_back: Whether to make sure, where the store ignores conditions, that nobody wrote
            over an entry; not needed for one that others could only write alike.

    Raises:
        LockTimeoutError: The store ignores conditions, and another kept the table's lock.
    """
    open_for_writing(store)
    if store.capabilities.supports_conditional_writes:
        yield functools.partial(_create, store, table)
        return
    waiting = waiting or Waiting()
    with WriterLock.of(
        store, table.table_lock, new_writer_id(), waiting, settles=SURE_SETTLES
    ) as lock:
        yield functools.partial(_create_alone, store, table, lock, read_back)


def _create(store: Store, table: TableName, entry: Entry) -> Entry | None:
    entry, data = seal_entry(entry)
    Begun.any = True
    try:
        store.put_if_absent(table.transaction(entry.number), data)
    except NotDurableError:
        raise  # it would be read back from memory, whatever becomes of it on the disk
    except (KeyExistsError, OutcomeUnknownError) as error:
        present = _read_back(store, table, entry, taken=isinstance(error, KeyExistsError))
        if present is None and isinstance(error, OutcomeUnknownError):
            raise  # a slow write may still arrive
        return _if_own(present, entry)
    return entry


def _if_own(present: Entry | None, entry: Entry) -> Entry | None:
    return present if present is not None and present.commit == entry.commit else None


def _create_alone(
    store: Store, table: TableName, lock: WriterLock, read_back: bool, entry: Entry
) -> Entry | None:
    """The same under the table's lock, where only a look beforehand shows a taken number."""
    present = read_entry(store, table, entry.number)
    if present is not None:
        return _if_own(present, entry)
    lock.check()
    try:
        created = _create(store, table, entry)
    except BaseException as error:
        if not isinstance(error, SingerlakeError) or isinstance(error, OutcomeUnknownError):
            lock.abandon()  # who comes next must wait until the write has surely arrived
        raise
    if created is None or not read_back:
        return created
    # Should the lock have failed, two wrote this entry, and whose came first is lost. That
    # one finds out here, and goes on to the next number, or gives up.
    time.sleep(store.capabilities.settle_seconds)
    return _if_own(_read_back(store, table, entry), entry)


def _read_back(
    store: Store, table: TableName, entry: Entry, *, taken: bool = False
) -> Entry | None:
    """The entry of this number, as it is now.

    Args:
        store: Where the log lies.
        table: Whose.
        entry: The one that was to be created.
        taken: Whether the store said that there was one before. What cannot be read is then
            not this commit's, which writes whole entries of this release's format.
    """
    try:
        return read_entry(store, table, entry.number)
    except Exception as error:
        if taken and isinstance(error, DamagedError):
            raise
        raise OutcomeUnknownError(
            f"whether transaction {entry.number} of {table} was committed is not known: {error}; "
            f"look with: singerlake history {table}"
        ) from error
