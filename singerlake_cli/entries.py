"""Facts in log entries that the manifest does not keep: actor, reason, run, metadata, metrics."""

from __future__ import annotations

from collections.abc import Iterable

from singerlake.errors import SingerlakeError
from singerlake.format.log import Entry, FrozenVersion
from singerlake.format.version_notes import PointerMove, VersionDeletion, VersionSignature
from singerlake.lake import Table
from singerlake.log.log import read_entries

RUN_ID = "run_id"
"""The member of a transaction's metadata that says which run of a pipeline made it."""


def readable_entries(table: Table, numbers: Iterable[int]) -> dict[int, Entry]:
    """Read log entries, several at a time; one that is lost or damaged is left out."""
    entries = read_entries(table.store, table.name, sorted(set(numbers)))
    return {number: entry for number, entry in entries if isinstance(entry, Entry)}


def all_entries(table: Table, numbers: Iterable[int]) -> dict[int, Entry]:
    """Read log entries, several at a time; one that is lost is left out.

    Raises:
        DamagedError: One cannot be read.
    """
    entries: dict[int, Entry] = {}
    for number, entry in read_entries(table.store, table.name, sorted(set(numbers))):
        if isinstance(entry, SingerlakeError):
            raise entry
        if entry is not None:
            entries[number] = entry
    return entries


def run_id(entry: Entry | None) -> str | None:
    """Return the id of the run that made a transaction, if one was noted."""
    return _noted(entry, RUN_ID)


def made_by(entry: Entry | None) -> str | None:
    """Return who made a transaction, if that was noted."""
    said = None if entry is None else _own(entry)
    return _noted(entry, "by") or (said.by or None if said is not None else None)


def _own(entry: Entry) -> FrozenVersion | VersionDeletion | PointerMove | VersionSignature | None:
    return entry.version or entry.deletion or entry.pointer or entry.signature


def comment(entry: Entry | None) -> str | None:
    """Return why a transaction was made; for a freeze, the comment of the version."""
    version = None if entry is None else entry.version
    return _noted(entry, "comment") or (version.comment if version is not None else None)


def _noted(entry: Entry | None, member: str) -> str | None:
    value = None if entry is None else entry.metadata.get(member)
    return None if value is None else str(value)
