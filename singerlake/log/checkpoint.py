"""The manifest: what a snapshot folds into, so that a reader need not read the whole log.

It can be made again from the log, so a crash before it is written loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import attrgetter

from singerlake.errors import DamagedError, InvalidNameError
from singerlake.format import file_paths, metadata, names
from singerlake.format.data_paths import are_data_paths
from singerlake.format.log import Operation
from singerlake.format.metadata import Manifest, TransactionSummary
from singerlake.format.names import TableName
from singerlake.format.packed import Noted, PackedTransactions
from singerlake.format.sealed import PLAIN
from singerlake.log import head_file, lifetimes, unread, versions
from singerlake.log.folding import Folding
from singerlake.log.table_state import TableState
from singerlake.storage.base import KeyExistsError, KeyMissingError, OversizedError, Store

MAX_TAIL = 256
READABLE_BLOCKS = 1000
"""Up to so many blocks the manifest is indented, for people."""


def to_manifest(snapshot: TableState) -> Manifest:
    """The checkpoint that a snapshot folds into."""
    return Manifest(
        format=snapshot.format,
        tap=snapshot.table.tap,
        stream=snapshot.table.stream,
        transaction=snapshot.number,
        versions={name: f"v{n}" for n, name in enumerate(snapshot.schemas, start=1)},
        schemas=dict(snapshot.schemas),
        transactions=list(snapshot.transactions),
        table_versions=versions.known(snapshot),
        files=metadata.group_by_file(snapshot.blocks),
        floor=snapshot.floor,
        dropped=list(snapshot.dropped.values()),
        pending_deletes={
            file: by for file, by in snapshot.pending_deletes.items() if by > snapshot.vacuumed
        },
        file_lists=metadata.lists_of((*snapshot.blocks, *(snapshot.restorable or ()))),
        pending_lists=[one for one in snapshot.pending_lists if one[0] > snapshot.vacuumed],
        overlays=dict(snapshot.overlays),
        restorable=(
            None if snapshot.restorable is None else metadata.group_by_file(snapshot.restorable)
        ),
        blocked=snapshot.blocked,
        chain=snapshot.chain if snapshot.format > PLAIN else "",
    )


def differing(
    ours: TableState, theirs: TableState
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
        "deleted versions": (ours.deleted_versions, theirs.deleted_versions),
        "earlier versions": (ours.earlier_versions, theirs.earlier_versions),
        "restorable blocks": ([ours.restorable], [theirs.restorable]),
        "dropped files": ([*ours.dropped.values()], [*theirs.dropped.values()]),
        "history floor": ([ours.floor], [theirs.floor]),
        "blocked keys": ([ours.blocked], [theirs.blocked]),
        "overlays": ([*ours.overlays.items()], [*theirs.overlays.items()]),
    }
    if ours.chain and theirs.chain:
        pairs["chain id"] = ([ours.chain], [theirs.chain])
    for what, (mine, other) in pairs.items():
        if mine != other:
            yield what, mine, other


def from_manifest(table: TableName, manifest: Manifest) -> TableState:
    """The snapshot that a checkpoint holds.

    Raises:
        DamagedError: It belongs to another table, or does not agree with itself.
    """
    blocks = metadata.ungroup(manifest.files, manifest.file_lists)
    noted = _noted(manifest.transactions)
    restorable = manifest.restorable
    snapshot = TableState(
        table=table,
        transactions=manifest.transactions,
        schemas=manifest.schemas,
        blocks=blocks,
        floor=manifest.floor,
        dropped={file.path: file for file in manifest.dropped},
        pending_deletes=manifest.pending_deletes,
        pending_lists=manifest.pending_lists,
        checkpoint=manifest.transaction,
        overlays=manifest.overlays,
        format=manifest.format,
        chain=manifest.chain,
        drops=lifetimes.of_log(manifest.transactions) if Operation.DROP in noted.operations else (),
        restorable=(
            None if restorable is None else metadata.ungroup(restorable, manifest.file_lists)
        ),
        erased_at=_erased_at(manifest) if Operation.ERASE in noted.operations else 0,
        blocked=manifest.blocked,
    )
    _check_paths(snapshot, manifest)
    count = len(snapshot.transactions)
    agrees = (
        (manifest.tap, manifest.stream) == (table.tap, table.stream)
        and count == manifest.transaction
        and noted.gapless
        and 0 <= manifest.floor <= manifest.transaction
        and all(1 <= number <= count for number in manifest.overlays)
        and _has_its_blocks(snapshot)
    )
    if not agrees:
        raise DamagedError(f"{table.manifest} is inconsistent")
    there = 0 if snapshot.dropped_at else snapshot.first
    earlier = [v for v in manifest.table_versions if not there or v.transaction < there]
    due = _due_after(snapshot)
    folding = Folding(replace(snapshot, earlier_versions=earlier, checkpoint_due=due))
    for version in manifest.table_versions[len(earlier) :]:
        folding.add_version(version)
    return folding.snapshot()


def _check_paths(snapshot: TableState, manifest: Manifest) -> None:
    """Make sure that a manifest names nothing outside of its table's folder."""
    table = snapshot.table
    present = [path for path, _ in groupby(map(attrgetter("file"), snapshot.blocks))]
    present += [file.path for file in manifest.restorable or ()]
    for path in () if are_data_paths(present) else present:
        if not names.is_data_path(path):
            table.data(path)  # says what is wrong with it
    for path in snapshot.dropped:
        if not names.is_data_path(path):
            table.key(path)
    for one in (*manifest.file_lists.values(), *(listed for _, listed in manifest.pending_lists)):
        if not file_paths.is_list(one.path):
            raise DamagedError(f"{table.manifest} names {one.path[:200]!r}, which is not a list")


def _noted(transactions: Sequence[TransactionSummary]) -> Noted:
    """What is to be known of all of them, without unpacking those that are packed."""
    if isinstance(transactions, PackedTransactions):
        return transactions.noted
    noted = Noted()
    noted.take(transactions)
    return noted


def _erased_at(manifest: Manifest) -> int:
    """The last transaction that erased rows."""
    erases = (t.number for t in reversed(manifest.transactions) if t.operation == Operation.ERASE)
    return next(erases, 0)


def _has_its_blocks(snapshot: TableState) -> bool:
    """Whether a manifest names the blocks that its transactions tell of, and no others.

    Without dropped history there is every block from the first to the last. Counted by what is
    there, never by a number that is only claimed.
    """
    blocks = snapshot.blocks
    if snapshot.dropped_at:
        if blocks or snapshot.restorable is None:
            return not blocks
        blocks = snapshot.restorable
    elif snapshot.restorable is not None:
        return False
    numbers = [*map(attrgetter("number"), blocks)]
    before = snapshot.transactions[snapshot.first - 2].last_block if snapshot.first > 1 else 0
    if not snapshot.floor:  # which says all that is said below
        whole = [*range(before + 1, before + len(numbers) + 1)]
        return numbers == whole and before + len(numbers) == snapshot.last_block
    return all(a < b for a, b in pairwise([before, *numbers])) and (
        not numbers or numbers[-1] <= snapshot.last_block
    )


def checkpoint_due(snapshot: TableState) -> bool:
    """Whether the manifest should be written again.

    After every commit while it is short, then after each 1 % of it in transactions and blocks, so
    that a commit pays for about a hundred times what it adds, however long the history and
    however many blocks the table has; never more than 256 transactions apart, which is what a
    reader then has to read one by one.
    """
    behind = snapshot.number - snapshot.checkpoint
    return behind >= MAX_TAIL or _ever(snapshot) >= snapshot.checkpoint_due


def _ever(snapshot: TableState) -> int:
    """How many transactions and blocks there ever were, which only rises."""
    return snapshot.number + snapshot.last_block


def _due_after(written: TableState) -> int:
    """How many of these there must have been for a manifest to be due behind one."""
    holds = written.number + len(written.blocks) + len(written.restorable or ())
    return _ever(written) + max(1, holds // 100)


def write_checkpoint(store: Store, snapshot: TableState, *, durable: bool = False) -> TableState:
    """Write the manifest, unless somebody has written a later one meanwhile; then the head file.

    What is there is read only where it is not what the snapshot was folded from. It need not be
    durable: after a power cut it may be cut or of zeros, and readers then take the log, until
    the next one is written. The first hundred commits each write one; waiting for the disk
    would make them a third longer.

    Args:
        store: The lake's store.
        snapshot: The table.
        durable: Whether it must outlast a power cut, because the log is not whole yet.

    Returns:
        The snapshot, which knows of the manifest that is there now.
    """
    snapshot = unread.whole(snapshot)
    key = snapshot.table.manifest
    data = metadata.encode(to_manifest(snapshot), indent=snapshot.last_block <= READABLE_BLOCKS)
    etag = snapshot.checkpoint_etag
    known = store.capabilities.supports_conditional_writes and (
        etag is not None or not snapshot.checkpoint
    )
    while True:
        try:
            if not known:
                present = store.get(key)
                etag = present.etag
                if _transaction(present.data, snapshot.table) >= snapshot.number:
                    break
        except KeyMissingError:
            etag = None
        except OversizedError:
            etag = store.replace(key, data, None, durable=durable)  # whatever it was, no manifest
            break
        try:
            if etag is None:
                etag = store.put_if_absent(key, data, durable=durable)
            else:
                etag = store.replace(key, data, etag, durable=durable)
            break
        except KeyExistsError:
            known = False
    due = _due_after(snapshot)
    written = replace(
        snapshot, checkpoint=snapshot.number, checkpoint_due=due, checkpoint_etag=etag
    )
    if len(data) > head_file.SMALL_BYTES:
        head_file.write(store, written)
    return written


def _transaction(data: bytes, table: TableName) -> int:
    """The one that a manifest is folded up to; 0 for one that cannot be read."""
    try:
        return from_manifest(table, metadata.decode(data, Manifest, table.manifest)).number
    except (DamagedError, InvalidNameError):
        return 0  # and so to be replaced
