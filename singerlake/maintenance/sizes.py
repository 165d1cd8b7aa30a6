"""What a table takes on the store, and what of it a vacuum could give back."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.errors import DamagedError
from singerlake.format import metadata, names
from singerlake.format.metadata import IndexMarker
from singerlake.maintenance import garbage
from singerlake.maintenance.combine import plan_combine
from singerlake.storage.base import KeyMissingError, Listed, Store
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.staging import FILE_BYTES


@dataclass(frozen=True)
class Sizes:
    """Sizes of one table, in bytes and numbers.

    Attributes:
        files: Data files that blocks lie in.
        bytes: What these blocks take.
        small_files: Files that a vacuum would put together with others.
        history_rows: Rows that a later one has replaced, as far as a frozen version or an
            index tells; None where neither does.
        history_bytes: About what these take, by their share of all rows.
        index_bytes: What the indexes take.
        reclaimable_bytes: What nothing needs any more, whatever its age: dropped files,
            leftovers, indexes of no version, and holes in files.
    """

    files: int
    bytes: int
    small_files: int
    history_rows: int | None
    history_bytes: int | None
    index_bytes: int
    reclaimable_bytes: int


def sizes(store: Store, snapshot: Snapshot, target_bytes: int = FILE_BYTES) -> Sizes:
    """Measure a table by its log and one listing; no data is read.

    Args:
        store: The lake's store.
        snapshot: The table's head.
        target_bytes: Below it, a file counts as small if a vacuum would combine it.
    """
    table = snapshot.table
    listed = list(store.list(table.folder))
    indexed = list(store.list(table.indexes))
    on_store = {item.key[len(table.folder) :]: item.size for item in listed}
    used: dict[str, int] = {}
    for block in snapshot.blocks:
        used[block.file] = used.get(block.file, 0) + block.length
    holes = sum(max(0, on_store.get(path, size) - size) for path, size in used.items())
    found = garbage.find(store, snapshot, float("inf"), listed=listed, indexed=indexed)
    groups = plan_combine(snapshot, target_bytes, on_store)
    rows, bytes_ = _history(store, snapshot, indexed)
    return Sizes(
        files=len(used),
        bytes=sum(used.values()),
        small_files=sum(group.files for group in groups),
        history_rows=rows,
        history_bytes=bytes_,
        index_bytes=sum(item.size for item in indexed),
        reclaimable_bytes=holes + sum(item.bytes for item in found.everything),
    )


def _history(
    store: Store, snapshot: Snapshot, indexed: list[Listed]
) -> tuple[int | None, int | None]:
    """Rows that are not in the newest state whose number of rows is known, and their share."""
    known = {v.transaction: v.rows for v in snapshot.frozen if snapshot.readable(v.transaction)}
    known |= _indexed(store, snapshot, indexed, after=max(known, default=0))
    if not known:
        return None, None
    at = max(known)
    last = snapshot.summary(at).last_block
    blocks = [block for block in snapshot.blocks if block.number <= last]
    rows = sum(block.rows for block in blocks)
    old = max(0, rows - known[at])
    return old, sum(block.length for block in blocks) * old // max(1, rows)


def _indexed(store: Store, snapshot: Snapshot, indexed: list[Listed], after: int) -> dict[int, int]:
    """The newest index beyond a transaction, with its rows."""
    start = len(snapshot.table.indexes)
    folders = {item.key[start:].partition("/")[0] for item in indexed}
    numbers = (int(name) for name in folders if name.isdecimal())
    for number in sorted((n for n in numbers if after < n <= snapshot.head), reverse=True):
        key = snapshot.table.index(number) + names.INDEX_MARKER
        try:
            marker = metadata.decode(store.get(key).data, IndexMarker, key)
        except (KeyMissingError, DamagedError):
            continue
        if marker.commit == snapshot.summary(number).commit and marker.rows is not None:
            return {number: marker.rows}
    return {}
