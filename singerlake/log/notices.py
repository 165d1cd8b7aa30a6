"""Notices: the keys of erased rows, kept for a time for readers that are behind.

The log says of an erasure only that there is a notice, and until when. Whoever holds a bookmark
from before puts a deletion out for each of its keys. It is written before the ``erase`` that names
it, under the vacuum's lock: so one that no entry names, under that lock, is a dead run's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from singerlake.format import erased_keys, times
from singerlake.format.log import Entry, Operation
from singerlake.format.names import TableName
from singerlake.format.version_notes import Notice
from singerlake.log import log
from singerlake.log.table_state import TableState
from singerlake.storage.base import KeyMissingError, Listed, Store

Key = Mapping[str, msgspec.Raw]
"""The members of a key, by the names that people had for them, each as its JSON."""


@dataclass(frozen=True)
class ActiveNotice:
    """A notice whose time is not over.

    Attributes:
        transaction: The ``erase``.
        until: When its time is over, ISO 8601 in UTC.
        rows: How many keys it has.
    """

    key: str
    transaction: int
    until: str
    rows: int


def write(store: Store, table: TableName, lines: bytes, until: str) -> Notice:
    """Write a notice, to be named by an ``erase``.

    Args:
        table: The table.
        lines: Its keys, as :func:`erased_keys.encode_notice` takes them.
    """
    said = Notice(erased_keys.new_id(), until)
    store.put_if_absent(key_of(table, said), erased_keys.encode_notice(lines))
    return said


def key_of(table: TableName, said: Notice) -> str:
    """Return the key of a notice's object."""
    return f"{table.folder}{erased_keys.notice(said.id)}"


def read(store: Store, table: TableName, entry: Entry) -> Sequence[Key] | None:
    """Return the keys that an ``erase`` tells readers of; None where it tells them none any more.

    Raises:
        DamagedError: The notice is not what was written.
    """
    said = entry.erasure.notice if entry.erasure is not None else None
    if said is None or not _stands(said):
        return None
    where = key_of(table, said)
    try:
        return erased_keys.decode_notice(store.get(where).data, where)
    except KeyMissingError:  # withdrawn, or left out of a copy of the lake
        return None


def present(table: TableName, listed: Iterable[Listed]) -> list[Listed]:
    """Return the notices among the objects of a table's folder."""
    start = len(table.folder)
    return [item for item in listed if erased_keys.is_notice(item.key[start:])]


def standing(store: Store, head: TableState) -> list[ActiveNotice]:
    """Return the notices that the log names and whose time is not over.

    Raises:
        DamagedError: An ``erase`` entry is lost or damaged.
    """
    erases = [one.number for one in head.transactions if one.operation == Operation.ERASE]
    found = []
    for entry in log.sound_entries(store, head.table, erases):
        said = entry.erasure
        if said is not None and said.notice is not None and _stands(said.notice):
            where = key_of(head.table, said.notice)
            found.append(ActiveNotice(where, entry.number, said.notice.until, said.keys))
    return found


def _stands(said: Notice) -> bool:
    until = times.parse(said.until)
    return until is not None and until > times.now()
