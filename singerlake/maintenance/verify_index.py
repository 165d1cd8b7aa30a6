"""Verifying a table's indexes: their markers, held against the files there are."""

from __future__ import annotations

from singerlake.errors import SingerlakeError
from singerlake.format import metadata, names
from singerlake.format.metadata import INDEX_FORMAT, IndexMarker
from singerlake.format.names import IndexFolder
from singerlake.maintenance.problems import Problem
from singerlake.storage.base import KeyMissingError, Store
from singerlake.transactions.snapshot import Snapshot


def cache_hint(folder: str) -> str:
    """Return what may be done about an index that is not as it should be."""
    return f"an index is only a cache: delete the folder {folder}"


def check_indexes(
    store: Store, snapshot: Snapshot
) -> tuple[list[Problem], list[str], list[tuple[str, str]]]:
    """Hold the markers of a table's indexes against the files there are.

    Returns:
        Problems, notes on indexes that nobody reads, and the keys and hashes of the files of
        the others, whose bytes are still to be checked.
    """
    table = snapshot.table
    problems: list[Problem] = []
    notes: list[str] = []
    parts: list[tuple[str, str]] = []
    for number, rules in sorted(filter(None, map(IndexFolder.parse, store.folders(table.indexes)))):
        folder = table.index(number, rules)
        key = folder + names.INDEX_MARKER
        try:
            marker = metadata.decode(store.get(key).data, IndexMarker, key)
        except KeyMissingError:
            continue  # unfinished, or being made
        except SingerlakeError as error:
            wanted = "a marker that can be read"
            problems.append(Problem("index", key, wanted, str(error), cache_hint(folder)))
            continue
        if marker.format < INDEX_FORMAT:
            notes.append(f"an earlier release made the index {folder}, and this one makes another")
            continue
        known = snapshot.transactions[number - 1 : number]
        if [(t.number, t.commit, t.schema_hash) for t in known] != [
            (marker.transaction, marker.commit, marker.schema_hash)
        ]:
            notes.append(f"the index {folder} belongs to another log, and nobody reads it")
            continue
        sizes = {item.key: item.size for item in store.list(folder)}
        for file in marker.files:
            size = sizes.get(folder + file.path)
            if size != file.bytes:
                actual = "nothing" if size is None else f"{size}"
                wanted, hint = f"{file.bytes} bytes", cache_hint(folder)
                problems.append(Problem("index", folder + file.path, wanted, actual, hint))
            else:
                parts.append((folder + file.path, file.hash))
        rows = sum(file.rows for file in marker.files)
        if marker.rows not in (rows, None):
            wanted = f"{marker.rows} rows in its files"
            problems.append(Problem("index", key, wanted, f"{rows}", cache_hint(folder)))
    return problems, notes, parts
