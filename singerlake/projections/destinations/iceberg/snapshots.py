"""Snapshots that take files away and add others, and keep a table's manifests few."""

from __future__ import annotations

from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _ManifestMergeManager, _OverwriteFiles

MANIFEST_BYTES = 8 << 20
"""How large a manifest becomes, as Iceberg has it by default."""
MANIFESTS = 32
"""How many small ones there may be. Whoever opens the table reads them all."""


class Overwrite(_OverwriteFiles):
    """An overwrite as pyiceberg's own, which merges manifests as its appends do.

    Else each refresh would leave two more, one of them with files that nobody sees any more.
    """

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        manager = _ManifestMergeManager(
            MANIFEST_BYTES, MANIFESTS, merge_enabled=True, snapshot_producer=self
        )
        merged: list[ManifestFile] = manager.merge_manifests(manifests)
        return merged


class Tidying(Overwrite):
    """A snapshot with the files of the one before, whose manifests tell of no file that is gone.

    An overwrite notes the files that it removes, with the bounds of their columns, and manifests
    are kept as they are from then on.
    """

    def _existing_manifests(self) -> list[ManifestFile]:
        before = self._transaction.table_metadata.snapshot_by_name(name=self._target_branch)
        found: list[ManifestFile] = []
        for manifest in before.manifests(io=self._io) if before is not None else ():
            if manifest.deleted_files_count == 0:
                found.append(manifest)
                continue
            live = manifest.fetch_manifest_entry(io=self._io, discard_deleted=True)
            if not live:
                continue
            with self.new_manifest_writer(self.spec(manifest.partition_spec_id)) as writer:
                for entry in live:
                    writer.add_entry(_existing(entry))
            found.append(writer.to_manifest_file())
        return found


def _existing(entry: ManifestEntry) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def overwrite(
    transaction: Transaction, said: dict[str, str], branch: str | None, *, tidy: bool = False
) -> Overwrite:
    """Begin a snapshot.

    Args:
        transaction: Whose part it is.
        said: What its summary says.
        branch: The branch that it becomes the head of; None for a snapshot beside them.
        tidy: Whether its manifests are to name no file that was removed.
    """
    is_first = transaction.table_metadata.current_snapshot() is None
    kind = Tidying if tidy else Overwrite
    return kind(
        Operation.APPEND if is_first else Operation.OVERWRITE,
        transaction,
        transaction._table.io,
        snapshot_properties=said,
        branch=branch,
    )
