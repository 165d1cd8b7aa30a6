"""Files that rows named and none names any more, found by lists alone, and their announcement.

Needed is what the list of some block names that the log still has: so of every state that can be
read. When a file that is not needed stopped being so, the lists of blocks that are no more tell,
which are kept for the retention. They go together with it or later, so a file of which no list
tells was never named, or its time is up; but a reader that began before may still know it.
"""

from __future__ import annotations

from collections.abc import Sequence

from singerlake.errors import DataError
from singerlake.format import content, file_paths, times
from singerlake.format.log import Block, FileList
from singerlake.format.metadata import DroppedFile
from singerlake.format.names import TableName
from singerlake.log import file_lists
from singerlake.log.table_state import TableState
from singerlake.ops.vacuum.ages import Ages
from singerlake.ops.vacuum.items import Item
from singerlake.storage.base import KeyMissingError, Listed, Store


def find(
    store: Store,
    snapshot: TableState,
    listed: Sequence[Listed],
    ages: Ages,
    cutoff: float,
    retained: float,
) -> tuple[list[Item], list[Item]]:
    """Look for stored files that nothing needs.

    Args:
        store: The lake's store.
        snapshot: The table's head.
        listed: The objects in the table's folder.
        ages: How old its transactions are.
        cutoff: Nothing goes that was made after this time (seconds since 1970), of what no list
            tells.
        retained: Nothing goes that was needed after this time, except before an erasure.

    Returns:
        What may go, and what may not yet.

    Raises:
        DamagedError: A list that says what is needed cannot be read.
    """
    table = snapshot.table
    start = len(table.folder)
    stored = [item for item in listed if file_paths.is_content(item.key[start:])]
    if not stored:
        return [], []
    needed = _named(store, snapshot.table, snapshot.blocks)
    rest = [item for item in stored if item.key[start:] not in needed]
    dropped = _dropped(store, snapshot) if rest else {}
    waiting = _named(store, snapshot.table, snapshot.restorable or ()) if rest else set[str]()
    going: list[Item] = []
    kept: list[Item] = []
    for item in rest:
        by = dropped.get(item.key[start:])
        if by is not None:
            since, old = ages.at(by.transaction), ages.seconds(by.transaction) <= retained
            spared = item.key[start:] in waiting
            old = old or (by.transaction <= snapshot.erased_at and not spared)
            reason = f"referenced by no row since transaction {by.transaction} at {by.time}"
        else:
            since = times.iso(times.from_micros(int(item.modified * 1_000_000)))
            old = item.modified <= cutoff
            reason = "a stored file that no row references"
        reason += "" if old else ", within the retention"
        # Of one that no list tells of a reader may know all the same.
        number = by.transaction if by is not None else snapshot.number
        (going if old else kept).append(Item(item.key, item.size, reason, number, since))
    return going, kept


def announced(
    store: Store, planned: TableState, present: TableState, going: Sequence[Item]
) -> tuple[list[Item], FileList | None]:
    """Write the list of what a vacuum is about to delete, to be named by its first entry.

    Args:
        store: The lake's store.
        planned: The table by which it was planned.
        present: The table that the entry is to follow.
        going: What was planned.

    Returns:
        What may go of it, and the list; none where that is nothing.

    Raises:
        DamagedError: A list cannot be read.
        StoreError: The store refused.
    """
    if not going:
        return [], None
    table = present.table
    known = {one.path for one in file_lists.lists_of(planned.blocks)}
    since = [one for one in file_lists.lists_of(present.blocks) if one.path not in known]
    named = {path for _, paths in file_lists.read_all(store, table, since) for path in paths}
    sizes = {
        path: item.bytes for item in going if (path := item.key[len(table.folder) :]) not in named
    }
    if not sizes:
        return [], None
    listed, data = content.encode_list(sizes, doomed=True)
    file_lists.publish(store, table, listed, data)
    return [item for item in going if item.key[len(table.folder) :] in sizes], listed


def _named(store: Store, table: TableName, blocks: Sequence[Block]) -> set[str]:
    """All files that the lists of some blocks name."""
    lists = file_lists.lists_of(blocks)
    return {path for _, named in file_lists.read_all(store, table, lists) for path in named}


def _dropped(store: Store, snapshot: TableState) -> dict[str, DroppedFile]:
    """What lists of blocks name that are no more, and the last of these lists to go."""
    last: dict[str, DroppedFile] = {}
    for path, file in snapshot.dropped.items():
        if not file_paths.is_list(path) or file_paths.is_doomed(path):
            continue
        try:
            named = content.decode_list(store.get(snapshot.table.key(path)).data, path)
        except (KeyMissingError, DataError):
            continue  # it goes by other times then
        for one in named:
            if one not in last or last[one].transaction < file.transaction:
                last[one] = file
    return last
