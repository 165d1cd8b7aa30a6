"""Snapshots that take files away and add others, and keep a table's manifests few."""

from __future__ import annotations

from pyiceberg.manifest import ManifestFile
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


def overwrite(transaction: Transaction, said: dict[str, str], branch: str | None) -> Overwrite:
    """Begin a snapshot.

    Args:
        transaction: Whose part it is.
        said: What its summary says.
        branch: The branch that it becomes the head of; None for a snapshot beside them.
    """
    is_first = transaction.table_metadata.current_snapshot() is None
    return Overwrite(
        Operation.APPEND if is_first else Operation.OVERWRITE,
        transaction,
        transaction._table.io,
        snapshot_properties=said,
        branch=branch,
    )
