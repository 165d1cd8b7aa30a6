"""Reading the log: the checkpoint first, then entry by entry until one is missing."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from singerlake.errors import (
    DamagedError,
    DataError,
    InvalidNameError,
    SingerlakeError,
)
from singerlake.format import log as format_log
from singerlake.format import metadata, names
from singerlake.format.log import Entry
from singerlake.format.names import TableName
from singerlake.log import files, head_file
from singerlake.log.chain import ForeignEntryError, Rewritings
from singerlake.log.checkpoint import differing, from_manifest
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from singerlake.storage.base import READERS, KeyMissingError, Listed, Store
from singerlake.storage.opening import is_remote
from singerlake.storage.side_by_side import threads

logger = logging.getLogger(__name__)
_FEW = 8
"""Behind a manifest there are seldom more entries: till then each is asked for by itself, and
no request is made in vain."""
_AT_ONCE = 1024
"""Entries of a listing that are asked for before the first of them is used up."""
IF_COPIED = "if a copy to this place was interrupted, run it again; otherwise, "
"""Where a log lacks its beginning: a copy puts the first entry last."""
_MOST_GUESSED = 32
"""Entries asked for at once that may not be there."""


@dataclass(frozen=True)
class TableLog:
    """A table's log, as :func:`~singerlake.log.appending.appending` takes it.

    Attributes:
        store: The lake's store.
        table: Whose.
    """

    store: Store
    table: TableName

    @property
    def lock(self) -> str:
        """Key of the lock under which it is written, on a store that ignores conditions."""
        return self.table.table_lock

    def key(self, number: int) -> str:
        """Key of an entry."""
        return self.table.transaction(number)

    def read(self, number: int) -> Entry | None:
        """Return an entry; None where there is none."""
        return read_entry(self.store, self.table, number)

    def decode(self, data: bytes, number: int) -> Entry:
        """Read an entry's bytes."""
        return format_log.decode_entry(data, number, self.key(number))

    def seal(self, entry: Entry) -> tuple[Entry, bytes]:
        """Return an entry with its hash, and its bytes."""
        return format_log.seal_entry(entry)

    def unknown(self, number: int, error: Exception) -> str:
        """Say that nobody knows whether an entry was committed, and how to find out."""
        return (
            f"whether transaction {number} of {self.table} was committed cannot be determined: "
            f"{error}; check with: singerlake history {self.table}"
        )


def read_entry(store: Store, table: TableName, number: int) -> Entry | None:
    """Return one log entry, or None where it is not there (yet).

    Raises:
        DamagedError: It is there and cannot be read.
    """
    key = table.transaction(number)
    try:
        data = store.get(key).data
    except KeyMissingError:
        return None
    return format_log.decode_entry(data, number, key)


def read_entries(
    store: Store, table: TableName, numbers: Iterable[int]
) -> Iterator[tuple[int, Entry | SingerlakeError | None]]:
    """Yield some log entries, several at a time; in place of one that cannot be read, the error."""

    def one(number: int) -> tuple[int, Entry | SingerlakeError | None]:
        try:
            return number, read_entry(store, table, number)
        except SingerlakeError as error:
            return number, error

    wanted = [*numbers]
    if len(wanted) == 1:  # as of most tables that are looked at: a thread takes longer to begin
        yield one(wanted[0])
        return
    with threads(READERS, "log") as pool:
        yield from pool.map(one, wanted)


def sound_entries(store: Store, table: TableName, numbers: Iterable[int]) -> Iterator[Entry]:
    """Yield some log entries, all of which must be there.

    Raises:
        DamagedError: One is lost or damaged.
    """
    for number, entry in read_entries(store, table, numbers):
        if isinstance(entry, SingerlakeError):
            raise entry
        if entry is None:
            raise DamagedError(
                f"the log of {table} lacks transaction {number}: restore it with: singerlake "
                f"rebuild {table}"
            )
        yield entry


def entries(store: Store, table: TableName, after: int = 0, listed: int = 0) -> Iterator[Entry]:
    """Yield the log's entries after a number, in order, until one is missing.

    From a remote store they are read several at a time: those that a listing has shown, and behind
    them each time as many as were found, once they are more than a few.

    Args:
        store: The lake's store.
        table: Which table.
        after: The number.
        listed: An entry that a listing has shown, and all before it.
    """
    number, far = after + 1, is_remote(store.uri)
    while True:
        known = listed + 1 - number
        found = number - 1 - max(after, listed)
        guessed = min(found, _MOST_GUESSED) if far and found >= _FEW else 1
        some = range(number, number + max(min(known, _AT_ONCE), guessed))
        one_by_one = ((n, read_entry(store, table, n)) for n in some)
        for _, entry in read_entries(store, table, some) if far and len(some) > 1 else one_by_one:
            if isinstance(entry, SingerlakeError):
                raise entry
            if entry is None:
                return
            yield entry
        number = some.stop


def read_checkpoint(store: Store, table: TableName, *, to_add: bool = False) -> TableState | None:
    """Return the manifest's snapshot; None where it is missing or damaged, for it is only derived.

    Args:
        store: The lake's store.
        table: Which table.
        to_add: Whether rows are only to be added: then a snapshot will do whose past is read
            when it is asked for, where the manifest is large.

    Raises:
        NewerFormatError: A newer release wrote it.
    """
    try:
        present = store.get_if_small(table.manifest, head_file.SMALL_BYTES) if to_add else None
        if to_add and present is None and (head := _read_head(store, table)) is not None:
            return head
        present = present or store.get(table.manifest)
        etag = present.etag
        manifest = metadata.decode(present.data, metadata.Manifest, table.manifest)
        del present  # many megabytes, and not needed any more
        return replace(from_manifest(table, manifest), checkpoint_etag=etag)
    except KeyMissingError:
        return None
    except (DamagedError, InvalidNameError) as error:
        logger.warning("%s; reading the log instead", error)
        return None


def _read_head(store: Store, table: TableName) -> TableState | None:
    """Return the head file's snapshot; None where it is missing, or not of this log."""
    head = head_file.read(store, table)
    if head is None:
        return None
    number = head.last.number
    try:
        entry = read_entry(store, table, number)
    except DataError:
        return None  # said by those who read all
    # The ids are made of all entries up to this one: with the same ids the log is the same.
    if entry is None or (entry.chain, entry.commit) != (head.chain, head.last.commit):
        return None

    def read(later: Sequence[Entry]) -> TableState:
        last = number + len(later)
        start = read_checkpoint(store, table)
        if start is None or start.number > last:
            start = TableState(table)
        before = sound_entries(store, table, range(start.number + 1, number + 1))
        after = (one for one in later if one.number > start.number)
        whole = fold(fold(start, before), after)
        return _without_done(replace(whole, anchored=True))

    return head_file.snapshot_of(table, head, read)


def read_snapshot(store: Store, table: TableName, *, to_add: bool = False) -> TableState | None:
    """Return the table's head.

    Args:
        store: The lake's store.
        table: Which table.
        to_add: As for :func:`read_checkpoint`.

    Returns:
        None where there is neither checkpoint nor log.

    Raises:
        DamagedError: The log has a gap, or an entry cannot be read.
    """
    checkpoint = read_checkpoint(store, table, to_add=to_add)
    if checkpoint is not None:
        snapshot = refresh(store, checkpoint)
    else:
        snapshot = _read_whole_log(store, table)
    return _without_done(snapshot) if snapshot.number else None


def _without_done(snapshot: TableState) -> TableState:
    """Who reads now names no file that was announced before: only what comes later is looked at."""
    if not snapshot.pending_lists:
        return snapshot
    unfinished = [one for one in snapshot.pending_lists if one[0] > snapshot.vacuumed]
    return replace(snapshot, pending_lists=unfinished)


def _read_whole_log(store: Store, table: TableName) -> TableState:
    """Without a manifest, one listing tells the log's end from a hole in it.

    It comes first: what it shows is there to be read, and what comes after it is read as well.
    """
    listed = (names.transaction_number(item.key) for item in store.list(table.log))
    last = max((number for number in listed if number is not None), default=0)
    snapshot = refresh(store, TableState(table), last)
    if last <= snapshot.number:
        return snapshot
    cure = (
        "restore the missing entry from a backup"
        if snapshot.number
        else f"{IF_COPIED}restore as much as possible with: singerlake rebuild {table}"
    )
    raise DamagedError(
        f"the log of {table} lacks transaction {snapshot.number + 1}, and continues to {last}: "
        f"{cure}"
    )


def refresh(store: Store, snapshot: TableState, listed: int = 0) -> TableState:
    """Return the table's head, by what was committed since a snapshot was read.

    Args:
        store: The lake's store.
        snapshot: The snapshot.
        listed: An entry that a listing has shown; 0 for none.

    Raises:
        DamagedError: An entry cannot be read, does not continue this log, or the log's end is
            lost.
    """
    try:
        later = entries(store, snapshot.table, snapshot.number, listed)
        rewritings = Rewritings(snapshot.table)
        after = fold(snapshot, rewritings.noted(later))
        rewritings.check(after.transactions, to_end=True)
    except ForeignEntryError as error:
        if not _ignores_case(store, snapshot.table):
            raise
        raise DamagedError(
            f"{error}; this file system ignores case, so that two streams whose names differ "
            "only in case share a folder: rename one with a stream map"
        ) from error
    if after.number and not after.anchored:
        after = replace(after, doubtful=_check_end(store, after), anchored=True)
    return after


def check_whole(store: Store, snapshot: TableState) -> None:
    """Read a log from its beginning, and make sure that a snapshot is what it says.

    Raises:
        DamagedError: An entry is lost or damaged, does not follow the one before, or the log
            says otherwise than the snapshot, and so than the manifest.
    """
    table = snapshot.table
    hint = f"check for damage with: singerlake verify {table}"
    try:
        whole = read_whole(store, table, snapshot.number)
    except DamagedError as error:
        raise DamagedError(f"{error}; {hint}") from error
    if wrong := next(differing(whole, snapshot), None):
        raise DamagedError(f"{table.manifest} disagrees with the log ({wrong[0]}); {hint}")


def read_whole(store: Store, table: TableName, head: int) -> TableState:
    """Return a log folded from its first entry on, whatever the manifest says.

    Raises:
        DamagedError: An entry up to the head is lost or damaged, or does not follow the one
            before.
    """
    rewritings = Rewritings(table)
    every = sound_entries(store, table, range(1, head + 1))
    whole = fold(TableState(table), rewritings.noted(every))
    rewritings.check(whole.transactions, to_end=False)
    return whole


def _check_end(store: Store, snapshot: TableState) -> str:
    """Make sure that a log which ends where the manifest does has not lost its end.

    Where even the manifest's last entry is gone, so may be later ones, and nothing tells how many.
    Data files that nothing names are a sign of them, unless a living writer is about to commit
    them.

    Returns:
        Why nothing may be committed on top of it; empty where that may be.

    Raises:
        DamagedError: There are such files, and no writer that lives.
    """
    table = snapshot.table
    if store.exists(table.transaction(snapshot.number)):
        return ""
    present = files.list_files(store, table)
    if unnamed := unnamed_files(table, present.free, snapshot):
        raise DamagedError(
            f"the log of {table} has lost transaction {snapshot.number}, the last in its manifest, "
            f"and there are data files that no entry lists ({unnamed[0].key} and "
            f"{len(unnamed) - 1} more): later transactions may be lost as well; restore as much as "
            f"possible with: singerlake rebuild {table}"
        )
    lost = f"the log of {table} has lost transaction {snapshot.number}, the last in its manifest"
    beside = replace(present, locked=unnamed_files(table, present.locked, snapshot))
    doubt = f"{lost}; {files.left_aside(table, beside)}" if beside.locked else ""
    if doubt and present.idle_seconds >= files.DEAD_SECONDS:
        raise DamagedError(doubt)
    logger.warning(
        "%s; reading what the manifest has: restore the log with: singerlake rebuild %s",
        doubt or lost,
        table,
    )
    return doubt


def check_end_known(snapshot: TableState) -> None:
    """Make sure, before something is committed, that nothing may have been committed after it.

    Raises:
        DamagedError: The log's end is lost, and files lie there that may belong to it.
    """
    if snapshot.doubtful:
        raise DamagedError(f"nothing can be committed: {snapshot.doubtful}")


def unnamed_files(
    table: TableName, present: Iterable[Listed], snapshot: TableState
) -> list[Listed]:
    """Return those of a table's data files that nothing names which is left of its log."""
    known = snapshot.named_files
    start = len(table.folder)
    return [
        item
        for item in present
        if item.key[start:] not in known
        and names.is_own_data_file(table, item.key[start:].partition("/")[2])
    ]


def _ignores_case(store: Store, table: TableName) -> bool:
    """Whether the store finds a table's log by another spelling of its name too."""
    with suppress(SingerlakeError):
        return store.exists(table.transaction(1).upper())
    return False
