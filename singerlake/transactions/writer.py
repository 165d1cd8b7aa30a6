"""Adding rows to a table: publish the files, commit the entry, bring the rest up to date."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

from singerlake import FORMAT
from singerlake.errors import DamagedError, OutcomeUnknownError, SingerlakeError
from singerlake.format.log import Entry
from singerlake.format.names import TableName
from singerlake.storage.base import Store
from singerlake.transactions import derived, files, log
from singerlake.transactions.commit import SOFTWARE, commit, new_writer_id
from singerlake.transactions.lock import WriterLock
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.staging import StagedTable

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WriteOptions:
    """How a writer behaves.

    Attributes:
        lock_wait_seconds: How long to wait for another writer of the same schema.
        lock_stale_seconds: How long a lock must stand still to be taken over.
        metadata: What the user says of the run; kept in the log entry.
        interruptible: Entered while waiting for a lock, where a signal may end the run at
            once because nothing has been published.
    """

    lock_wait_seconds: float = 300.0
    lock_stale_seconds: float = 60.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext


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
        self._snapshot: Snapshot | None = None

    def commit(
        self,
        staged: StagedTable,
        operation: str = "sync",
        metrics: Mapping[str, int | float] | None = None,
    ) -> Snapshot | None:
        """Commit what was staged as one transaction.

        A stream whose schema is new is committed even without rows, so that an empty
        source still makes a table; one that brings nothing new is not.

        Returns:
            The table after the commit; None where there was nothing to commit.

        Raises:
            LockTimeoutError: Another writer of the schema did not finish in time.
            ConflictError: The lock was lost before the commit.
            DamagedError: The table's log is lost or cannot be read.
            StoreError: The store refused. What is not certain to be in the log was deleted
                again, except after an ``OutcomeUnknownError``.
        """
        snapshot = self._read()
        if staged.empty and (not staged.schema_hash or staged.schema_hash == snapshot.schema_hash):
            return None
        with ExitStack() as stack:
            # In one order for all writers, so that no two wait for each other.
            locks = [self._lock(stack, schema) for schema in sorted(staged.schemas)]
            try:
                staged.publish()
                for lock in locks:
                    lock.check()
                snapshot = commit(
                    self._store, snapshot, self._entry_builder(staged, operation, metrics or {})
                )
            except OutcomeUnknownError:
                raise
            except SingerlakeError:
                # An interrupt is not caught: where it struck is not known, and a file that
                # nothing names is only a leftover, while a missing one is a loss.
                staged.withdraw()
                raise
        self._snapshot = snapshot
        staged.discard()
        self._bring_up_to_date(snapshot)
        return snapshot

    def _read(self) -> Snapshot:
        if self._snapshot is not None:
            return log.refresh(self._store, self._snapshot)
        snapshot = log.read_snapshot(self._store, self._table)
        if snapshot is None:
            # A first transaction on top of files whose log is lost would hide their rows.
            if next(files.data_files(self._store, self._table), None) is not None:
                raise DamagedError(
                    f"{self._table} has files but neither log nor manifest: make them again "
                    f"first, with: singerlake rebuild {self._table}"
                )
            snapshot = Snapshot(self._table)
        return snapshot

    def _lock(self, stack: ExitStack, schema_hash: str) -> WriterLock:
        lock = WriterLock(
            self._store,
            self._table.lock(schema_hash),
            self._writer_id,
            wait_seconds=self._options.lock_wait_seconds,
            stale_seconds=self._options.lock_stale_seconds,
        )
        with self._options.interruptible():
            lock.acquire()
            stack.callback(lock.release)
        return lock

    def _entry_builder(
        self, staged: StagedTable, operation: str, metrics: Mapping[str, int | float]
    ) -> Callable[[Snapshot, int, str, str], Entry]:
        def build(snapshot: Snapshot, number: int, commit_id: str, time: str) -> Entry:
            new = {h: s for h, s in staged.schemas.items() if h not in snapshot.schemas}
            return Entry(
                format=FORMAT,
                number=number,
                commit=commit_id,
                operation=operation,
                stream=self._table.stream,
                time=time,
                writer=self._writer_id,
                software=SOFTWARE,
                schema_hash=staged.schema_hash,
                schemas=new,
                blocks=staged.numbered(snapshot.last_block),
                metadata=dict(self._options.metadata),
                metrics=dict(metrics),
            )

        return build

    def _bring_up_to_date(self, snapshot: Snapshot) -> None:
        """Failing here loses nothing, and must not make a committed run look failed."""
        try:
            if derived.checkpoint_due(snapshot):
                derived.write_checkpoint(self._store, snapshot)
            derived.update_catalogue(self._store, self._table, snapshot.schema)
            derived.update_lake_file(self._store, self._table.tap)
        except SingerlakeError as error:
            logger.warning("committed, but what is derived from the log is behind: %s", error)
