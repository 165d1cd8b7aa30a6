"""Holding all of a copy's log against the source's, entry by entry.

An entry that a rebuild wrote has the chain id of the one that was lost. So the chain does not tell
the two apart, and goes on from either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from singerlake.errors import DamagedError
from singerlake.format.log import Entry
from singerlake.format.names import TableName
from singerlake.log import log
from singerlake.log.chain import Rewritings
from singerlake.log.checkpoint import differing
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store

_HELD = {"blocks", "versions", "deleted versions", "restorable blocks", "blocked keys", "overlays"}
"""What a rebuild makes again as it was; of files that wait to be deleted it may know less."""


@dataclass(frozen=True)
class Rebuilt:
    """Transactions whose entries a rebuild has written anew, and that the other log still has.

    Attributes:
        at_destination: Those of the copy.
        at_source: Those of the source.
    """

    at_destination: tuple[int, ...] = ()
    at_source: tuple[int, ...] = ()


class _Read:
    """A log that is read from its first entry on."""

    def __init__(self, store: Store, table: TableName, number: int) -> None:
        self.hashes: dict[int, str] = {}
        self._stand_ins: set[int] = set()
        rewritings = Rewritings(table)
        every = log.sound_entries(store, table, range(1, number + 1))
        self.head = fold(TableState(table), self._noted(rewritings.noted(every)))
        rewritings.check(self.head.transactions, to_end=False)

    def _noted(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        for entry in entries:
            self.hashes[entry.number] = entry.hash
            if entry.stands_for and not entry.rewritten:
                self._stand_ins.add(entry.number)
            yield entry

    def made_anew(self, others: set[int]) -> tuple[int, ...]:
        """Those of some entries that a rebuild wrote: of several in a row only the last says it."""
        found: list[int] = []
        for number in sorted(others, reverse=True):
            if number in self._stand_ins or (found and found[-1] == number + 1):
                found.append(number)
        return tuple(reversed(found))


def compare_logs(source: Store, destination: Store, table: TableName, number: int) -> Rebuilt:
    """Read both logs up to a transaction, and make sure that they say the same.

    Args:
        source: Whence the copy is.
        destination: Where it is.
        table: The table.
        number: The last transaction that both have.

    Raises:
        DamagedError: They do not, or one cannot be read.
    """
    theirs = _Read(destination, table, number)
    ours = _Read(source, table, number)
    if ours.head.chain != theirs.head.chain:
        raise DamagedError(f"the log of {table} is not the source's: run it again")
    others = {n for n, hash_ in ours.hashes.items() if theirs.hashes[n] != hash_}
    rebuilt = Rebuilt(theirs.made_anew(others), ours.made_anew(others))
    if unknown := others.difference(rebuilt.at_destination, rebuilt.at_source):
        raise DamagedError(
            f"{destination.uri}/{table.transaction(min(unknown))} is not what the source has: move "
            f"{table.folder} away there, and copy the table again"
        )
    for what, _, _ in differing(ours.head, theirs.head) if others else ():
        if what in _HELD:
            raise DamagedError(
                f"the log entries that a rebuild wrote for {table} (transaction {min(others)}) "
                f"lead to different {what} at {destination.uri} than at the source: find out which "
                f"is damaged with: singerlake verify {table}"
            )
    return rebuilt
