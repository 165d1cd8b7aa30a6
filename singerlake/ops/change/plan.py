"""Changing rows: what is asked for, what may be asked, and the commit of the difference.

Plain data; what Spark has to find out and to write comes in as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from msgspec import structs

from singerlake.errors import ConflictError, UsageError
from singerlake.format.log import Block, Entry, FrozenVersion, Operation, SchemaEntry
from singerlake.format.overlay import Overlay
from singerlake.log import conflicts
from singerlake.log.commit import Draft, check_metadata, commit, current_user, draft_entry
from singerlake.log.locks.lock import Waiting
from singerlake.log.staging import replace_block
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions
from singerlake.overlay.alter import AlterPlan, OverlayChange, looks_at_rows
from singerlake.storage.base import Store


class Mode(str, Enum):
    """The request of a row set."""

    UPSERT = "upsert"
    """Rows that are there are changed, others inserted."""
    INSERT = "insert"
    """Rows are inserted; none may be there."""
    UPDATE = "update"
    """Rows are changed; all must be there."""
    REPLACE = "replace"
    """The table's rows become exactly these."""
    DELETE = "delete"
    """Rows go; one that is not there is counted, and no error."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class ChangeOptions:
    """The options of a change.

    Attributes:
        comment: Why; kept with the transaction.
        metadata: What else the user says of it; kept too.
        if_transaction: The transaction that the table must still be at.
        overwrite: Change rows whatever version of them was read.
        new_version: Freeze the state that the change leaves, in the same transaction.
        dry_run: Only say what would be done.
        said: What people say of the columns from then on; None leaves it as it is.
        always: Make a transaction even where no row changes, for what its metadata say.
        writing: How to treat other writers.
    """

    comment: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    if_transaction: int | None = None
    overwrite: bool = False
    new_version: bool = False
    label: str | None = None
    dry_run: bool = False
    said: OverlayChange | None = None
    always: bool = False
    writing: WriteOptions = field(default_factory=WriteOptions)


@dataclass(frozen=True)
class ChangePlan:
    """The plan of a change, before any row is read.

    Attributes:
        overlay: What people say of the columns from then on; None where that stays as it is.
    """

    head: TableState
    options: ChangeOptions
    overlay: Overlay | None = None

    @property
    def altered(self) -> AlterPlan | None:
        """The new schema overrides; None if there are none."""
        return None if self.overlay is None else AlterPlan(self.head, self.overlay)

    @property
    def asks_rows(self) -> bool:
        """Whether only the rows can tell if what is said anew may be said."""
        return self.altered is not None and looks_at_rows(self.altered)

    @property
    def state(self) -> TableState:
        """The same rows, read as they will be: by today's rules, under the overlay to come."""
        return self.head if self.overlay is None else self.head.laid_over(self.overlay)


def plan(head: TableState, options: ChangeOptions) -> ChangePlan:
    """Check what can be checked before any data is read.

    Args:
        options: How it is to be changed.

    Raises:
        UsageError: The table has lost its log, the label or the metadata cannot be used, or what
            is said of the columns cannot be said.
        ConflictError: The table is not at the transaction that it should be at.
    """
    head.check_log()
    conflicts.check_transaction(head, options.if_transaction)
    check_words(options)
    if options.new_version:
        from singerlake.ops import freeze  # late: it reads rows, and so imports pyarrow

        freeze.plan(head, label=options.label)
    overlay = None if options.said is None else options.said(head)
    if overlay is None or overlay == head.overlay:
        return ChangePlan(head, options)
    return ChangePlan(head, options, overlay)


def check_words(options: ChangeOptions) -> None:
    """Check what is to be kept with a transaction, of a table that is there or that is made.

    Raises:
        UsageError: The label cannot be one, or no version is to have it; or the metadata has
            what the change itself writes.
    """
    if options.new_version:
        from singerlake.ops import freeze  # late, too

        freeze.check_label(options.label)
    elif options.label is not None:
        raise UsageError(
            f"a label needs a version: freeze {options.label!r} as one with --new-version "
            "(new_version=True in Python)"
        )
    check_metadata(options.metadata)


@dataclass(frozen=True)
class Written:
    """The files that a change has put on the store, and no log entry names yet.

    Attributes:
        blocks: In order; they are numbered by the commit.
        schemas: Those that blocks are under and the table may not have had, by hash.
        schema_hash: The schema in effect from then on.
    """

    blocks: Sequence[Block]
    schemas: Mapping[str, SchemaEntry]
    schema_hash: str
    metrics: Mapping[str, int]


Frozen = Callable[[TableState, Entry], tuple[FrozenVersion, Mapping[str, str]]]
"""Makes the version, with its lanes, of the state that an entry would leave behind a snapshot."""


def commit_change(
    store: Store,
    wanted: ChangePlan,
    written: Written,
    *,
    writer_id: str,
    still_apart: Callable[[TableState], None],
    frozen: Frozen | None,
    waiting: Waiting,
    check: Callable[[], None],
) -> TableState:
    """Commit a change.

    Args:
        still_apart: Makes sure that what came in since the plan changed no row that the change
            goes by; may read blocks, and raises ``ConflictError``.
        frozen: Makes the version of the state that the change leaves; None for none.
        waiting: How to treat other writers, where the store makes them take turns.
        check: Raises if the locks are lost.

    Raises:
        ConflictError: Somebody changed the same rows, the schema or the overlay since, or took
            the label; nothing was changed.
    """
    return commit(
        store,
        wanted.head,
        draft_of(wanted, written, writer_id=writer_id, still_apart=still_apart, frozen=frozen),
        waiting=waiting,
        check=check,
        files=wanted.options.writing.files,
    )


def draft_of(
    wanted: ChangePlan,
    written: Written,
    *,
    writer_id: str,
    still_apart: Callable[[TableState], None],
    frozen: Frozen | None,
) -> Draft:
    """Return what drafts a change's entry; arguments are those of :func:`commit_change`."""
    options = wanted.options

    def draft(present: TableState) -> Entry:
        conflicts.check_transaction(present, options.if_transaction)
        conflicts.check_columns_unchanged(present, wanted.head)
        still_apart(present)
        used = {block.schema_hash for block in written.blocks} | {written.schema_hash}
        entry = draft_entry(
            present.table,
            Operation.CHANGE,
            writer=writer_id,
            schema_hash=written.schema_hash,
            schemas={h: s for h, s in written.schemas.items() if h in used - set(present.schemas)},
            blocks=[
                replace_block(block, number=number)
                for number, block in enumerate(written.blocks, start=present.last_block + 1)
            ],
            overlay=wanted.overlay,
            metadata=_metadata(options),
            metrics=dict(written.metrics),
        )
        if frozen is None:
            return entry
        conflicts.check_label_free(present, options.label)
        version, lanes = frozen(present, entry)
        return with_version(entry, version, lanes)

    return draft


def with_version(entry: Entry, version: FrozenVersion, lanes: Mapping[str, str]) -> Entry:
    """Return a change's draft with the version of what it leaves."""
    return structs.replace(entry, version=version, lanes=dict(lanes))


def overtaken(present: TableState) -> ConflictError:
    """Return the error of a change that others kept getting ahead of."""
    return ConflictError(
        f"other processes keep changing the same rows of {present.table}: nothing was changed; "
        "run it again"
    )


def _metadata(options: ChangeOptions) -> dict[str, Any]:
    said = {} if options.comment is None else {"comment": options.comment}
    return {**options.metadata, "by": current_user(), **said}
