"""Reverting: one new transaction that turns the present state into an older one.

Plain data and the commit; what Spark has to find out and to write comes in as arguments.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from singerlake.errors import DamagedError, UsageError
from singerlake.format import times
from singerlake.format.log import Block, Entry, Operation, SchemaEntry
from singerlake.format.metadata import TransactionSummary
from singerlake.format.types import RULES
from singerlake.log import conflicts
from singerlake.log.acknowledged import KEEP
from singerlake.log.commit import check_metadata, commit, draft_entry
from singerlake.log.staging import replace_block
from singerlake.log.state_files import missing
from singerlake.log.table_state import TableState
from singerlake.overlay.alter import retyped_columns
from singerlake.storage.base import Store


@dataclass(frozen=True)
class RevertPlan:
    """The plan of a revert.

    Attributes:
        to: The table as it shall be.
        if_transaction: The transaction that the table must still be at when it is committed.
    """

    head: TableState
    to: TableState
    if_transaction: int | None = None

    @property
    def schema_hash(self) -> str:
        """The schema in effect afterwards."""
        return self.to.schema_hash

    @property
    def after(self) -> TableState:
        """The old state as it will be read: by what people say now, and by the rules of today."""
        return self.to.laid_over(self.head.overlay).by_rules(RULES)

    @property
    def retyped(self) -> set[str]:
        """Columns whose values of then may not fit the type of now, by their names of now."""
        return retyped_columns(self.to, self.after)

    @property
    def default_span(self) -> tuple[int, int]:
        """The first and the last version of rows that show the defaults of the old state's last.

        These are what rows show in columns that people added, where no record says a value.
        """
        starts = self.head.overlay.default_starts
        after = bisect_right(starts, self.to.last_block)
        first = starts[after - 1] if after else 0
        return first, starts[after] - 1 if after < len(starts) else self.head.last_block

    @property
    def same_state(self) -> bool:
        """Whether no row and no schema came in between."""
        return (self.head.last_block, self.head.schema_hash) == (
            self.to.last_block,
            self.to.schema_hash,
        )


def kept(metadata: Mapping[str, Any], comment: str | None) -> dict[str, Any]:
    """Return what is kept with a revert's transaction of what a person says of it.

    Raises:
        UsageError: A name is one that a revert writes itself.
    """
    check_metadata(metadata, "reverted_to", "violations", "misfits", KEEP)
    return {**metadata} if comment is None else {**metadata, "comment": comment}


def plan(
    store: Store, head: TableState, number: int, if_transaction: int | None = None
) -> RevertPlan:
    """Check what can be checked before any data is read.

    Args:
        number: The transaction to go back to.
        if_transaction: The transaction that the table must still be at.

    Raises:
        UsageError: The table's log is lost, or the old state lacks a column of the key.
        NotFoundError: There is no such transaction.
        ConflictError: The table is not at the transaction that it should be at.
        DamagedError: Files that the old state needs are gone; all of them are named.
    """
    wanted = outlined(head, number, if_transaction)
    if gone := missing(store, wanted.to):
        raise DamagedError.of_lines(
            f"the snapshot of {head.table} at transaction {number} can no longer be read: "
            f"{len(gone)} of its files are missing or truncated:",
            *(f"  {file}" for file in gone),
        )
    return wanted


def outlined(head: TableState, number: int, if_transaction: int | None = None) -> RevertPlan:
    """Do as :func:`plan`, without a request: so files that are gone are not looked for.

    Raises:
        UsageError: As there.
        NotFoundError: As there.
        ConflictError: As there.
    """
    head.check_log()
    conflicts.check_transaction(head, if_transaction)
    wanted = RevertPlan(head, head.at(number), if_transaction)
    if not wanted.same_state:
        _check_key_columns(wanted)
    return wanted


def _check_key_columns(wanted: RevertPlan) -> None:
    """Refuse a state that lacks a column of the key which people gave the table since."""
    after, columns = wanted.after, dict(wanted.after.columns)
    lacking = [name for name in after.schema.key_properties if name not in columns]
    if lacking:
        raise UsageError(
            f"{after.table} has the key {', '.join(after.schema.key_properties)}, and at "
            f"transaction {wanted.to.number} it has no column {lacking[0]!r}: give it another key "
            f"first, with: singerlake alter {after.table} set-key"
        )


def undone_by(head: TableState, number: int) -> list[TransactionSummary]:
    """The transactions after a number that changed rows or the schema, the newest first."""
    before = head.summary(number)
    undone = []
    for later in head.transactions[number:]:
        if (later.last_block, later.schema_hash) != (before.last_block, before.schema_hash):
            undone.append(later)
        before = later
    return undone[::-1]


def new_singer_version(snapshot: TableState) -> int:
    """A Singer version above all that the table has activated, the time of day as taps have it."""
    highest = max((v for block in snapshot.blocks for _, v in block.activations), default=0)
    return max(times.micros(times.now()) // 1000, highest + 2)


class RowsBackPlan(Protocol):
    """The part of a plan that the commit of a revert or an undo needs."""

    @property
    def head(self) -> TableState:
        """The table by which it was made."""

    @property
    def schema_hash(self) -> str:
        """The schema in effect afterwards."""

    @property
    def if_transaction(self) -> int | None:
        """The transaction that the table must still be at."""


def commit_revert(
    store: Store,
    wanted: RowsBackPlan,
    blocks: list[Block],
    schemas: Mapping[str, SchemaEntry],
    *,
    writer_id: str,
    metrics: Mapping[str, int],
    metadata: Mapping[str, Any],
) -> TableState:
    """Commit rows that were written again, or deleted.

    Args:
        wanted: The plan.
        blocks: What was written, in order; they are numbered here.
        schemas: Those that blocks may be under and the table may not have had, by hash.

    Raises:
        ConflictError: Somebody changed the table since it was planned; nothing was changed.
    """
    head = wanted.head

    def draft(present: TableState) -> Entry:
        conflicts.check_transaction(present, wanted.if_transaction)
        conflicts.check_rows_unchanged(present, head.number)
        conflicts.check_key_unchanged(present, head)
        numbered = [
            replace_block(block, number=number)
            for number, block in enumerate(blocks, start=present.last_block + 1)
        ]
        used = {block.schema_hash for block in blocks} - set(present.schemas)
        return draft_entry(
            present.table,
            Operation.REVERT,
            writer=writer_id,
            schema_hash=wanted.schema_hash,
            schemas={name: schemas[name] for name in schemas if name in used},
            blocks=numbered,
            metadata=dict(metadata),
            metrics=dict(metrics),
        )

    return commit(store, head, draft)
