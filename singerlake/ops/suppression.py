"""What is kept of the keys of erased rows, and an end of it.

Keys that no row may come with are blocked until they are let in again; those of which readers are
told are kept for a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from singerlake.errors import UsageError
from singerlake.format.erased_keys import BLOCKED, NOTICES, KeyHashes, is_blocked
from singerlake.format.types import is_exact
from singerlake.log import blocked, erasures, notices
from singerlake.log.commit import new_writer_id
from singerlake.log.log import refresh
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_checkpoint
from singerlake.ops.vacuum.plan import VacuumOptions, vacuum_lock
from singerlake.rows.blocks.misfits import retype_command
from singerlake.rows.changes import row_ids
from singerlake.rows.state.blocked_keys import BlockedRows, compared
from singerlake.rows.state.shape import shape_of
from singerlake.storage.base import Store


def members_of(head: TableState) -> list[str]:
    """Return a table's key as records call its columns.

    Raises:
        UsageError: It has none, or one that records need not have.
    """
    members = erasures.key_members(head.tap_schema, head.overlay)
    if not members:
        raise UsageError(f"{head.table} has no key by which rows could be blocked")
    if added := [one for one in members if one in head.overlay.added]:
        raise UsageError(
            f"the key of {head.table} has the column {added[0]}, which was added by alter: rows "
            "may lack it, so they cannot be blocked by it"
        )
    return members


def rows_of(head: TableState, hashes: KeyHashes) -> BlockedRows:
    """Return what tells a table's rows with a blocked key.

    Raises:
        UsageError: As :func:`members_of`.
    """
    return BlockedRows.of(hashes, shape_of(head).key_columns, members_of(head))


def cells_of(head: TableState, ids: Sequence[str]) -> list[pa.Array]:
    """Return the columns of keys, by their rows' ids.

    Raises:
        UsageError: An id can be none of a row of this table.
    """
    columns = shape_of(head).key_columns
    cells = row_ids.key_values(pa.array(ids, pa.string()), columns)
    for one in cells:
        if one.null_count:
            at = one.is_null().to_pylist().index(True) + 1
            raise UsageError(
                f"id {at} cannot belong to a row of {head.table}: pass the values of _row_id"
                + rounding_words(head)
            )
    return compared(cells, columns)


def rounding_words(head: TableState) -> str:
    """Say what else an id may be that no row of a table seems to have; empty where nothing."""
    for index in head.key:
        name, type_ = head.columns[index]
        if is_exact(type_):
            way = retype_command(head.table, name, "TYPE")
            return f"; if the column {name!r} would round it, first run: {way}"
    return ""


def are_blocked(store: Store, head: TableState, ids: Sequence[str]) -> list[bool]:
    """Tell which of some rows, by their ids, may not come.

    Raises:
        UsageError: An id can be none of a row of this table.
        DamagedError: It is not known any more which are blocked.
    """
    if head.blocked is None:
        return [False] * len(ids)
    rows = rows_of(head, blocked.read(store, head))
    return [bool(one) for one in rows.mask(cells_of(head, ids))]


def unblock(
    store: Store, head: TableState, ids: Sequence[str] | None, options: VacuumOptions
) -> tuple[TableState, int]:
    """Let rows in again.

    Args:
        store: The lake's store.
        head: The table.
        ids: The rows' ids; None for all that are blocked.
        options: How to wait for a vacuum, which changes what is blocked, too.

    Returns:
        The table after it, and how many keys are let in.

    Raises:
        UsageError: None of them is blocked.
        ConflictError: A vacuum is at work.
        StoreError: The store refused.
    """
    writer_id = new_writer_id()
    with vacuum_lock(store, head.table, writer_id, options):
        head = refresh(store, head)
        _sweep(store, head)
        before = head.blocked
        if before is None:
            raise UsageError(f"no key of {head.table} is blocked")
        hashes, members = KeyHashes.new(), [*before.columns]
        if ids is not None:
            known = blocked.read(store, head)
            hashes = rows_of(head, known).removed(cells_of(head, ids))
            if hashes == known:
                raise UsageError(f"none of these keys of {head.table} is blocked")
        said = blocked.write(store, head.table, hashes, members)
        after = blocked.commit_blocked(store, head, said, writer_id)
        _sweep(store, after)
    return update_checkpoint(store, after), before.keys - said.keys


def revoke_notices(store: Store, head: TableState, options: VacuumOptions) -> int:
    """Delete the keys of erased rows that are kept to tell readers of them, before their time.

    Args:
        store: The lake's store.
        head: The table.
        options: How to wait for a vacuum or an erasure.

    Returns:
        How many notices there were.

    Raises:
        ConflictError: A vacuum is at work.
        StoreError: The store refused; run it again.
    """
    with vacuum_lock(store, head.table, new_writer_id(), options):
        there = notices.present(head.table, store.list(f"{head.table.folder}{NOTICES}"))
        for item in there:
            store.delete(item.key)
    return len(there)


def _sweep(store: Store, head: TableState) -> None:
    """Delete lists that are not in effect: under the lock, nobody is about to name one."""
    now = None if head.blocked is None else blocked.key_of(head.table, head.blocked)
    start = len(head.table.folder)
    for item in [*store.list(f"{head.table.folder}{BLOCKED}")]:
        if is_blocked(item.key[start:]) and item.key != now:
            store.delete(item.key)
