"""What an object of a lake is, by its key and by its table's log."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from singerlake.errors import InvalidNameError, SingerlakeError
from singerlake.format import erased_keys, file_paths, names
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.transactions.snapshot import Snapshot

_OF_A_TABLE = 4
"""Parts of the key of what lies in a table's folder, at least."""


@dataclass(frozen=True)
class Place:
    """What an object is.

    Attributes:
        kind: In a word, for programs.
        words: In words.
        table: Whose it is; None where it is of no table.
        rows: Whether it may hold rows; else a key is not looked for in it.
    """

    kind: str
    words: str
    table: TableName | None = None
    rows: bool = True


NOTICE = "notice"
STAGED = Place("staged", "what a writer staged and has not published: a vacuum removes it")
OTHER = Place("other", "no object of a lake: somebody else put it there")
_LAKE = {
    names.LAKE: Place("lake", "the lake's own file: singerlake annotate", rows=False),
    names.LAKE_LOCK: Place("lock", "a lock", rows=False),
    names.NOT_COPIED: Place("lake", "what a copy has left out of lake versions", rows=False),
}


class Places:
    """Tells what objects are; each table's log is read once, and only if something is found.

    Args:
        lake: The lake.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._mutex = threading.Lock()
        self._data: dict[TableName, dict[str, str]] = {}

    def of(self, key: str) -> Place:
        """Tell what an object is, by its key alone."""
        if key in _LAKE:
            return _LAKE[key]
        if key.startswith(names.STAGING):
            return STAGED
        parts = key.split("/")
        if key.startswith("index/") and len(parts) >= _OF_A_TABLE:
            return _of_index(parts)
        if key.startswith(names.LAKE_LOG):
            number = names.transaction_number(key)
            return Place("lake", f"lake version {number}, in the lake's own log", rows=False)
        if not key.startswith(names.RAW):
            return OTHER
        if parts[-1].endswith(".damaged"):
            return Place("lake", "a lake's file that was put aside: delete it", rows=False)
        if parts[-1] == "catalogue.json":
            return Place("catalogue", "a tap's catalogue, made again by the next sync", rows=False)
        if len(parts) < _OF_A_TABLE or (table := _table(parts)) is None:
            return OTHER
        return _of_table(table, key)

    def described(self, key: str) -> Place:
        """Tell what an object is; of a data file also what its table's log says of it."""
        place = self.of(key)
        if place.kind != "data" or place.table is None:
            return place
        path = key[len(place.table.folder) :]
        words = self._files(place.table).get(path)
        if words is None:
            words = "a data file that no transaction names: a vacuum deletes it"
        return Place(place.kind, words, place.table)

    def _files(self, table: TableName) -> dict[str, str]:
        with self._mutex:
            if table not in self._data:
                try:
                    snapshot = self._lake.table(table).snapshot(dropped=True)
                except SingerlakeError:
                    self._data[table] = {}
                else:
                    self._data[table] = _files_of(snapshot)
            return self._data[table]


def _files_of(snapshot: Snapshot) -> dict[str, str]:
    """What a log says of data files, by their paths."""
    dropped = "a data file that transaction {} dropped: a vacuum deletes it"
    words = {path: dropped.format(file.transaction) for path, file in snapshot.dropped.items()}
    for block in snapshot.blocks:
        words[block.file] = "data of the table"
    return words


def _table(parts: list[str]) -> TableName | None:
    try:
        return TableName(names.decode(parts[1]), names.decode(parts[2]))
    except InvalidNameError:
        return None


def _of_index(parts: list[str]) -> Place:
    table = _table(parts)
    if parts[-1] == names.INDEX_MARKER:
        return Place("index", "what an index says of itself", table, rows=False)
    return Place("index", "an index, which may be deleted at any time", table)


def _of_table(table: TableName, key: str) -> Place:
    path = key[len(table.folder) :]
    if key == table.manifest:
        return Place("manifest", "the manifest, made again of the log", table, rows=False)
    if key == table.head_file:
        words = "what a writer needs of the manifest, made again by the next"
        return Place("manifest", words, table, rows=False)
    if key.startswith(table.log):
        number = names.transaction_number(key)
        entry = "a file beside the log's entries" if number is None else f"log entry {number}"
        return Place("log", entry, table, rows=False)
    if names.lock_target(key) is not None:
        return Place("lock", "a lock, or a reader's lease", table, rows=False)
    if file_paths.is_list(path):
        return Place("list", "a list of files that rows name", table, rows=False)
    if erased_keys.is_notice(path):
        return Place(NOTICE, "keys of erased rows, kept to tell readers that are behind", table)
    if erased_keys.is_blocked(path):
        return Place("blocked", "keyed hashes of the keys that are blocked", table, rows=False)
    if path.startswith("files/"):
        return Place("file", "a file that rows name, or once named", table)
    if names.is_data_path(path):
        return Place("data", "a data file", table)
    return Place("other", "in the table's folder, but none of its files", table)
