"""The commit: one creation of a log entry, and nothing else makes data visible.

Where the store ignores conditions, entries are created only under a lock of the whole table;
see ``docs/decisions/008-stores-that-ignore-conditions.md``.
"""

from __future__ import annotations

import functools
import getpass
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from singerlake import FORMAT, __version__
from singerlake.errors import (
    ConflictError,
    DamagedError,
    NotDurableError,
    OutcomeUnknownError,
    SingerlakeError,
)
from singerlake.format import times
from singerlake.format.log import Entry, seal_entry
from singerlake.format.names import TableName
from singerlake.storage.base import KeyExistsError, Store
from singerlake.transactions import conditions
from singerlake.transactions.lock import Waiting, WriterLock, new_writer_id
from singerlake.transactions.log import check_end_known, read_entry, refresh
from singerlake.transactions.snapshot import Snapshot

__all__ = ["ATTEMPTS", "appending", "commit", "current_user", "new_entry", "new_writer_id"]

_SOFTWARE = f"singerlake {__version__}"
ATTEMPTS = 1000
"""Numbers tried before giving up: each failure means that another writer got through."""


def new_entry(
    table: TableName,
    operation: str,
    number: int = 1,
    commit_id: str = "",
    time: str = "",
    *,
    writer: str = "",
    **content: Any,
) -> Entry:
    """A log entry as this release writes it.

    Args:
        table: Whose log.
        operation: What the log calls it.
        number: Its number.
        commit_id: Its commit's id.
        time: When it is committed.
        writer: Who writes it.
        content: What it says; the other fields of :class:`Entry`.
    """
    return Entry(
        format=FORMAT,
        number=number,
        commit=commit_id,
        operation=operation,
        stream=table.stream,
        time=time,
        writer=writer,
        software=_SOFTWARE,
        **content,
    )


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
    build: Callable[[Snapshot, int, str, str], Entry],
    *,
    waiting: Waiting | None = None,
    check: Callable[[], None] = _hold_on,
) -> Snapshot:
    """Append one transaction to a table's log.

    Where the next number is taken, what the others committed is folded in and the entry is
    built anew on top of it; ``build`` raises ``ConflictError`` if what it read no longer
    holds. A lost reply is settled by reading the entry back and comparing commit ids.

    Args:
        store: Where the log lies.
        snapshot: The table as last seen.
        build: Makes the entry from the snapshot it follows, its number, the commit id, and
            the time of the commit.
        waiting: How to treat other writers, where the store makes them take turns.
        check: Called before each attempt; raises if the caller's own locks are lost.

    Returns:
        The snapshot after the commit.

    Raises:
        ConflictError: ``build`` or ``check`` said so, or too many others got in first.
        DamagedError: The log cannot be gone on with.
        OutcomeUnknownError: The entry may have been written; delete nothing it names.
        NotDurableError: It was, and may be gone after a power cut; the same.
        StoreError: The store refused; nothing was committed.
    """
    check_end_known(snapshot)
    commit_id = uuid.uuid4().hex
    with appending(store, snapshot.table, waiting) as append:
        for _ in range(ATTEMPTS):
            entry = build(snapshot, snapshot.head + 1, commit_id, times.iso(times.now()))
            _check_not_doomed(snapshot, entry)
            entry = msgspec.structs.replace(entry, previous=_chain(store, snapshot))
            check()
            if (written := append(entry)) is not None:
                return snapshot.applied([written])
            snapshot = refresh(store, snapshot)
    raise ConflictError(f"{snapshot.table} changes faster than this commit can follow: try again")


def _chain(store: Store, snapshot: Snapshot) -> str:
    """The chain id that the next entry must follow; of a manifest of format 1, the log tells."""
    if snapshot.chain or not snapshot.head:
        return snapshot.chain
    last = read_entry(store, snapshot.table, snapshot.head)
    if last is None:
        raise DamagedError(
            f"the log of {snapshot.table} lacks transaction {snapshot.head}, its last: make it "
            f"again first, with: singerlake rebuild {snapshot.table}"
        )
    return last.chain


def _check_not_doomed(snapshot: Snapshot, entry: Entry) -> None:
    """A file that nobody named yet, a vacuum may have taken for a dead writer's leftover.

    It says so in the log before it deletes. So a writer that was held up between publishing
    and committing, for however long, finds the number it wanted taken, and that entry.
    """
    for file in sorted({block.file for block in (*entry.blocks, *entry.moved)}):
        if (by := snapshot.doomed.get(file)) is not None:
            raise ConflictError(
                f"a vacuum (transaction {by} of {snapshot.table}) took {file} for a leftover while "
                "its writer was held up: nothing was committed; run it again"
            )


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
    conditions.settle(store)
    if store.keeps_conditions:
        yield functools.partial(_create, store, table)
        return
    with WriterLock.of(store, table.table_lock, new_writer_id(), waiting or Waiting()) as lock:
        yield functools.partial(_create_alone, store, table, lock, read_back)


def _create(store: Store, table: TableName, entry: Entry) -> Entry | None:
    entry, data = seal_entry(entry)
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
    time.sleep(store.settle_seconds)
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
