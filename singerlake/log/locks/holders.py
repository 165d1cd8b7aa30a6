"""All locks of a lake: who holds what, and breaking one on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import msgspec

from singerlake.errors import ConflictError
from singerlake.format import names
from singerlake.format.names import LockTarget, TableName
from singerlake.format.sealed import UNREADABLE
from singerlake.storage.base import KeyMissingError, Store


class _Held(msgspec.Struct):
    """The common part of a lock and a lease; anything may be missing in a damaged one."""

    writer: str = msgspec.field(name="writer-id", default="")
    reader: str = msgspec.field(name="reader-id", default="")
    acquired: str = ""
    refreshed: str = ""


_HELD = msgspec.json.Decoder(_Held)


@dataclass(frozen=True)
class SeenLock:
    """A lock as it was seen.

    Attributes:
        holder: Who wrote it; empty where the file cannot be read.
        acquired: When it was taken, by the holder's clock.
        refreshed: When it was last said to live, by the holder's clock.
    """

    key: str
    target: LockTarget
    holder: str
    acquired: str
    refreshed: str


def locks(store: Store, table: TableName | None = None) -> list[SeenLock]:
    """Return the locks of a lake or of one table, leases of readers among them; by listing."""
    prefixes = (names.BOOKMARKS, names.RAW) if table is None else (table.folder,)
    seen = []
    for item in chain.from_iterable(store.list(prefix) for prefix in prefixes):
        target = names.lock_target(item.key)
        if target is not None and (lock := _read(store, item.key, target)) is not None:
            seen.append(lock)
    return seen


def _read(store: Store, key: str, target: LockTarget) -> SeenLock | None:
    try:
        data = store.get(key).data
    except KeyMissingError:
        return None  # given up while we looked
    try:
        held = _HELD.decode(data)
    except UNREADABLE:
        held = _Held()
    return SeenLock(key, target, held.writer or held.reader, held.acquired, held.refreshed)


def break_lock(store: Store, lock: SeenLock) -> None:
    """Remove a lock. Its writer, should it live, stops with a conflict and commits nothing.

    Raises:
        ConflictError: It changed hands since it was seen.
    """
    present = _read(store, lock.key, lock.target)
    if present is None:
        return
    if (present.holder, present.acquired) != (lock.holder, lock.acquired):
        raise ConflictError(
            f"the lock {lock.key} is {present.holder or 'another writer'}'s by now: "
            "it was left alone"
        )
    store.delete(lock.key)
