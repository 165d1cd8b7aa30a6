"""The log that a copy gets: the source's own entries, checked as a chain before any is put."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from singerlake.errors import ConflictError, DamagedError, SingerlakeError
from singerlake.format import log as format_log
from singerlake.format.log import Entry
from singerlake.format.names import TableName
from singerlake.log import log
from singerlake.log.chain import Rewritings
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from singerlake.storage.base import KeyMissingError, Store


class CopiedLog(Protocol):
    """What a table's log at the destination goes on with.

    Attributes:
        head: The table after it, folded on from what the destination has.
    """

    head: TableState

    def data(self, number: int) -> bytes:
        """Return the bytes of one of its entries."""


class WholeLog:
    """The source's entries after those that the destination has, as they lie there.

    All are read once to make sure that they are a chain, and once more to be copied: a log of any
    length fits.

    Args:
        store: The source.
        table: The table.
        after: The table as the destination has it, with the same transactions as the source.
        number: The last entry to copy.

    Raises:
        DamagedError: One is lost or damaged, or does not follow the one before.
    """

    def __init__(self, store: Store, table: TableName, after: TableState, number: int) -> None:
        self._store = store
        self._table = table
        self._hashes: dict[int, str] = {}
        rewritings = Rewritings(table)
        coming = self._entries(range(after.number + 1, number + 1))
        self.head = fold(after, rewritings.noted(coming))
        if rewritings.last > number:
            raise ConflictError(f"rows of {table} were erased while it was copied: run it again")
        rewritings.check(self.head.transactions, to_end=True)

    def _entries(self, numbers: range) -> Iterator[Entry]:
        table = self._table
        for number, entry in log.read_entries(self._store, table, numbers):
            if isinstance(entry, SingerlakeError):
                raise entry
            if entry is None:
                raise DamagedError(
                    f"the log of {table} lacks transaction {number} at the source: check for "
                    f"damage with: singerlake verify {table}"
                )
            self._hashes[number] = entry.hash
            yield entry

    def data(self, number: int) -> bytes:
        """Return the bytes of an entry, which are still those that were checked.

        Raises:
            ConflictError: They are not.
            DamagedError: They cannot be read any more.
        """
        key = self._table.transaction(number)
        try:
            data = self._store.get(key).data
        except KeyMissingError as error:
            raise DamagedError(f"{self._store.uri}/{key} is missing") from error
        if format_log.decode_entry(data, number, key).hash != self._hashes[number]:
            raise ConflictError(
                f"{self._store.uri}/{key} was recreated while it was copied: run it again"
            )
        return data
