"""Making a table at once: what can be checked before, and the commit that must be its first."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import structs

from singerlake.errors import DamagedError, UsageError
from singerlake.format import names
from singerlake.format.log import Block, Entry, FrozenVersion, Operation, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.format.types import Columns
from singerlake.log import conflicts, files, log
from singerlake.log.commit import commit, current_user, draft_entry, new_writer_id
from singerlake.log.staging import replace_block
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_checkpoint, update_lake
from singerlake.storage.base import Store

if TYPE_CHECKING:
    from singerlake.sql.result import Source


@dataclass(frozen=True)
class Created:
    """A table that was made.

    Attributes:
        table: Its name.
        transaction: Its first transaction: 1, unless a table of its name was dropped before; None
            where it was only asked.
        rows: Rows in it.
        blocks: Blocks they lie in.
        fingerprint: Over their values, as a freeze would compute it.
        schema_hash: Its schema.
        key_properties: Its key.
        sources: What the query read.
        columns: Its columns.
        version: The version of it, where one was asked for.
    """

    table: TableName
    transaction: int | None
    rows: int
    blocks: int
    fingerprint: str
    schema_hash: str
    key_properties: list[str]
    sources: list[Source]
    columns: Columns = ()
    version: FrozenVersion | None = None


def new_name(text: str) -> TableName:
    """Return the name of a table that is to be made.

    Raises:
        UsageError: It cannot be one.
    """
    ref = names.parse_ref(text)
    if ref.version is not None:
        raise UsageError(
            f"{text} would be version {ref.version} of {ref.table}: a new table's name cannot "
            "end in a part of digits"
        )
    return ref.table


def check_new(store: Store, table: TableName) -> TableState:
    """Make sure that nothing is there under a table's name, or only what was dropped.

    Returns:
        What the table's first transaction goes on from: the log of dropped ones, if any.

    Raises:
        UsageError: There is a table.
        DamagedError: There are files whose log is lost.
    """
    # The files first: a process that is just making the table commits before its lock goes.
    left = next(iter(files.list_files(store, table).free), None)
    present = log.read_snapshot(store, table)
    if present is not None:
        if present.dropped_at:
            return present
        raise UsageError(f"the table {table} already exists: choose another name")
    if left is not None:
        raise DamagedError(
            f"{table} has files but neither log nor manifest: rebuild them first with: singerlake "
            f"rebuild {table}"
        )
    return TableState(table)


def check_still_new(store: Store, table: TableName) -> TableState:
    """The same once the locks are held, where somebody else was just sooner.

    Raises:
        ConflictError: There is a table now.
    """
    try:
        return check_new(store, table)
    except UsageError as error:
        raise conflicts.made_meanwhile(table) from error


def draft(
    table: TableName,
    schema_hash: str,
    schema: SchemaEntry,
    blocks: list[Block],
    *,
    writer_id: str = "",
    metadata: Mapping[str, Any] | None = None,
    metrics: Mapping[str, int] | None = None,
) -> Entry:
    """Draft the table's first transaction."""
    return draft_entry(
        table,
        Operation.CREATE,
        writer=writer_id,
        schema_hash=schema_hash,
        schemas={schema_hash: schema},
        blocks=[replace_block(block, number=n) for n, block in enumerate(blocks, start=1)],
        metadata=dict(metadata or {}),
        metrics=dict(metrics or {}),
    )


def commit_create(
    store: Store, planned: TableState, first: Entry, files: Container[str] = ()
) -> TableState:
    """Commit a table's first transaction.

    Args:
        store: The lake's store.
        planned: What :func:`check_new` gave.
        first: What :func:`draft` made; behind the log of tables that were dropped, its blocks
            and its version take the next numbers.
        files: Paths of files that were stored for its rows.

    Raises:
        ConflictError: Somebody else made the table.
        StoreError: The store refused.
    """

    def draft_first(present: TableState) -> Entry:
        conflicts.check_empty(present)
        before, version = present.last_block, first.version
        if version is not None:  # of this very transaction
            number = present.last_version + version.number
            version = structs.replace(version, number=number, transaction=present.number + 1)
        return structs.replace(
            first,
            version=version,
            blocks=[replace_block(block, number=before + block.number) for block in first.blocks],
            schemas={h: s for h, s in first.schemas.items() if h not in present.schemas},
        )

    return commit(store, planned, draft_first, files=files)


def create_empty(
    store: Store,
    table: TableName,
    schema: SchemaEntry,
    *,
    comment: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    known_taps: Collection[str] = (),
) -> TableState:
    """Make a table that has columns and no row.

    Args:
        store: The lake's store.
        table: Its name.
        schema: Its columns and its key.
        comment: Why; kept with the transaction.
        metadata: What else to keep with it.
        known_taps: Taps that the lake's file is known to name.

    Raises:
        UsageError: There is a table.
        ConflictError: Somebody else made it meanwhile.
    """
    planned = check_new(store, table)
    said = {**(metadata or {}), "by": current_user()}
    said |= {} if comment is None else {"comment": comment}
    hash_ = schema_hash(schema.schema, schema.key_properties)
    first = draft(table, hash_, schema, [], writer_id=new_writer_id(), metadata=said)
    done = update_checkpoint(store, commit_create(store, planned, first))
    update_lake(store, [done], known_taps)
    return done
