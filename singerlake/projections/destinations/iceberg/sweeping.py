"""What no reader of an Iceberg table needs any more: old snapshots, and files that none names."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from singerlake.format import times
from singerlake.projections.destinations.iceberg.catalog import OpenCatalog, key_of
from singerlake.storage.base import Store

HINT = "metadata/version-hint.text"
"""Says which metadata is the newest, to readers that ask no catalog."""
SILENCE = timedelta(days=1)
"""A file that nothing names for so long is of a run that is dead."""


class Sweep:
    """One sweep of a table.

    Args:
        store: Where it lies.
        found: Its catalog.
        table: The table.
    """

    def __init__(self, store: Store, found: OpenCatalog, table: Table) -> None:
        self._store, self._found, self._table = store, found, table
        self._manifests: dict[str, set[str]] = {}

    def run(self, keep: timedelta) -> int:
        """Expire, and delete.

        Args:
            keep: How long what was replaced stays.

        Returns:
            How many files were deleted.
        """
        metadata = self._table.metadata
        expired = self._expired(keep)
        kept = [one for one in metadata.snapshots if one.snapshot_id not in expired]
        needed = self._named(kept)
        free = self._named(one for one in metadata.snapshots if one.snapshot_id in expired) - needed
        self._expire(expired)
        needed.add(key_of(self._store, self._table.metadata_location))
        return self._delete(needed, free, keep)

    def forget_all_but(self, snapshot_id: int) -> set[str]:
        """Expire all snapshots but one, and delete what only those named.

        Returns:
            The keys of the files that it needs, and of the table's metadata.
        """
        snapshots = self._table.metadata.snapshots
        needed = self._named(one for one in snapshots if one.snapshot_id == snapshot_id)
        others = [one for one in snapshots if one.snapshot_id != snapshot_id]
        free = self._named(others) - needed
        self._expire({one.snapshot_id for one in others})
        for key in free:
            self._store.delete(key)
        return needed | {key_of(self._store, self._table.metadata_location)}

    def _expire(self, expired: set[int]) -> None:
        if expired:
            expire = self._table.maintenance.expire_snapshots().by_ids(sorted(expired))
            with self._found.committing():
                expire.commit()

    def _expired(self, keep: timedelta) -> set[int]:
        """Find snapshots that were replaced longer ago, and that no branch or tag names."""
        metadata = self._table.metadata
        before = (times.now() - keep).timestamp() * 1000
        log = metadata.snapshot_log
        replaced = {
            one.snapshot_id: after.timestamp_ms
            for one, after in pairwise(log)
            if one.snapshot_id != after.snapshot_id
        }
        refs = {one.snapshot_id for one in metadata.refs.values()}
        return {
            one.snapshot_id
            for one in metadata.snapshots
            if one.snapshot_id not in refs
            and replaced.get(one.snapshot_id, one.timestamp_ms) <= before
        }

    def _named(self, snapshots: Iterable[Snapshot]) -> set[str]:
        """List the keys of all files that snapshots name."""
        io, keys = self._table.io, set()
        for snapshot in snapshots:
            keys.add(key_of(self._store, snapshot.manifest_list))
            for manifest in snapshot.manifests(io):
                path = manifest.manifest_path
                if path not in self._manifests:
                    entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
                    named = {key_of(self._store, one.data_file.file_path) for one in entries}
                    self._manifests[path] = named | {key_of(self._store, path)}
                keys |= self._manifests[path]
        return keys

    def _delete(self, needed: set[str], free: set[str], keep: timedelta) -> int:
        now = times.now()
        old = (now - keep).timestamp()
        dead = (now - max(keep, SILENCE)).timestamp()
        count = 0
        for folder in ("data/", "metadata/"):
            for file in list(self._store.list(folder)):
                # Metadata of former states only serves readers that began with it.
                former = file.key.endswith(".metadata.json")
                if file.key in needed or file.key == HINT:
                    continue
                if file.key in free or file.modified <= (old if former else dead):
                    self._store.delete(file.key)
                    count += 1
        return count
