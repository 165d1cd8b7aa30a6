"""The size of a table on the store, and what of it a vacuum could free."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from singerlake.errors import DataError
from singerlake.format import metadata, names, times
from singerlake.format.metadata import IndexMarker
from singerlake.log.staging import FILE_BYTES
from singerlake.log.table_state import TableState
from singerlake.ops.vacuum import garbage
from singerlake.ops.vacuum.combine import plan_combine
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.storage.base import KeyMissingError, Listed, Store

RETENTION = VacuumOptions.retain_seconds
"""Seconds that a vacuum lets stand what nothing needs any more, if nobody says otherwise."""


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
        indexes: How many there are, unfinished ones included.
        index_bytes: What these take.
        store_bytes: All that the table takes: data, log, indexes, and what waits to be deleted.
        free_now_bytes: What a vacuum would delete now: dropped files, leftovers, indexes of no
            version, each older than the retention.
        free_later_bytes: What it would delete once it is older, the holes included of files that
            it would write anew.
        free_later_at: When the last of this is old enough, ISO 8601 in UTC; None where there is
            nothing.
    """

    files: int
    bytes: int
    small_files: int
    history_rows: int | None
    history_bytes: int | None
    indexes: int
    index_bytes: int
    store_bytes: int
    free_now_bytes: int
    free_later_bytes: int
    free_later_at: str | None


def sizes(
    store: Store,
    snapshot: TableState,
    target_bytes: int = FILE_BYTES,
    retain_seconds: float = RETENTION,
    now: float | None = None,
) -> Sizes:
    """Measure a table by its log and one listing; no data is read.

    Args:
        target_bytes: Below it, a file counts as small if a vacuum would combine it.
        retain_seconds: How long a vacuum lets stand what nothing needs any more.
        now: The time, in seconds since 1970.
    """
    now = time.time() if now is None else now
    table = snapshot.table
    listed = list(store.list(table.folder))
    indexed = list(store.list(table.indexes))
    on_store = {item.key[len(table.folder) :]: item.size for item in listed}
    used: dict[str, int] = {}
    for block in snapshot.blocks:
        used[block.file] = used.get(block.file, 0) + block.length
    groups = plan_combine(snapshot, target_bytes, on_store)
    replaced = {block.file for group in groups for block in group.blocks}
    holes = sum(max(0, on_store.get(path, used[path]) - used[path]) for path in replaced)
    unneeded = garbage.find(store, snapshot, now - retain_seconds, listed=listed, indexed=indexed)
    # A file with holes is replaced by the next vacuum at the earliest, and waits from then on.
    began = [t.timestamp() for item in unneeded.kept if (t := times.parse(item.since)) is not None]
    began += [now] if holes else []
    rows, bytes_ = _history(store, snapshot, indexed)
    return Sizes(
        files=len(used),
        bytes=sum(used.values()),
        small_files=sum(group.files for group in groups),
        history_rows=rows,
        history_bytes=bytes_,
        indexes=len({_folder(snapshot, item) for item in indexed}),
        index_bytes=sum(item.size for item in indexed),
        store_bytes=sum(item.size for item in (*listed, *indexed)),
        free_now_bytes=sum(item.bytes for item in unneeded.everything),
        free_later_bytes=holes + sum(item.bytes for item in unneeded.kept),
        free_later_at=_time(max(began) + retain_seconds) if began else None,
    )


def _folder(snapshot: TableState, item: Listed) -> str:
    return item.key[len(snapshot.table.indexes) :].partition("/")[0]


def _time(seconds: float) -> str:
    """A time in UTC, rounded up to the second."""
    return times.iso(times.from_micros(math.ceil(seconds) * 1_000_000))


def _history(
    store: Store, snapshot: TableState, indexed: list[Listed]
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


def _indexed(
    store: Store, snapshot: TableState, indexed: list[Listed], after: int
) -> dict[int, int]:
    """The newest index beyond a transaction, with its rows."""
    folders = {_folder(snapshot, item) for item in indexed}
    own = filter(None, map(names.IndexFolder.parse, folders))
    numbers = {one.transaction for one in own if one.rules == names.INDEX_RULES}
    for number in sorted((n for n in numbers if after < n <= snapshot.number), reverse=True):
        key = snapshot.table.index(number) + names.INDEX_MARKER
        try:
            marker = metadata.decode(store.get(key).data, IndexMarker, key)
        except (KeyMissingError, DataError):
            continue
        if marker.commit == snapshot.summary(number).commit and marker.rows is not None:
            return {number: marker.rows}
    return {}
