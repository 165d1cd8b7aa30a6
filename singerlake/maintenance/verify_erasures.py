"""Verifying erasures: that the log announced them, and that it tells of them no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from singerlake.errors import DamagedError
from singerlake.format.erased_keys import BLOCKED
from singerlake.format.log import Entry, Operation
from singerlake.storage.base import Store
from singerlake.transactions import blocked
from singerlake.transactions.rewriting import Erasures
from singerlake.transactions.snapshot import Snapshot


def check_erasures(
    store: Store, snapshot: Snapshot, entries: Sequence[Entry]
) -> Iterator[tuple[str, str, str] | str]:
    """Hold entries that an erasure had rewritten against it, and look for those it has not yet.

    Args:
        store: The lake's store.
        snapshot: The table by its log.
        entries: The log, up to there.

    Yields:
        Of each problem where it is, what is expected and what is found; or a note.
    """
    table = snapshot.table
    try:
        blocked.read(store, snapshot)
    except DamagedError as error:
        yield f"{table.folder}{BLOCKED}", "the hashes of the keys that are blocked", str(error)
    for entry in entries:
        if entry.rewritten and not _announces(snapshot, entry.rewritten):
            wanted = f"an erase-start as transaction {entry.rewritten}, for which it was rewritten"
            yield table.transaction(entry.number), wanted, "none"
    try:
        erasures = Erasures.of(snapshot, (e for e in entries if e.operation == Operation.ERASE))
    except DamagedError as error:
        yield table.log, "an erase-start before each erase", str(error)
        return
    stale = [entry.number for entry in entries if erasures.without_traces(entry) is not entry]
    if stale:
        yield (
            f"{len(stale)} of its log entries (the first is transaction {stale[0]}) still have "
            "fingerprints or checksums from before rows were erased, by which a guess at a row "
            f"could be confirmed: take these out with: singerlake vacuum {table}"
        )


def _announces(snapshot: Snapshot, number: int) -> bool:
    there = number <= snapshot.number
    return there and snapshot.summary(number).operation == Operation.ERASE_START
