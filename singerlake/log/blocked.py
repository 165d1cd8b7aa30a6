"""Blocked keys: rows that come with one of them are left out, whoever brings them.

The log says how many keys are blocked and names the list of their hashes, in the entry that takes
effect with it. A list is never changed: another takes its place, under the vacuum's lock, with the
same secret. The one before is deleted then; who still wanted to read it reads the log on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from singerlake.errors import DamagedError
from singerlake.format import erased_keys
from singerlake.format.erased_keys import KeyHashes
from singerlake.format.log import Entry, Operation
from singerlake.format.names import TableName
from singerlake.format.types import EXACT_KEYS, RULES
from singerlake.format.version_notes import BlockedKeys
from singerlake.log import erasures
from singerlake.log.commit import commit, draft_entry
from singerlake.log.log import refresh
from singerlake.log.table_state import TableState
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store


def key_of(table: TableName, said: BlockedKeys) -> str:
    """Return the key of a list's object."""
    return f"{table.folder}{erased_keys.blocked(said.id)}"


def read(store: Store, snapshot: TableState) -> KeyHashes:
    """Read which keys of a table are blocked.

    Raises:
        ConflictError: Others are by now.
        DamagedError: The list is lost, or not what was written.
    """
    said = snapshot.blocked
    if said is None:
        return KeyHashes.new()
    where = key_of(snapshot.table, said)
    try:
        found = KeyHashes.decode(store.get(where).data, said.keys, where)
        return replace(found, rounded=said.types < EXACT_KEYS)
    except KeyMissingError:
        if refresh(store, snapshot).blocked != said:
            raise erasures.changed(snapshot.table) from None
        raise DamagedError(
            f"{where} is missing, with the keys of {snapshot.table} that are blocked: restore it "
            f"from a copy, or unblock all of them with: singerlake erase {snapshot.table} "
            "--unblock --all"
        ) from None


def write(store: Store, table: TableName, hashes: KeyHashes, columns: Sequence[str]) -> BlockedKeys:
    """Write a list, to be named by an entry.

    Args:
        store: The lake's store.
        table: The table.
        hashes: The list; nothing is written where it is empty.
        columns: The key's columns, by the names in records.

    Raises:
        StoreError: The store refused.
    """
    if not hashes.hashes:
        return BlockedKeys(0)
    types = BlockedKeys(0).types if hashes.rounded else RULES
    said = BlockedKeys(len(hashes.hashes), erased_keys.new_id(), [*columns], types)
    store.put_if_absent(key_of(table, said), hashes.encode())
    return said


def commit_blocked(
    store: Store, planned: TableState, said: BlockedKeys, writer_id: str
) -> TableState:
    """Have other keys blocked from now on; to be done under the vacuum's lock.

    Raises:
        ConflictError: Others were blocked meanwhile.
        StoreError: The store refused.
    """

    def draft(present: TableState) -> Entry:
        if present.blocked != planned.blocked:
            raise erasures.changed(present.table)
        return draft_entry(present.table, Operation.BLOCK_KEYS, writer=writer_id, blocked=said)

    return commit(store, planned, draft)


def copy(source: Store, destination: Store, head: TableState) -> None:
    """Copy the list that a table names to another lake, before that names it.

    Raises:
        KeyMissingError: The source has it no more.
        StoreError: A store refused.
    """
    if head.blocked is not None:
        where = key_of(head.table, head.blocked)
        data = source.get(where).data
        KeyHashes.decode(data, head.blocked.keys, where)
        with suppress(KeyExistsError):  # from a copy that died
            destination.put_if_absent(where, data)
