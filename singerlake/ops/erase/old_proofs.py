"""Finds fingerprints and checksums from before an erasure, in whatever object they stand."""

from __future__ import annotations

from singerlake.format import lake_log, log, metadata, names
from singerlake.format.metadata import Manifest
from singerlake.log.table_state import TableState
from singerlake.ops.resealing import read_erasures
from singerlake.storage.base import Store, StoredCopy

SOUGHT = "old proof"
"""What reports call it."""
WORDS = "has a fingerprint or a checksum from before rows were erased"


class OldProofs:
    """The proofs that a table's log, its manifest and lake versions may no longer contain.

    Raises:
        DamagedError: An ``erase`` entry is lost or damaged.
    """

    def __init__(self, store: Store, head: TableState) -> None:
        self._store = store
        self._table = head.table
        self._erasures = read_erasures(store, head)

    def are_in(self, copy: StoredCopy) -> bool:
        """Tell whether an object, or what it was before, has one.

        Raises:
            KeyMissingError: It is gone by now.
            DamagedError: It cannot be read.
        """
        key, erasures = copy.key, self._erasures
        if not erasures.last:
            return False
        if key.startswith(self._table.log):
            number = names.transaction_number(key)
            if number is None:
                return False
            entry = log.decode_entry(self._data(copy), number, key)
            return erasures.without_traces(entry) is not entry
        if key == self._table.manifest:
            return erasures.are_told_in(metadata.decode(self._data(copy), Manifest, key))
        if key.startswith(names.LAKE_LOG) and (number := names.lake_version_number(key)):
            version = lake_log.decode(self._data(copy), number, key)
            return erasures.lake_version_without_traces(version) is not version
        return False

    def _data(self, copy: StoredCopy) -> bytes:
        return self._store.read_copy(copy, 0, copy.size)
