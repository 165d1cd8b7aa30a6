"""A table's data files as the store lists them, for when no log says which there are."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from singerlake.format import names
from singerlake.format.names import TableName
from singerlake.storage.base import Listed, Store

logger = logging.getLogger(__name__)
DEAD_SECONDS = 600.0
"""A lock that was not refreshed for so long, by any clock, is no living writer's."""


@dataclass(frozen=True)
class DataFiles:
    """The data files in a table's folder.

    A writer makes files durable under its lock before it commits them, so those beside a lock
    may be of a transaction that never was.

    Attributes:
        free: Those beside which no lock lies.
        locked: Those beside a writer's lock.
        idle_seconds: How long ago the lock was refreshed that was refreshed last, of those.
    """

    free: list[Listed] = field(default_factory=list)
    locked: list[Listed] = field(default_factory=list)
    idle_seconds: float = 0.0


def list_files(store: Store, table: TableName) -> DataFiles:
    """List a table's data files."""
    files = DataFiles()
    listing = {item.key: item for item in store.list(table.folder)}
    locked: dict[str, bool] = {}
    for item in listing.values():
        folder, _, name = item.key[len(table.folder) :].partition("/")
        if not names.is_schema_folder(folder) or not names.is_data_file(name) or "/" in name:
            continue
        if folder not in locked:
            # Asked for by name: some stores show a new object only later when they list.
            locked[folder] = store.exists(table.lock(folder))
        (files.locked if locked[folder] else files.free).append(item)
    locks = [listing.get(table.lock(folder)) for folder, held in locked.items() if held]
    ages = [time.time() - lock.modified if lock else 0.0 for lock in locks]
    return DataFiles(files.free, files.locked, max(0.0, min(ages, default=0.0)))


def left_aside(table: TableName, present: DataFiles, *, all_there_is: bool = False) -> str:
    """Return what to say of files beside a lock, where nothing tells whether they were committed.

    Args:
        table: Whose.
        present: Its files; only those beside a lock are spoken of.
        all_there_is: Whether nothing else is left of the table that one could go on with.
    """
    ways = f"adopt them with: singerlake rebuild {table} --include-locked, or "
    ways += (
        "delete them, if you know that they were never committed"
        if all_there_is
        else f"continue without them with: singerlake rebuild {table} --leave-locked"
    )
    return (
        f"{len(present.locked)} data files of {table} are next to a writer's lock (the first is "
        f"{present.locked[0].key}), which was refreshed {present.idle_seconds:,.0f} s ago, and the "
        "rest of its log does not list them: if that writer is alive, wait for it; if it was a "
        "copy from another lake, run the copy again; if it is another that is dead, they are its "
        f"uncommitted rows, or committed ones whose log is lost: {ways}"
    )


def data_files(store: Store, table: TableName, *, include_locked: bool = False) -> Iterator[Listed]:
    """Yield the data files in a table's folder; those beside a writer's lock only if asked for."""
    files = list_files(store, table)
    yield from sorted(files.free + files.locked if include_locked else files.free)
    if not include_locked:
        for item in files.locked:
            logger.warning("ignored %s: there is a writer's lock next to it", item.key)
