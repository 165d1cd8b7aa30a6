"""Dropping a table and bringing it back: two log entries, and no data is touched.

A dropped table's files wait like those that a vacuum has replaced: a vacuum deletes them once they
are older than its retention. Its ``vacuum-start`` names them first, and from that entry on the
table cannot come back, so that no file is deleted which an ``undrop`` has made part of it again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from singerlake.errors import SingerlakeError, UsageError
from singerlake.format import times
from singerlake.format.log import Entry, Operation
from singerlake.format.names import TableName
from singerlake.log import conflicts, log
from singerlake.log.commit import (
    check_metadata,
    commit,
    current_user,
    draft_entry,
    new_writer_id,
)
from singerlake.log.table_state import TableState
from singerlake.log.writer import remove_from_catalogue, update_checkpoint, update_lake
from singerlake.ops.vacuum.ages import Ages
from singerlake.ops.vacuum.sizes import RETENTION
from singerlake.overlay.alter import AlterOptions
from singerlake.storage.base import Store


@dataclass(frozen=True)
class Holdings:
    """The contents of a table that go with it, or come back.

    Attributes:
        transaction: Its last one, or the one that dropped it or brought it back.
        rows: RECORD lines, those included that later ones have replaced.
    """

    table: TableName
    transaction: int
    rows: int
    bytes: int
    versions: int


@dataclass(frozen=True)
class DroppedTable:
    """A table that was dropped.

    Attributes:
        holdings: What would come back; of what is gone, only how many versions there were.
        time: When it was dropped, ISO 8601 in UTC.
        by: Who dropped it; empty where the log entry is lost.
        until: When the first vacuum that runs after it deletes the data, if its retention is the
            usual one; ISO 8601 in UTC. None where one has begun.
    """

    holdings: Holdings
    time: str
    by: str
    comment: str | None
    until: str | None


def holdings_of(snapshot: TableState) -> Holdings:
    """Say what a table holds; of a dropped one, what would come back."""
    blocks = snapshot.blocks
    versions = list(snapshot.frozen)
    if snapshot.dropped_at:
        blocks = snapshot.restorable or []
        there = (v for v in snapshot.earlier_versions if v.deleted is None)
        versions = [v for v in there if v.transaction >= snapshot.first]
    return Holdings(
        snapshot.table,
        snapshot.dropped_at or snapshot.number,
        sum(block.rows for block in blocks),
        sum(block.length for block in blocks),
        len(versions),
    )


def drop_table(
    store: Store, snapshot: TableState, options: AlterOptions, *, with_versions: bool = False
) -> Holdings:
    """Drop a table.

    Args:
        options: What to keep with the transaction, at which one the table must be, and whether
            only to say what would be done.
        with_versions: Whether its frozen versions may go with it.

    Returns:
        What went.

    Raises:
        DroppedError: It was dropped already.
        UsageError: It has versions that are not to go, or has lost its log.
        ConflictError: A version was frozen meanwhile, or it is not at the transaction that it
            should be at.
    """
    snapshot.check_there()
    _check(snapshot, options)
    if snapshot.frozen and not with_versions:
        count = len(snapshot.frozen)
        which = "a frozen version" if count == 1 else f"{count} frozen versions"
        raise UsageError(
            f"{snapshot.table} has {which}, which would be dropped with it: nothing was dropped; "
            "to drop them too, add --with-versions"
        )
    going = holdings_of(snapshot)
    if options.dry_run:
        return going

    def draft(present: TableState) -> Entry:
        conflicts.check_transaction(present, options.if_transaction)
        if not with_versions:
            conflicts.check_no_versions(present)
        return _draft(present, Operation.DROP, options)

    after = commit(store, snapshot, draft)
    update_checkpoint(store, after)
    remove_from_catalogue(store, after)
    return holdings_of(after)


def undrop_table(
    store: Store, snapshot: TableState, options: AlterOptions, known_taps: Collection[str] = ()
) -> Holdings:
    """Bring a dropped table back, with its versions.

    Args:
        options: As for :func:`drop_table`.
        known_taps: Taps that the lake's file is known to name.

    Returns:
        What came back.

    Raises:
        UsageError: It is not dropped.
        DroppedError: A vacuum has begun to delete its data.
        ConflictError: Somebody brought it back, began another or began to delete it meanwhile.
    """
    _check(snapshot, options)
    if not snapshot.dropped_at:
        began = snapshot.first
        raise UsageError(
            f"{snapshot.table} is not dropped"
            + (
                ": the earlier table of that name was, and this one was created after it "
                f"(transaction {began}); the earlier one cannot be restored"
                if began > 1
                else ""
            )
        )
    if snapshot.restorable is None:
        snapshot.check_there()  # which says that it is too late
    coming = holdings_of(snapshot)
    if options.dry_run:
        return coming

    def draft(present: TableState) -> Entry:
        conflicts.check_transaction(present, options.if_transaction)
        conflicts.check_restorable(present)
        return _draft(present, Operation.UNDROP, options)

    after = commit(store, snapshot, draft)
    update_checkpoint(store, after)
    update_lake(store, [after], known_taps)
    return holdings_of(after)


def describe(store: Store, snapshot: TableState) -> DroppedTable:
    """Say when and by whom a table was dropped, and until when it can come back.

    Raises:
        StoreError: The store refused to show the log entry.
    """
    summary = snapshot.summary(snapshot.dropped_at)
    said: Mapping[str, Any] = {}
    try:
        entry = log.read_entry(store, snapshot.table, summary.number)
        said = entry.metadata if entry is not None else {}
    except SingerlakeError:
        pass  # the manifest tells the rest
    dropped = times.parse(Ages(snapshot).at(summary.number))
    until = None
    if snapshot.restorable is not None and dropped is not None:
        until = times.iso(dropped + timedelta(seconds=RETENTION))
    comment = said.get("comment")
    return DroppedTable(
        holdings=holdings_of(snapshot),
        time=summary.time,
        by=str(said.get("by", "")),
        comment=None if comment is None else str(comment),
        until=until,
    )


def _check(snapshot: TableState, options: AlterOptions) -> None:
    check_metadata(options.metadata)
    snapshot.check_log()
    conflicts.check_transaction(snapshot, options.if_transaction)


def _draft(present: TableState, operation: Operation, options: AlterOptions) -> Entry:
    said = {} if options.comment is None else {"comment": options.comment}
    said = {**options.metadata, "by": current_user(), **said}
    return draft_entry(present.table, operation, writer=new_writer_id(), metadata=said)
