"""Reading the log: the checkpoint first, then entry by entry until one is missing."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from singerlake.errors import DamagedError, InvalidNameError, NewerFormatError
from singerlake.format import log as format_log
from singerlake.format import metadata, names
from singerlake.format.log import Entry
from singerlake.format.names import TableName
from singerlake.storage.base import KeyMissingError, Store
from singerlake.transactions.snapshot import Snapshot, from_manifest

logger = logging.getLogger(__name__)


def read_entry(store: Store, table: TableName, number: int) -> Entry | None:
    """One log entry, or None where it is not there (yet).

    Raises:
        DamagedError: It is there and cannot be read.
    """
    key = table.transaction(number)
    try:
        data = store.get(key).data
    except KeyMissingError:
        return None
    return format_log.decode_entry(data, number, key)


def entries(store: Store, table: TableName, after: int = 0) -> Iterator[Entry]:
    """The log's entries after a number, in order, until one is missing."""
    number = after + 1
    while (entry := read_entry(store, table, number)) is not None:
        yield entry
        number += 1


def read_checkpoint(store: Store, table: TableName) -> Snapshot | None:
    """The manifest's snapshot; None where it is missing or damaged, for it is only derived.

    Raises:
        NewerFormatError: A newer release wrote it.
    """
    try:
        data = store.get(table.manifest).data
        manifest = metadata.decode(data, metadata.Manifest, table.manifest)
        return from_manifest(table, manifest)
    except KeyMissingError:
        return None
    except NewerFormatError:
        raise
    except (DamagedError, InvalidNameError) as error:
        logger.warning("%s; reading the log instead", error)
        return None


def read_snapshot(store: Store, table: TableName) -> Snapshot | None:
    """The table's head.

    Returns:
        None where there is neither checkpoint nor log.

    Raises:
        DamagedError: The log has a gap, or an entry cannot be read.
    """
    checkpoint = read_checkpoint(store, table)
    start = checkpoint or Snapshot(table)
    snapshot = start.applied(entries(store, table, start.head))
    if checkpoint is None:
        snapshot = _checked_for_gaps(store, snapshot)
    return snapshot if snapshot.head else None


def _checked_for_gaps(store: Store, snapshot: Snapshot) -> Snapshot:
    """Without a manifest, one listing tells the log's end from a hole in it."""
    table = snapshot.table
    listed = (names.transaction_number(item.key) for item in store.list(table.log))
    last = max((number for number in listed if number is not None), default=0)
    snapshot = refresh(store, snapshot)  # what was committed since it was read
    if last <= snapshot.head:
        return snapshot
    cure = (
        "bring the missing entry back from a backup"
        if snapshot.head
        else f"make what can be made again with: singerlake rebuild {table}"
    )
    raise DamagedError(
        f"the log of {table} lacks transaction {snapshot.head + 1}, and goes on to {last}: {cure}"
    )


def refresh(store: Store, snapshot: Snapshot) -> Snapshot:
    """The table's head, by what was committed since a snapshot was read."""
    return snapshot.applied(entries(store, snapshot.table, snapshot.head))
