"""Deleting a version: one log entry that says so, and why; no data is touched.

What the version alone protected is history from then on. Its state stays readable, by its
transaction, until a vacuum drops the history of that time; its number means nothing else, ever.
"""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.errors import UsageError
from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.format.version_notes import VersionDeletion
from singerlake.log import conflicts
from singerlake.log.commit import commit, current_user, draft_entry, new_writer_id
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_checkpoint
from singerlake.storage.base import Store

MAX_REASON = 1000


@dataclass(frozen=True)
class DeletedVersion:
    """A version that was deleted, or would be.

    Attributes:
        version: What it was.
        transaction: The transaction that deleted it; None where it was only asked.
        reason: Why.
        by: Who deleted it.
        becomes_history: Whether nothing else keeps its state for good: no other version is of
            the same rows, and they are not the present ones.
    """

    version: FrozenVersion
    transaction: int | None
    reason: str
    by: str
    becomes_history: bool


def delete_version(
    store: Store, head: TableState, name: str, reason: str, *, dry_run: bool = False
) -> DeletedVersion:
    """Delete a version.

    Args:
        name: The version's number or label.
        reason: Why; whoever asks for the version is told.
        dry_run: Only say what would be done.

    Raises:
        NotFoundError: There is no such version, or it was deleted before.
        UsageError: The reason is empty or too long, or the table has lost its log.
        ConflictError: A pointer names it, or somebody deleted it, or dropped the table, meanwhile.
    """
    _check_reason(reason)
    head.check_log()
    version, by = head.version(name), current_user()
    conflicts.check_not_pointed(head, version.number)
    if dry_run:
        return DeletedVersion(version, None, reason, by, _becomes_history(head, version))

    def draft(present: TableState) -> Entry:
        conflicts.check_version_there(present, version.number)
        conflicts.check_not_pointed(present, version.number)
        return draft_entry(
            present.table,
            Operation.DELETE_VERSION,
            writer=new_writer_id(),
            deletion=VersionDeletion(version.number, reason, by),
        )

    after = commit(store, head, draft)
    update_checkpoint(store, after)
    return DeletedVersion(version, after.number, reason, by, _becomes_history(after, version))


def _becomes_history(snapshot: TableState, version: FrozenVersion) -> bool:
    """Tell whether no other version is of the same rows, and these are not the present ones."""
    last_block = snapshot.summary(version.transaction).last_block
    others = (other for other in snapshot.frozen if other.number != version.number)
    return last_block != snapshot.last_block and all(
        snapshot.summary(other.transaction).last_block != last_block for other in others
    )


def _check_reason(reason: str) -> None:
    if not reason.strip() or not reason.isprintable():
        raise UsageError(
            "the reason is empty, or has control characters in it: write it in one line"
        )
    if len(reason) > MAX_REASON:
        raise UsageError(f"the reason {reason[:20]!r}… is longer than {MAX_REASON:,} characters")
