"""Adding rows to a table: publish the files, commit the entry, bring the rest up to date."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from singerlake.errors import DamagedError, OutcomeUnknownError, SingerlakeError
from singerlake.format.log import Entry, Operation
from singerlake.format.names import TableName
from singerlake.format.overlay import Overlay
from singerlake.log import catalogue as catalogues
from singerlake.log import checkpoint, conflicts, erasures, files, head_file, lake_file, log
from singerlake.log.capabilities import open_for_writing
from singerlake.log.commit import Draft, commit, draft_entry, new_writer_id
from singerlake.log.locks.lock import Waiting, WriterLock, nobody
from singerlake.log.staging import StagedTable
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store

logger = logging.getLogger(__name__)


LeaveOut = Callable[[TableState, StagedTable], None]
"""Takes rows out of what was staged; see :meth:`TableWriter.commit`."""


@dataclass(frozen=True)
class WriteOptions:
    """How a writer behaves.

    Attributes:
        lock_wait_seconds: How long to wait for another writer of the same schema.
        lock_stale_seconds: How long a lock must stand still to be taken over.
        metadata: What the user says of the run; kept in the log entry.
        while_waiting: Called now and then while another writer has the lock; may raise to
            end the run, for nothing has been published yet.
        files: Paths of files that were stored for rows that people give.
    """

    lock_wait_seconds: float = 300.0
    lock_stale_seconds: float = 60.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    while_waiting: Callable[[], None] = lambda: None
    files: Container[str] = ()

    @property
    def waiting(self) -> Waiting:
        """How to treat other writers' locks."""
        return Waiting(self.lock_wait_seconds, self.lock_stale_seconds, self.while_waiting)


class TableWriter:
    """Commits staged rows to one table.

    Args:
        store: The lake's store.
        table: The table; made by its first commit.
        options: How to behave.
        writer_id: Who writes.
    """

    def __init__(
        self,
        store: Store,
        table: TableName,
        options: WriteOptions | None = None,
        writer_id: str | None = None,
    ) -> None:
        self._store = store
        self._table = table
        self._options = options or WriteOptions()
        self._writer_id = writer_id or new_writer_id()
        self._snapshot: TableState | None = None

    def begin(self) -> TableState:
        """Return the table as it is, and let the next commit go on from there.

        An entry may name files again that this snapshot names.

        Raises:
            DamagedError: The table's log is lost or cannot be read.
        """
        self._snapshot = self._read()
        return self._snapshot

    def commit(
        self,
        staged: StagedTable,
        metrics: Mapping[str, int | float] | None = None,
        *,
        catalogue: bool = True,
        overlay: Overlay | None = None,
        acknowledges: Mapping[str, Any] | None = None,
        leave_out: LeaveOut | None = None,
    ) -> TableState | None:
        """Commit what was staged as one transaction.

        Args:
            staged: What.
            metrics: Counts for the log entry.
            catalogue: Whether to bring the tap's catalogue and the lake's file up to date;
                a writer of many tables does it once for all, with :func:`update_lake`.
            overlay: What people said of the table when the rows were checked; None where nobody
                checked them by it.
            acknowledges: What the metadata say of the STATE that goes out after this commit.
            leave_out: Takes rows out of what was staged whose keys are blocked in the table as it
                is; called only where some are.

        A stream whose schema is new is committed even without rows, so that an empty
        source still makes a table; one that brings nothing new is not.

        Returns:
            The table after the commit; None where there was nothing to commit.

        Raises:
            LockTimeoutError: Another writer of the schema did not finish in time.
            ConflictError: The lock was lost before the commit, or the table was altered, or keys
                are blocked that the rows were not held against.
            DamagedError: The table's log is lost or cannot be read.
            StoreError: The store refused. What is not certain to be in the log was deleted
                again, except after an ``OutcomeUnknownError``.
        """
        snapshot = self._read(to_add=True)
        log.check_end_known(snapshot)
        if snapshot.blocked is not None:
            if leave_out is None:
                raise erasures.changed(self._table)
            leave_out(snapshot, staged)
        known = staged.schema_hash == snapshot.schema_hash and not snapshot.dropped_at
        if staged.empty and (not staged.schema_hash or known):
            return None
        with hold_locks(
            self._store, self._table, staged.schemas, self._writer_id, self._options
        ) as locks:
            try:
                staged.publish()
                snapshot = commit(
                    self._store,
                    snapshot,
                    self._draft(staged, metrics or {}, overlay, acknowledges or {}),
                    waiting=self._options.waiting,
                    check=locks.check,
                )
            except BaseException as error:
                clean_up(error, locks, lambda: self._withdraw(staged, snapshot, locks))
                raise
        self._snapshot = snapshot
        try:
            self._snapshot = snapshot = update_checkpoint(self._store, snapshot)
        finally:
            staged.discard()  # not before: with its last staged file a store's session ends
        if catalogue:
            update_lake(self._store, [snapshot])
        return snapshot

    def _read(self, *, to_add: bool = False) -> TableState:
        if self._snapshot is not None:
            return log.refresh(self._store, self._snapshot)
        snapshot = log.read_snapshot(self._store, self._table, to_add=to_add)
        # A first transaction on top of files whose log is lost would hide their rows.
        if snapshot is None and (lost := self._lost()):
            # The log once more, after the files: somebody may just have made the table.
            snapshot = log.read_snapshot(self._store, self._table)
            if snapshot is None:
                raise DamagedError(lost)
        return snapshot or TableState(self._table)

    def _lost(self) -> str:
        """What to say of a table without log and manifest; empty where it is a new one."""
        present = files.list_files(self._store, self._table)
        if present.free:
            return (
                f"{self._table} has files but neither log nor manifest: rebuild them first with: "
                f"singerlake rebuild {self._table}"
            )
        if present.locked and not catalogues.is_uncommitted(self._store, self._table, present):
            return (
                f"{self._table} is in the catalog of its tap, but has neither log nor manifest: "
                f"{files.left_aside(self._table, present, all_there_is=True)}"
            )
        for item in present.locked:
            logger.warning("ignored %s: there is a writer's lock next to it", item.key)
        return ""

    def _withdraw(self, staged: StagedTable, snapshot: TableState, locks: HeldLocks) -> None:
        staged.withdraw()
        left = files.data_files(self._store, self._table, include_locked=True)
        if not snapshot.number and next(left, None) is not None:
            # A writer that died before the first commit left them under the lock taken over
            # from it. Without a lock they would look like a table whose log was lost.
            locks.abandon()

    def _draft(
        self,
        staged: StagedTable,
        metrics: Mapping[str, int | float],
        overlay: Overlay | None,
        acknowledges: Mapping[str, Any],
    ) -> Draft:
        def draft(snapshot: TableState) -> Entry:
            if overlay is not None:
                conflicts.check_checked_by(snapshot, overlay)
            new = {h: s for h, s in staged.schemas.items() if h not in snapshot.schemas}
            return draft_entry(
                self._table,
                Operation.SYNC,
                writer=self._writer_id,
                schema_hash=staged.schema_hash,
                schemas=new,
                blocks=staged.numbered(snapshot.last_block),
                metadata={**self._options.metadata, **acknowledges},
                metrics=dict(metrics),
            )

        return draft


class HeldLocks:
    """The locks of some of a table's schemas, held by one writer."""

    def __init__(self, locks: list[WriterLock]) -> None:
        self._locks = locks

    def check(self) -> None:
        """Make sure, just before a commit, that all are still this writer's.

        Raises:
            ConflictError: One was lost.
        """
        for lock in self._locks:
            lock.check()

    def abandon(self) -> None:
        """Leave all to go stale; see :meth:`WriterLock.abandon`."""
        for lock in self._locks:
            lock.abandon()


@contextmanager
def hold_locks(
    store: Store,
    table: TableName,
    schema_hashes: Iterable[str],
    writer_id: str,
    options: WriteOptions,
    is_done: Callable[[str], bool] = nobody,
) -> Iterator[HeldLocks]:
    """Hold the locks of some of a table's schemas.

    Args:
        store: The lake's store.
        table: The table.
        schema_hashes: Of which schemas.
        writer_id: Who takes them.
        options: How long to wait for others.
        is_done: See :class:`WriterLock`.

    Raises:
        LockTimeoutError: Another writer did not give one up in time.
    """
    open_for_writing(store)
    with ExitStack() as stack:
        locks = []
        # In one order for all writers, so that no two wait for each other.
        for schema_hash in sorted(set(schema_hashes)):
            key = table.lock(schema_hash)
            lock = WriterLock.of(store, key, writer_id, options.waiting, is_done=is_done)
            # Registered first: a lock taken must be given up whatever comes in between, and
            # giving up leaves another writer's alone.
            stack.callback(lock.release)
            lock.acquire()
            locks.append(lock)
        yield HeldLocks(locks)


def clean_up(error: BaseException, locks: HeldLocks, withdraw: Callable[[], None]) -> None:
    """After a commit that failed: delete what was published, but only if that is certain.

    Where an interrupt struck is not known, and a file that nothing names is only a leftover,
    while a missing one is a loss. What is left lies beside a lock that goes stale, so that
    nobody takes it for a table whose log was lost.

    Args:
        error: What came.
        locks: Held by the writer.
        withdraw: Deletes the files.
    """
    certain = isinstance(error, SingerlakeError) and not isinstance(error, OutcomeUnknownError)
    try:
        if certain:
            withdraw()
    except SingerlakeError:
        certain = False
    if not certain:
        locks.abandon()


def update_checkpoint(store: Store, snapshot: TableState, *, always: bool = False) -> TableState:
    """Write the manifest after a commit if it is due, and the head file. Never raises for them.

    Args:
        store: The lake's store.
        snapshot: The table after the commit.
        always: Whether due or not.
    """
    with _only_derived():
        if always or checkpoint.checkpoint_due(snapshot):
            return checkpoint.write_checkpoint(store, snapshot)
        head_file.write(store, snapshot)  # a log so long has a large manifest
    return snapshot


def update_lake(
    store: Store, committed: Sequence[TableState], known_taps: Collection[str] = ()
) -> None:
    """Bring catalogues and the lake's file up to date after commits. Never raises for them.

    Args:
        store: The lake's store.
        committed: The tables after the commits.
        known_taps: Taps that the lake's file is known to name, so that it need not be read.
    """
    update_catalogues(store, committed)
    with _only_derived():
        for tap in {snapshot.table.tap for snapshot in committed}.difference(known_taps):
            lake_file.add_tap(store, tap)


def update_catalogues(store: Store, committed: Iterable[TableState]) -> None:
    """Bring catalogues up to date after commits to old tables. Never raises for them."""
    by_tap: dict[str, list[TableState]] = {}
    for snapshot in committed:
        by_tap.setdefault(snapshot.table.tap, []).append(snapshot)
    with _only_derived():
        for tap, snapshots in by_tap.items():
            entries = [
                catalogues.entry_of(one.table, one.schema, laid_over=not one.overlay.only_texts)
                for one in snapshots
            ]
            catalogues.update(store, tap, entries)


def remove_from_catalogue(store: Store, dropped: TableState) -> None:
    """Take a table that was dropped out of its tap's catalogue. Never raises for it."""
    with _only_derived():
        # Not one that somebody has brought back, or begun anew, a moment later.
        if log.refresh(store, dropped).dropped_at:
            catalogues.remove(store, dropped.table)


@contextmanager
def _only_derived() -> Iterator[None]:
    """Failing here loses nothing, and must not make a committed run look failed."""
    try:
        yield
    except SingerlakeError as error:
        logger.warning(
            "committed, but the files derived from the log are not up to date: %s", error
        )
