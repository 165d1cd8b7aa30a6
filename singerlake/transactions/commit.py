"""The commit: one put-if-absent of a log entry, and nothing else makes data visible."""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from collections.abc import Callable

from singerlake import __version__
from singerlake.errors import ConflictError, OutcomeUnknownError
from singerlake.format import times
from singerlake.format.log import Entry, encode_entry
from singerlake.storage.base import KeyExistsError, Store
from singerlake.transactions.log import read_entry, refresh
from singerlake.transactions.snapshot import Snapshot

SOFTWARE = f"singerlake {__version__}"
ATTEMPTS = 1000
"""Numbers tried before giving up: each failure means that another writer got through."""


def new_writer_id() -> str:
    """An id for this process: host, process and something no other has."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def current_user() -> str:
    """Who runs this process, as far as the system says."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def commit(
    store: Store, snapshot: Snapshot, build: Callable[[Snapshot, int, str, str], Entry]
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

    Returns:
        The snapshot after the commit.

    Raises:
        ConflictError: ``build`` said so, or too many others got in first.
        OutcomeUnknownError: The entry may have been written; delete nothing it names.
        StoreError: The store refused; nothing was committed.
    """
    commit_id = uuid.uuid4().hex
    start = snapshot.head
    for _ in range(ATTEMPTS):
        entry = build(snapshot, snapshot.head + 1, commit_id, times.iso(times.now()))
        _check_not_doomed(snapshot, entry, start)
        if _try_number(store, snapshot, entry):
            return snapshot.applied([entry])
        snapshot = refresh(store, snapshot)
    raise ConflictError(f"{snapshot.table} changes faster than this commit can follow: try again")


def _check_not_doomed(snapshot: Snapshot, entry: Entry, start: int) -> None:
    """A file that nobody named yet, a vacuum may have taken for a dead writer's leftover.

    It says so in the log before it deletes. So a writer that was held up between publishing
    and committing, for however long, finds the number it wanted taken, and that entry.
    """
    named = {block.file for block in (*entry.blocks, *entry.moved)}
    for file in sorted(named):
        if (by := snapshot.doomed.get(file, 0)) > start:
            raise ConflictError(
                f"a vacuum (transaction {by} of {snapshot.table}) took {file} for a leftover while "
                "its writer was held up: nothing was committed; run it again"
            )


def _try_number(store: Store, snapshot: Snapshot, entry: Entry) -> bool:
    try:
        store.put_if_absent(snapshot.table.transaction(entry.number), encode_entry(entry))
    except (KeyExistsError, OutcomeUnknownError) as error:
        try:
            present = read_entry(store, snapshot.table, entry.number)
        except Exception as again:
            raise OutcomeUnknownError(
                f"whether transaction {entry.number} of {snapshot.table} was committed is not "
                f"known: {again}; look with: singerlake history {snapshot.table}"
            ) from again
        if present is not None and present.commit == entry.commit:
            return True
        if present is None and isinstance(error, OutcomeUnknownError):
            raise  # a slow write may still arrive
        return False
    return True
