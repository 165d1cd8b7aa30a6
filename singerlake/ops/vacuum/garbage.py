"""What nothing needs any more, and its deletion: files, indexes, leases of the dead.

Three rules, each in one place. What was referenced once goes when the log has said for longer
than the retention that it is not, and no reader's lease is older than that entry. What never
was, a dead writer's file, goes when it is older than the retention; the log names it first
(``deletes`` of a vacuum-start), so that a writer that was only held up cannot commit it.
An index goes in two steps: first its marker, and, once every reader that may have seen the
marker is done, its files.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from singerlake.errors import DataError, InvalidNameError
from singerlake.format import erased_keys, file_paths, metadata, names, times
from singerlake.format.metadata import IndexMarker
from singerlake.format.names import IndexFolder, TableName
from singerlake.log import blocked, notices
from singerlake.log.lease import LiveLease
from singerlake.log.table_state import TableState
from singerlake.ops.vacuum import unneeded_files
from singerlake.ops.vacuum.ages import Ages
from singerlake.ops.vacuum.items import Item
from singerlake.storage.base import KeyMissingError, Listed, Store

DELETERS = 8
DAY = 86_400.0


@dataclass
class Garbage:
    """What a table holds that nothing needs.

    ``dead`` are leases whose readers seem to have died: they are a day old, as far as clocks go.
    Only one that stands still while the vacuum watches goes; see :func:`lease.wait_out`.

    Attributes:
        files: Data files to delete, and lists of files that rows name.
        content: Files that rows named, or that somebody stored and no row names.
        markers: Index markers to delete, before their files.
        index_files: Files of indexes that have, or will have, no marker.
        kept: What nothing needs either, but is not to go yet, and why.
        vanished: Dropped files that are gone already, as the log does not know yet.
        notices: Keys of erased rows that nobody is told of any more, and hashes of keys that are
            not blocked any more. No reader is waited for: who finds none goes on without.
    """

    files: list[Item] = field(default_factory=list)
    content: list[Item] = field(default_factory=list)
    markers: list[Item] = field(default_factory=list)
    index_files: list[Item] = field(default_factory=list)
    dead: list[Item] = field(default_factory=list)
    kept: list[Item] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    notices: list[Item] = field(default_factory=list)

    @property
    def everything(self) -> list[Item]:
        """All that is to go."""
        files = [*self.files, *self.content, *self.markers, *self.index_files]
        return [*files, *self.dead, *self.notices]

    @property
    def at_once(self) -> list[Item]:
        """What is to go before any reader is waited for."""
        return [*self.notices, *self.markers]

    def without_dead(self) -> Garbage:
        """Return the same for a vacuum that does not wait for long enough to know who is dead."""
        reason = "the lease of a reader that seems dead: wait longer (--wait) to be sure"
        spared = [replace(item, reason=reason) for item in self.dead]
        return replace(self, dead=[], kept=[*self.kept, *spared])


def find(
    store: Store,
    snapshot: TableState,
    cutoff: float,
    *,
    listed: Iterable[Listed] | None = None,
    indexed: Iterable[Listed] | None = None,
) -> Garbage:
    """Look for what can go.

    Args:
        store: The lake's store.
        snapshot: The table's head.
        cutoff: Nothing goes that was needed, or made, after this time (seconds since 1970).
        listed: The objects in the table's folder; None looks at the log alone.
        indexed: Those of its indexes, where they were listed already.
    """
    garbage = Garbage()
    # What is older than an erasure of rows may hold these: for it there is no retention, but for
    # what rows were erased from while the table was dropped, and would come back with it.
    objects = None if listed is None else list(listed)
    retained, cutoff = cutoff, max(cutoff, _last_erasure(snapshot, objects or ()))
    ages = Ages(snapshot)
    waiting = {path for block in snapshot.restorable or () for path in block.paths}
    used = {path for block in snapshot.blocks for path in block.paths}
    present = None if objects is None else _data_files(snapshot.table, objects)
    for path, file in snapshot.dropped.items():
        if path in used:
            continue
        key = snapshot.table.key(path)
        if present is not None and path not in present:
            garbage.vanished.append(path)
            continue
        size = present[path].size if present is not None else file.bytes
        old = ages.seconds(file.transaction) <= retained
        old = old or (path not in waiting and file.transaction <= snapshot.erased_at)
        reason = f"dropped by transaction {file.transaction} at {file.time}"
        reason += "" if old else ", within the retention"
        target = garbage.files if old else garbage.kept
        target.append(Item(key, size, reason, file.transaction, ages.at(file.transaction)))
    if objects is not None and present is not None:
        known = used | snapshot.dropped.keys() | {one.path for _, one in snapshot.pending_lists}
        _find_leftovers(present, known, cutoff, garbage)
        going, kept = unneeded_files.find(store, snapshot, objects, ages, cutoff, retained)
        garbage.content += going
        garbage.kept += kept
        objects_of_indexes = store.list(snapshot.table.indexes) if indexed is None else indexed
        _find_indexes(store, snapshot, objects_of_indexes, cutoff, garbage)
        _find_dead(snapshot.table, objects, cutoff, garbage)
        _find_notices(store, snapshot, objects, garbage)
    return garbage


def _last_erasure(snapshot: TableState, listed: Sequence[Listed]) -> float:
    """When rows were erased last, in seconds since 1970; long ago where none ever were.

    By the store's clock, as for all that no log entry names, unless the log has an earlier time.
    """
    at = times.parse(snapshot.summary(snapshot.erased_at).time) if snapshot.erased_at else None
    if at is None:
        return 0.0
    key = snapshot.table.transaction(snapshot.erased_at)
    return min([at.timestamp(), *(item.modified for item in listed if item.key == key)])


def _find_leftovers(
    present: dict[str, Listed], known: set[str], cutoff: float, garbage: Garbage
) -> None:
    """Data files that no transaction ever named."""
    reason = "an orphan file: no transaction lists it"
    for path, item in present.items():
        if path in known:
            continue
        old = item.modified <= cutoff
        why = reason if old else f"{reason}, but it is younger than the retention"
        target = garbage.files if old else garbage.kept
        target.append(Item(item.key, item.size, why, since=_iso(item.modified)))


def _find_dead(table: TableName, listed: Sequence[Listed], cutoff: float, garbage: Garbage) -> None:
    """Leases that are a day old; one that lives is refreshed every quarter minute.

    By clocks that may disagree, so that nothing goes for that alone.
    """
    oldest = min(cutoff, time.time() - DAY)
    for item in listed:
        if names.is_lease(table, item.key) and item.modified <= oldest:
            reason = "the lease of a dead reader"
            garbage.dead.append(Item(item.key, item.size, reason, since=_iso(item.modified)))


def _find_notices(
    store: Store, snapshot: TableState, listed: Sequence[Listed], garbage: Garbage
) -> None:
    """Notices of erased rows whose time is over, and lists of blocked keys that hold no more.

    Whatever the retention: nobody needs them, and what runs that died have left is like them.
    """
    table, said = snapshot.table, snapshot.blocked
    if there := notices.present(table, listed):
        stand = {one.key for one in notices.standing(store, snapshot)}
        reason = "keys of erased rows whose deletion notice has ended"
        garbage.notices += [Item(i.key, i.size, reason) for i in there if i.key not in stand]
    now = "" if said is None else blocked.key_of(table, said)
    reason = "hashes of keys, replaced by a newer suppression list"
    garbage.notices += [
        Item(item.key, item.size, reason)
        for item in listed
        if erased_keys.is_blocked(item.key[len(table.folder) :]) and item.key != now
    ]


def _data_files(table: TableName, listed: Iterable[Listed]) -> dict[str, Listed]:
    present = {}
    for item in listed:
        path = item.key[len(table.folder) :]
        if file_paths.is_list(path):
            present[path] = item
            continue
        try:
            table.data(path)
        except InvalidNameError:
            continue  # the log, a lock, or a file that is none of ours
        if names.is_own_data_file(table, path.partition("/")[2]):
            present[path] = item
    return present


def _find_indexes(
    store: Store, snapshot: TableState, listed: Iterable[Listed], cutoff: float, garbage: Garbage
) -> None:
    """Indexes that no version needs and that are not the newest, and files without a marker."""
    table = snapshot.table
    folders: dict[IndexFolder, list[Listed]] = {}
    for item in listed:
        folder, _, name = item.key[len(table.indexes) :].partition("/")
        own = IndexFolder.parse(folder)
        if own and (name == names.INDEX_MARKER or names.is_index_part(name)):
            folders.setdefault(own, []).append(item)
    marked = [n for n, items in folders.items() if any(_is_marker(i) for i in items)]
    marker_in = functools.cache(lambda folder: _marker(store, folder))
    stale = _before_erasure(snapshot, marked, marker_in)
    marked = [n for n in marked if n not in stale]
    # Of a table that was dropped none is the newest.
    last = 0 if snapshot.dropped_at else snapshot.number
    todays = (n for n in marked if n.rules == snapshot.rules)
    newest = max((n for n in todays if snapshot.first <= n.transaction <= last), default=None)
    needed = _needed_indexes(snapshot, marked, newest, marker_in)
    for number, present in sorted(folders.items()):
        items = present
        if number in needed and number in marked:
            folder = table.index(*number)
            named = _named(folder, marker_in(folder))
            items = [i for i in present if not _is_marker(i) and i.key not in named]
        if not items:
            continue
        since = max(item.modified for item in items)
        old = since <= cutoff or number in stale
        whole = number in marked and number not in needed
        why = (
            "a materialized snapshot without a version"
            if whole
            else "a file of an unfinished materialized snapshot"
        )
        why = "a materialized snapshot from before rows were erased" if number in stale else why
        for item in items:
            reason = why if old else f"{why}, younger than the retention"
            entry = Item(item.key, item.size, reason, since=_iso(since))
            if not old:
                garbage.kept.append(entry)
            elif _is_marker(item):
                garbage.markers.append(entry)
            else:
                garbage.index_files.append(entry)


def _before_erasure(
    snapshot: TableState, marked: list[IndexFolder], marker_in: Callable[[str], IndexMarker | None]
) -> set[IndexFolder]:
    """The indexes that may hold rows which were erased since."""
    if not snapshot.erased_at:
        return set()
    markers = {number: marker_in(snapshot.table.index(*number)) for number in marked}
    return {
        number
        for number, marker in markers.items()
        if marker is None or marker.erased != snapshot.erased_at
    }


def _needed_indexes(
    snapshot: TableState,
    marked: list[IndexFolder],
    newest: IndexFolder | None,
    marker_in: Callable[[str], IndexMarker | None],
) -> dict[IndexFolder, str]:
    """The indexes that stay, and what each is."""
    table = snapshot.table
    needed = {} if newest is None else {newest: "the newest materialized snapshot"}
    for version in snapshot.frozen:
        state = snapshot.at(version.transaction).earliest_equal()
        own = IndexFolder(state.number, version.types)
        needed[own] = f"the materialized snapshot of version {version.number}"
    for number in [n for n in needed if n in marked]:
        marker = marker_in(table.index(*number))
        if marker is not None and marker.base:
            below = number._replace(transaction=marker.base)
            needed.setdefault(
                below,
                f"the base of the materialized snapshot of transaction {number.transaction}",
            )
    return needed


def _is_marker(item: Listed) -> bool:
    return item.key.endswith(f"/{names.INDEX_MARKER}")


def _iso(seconds: float) -> str:
    return times.iso(times.from_micros(int(seconds * 1_000_000)))


def protected(item: Item, leases: Iterable[LiveLease]) -> LiveLease | None:
    """Return a lease because of which a file must stay; None where no reader needs it.

    A reader may read what was referenced at its transaction. A file that never was in the log
    no reader can know.
    """
    if not item.dropped:
        return None
    return next((lease for lease in leases if lease.transaction < item.dropped), None)


def unmarked(store: Store, items: list[Item]) -> list[Item]:
    """Return those of some index files that no marker names now: one may have been made since."""
    named: dict[str, set[str]] = {}
    for item in items:
        folder = item.key.rpartition("/")[0] + "/"
        if folder not in named:
            named[folder] = _named(folder, _marker(store, folder))
    return [item for item in items if item.key not in named[item.key.rpartition("/")[0] + "/"]]


def _named(folder: str, marker: IndexMarker | None) -> set[str]:
    """Keys of the files that the marker in an index's folder names."""
    return {folder + file.path for file in marker.files} if marker is not None else set()


def _marker(store: Store, folder: str) -> IndexMarker | None:
    key = folder + names.INDEX_MARKER
    try:
        return metadata.decode(store.get(key).data, IndexMarker, key)
    except (KeyMissingError, DataError):
        return None


def delete(store: Store, keys: list[str], tick: Callable[[], None]) -> None:
    """Delete objects, several at a time, and lists of files once all the others are gone.

    A copy goes by the lists: it would never delete a file that none of them names any more.

    Raises:
        StoreError: The store refused one; others may be gone.
    """

    def one(key: str) -> None:
        tick()
        store.delete(key)

    lists = {key for key in keys if file_paths.is_list(key.split("/", 3)[-1])}
    with ThreadPoolExecutor(DELETERS, "delete") as pool:
        for some in ([key for key in keys if key not in lists], sorted(lists)):
            for _ in pool.map(one, some):
                pass
