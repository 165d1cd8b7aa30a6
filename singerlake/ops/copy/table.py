"""Copying one table: its files first, then its log such that readers see all of it at once.

The first entry that follows the log's end is put last, behind all the others: until it is there,
a reader sees the state that was there before. A table that is new at the destination has no such
state. There the manifest goes first, which tells of the whole log, then the last entry, and
transaction 1 comes last. So at whatever point a copy dies, the destination opens as a lake.

All this happens under the table's lock, which keeps copies of it apart, and, for a new table,
under the locks of its folders: beside a lock, files without a log are none of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TypeVar

from singerlake.errors import ConflictError, DamagedError, DataError
from singerlake.format.log import Block, FileList, FrozenVersion
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.log import blocked, files, log
from singerlake.log.capabilities import open_for_writing
from singerlake.log.checkpoint import write_checkpoint
from singerlake.log.commit import new_writer_id
from singerlake.log.lease import ReaderLease
from singerlake.log.locks.lock import SURE_SETTLES, WriterLock
from singerlake.log.table_state import TableState
from singerlake.log.writer import HeldLocks, hold_locks
from singerlake.ops.copy import destination as destinations
from singerlake.ops.copy import transfers, versions
from singerlake.ops.copy.comparing import Rebuilt, compare_logs
from singerlake.ops.copy.destination import Present
from singerlake.ops.copy.following import delete_gone, find_gone
from singerlake.ops.copy.logs import CopiedLog, WholeLog
from singerlake.ops.copy.outcome import Copied, CopyOptions, end, needed_files
from singerlake.ops.copy.stored import StoredFiles
from singerlake.ops.copy.transfers import Meter
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store

TRIES = 5
"""Times that a copy begins again because source or destination moved on under it."""
COPY = "copy-"
"""What the ids of copies begin with, where they hold the locks of folders."""
_T = TypeVar("_T")


def _is_copy(writer_id: str) -> bool:
    return writer_id.startswith(COPY)


class MovedError(ConflictError):
    """Source or destination is no more as it was: look again."""


class TableCopy:
    """Copies one table.

    Args:
        source: Whence.
        destination: Where to.
        table: Which table.
        versions: The versions to copy, by number or label; none for the table with all of its log.
        options: How.
        meter: Counts bytes, and stops it.
        movers: The threads that move files.
    """

    def __init__(
        self,
        source: Store,
        destination: Store,
        table: TableName,
        versions: Sequence[str],
        options: CopyOptions,
        meter: Meter,
        movers: Executor,
    ) -> None:
        self._source = source
        self._destination = destination
        self._table = table
        self._versions = versions
        self._options = options
        self._writing = replace(options.writing, while_waiting=meter.check)
        self._meter = meter
        self._movers = movers
        self._stored = StoredFiles(source, destination, table, meter, self._in_threads)

    def run(self) -> Copied:
        """Copy it.

        Raises:
            NotFoundError: The source has no such table, or version.
            ConflictError: The destination is no copy of it any more.
            DamagedError: One of the two is damaged.
            StoreError: A store refused.
        """
        for left in reversed(range(TRIES)):
            try:
                there = self._there()
                present = self._look(there)
                options, idle = self._options, not self._goes_on(there, present.head)
                if (idle and not (options.sync or options.verify)) or options.dry_run:
                    return self._planned(there, present)
                with ReaderLease(self._source, there, dropped=True) as lease:
                    return self._copy(lease.snapshot)
            except MovedError:
                self._meter.check()
                if not left:
                    raise
        raise AssertionError  # the last try returns, or raises

    def _there(self) -> TableState:
        """The table at the source.

        Raises:
            DamagedError: It has lost its log.
        """
        snapshot = Table(self._source, self._table).snapshot(dropped=True)
        if not snapshot.from_log or not snapshot.number:
            raise DamagedError(
                f"{self._table} has lost its log at {self._source.uri}: rebuild it there with: "
                f"singerlake rebuild {self._table}"
            )
        return snapshot

    def _look(self, there: TableState, *, locked: bool = False) -> Present:
        """What the destination has of it, which must be what the source has.

        Args:
            there: The table at the source.
            locked: Whether other copies of the table are kept off.

        Raises:
            ConflictError: It is not.
            DamagedError: It cannot be read.
        """
        try:
            present = destinations.read_present(self._destination, self._table)
            self._check(there, present)
        except MovedError:
            raise
        except (ConflictError, DataError):
            if not self._options.dry_run:
                self._take_back(locked=locked)
            raise
        return present

    def _take_back(self, *, locked: bool) -> None:
        """Take back what an earlier copy put ahead of the log, but not what one at work does."""
        open_for_writing(self._destination)
        with nullcontext() if locked else self._lock():
            destinations.take_back(self._source, self._destination, self._table)

    def _lock(self) -> WriterLock:
        """The lock that keeps copies of the table apart."""
        return WriterLock.of(
            self._destination,
            self._table.table_lock,
            new_writer_id(),
            self._writing.waiting,
            settles=SURE_SETTLES,
        )

    def _check(self, there: TableState, present: Present) -> None:
        here, whole = present.begun or present.head, not self._versions
        if here.number > there.number and log.refresh(self._source, there).number > there.number:
            raise MovedError(f"{self._table} changes too fast to be copied: run it again")
        follows = whole or (present.head.number > 0 and self._goes_on(there, here))
        if whole:
            destinations.check_erasures(there, here, self._destination, whole=True)
        if present.begun is not None:
            destinations.check_begun(self._destination, there, present.begun, whole=whole)
        elif follows:
            destinations.check_same(self._source, self._destination, there, present.head)
        if not whole:  # last, for a log that was made anew has numbers of its own
            destinations.check_erasures(there, here, self._destination, whole=follows)

    def _wanted(self, there: TableState) -> list[FrozenVersion]:
        """The versions to copy; none for all of the table."""
        if self._versions:
            there.check_there()
        return [there.version(name) for name in self._versions]

    def _goes_on(self, there: TableState, here: TableState) -> bool:
        """Whether the destination lacks anything of the log."""
        if self._versions:
            return bool(versions.missing(self._wanted(there), here))
        return here.number != there.number

    def _log(self, there: TableState, present: Present) -> CopiedLog | None:
        """The log to go on with; None where the destination has all of it."""
        if self._versions:
            wanted = self._wanted(there)
            return versions.log_of(self._source, self._destination, there, present.head, wanted)
        if present.head.number == there.number:
            return None
        return WholeLog(self._source, self._table, present.head, there.number)

    def _planned(self, there: TableState, present: Present) -> Copied:
        """What would be done."""
        log_ = self._log(there, present)
        head = log_.head if log_ is not None else present.head
        options, number = self._options, head.number - present.head.number
        looks = log_ is not None or options.sync or options.verify
        missing = self._missing(head, present) if looks else {}
        lists = self._stored.due(head, present.head, every=False)
        size = sum(end(blocks) for blocks in missing.values()) + sum(one.bytes for one in lists)
        gone = options.sync and not self._versions
        deleted = len(find_gone(self._source, self._destination, head)) if gone else 0
        plan = Copied(self._table, head, number, len(missing), size, deleted)
        return replace(plan, versions=self._wanted(there))

    def _missing(self, head: TableState, present: Present) -> dict[str, list[Block]]:
        """The data files that the destination lacks, with the blocks in them.

        What it has under its name is whole, for no store shows half of a file.

        Raises:
            DamagedError: A file is shorter than it should be.
        """
        needed = needed_files(head)
        if not (self._options.sync or self._options.verify):
            for block in (*present.head.blocks, *(present.head.restorable or ())):
                needed.pop(block.file, None)
        folders = {path.partition("/")[0] for path in needed}
        sizes = {
            item.key: item.size
            for folder in folders
            for item in self._destination.list(f"{self._table.folder}{folder}/")
        }
        missing = {}
        for path, blocks in needed.items():
            size = sizes.get(self._table.data(path))
            if size is None:
                missing[path] = blocks
            elif size < end(blocks):
                raise DamagedError(
                    f"{self._destination.uri}/{self._table.data(path)} is cut: it has {size:,} "
                    "bytes, fewer than in the log; move it away, and copy again with --verify"
                )
        return missing

    def _copy(self, there: TableState) -> Copied:
        open_for_writing(self._destination)
        options = self._options
        lock = self._lock()
        with lock:
            present = self._look(there, locked=True)
            log_ = self._log(there, present)
            head = log_.head if log_ is not None else present.head
            if present.begun is not None and present.begun.number > head.number:
                # A copy of more than this that died: what it put ahead would stand behind this.
                destinations.take_back(self._source, self._destination, self._table, begun=True)
                present = destinations.read_present(self._destination, self._table)
            missing = self._missing(head, present)
            self._meter.add(total=sum(end(blocks) for blocks in missing.values()))
            if log_ is not None and not present.head.number and present.begun is None:
                self._check_new(there, head)
            with self._folders_locked(head, present, missing) as locks:
                copied = sum(self._in_threads(self._mover(missing), missing))
                every = options.sync or options.verify
                due = self._stored.due(head, present.head, every=every)
                copied += self._copy_stored(head, due)
                lock.check()
                locks.check()
                if log_ is not None:
                    self._append(log_, present, lock)
            if head.number > head.checkpoint:
                head = write_checkpoint(self._destination, head)
        deleted = kept = 0
        if options.sync and not self._versions:
            deleted, kept = delete_gone(
                self._source, self._destination, head, options.lease_wait_seconds, self._meter
            )
        number = head.number - present.head.number
        done = Copied(self._table, head, number, len(missing), copied, deleted, kept)
        done = self._verified(done, head) if options.verify else done
        return replace(done, versions=self._wanted(there))

    def _copy_stored(self, head: TableState, lists: list[FileList]) -> int:
        try:
            blocked.copy(self._source, self._destination, head)
            return self._stored.copy(lists)
        except KeyMissingError as error:
            raise MovedError(
                f"files of {self._table} were deleted while they were copied"
            ) from error

    def _check_new(self, there: TableState, head: TableState) -> None:
        """Make sure that a table which is new at the destination hides no other's rows.

        Raises:
            DamagedError: There are files of a table that has lost its log.
        """
        ours = there.named_files | head.named_files
        start = len(self._table.folder)
        for item in files.list_files(self._destination, self._table).free:
            if item.key[start:] not in ours:
                raise DamagedError(
                    f"{self._table} at {self._destination.uri} has files but neither log nor "
                    f"manifest ({item.key} is not the source's): rebuild them there with: "
                    f"singerlake rebuild {self._table}, or move them away"
                )

    @contextmanager
    def _folders_locked(
        self,
        head: TableState,
        present: Present,
        missing: Iterable[str],
    ) -> Iterator[HeldLocks]:
        """Hold the locks of the folders in which files lie that no log names yet."""
        new = not present.head.number
        folders = {path.partition("/")[0] for path in (needed_files(head) if new else missing)}
        place, writer = (self._destination, self._table), f"{COPY}{new_writer_id()}"
        # Whose is another copy's is at work no more: it would hold the table's lock.
        with hold_locks(*place, folders, writer, self._writing, _is_copy) as locks:
            try:
                yield locks
            except BaseException:
                if new:  # the files stay beside locks, for the next run to go on with
                    locks.abandon()
                raise

    def _mover(self, missing: dict[str, list[Block]]) -> Callable[[str], int]:
        def move(path: str) -> int:
            key = self._table.data(path)
            try:
                return transfers.copy_file(
                    self._source, self._destination, key, missing[path], self._meter
                )
            except KeyMissingError as error:
                head = log.read_snapshot(self._source, self._table)
                if head is None or path in needed_files(head):
                    raise DamagedError(f"{self._source.uri}/{key} is missing") from error
                raise MovedError(
                    f"{self._source.uri}/{key} was deleted while it was copied"
                ) from error

        return move

    def _append(self, log_: CopiedLog, present: Present, lock: WriterLock) -> None:
        """Put the entries, the one last by which readers come to all of them."""
        head, last = log_.head, present.head.number
        ahead = range(head.number, last + 1, -1)

        def put(number: int) -> None:
            self._meter.check()
            key = self._table.transaction(number)
            transfers.put_entry(self._destination, key, log_.data(number))

        begun = bool(ahead) and not last
        with self._taken_back_on_conflict(begun=begun):
            if begun:
                write_checkpoint(self._destination, head, durable=True)
            elif ahead and not present.has_manifest:  # without one a reader would see the gap
                write_checkpoint(self._destination, present.head, durable=True)
            if ahead:
                put(ahead[0])
                self._in_threads(put, ahead[1:])
        lock.check()  # who took it over, because this one seemed dead, puts the same
        with self._taken_back_on_conflict(begun=begun):
            put(last + 1)

    @contextmanager
    def _taken_back_on_conflict(self, *, begun: bool) -> Iterator[None]:
        """Where somebody else wrote to the log, leave nothing that stands in its way."""
        try:
            yield
        except (ConflictError, KeyExistsError):
            self._meter.check()
            destinations.take_back(self._source, self._destination, self._table, begun=begun)
            raise

    def _in_threads(self, work: Callable[..., _T], items: Iterable[object]) -> list[_T]:
        """Do something with each of some things; after an error nothing is under way any more."""
        return transfers.in_threads(self._movers, work, items)

    def _verified(self, done: Copied, here: TableState) -> Copied:
        """Read all that the destination has; what was done, with what was found.

        Raises:
            DamagedError: It is not what it should be.
        """
        places, rebuilt = (self._source, self._destination, self._table), Rebuilt()
        if self._versions:
            log.read_whole(self._destination, self._table, here.number)
        else:
            rebuilt = compare_logs(*places, here.number)
        needed = needed_files(here)
        self._meter.add(total=sum(b.length for blocks in needed.values() for b in blocks))

        def check(path: str) -> None:
            key = self._table.data(path)
            transfers.check_file(self._destination, key, needed[path], self._meter)

        self._in_threads(check, needed)
        verified = len(needed) + self._stored.verify(here)
        return replace(done, verified=verified, rebuilt=rebuilt)
