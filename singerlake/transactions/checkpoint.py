"""The manifest: what a snapshot folds into, so that a reader need not read the whole log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from singerlake.errors import DamagedError
from singerlake.format import metadata, names
from singerlake.format.metadata import Manifest
from singerlake.format.names import TableName
from singerlake.format.sealed import PLAIN
from singerlake.transactions.snapshot import Snapshot


def to_manifest(snapshot: Snapshot) -> Manifest:
    """The checkpoint that a snapshot folds into."""
    return Manifest(
        format=snapshot.format,
        tap=snapshot.table.tap,
        stream=snapshot.table.stream,
        transaction=snapshot.head,
        versions={name: f"v{n}" for n, name in enumerate(snapshot.schemas, start=1)},
        schemas=snapshot.schemas,
        transactions=snapshot.transactions,
        table_versions=snapshot.frozen,
        files=metadata.group_by_file(snapshot.blocks),
        floor=snapshot.floor,
        dropped=list(snapshot.dropped.values()),
        doomed={file: by for file, by in snapshot.doomed.items() if by > snapshot.vacuumed},
        overlays=snapshot.overlays,
        chain=snapshot.chain if snapshot.format > PLAIN else "",
    )


def differing(
    ours: Snapshot, theirs: Snapshot
) -> Iterator[tuple[str, Sequence[object], Sequence[object]]]:
    """In what two foldings of one log differ, as far as a manifest holds it.

    Args:
        ours: Folded from the log's entries.
        theirs: Folded from a manifest, and perhaps some entries after it.

    Returns:
        What it is called, and what the two have.
    """
    pairs: dict[str, tuple[Sequence[object], Sequence[object]]] = {
        "transactions": (ours.transactions, theirs.transactions),
        "schemas": (sorted(ours.schemas.items()), sorted(theirs.schemas.items())),
        "blocks": (ours.blocks, theirs.blocks),
        "versions": (ours.frozen, theirs.frozen),
        "dropped files": ([*ours.dropped.values()], [*theirs.dropped.values()]),
        "history floor": ([ours.floor], [theirs.floor]),
        "overlays": ([*ours.overlays.items()], [*theirs.overlays.items()]),
    }
    if ours.chain and theirs.chain:
        pairs["chain id"] = ([ours.chain], [theirs.chain])
    for what, (mine, other) in pairs.items():
        if mine != other:
            yield what, mine, other


def from_manifest(table: TableName, manifest: Manifest) -> Snapshot:
    """The snapshot that a checkpoint holds.

    Raises:
        DamagedError: It belongs to another table, or does not agree with itself.
    """
    blocks = metadata.ungroup(manifest.files)
    snapshot = Snapshot(
        table=table,
        transactions=manifest.transactions,
        schemas=manifest.schemas,
        blocks=blocks,
        floor=manifest.floor,
        dropped={file.path: file for file in manifest.dropped},
        doomed=manifest.doomed,
        checkpoint=manifest.transaction,
        overlays=manifest.overlays,
        format=manifest.format,
        chain=manifest.chain,
    )
    for path in (*(file.path for file in manifest.files), *snapshot.dropped):
        if not names.is_data_path(path):
            table.data(path)  # says what is wrong with it
    numbers = [block.number for block in blocks]
    count = len(snapshot.transactions)
    # Without dropped history there is every block from the first to the last. Counted by what
    # is there, never by a number that is only claimed.
    whole = [*range(1, len(numbers) + 1)] if not manifest.floor else numbers
    agrees = (
        (manifest.tap, manifest.stream) == (table.tap, table.stream)
        and count == manifest.transaction
        and [t.number for t in snapshot.transactions] == [*range(1, count + 1)]
        and 0 <= manifest.floor <= manifest.transaction
        and all(1 <= number <= count for number in manifest.overlays)
        and all(a < b for a, b in pairwise([0, *numbers]))
        and whole == numbers
        and (manifest.floor > 0 or len(numbers) == snapshot.last_block)
        and (not numbers or numbers[-1] <= snapshot.last_block)
    )
    if not agrees:
        raise DamagedError(f"{table.manifest} does not agree with itself")
    for version in manifest.table_versions:
        snapshot.add_version(version)
    return snapshot
