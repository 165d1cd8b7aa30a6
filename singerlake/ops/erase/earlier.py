"""Former versions of objects on S3, kept after they were replaced or deleted.

An erasure replaces and deletes objects. A bucket that keeps versions has what they were, rows,
checksums and fingerprints, until somebody deletes that, too: the lake never reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from singerlake.errors import StoreError
from singerlake.format import names
from singerlake.format.names import TableName
from singerlake.storage.base import Store, StoredCopy


@runtime_checkable
class KeepsEarlier(Protocol):
    """A store that may keep what objects were."""

    def earlier(self, prefix: str) -> Iterator[StoredCopy]:
        """List what objects below a prefix were before, where that is kept; not what they are.

        Raises:
            StoreError: The store does not list it.
        """

    def delete_earlier(self, copies: Sequence[StoredCopy]) -> Sequence[StoredCopy]:
        """Delete some of these for good.

        Returns:
            Those that are still there, each with the reason as ``unreadable``.
        """


@dataclass(frozen=True)
class Earlier:
    """Earlier versions of a table's objects, which may have rows that were erased.

    Attributes:
        deleted: How many were deleted.
        why: Why those that were to be deleted are still there; or why it is not known whether there
            are any. Empty where neither is so.
    """

    table: TableName
    objects: int = 0
    bytes: int = 0
    deleted: int = 0
    why: str = ""


def look(store: Store, table: TableName) -> Earlier:
    """Count the earlier versions of what lies in a table's folders and in the lake's own log."""
    try:
        found = _earlier(store, table)
    except StoreError as error:
        return Earlier(table, why=str(error))
    return Earlier(table, len(found), sum(one.size for one in found))


def delete(store: Store, table: TableName) -> Earlier:
    """Delete them for good, and count what is left."""
    try:
        found = _earlier(store, table)
    except StoreError as error:
        return Earlier(table, why=str(error))
    left = store.delete_earlier(found) if isinstance(store, KeepsEarlier) else found
    size = sum(one.size for one in left)
    why = left[0].unreadable if left else ""
    return Earlier(table, len(left), size, len(found) - len(left), why)


def _earlier(store: Store, table: TableName) -> Sequence[StoredCopy]:
    if not isinstance(store, KeepsEarlier):
        return []
    folders = (table.folder, table.indexes, names.LAKE_LOG, names.BOOKMARKS)
    return [
        one
        for folder in folders
        for one in store.earlier(folder)
        if names.lock_target(one.key) is None  # no lock or lease has a row
    ]
