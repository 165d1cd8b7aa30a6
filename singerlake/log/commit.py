"""The commit: one creation of a log entry, and nothing else makes data visible."""

from __future__ import annotations

import getpass
import uuid
from collections.abc import Callable, Container, Iterable
from typing import Any

import msgspec

from singerlake.errors import ConflictError, DamagedError, UsageError
from singerlake.format import times
from singerlake.format.log import Entry, Operation
from singerlake.format.names import TableName
from singerlake.log import conflicts, erasures, file_lists
from singerlake.log.appending import CommitMark, appending
from singerlake.log.folding import fold
from singerlake.log.locks.lock import Waiting, new_writer_id
from singerlake.log.log import TableLog, check_end_known, read_entry, refresh
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store
from singerlake.version import FORMAT, __version__

__all__ = [
    "ATTEMPTS",
    "SOFTWARE",
    "CommitMark",
    "Draft",
    "chain_id",
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
SOFTWARE = f"singerlake {__version__}"
Draft = Callable[[TableState], Entry]
"""Drafts the entry that is to follow a snapshot, with :func:`draft_entry`; the commit stamps it. It
is called again whenever another transaction got in first, and raises ``ConflictError`` where what
the operation relied on no longer holds: by the rules of ``conflicts.py``."""
ATTEMPTS = 1000
"""Numbers tried before giving up: each failure means that another writer got through."""


def draft_entry(
    table: TableName, operation: Operation, *, writer: str = "", **content: Any
) -> Entry:
    """Draft a log entry as this release writes it, still without number, commit id and time.

    Args:
        content: The other fields of :class:`Entry`.
    """
    return Entry(
        format=FORMAT,
        number=0,
        commit="",
        operation=operation.value,
        stream=table.stream,
        time="",
        writer=writer,
        software=SOFTWARE,
        **content,
    )


def stamped(draft: Entry, number: int, commit_id: str, **changes: Any) -> Entry:
    """Stamp a draft with its number, its commit's id, and the time."""
    time = times.iso(times.now())
    if draft.version is not None:
        changes["version"] = msgspec.structs.replace(draft.version, time=time)
    return msgspec.structs.replace(draft, number=number, commit=commit_id, time=time, **changes)


def preview(snapshot: TableState, draft: Entry) -> TableState:
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
    """Name the user of this process, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _hold_on() -> None:
    """There is no lock to look after."""


def commit(
    store: Store,
    snapshot: TableState,
    draft: Draft,
    *,
    waiting: Waiting | None = None,
    check: Callable[[], None] = _hold_on,
    files: Container[str] = (),
) -> TableState:
    """Append one transaction to a table's log.

    Where the next number is taken, what the others committed is folded in and the entry is
    drafted anew on top of it. A lost reply is resolved by reading the entry back and comparing
    commit ids.

    Args:
        draft: Drafts the entry from the snapshot it follows.
        waiting: How to treat other writers, where the store makes them take turns.
        check: Called before each attempt; raises if the caller's own locks are lost.
        files: Paths of files that were stored for this commit, which rows that people give may
            name besides those that the table's lists name.

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
    with appending(TableLog(store, snapshot.table), waiting) as append:
        for _ in range(ATTEMPTS):
            drafted, previous = draft(snapshot), chain_id(store, snapshot)
            conflicts.check_no_pending_delete(snapshot, drafted)
            conflicts.check_same_table(snapshot, planned, drafted)
            erasures.check_nothing_erased(snapshot, planned, drafted)
            erasures.check_blocked(snapshot, planned, drafted)
            file_lists.check_kept(store, snapshot, drafted)
            if snapshot is planned:  # rows that people gave name the same files each time
                file_lists.check_there(store, snapshot, drafted, files)
            entry = stamped(drafted, snapshot.number + 1, commit_id, previous=previous)
            check()
            if (written := append(entry)) is not None:
                return fold(snapshot, [written])
            snapshot = refresh(store, snapshot)
    raise ConflictError(f"{snapshot.table} changes too fast for this commit: try again")


def chain_id(store: Store, snapshot: TableState) -> str:
    """The chain id that the next entry must follow; of a manifest of format 1, the log tells."""
    if snapshot.chain or not snapshot.number:
        return snapshot.chain
    last = read_entry(store, snapshot.table, snapshot.number)
    if last is None:
        raise DamagedError(
            f"the log of {snapshot.table} lacks transaction {snapshot.number}, its last: rebuild "
            f"it first with: singerlake rebuild {snapshot.table}"
        )
    return last.chain
