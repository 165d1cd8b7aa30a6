"""Making a table at once: what can be checked before, and the commit that must be its first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from singerlake.errors import ConflictError, DamagedError, UsageError
from singerlake.format import names
from singerlake.format.log import Block, Entry, SchemaEntry
from singerlake.format.names import TableName
from singerlake.storage.base import Store
from singerlake.transactions import files, log
from singerlake.transactions.commit import commit, new_entry
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.staging import replace_block

OPERATION = "create"


def new_name(text: str) -> TableName:
    """The name of a table that is to be made.

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


def check_new(store: Store, table: TableName) -> None:
    """Make sure that nothing is there under a table's name.

    Raises:
        UsageError: There is a table.
        DamagedError: There are files whose log is lost.
    """
    # The files first: who is just making the table commits before the lock beside them goes.
    left = next(files.data_files(store, table), None)
    if log.read_snapshot(store, table) is not None:
        raise UsageError(f"there is a table {table} already: choose another name")
    if left is not None:
        raise DamagedError(
            f"{table} has files but neither log nor manifest: make them again first, with: "
            f"singerlake rebuild {table}"
        )


def check_still_new(store: Store, table: TableName) -> None:
    """The same once the locks are held, where somebody else was just sooner.

    Raises:
        ConflictError: There is a table now.
    """
    try:
        check_new(store, table)
    except UsageError as error:
        raise _made_meanwhile(table) from error


def _made_meanwhile(table: TableName) -> ConflictError:
    return ConflictError(f"somebody else made {table} meanwhile: nothing of it was changed")


def entry(
    table: TableName,
    schema_hash: str,
    schema: SchemaEntry,
    blocks: list[Block],
    *,
    writer_id: str = "",
    metadata: Mapping[str, Any] | None = None,
    metrics: Mapping[str, int] | None = None,
) -> Entry:
    """The table's first transaction, still without commit id and time."""
    return new_entry(
        table,
        OPERATION,
        writer=writer_id,
        schema_hash=schema_hash,
        schemas={schema_hash: schema},
        blocks=[replace_block(block, number=n) for n, block in enumerate(blocks, start=1)],
        metadata=dict(metadata or {}),
        metrics=dict(metrics or {}),
    )


def commit_create(store: Store, table: TableName, first: Entry) -> Snapshot:
    """Commit a table's first transaction.

    Raises:
        ConflictError: The log is not empty any more.
        StoreError: The store refused.
    """

    def build(present: Snapshot, number: int, commit_id: str, time: str) -> Entry:
        if present.head:
            raise _made_meanwhile(table)
        return msgspec.structs.replace(first, number=number, commit=commit_id, time=time)

    return commit(store, Snapshot(table), build)
