"""The head file: read and written beside a large manifest, for writers that only add rows.

It is derived, and held against the log by whoever reads it: its last entry has to be there, with
the same chain id. So one that is stale, lost or of another log costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from singerlake.errors import DataError
from singerlake.format import head_file
from singerlake.format.head_file import HeadFile
from singerlake.format.log import Entry
from singerlake.format.names import TableName
from singerlake.format.sealed import PLAIN
from singerlake.log import lazy_history
from singerlake.log.lifetimes import Drop
from singerlake.log.table_state import TableState
from singerlake.storage.base import KeyMissingError, Store

SMALL_BYTES = 64 << 10
"""A manifest so small is read whole, and has no head file beside it."""
_MOST_BYTES = 1 << 20
"""A head file so large, of very many schemas, would help nobody."""


def read(store: Store, table: TableName) -> HeadFile | None:
    """Return a table's head file; None where there is none, or none that can be read."""
    try:
        present = store.get_if_small(table.head_file, _MOST_BYTES)
        head = None if present is None else head_file.decode(present.data, table.head_file)
    except (KeyMissingError, DataError):
        return None  # the manifest tells the same, and what is wrong
    ours = head is not None and (head.tap, head.stream) == (table.tap, table.stream)
    return head if ours else None


def snapshot_of(
    table: TableName, head: HeadFile, read: Callable[[Sequence[Entry]], TableState]
) -> TableState:
    """Return the snapshot that a head file holds, which was held against the log.

    Args:
        read: Reads the table as of then, with some entries after it.
    """
    snapshot = TableState(
        table,
        schemas=head.schemas,
        floor=head.floor,
        pending_deletes=head.pending_deletes,
        pending_lists=head.pending_lists,
        checkpoint=head.manifest,
        checkpoint_due=head.due,
        format=head.format,
        chain=head.chain,
        anchored=True,
        overlays=head.overlays,
        drops=tuple(Drop(*drop) for drop in head.drops),
        erased_at=head.erased,
    )
    return lazy_history.without_past(snapshot, lazy_history.LazyHistory(read), head.last)


def write(store: Store, snapshot: TableState) -> None:
    """Write the head file of a table that is there, over whatever is there.

    An earlier one costs its readers some entries of the log, so nobody makes sure that there is
    no later one. As the manifest, it need not be durable.
    """
    if snapshot.format == PLAIN or not snapshot.chain or snapshot.dropped_at:
        return
    if snapshot.blocked is not None:  # then nobody adds rows without all that there is to know
        return
    head = HeadFile(
        format=snapshot.format,
        tap=snapshot.table.tap,
        stream=snapshot.table.stream,
        last=snapshot.transactions[-1],
        manifest=snapshot.checkpoint,
        due=snapshot.checkpoint_due,
        schemas=dict(snapshot.schemas),
        floor=snapshot.floor,
        pending_deletes={
            file: by for file, by in snapshot.pending_deletes.items() if by > snapshot.vacuumed
        },
        pending_lists=[one for one in snapshot.pending_lists if one[0] > snapshot.vacuumed],
        overlays=dict(snapshot.overlays),
        drops=[(one.transaction, one.ended, one.undone) for one in snapshot.drops],
        erased=snapshot.erased_at,
        chain=snapshot.chain,
    )
    data = head_file.encode(head)
    if len(data) <= _MOST_BYTES:
        store.replace(snapshot.table.head_file, data, None, durable=False)
