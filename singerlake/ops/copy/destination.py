"""What a destination holds already, and whether it is still a copy of the source."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from singerlake.errors import ConflictError, DamagedError, UsageError
from singerlake.format import names
from singerlake.format.log import Entry, Operation
from singerlake.format.names import TableName
from singerlake.format.sealed import PLAIN
from singerlake.log import lake_file, log
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from singerlake.storage.base import KeyMissingError, Store

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Present:
    """A table as the destination has it.

    Attributes:
        head: What its readers see; of number 0 where the log is not whole yet.
        begun: The manifest of a first copy that did not get to its end.
        has_manifest: Whether there is a manifest that can be read.
    """

    head: TableState
    begun: TableState | None = None
    has_manifest: bool = False


def check_place(source: Store, destination: Store) -> None:
    """Make sure that a place is empty, or a lake, and not the source.

    Raises:
        UsageError: It is something else: nothing is written among somebody's files.
        NewerFormatError: A newer release wrote the lake.
    """
    ours, theirs = (_where(store) for store in (source, destination))
    apart = source.service != destination.service  # a bucket's name is one service's
    for outer, inner in ((ours, theirs), (theirs, ours)):
        if not apart and (inner == outer or inner.startswith(f"{outer}/")):
            raise UsageError(f"{inner} is inside {outer}: copy a lake to a place outside of it")
    if destination.folders(names.RAW) or lake_file.read_if_readable(destination) is not None:
        return
    other = destination.first_key()
    if other is not None and not other.startswith(names.STAGING):
        raise UsageError(
            f"{destination.uri} is not a lake, and not empty ({other} is there): choose an empty "
            "place, or an existing copy"
        )


def _where(store: Store) -> str:
    """A store's place, the same for all names that it has on this machine."""
    here = store.local_path("") is not None
    return str(Path(store.uri).resolve()) if here else store.uri.rstrip("/")


def read_present(destination: Store, table: TableName) -> Present:
    """Read how far a table is at the destination.

    A first copy puts the manifest first and transaction 1 last: the log is whole once that is
    there. It is read without the care that is for readers, for what a killed copy left is to be
    gone on with.

    Raises:
        DamagedError: It cannot be read.
    """
    checkpoint = log.read_checkpoint(destination, table)
    if checkpoint is not None and not destination.exists(table.transaction(1)):
        return Present(TableState(table), begun=checkpoint, has_manifest=True)
    start = checkpoint or TableState(table)
    head = fold(start, log.entries(destination, table, start.number))
    return Present(head, has_manifest=checkpoint is not None)


def check_same(source: Store, destination: Store, there: TableState, here: TableState) -> None:
    """Make sure that what the destination has is what the source has, as far as it goes.

    Args:
        source: Whence.
        destination: Where to.
        there: The table at the source.
        here: The same at the destination.

    Raises:
        ConflictError: It has another transaction; which is the first is in the message.
        DamagedError: An entry that should be there is not.
    """
    table = there.table
    common = min(there.number, here.number)
    if common and not _is_same(source, destination, table, common):
        same, other = 0, common  # each entry says which one it follows, so one search finds it
        while other - same > 1:
            middle = (same + other) // 2
            if _is_same(source, destination, table, middle):
                same = middle
            else:
                other = middle
        ours, theirs = (_entry(store, table, other) for store in (source, destination))
        if any(one.commit == theirs.commit for one in there.transactions):  # the source's own
            raise _diverged(
                destination,
                table,
                "it is a copy of versions only, and does not have the whole log of the",
            )
        raise _diverged(
            destination, table, f"transaction {other} is {_said(theirs)}, and {_said(ours)} at the"
        )
    if here.number > there.number:
        theirs = _entry(destination, table, common + 1)
        raise _diverged(
            destination, table, f"transaction {common + 1} ({_said(theirs)}) is not at the"
        )


def check_begun(destination: Store, there: TableState, begun: TableState, *, whole: bool) -> None:
    """Make sure that what stands without transaction 1 is what a copy of the source has begun.

    Args:
        destination: Where it stands.
        there: The table at the source.
        begun: What the manifest there says.
        whole: Whether all of the log is copied; a copy of versions may have numbers of its own.

    Raises:
        ConflictError: It is not.
    """
    if whole:
        known = begun.number <= there.number and there.summary(begun.number).commit == begun.commit
    else:
        known = any(one.commit == begun.commit for one in there.transactions)
    if not known:
        raise ConflictError(
            f"{there.table} at {destination.uri} is an incomplete copy of another table: move it "
            "away, or copy to another place"
        )


def check_erasures(there: TableState, here: TableState, destination: Store, *, whole: bool) -> None:
    """Make sure that a copy does not go on from before an erasure of rows, or amid one.

    Args:
        there: The table at the source.
        here: The same at the destination.
        destination: Where that is.
        whole: Whether all of the log is copied.

    Raises:
        ConflictError: The destination has rows that the source has erased, or the source's entries
            may still tell of some.
    """
    table = there.table
    if whole and 0 < here.number < there.erased_at:
        raise ConflictError(
            f"rows of {table} were erased at the source (transaction {there.erased_at}), and the "
            f"copy at {destination.uri} is of transaction {here.number} and may still have them: "
            f"delete {table.folder} there, and copy the table again"
        )
    vacuums = (t.number for t in reversed(there.transactions) if t.operation == Operation.VACUUM)
    if there.erased_at > next(vacuums, 0):
        raise ConflictError(
            f"an erasure of rows of {table} is not finished at the source (transaction "
            f"{there.erased_at}): finish it with: singerlake vacuum {table}"
        )


def _diverged(destination: Store, table: TableName, how: str) -> ConflictError:
    return ConflictError(
        f"{table} at {destination.uri} is no longer a copy of the source: {how} source; nothing of "
        "it was copied or overwritten: copy to another place, or move the table away from there"
    )


def _said(entry: Entry) -> str:
    return f"{entry.operation} of {entry.time} by {entry.writer}"


def _is_same(source: Store, destination: Store, table: TableName, number: int) -> bool:
    ours, theirs = (_entry(store, table, number) for store in (source, destination))
    return ours.chain == theirs.chain


def _entry(store: Store, table: TableName, number: int) -> Entry:
    entry = log.read_entry(store, table, number)
    if entry is None:
        raise DamagedError(
            f"the log of {table} at {store.uri} lacks transaction {number}: rebuild it there with: "
            f"singerlake rebuild {table}"
        )
    return entry


def take_back(source: Store, destination: Store, table: TableName, *, begun: bool = False) -> None:
    """Take back what a copy put ahead of the log's end, where the log went on otherwise.

    A copy puts the entry last that follows the log's end. If somebody else wrote that one, the
    others stand in the way. They are still at the source, byte for byte.

    Args:
        source: Whence the copy is.
        destination: Where it is.
        table: The table.
        begun: Whether this very copy has put the manifest, too, of a table that was new.

    Raises:
        StoreError: A store refused.
    """
    if begun:
        destination.delete(table.manifest)
        destination.delete(table.head_file)
    start = log.read_checkpoint(destination, table) or TableState(table)
    chain, end = start.chain, start.number
    for entry in log.entries(destination, table, end):
        if entry.format > PLAIN and chain and entry.previous != chain:
            break
        chain, end = entry.chain, entry.number
    for item in destination.list(table.log):
        number = names.transaction_number(item.key)
        if number and number > end and _equal(source, destination, item.key):
            logger.warning("removed %s/%s, which was written ahead", destination.uri, item.key)
            destination.delete(item.key)


def _equal(source: Store, destination: Store, key: str) -> bool:
    try:
        return source.get(key).data == destination.get(key).data
    except KeyMissingError:
        return False
