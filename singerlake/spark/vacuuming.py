"""The vacuum job: drop history, combine files, delete what nothing needs. Each part alone, too.

Spark starts only if there is something for it to do: history that is dropped, or more to copy than
this process does sooner. Nothing of it is imported before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from singerlake.erasure.resealing import reseal
from singerlake.errors import OutcomeUnknownError, SingerlakeError
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.maintenance import combine, vacuum
from singerlake.maintenance.combine import Group
from singerlake.maintenance.drop_history import DropHistoryPlan, commit_drop_history
from singerlake.maintenance.vacuum import Vacuumed, VacuumOptions, VacuumPlan
from singerlake.storage.base import Store
from singerlake.transactions.locks.lock import Waiting, WriterLock, new_writer_id
from singerlake.transactions.log import refresh
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import update_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Start = Callable[[], "SparkSession"]
Here = Callable[[list[Group]], bool]
Check = Callable[[VacuumPlan], None]
Expire = Callable[["SparkSession", Table, Snapshot, DropHistoryPlan], Any]


def vacuum_table(
    start: Start,
    table: Table,
    options: VacuumOptions,
    *,
    plan: VacuumPlan | None = None,
    here: Here = combine.is_little,
    check: Check = lambda _: None,
    expire: Expire | None = None,
) -> Vacuumed:
    """Vacuum one table.

    Args:
        start: Gives the Spark session; called only if it is needed.
        table: The table.
        options: What to do, and how carefully.
        plan: Made just now by the same options; where the table has changed since, another
            is made.
        here: Tells whether this process copies groups of blocks.
        check: Refuses a plan, before anything is announced.
        expire: Writes the rows that stay where history is dropped.

    Raises:
        UsageError: The table has lost its log, or an option makes no sense.
        ConflictError: Another vacuum is at work on it.
        DamagedError: A block that is needed cannot be read.
        StoreError: The store refused. What was committed stays; the next run goes on.
    """
    plan = plan or vacuum.plan_vacuum(table.store, table.snapshot(dropped=True), options)
    if plan.needs_no_run:
        return Vacuumed(table.name, kept=plan.garbage.kept)
    writer_id = new_writer_id()
    with vacuum.vacuum_lock(table.store, table.name, writer_id, options) as lock:
        # Another vacuum may have been here while this one waited. It would have said so in the
        # log before it changed anything; what else may happen since the plan (a writer, a
        # reader, an index) may as well happen after it, and is looked at where it matters.
        present = refresh(table.store, plan.snapshot)
        if present.number != plan.snapshot.number:
            plan = vacuum.plan_vacuum(table.store, present, options)
        if plan.empty:
            _finish_erasures(present, table, options, lock)
            return Vacuumed(table.name, kept=plan.garbage.kept)
        check(plan)
        return _Job(start, table, options, writer_id, lock, here, expire).run(plan)


def _finish_erasures(
    snapshot: Snapshot, table: Table, options: VacuumOptions, lock: WriterLock
) -> None:
    """Take out of the log what still tells of erased rows: a run that died may have left some."""
    if snapshot.erased_at:
        waiting = Waiting(options.lock_wait_seconds, options.stale_seconds)
        reseal(table.store, snapshot, waiting=waiting, check=lock.check)


def sweep(
    start: Start,
    table: Table,
    options: VacuumOptions,
    writer_id: str,
    lock: WriterLock,
    plan: VacuumPlan,
) -> Vacuumed:
    """Carry out a plan for somebody who holds the vacuum's lock already.

    Args:
        start: Gives the Spark session; called only if it is needed.
        table: The table.
        options: By which it was planned.
        writer_id: Who holds the lock.
        lock: The lock.
        plan: What to do.

    Raises:
        SingerlakeError: As :func:`vacuum_table` does.
    """
    return _Job(start, table, options, writer_id, lock).run(plan)


@dataclass
class _Job:
    """One vacuum of one table, from the announcement to the last word."""

    start: Start
    table: Table
    options: VacuumOptions
    writer_id: str
    lock: WriterLock
    here: Here = combine.is_little
    expire: Expire | None = None

    def run(self, plan: VacuumPlan) -> Vacuumed:
        store = self.table.store
        snapshot, garbage = vacuum.announce(store, plan, self.options, self.writer_id)
        _finish_erasures(snapshot, self.table, self.options, self.lock)
        done = Vacuumed(self.table.name)
        if plan.drop_history is not None:
            snapshot, done = self._drop_history(snapshot, plan.drop_history, done)
        groups = plan.combine
        if plan.drop_history is not None and vacuum.COMBINE in self.options.parts:
            listed = store.list(self.table.name.folder) if self.options.full else None
            groups = combine.plan_listed(snapshot, self.options.target_file_bytes, listed)
        if groups:
            snapshot, done = self._combine(snapshot, groups, done)
        if vacuum.DELETE in self.options.parts:
            # With no retention, what was dropped just now goes at once.
            garbage = vacuum.with_newly_dropped(store, snapshot, garbage, self.options)
        deleted, kept = vacuum.delete_garbage(
            store, snapshot, garbage, self.options, check=self.lock.check
        )
        done = replace(
            done,
            files_deleted=len(deleted),
            bytes_deleted=sum(item.bytes for item in deleted),
            kept=[*garbage.kept, *kept],
        )
        metrics: dict[str, int | float] = {
            name: getattr(done, name)
            for name in (
                "files_in",
                "files_out",
                "bytes_copied",
                "rows_dropped",
                "bytes_dropped",
                "files_deleted",
                "bytes_deleted",
                "bytes_written",
            )
        }
        snapshot = vacuum.finish(
            store, snapshot, deleted, garbage.vanished, writer_id=self.writer_id, metrics=metrics
        )
        # Readers begin their leases by it: the next vacuum need not wait for what this one did.
        update_checkpoint(store, snapshot, always=True)
        return replace(done, transaction=snapshot.number)

    def _drop_history(
        self, snapshot: Snapshot, plan: DropHistoryPlan, done: Vacuumed
    ) -> tuple[Snapshot, Vacuumed]:
        from singerlake.spark.jvm.failures import plain_errors

        assert self.expire is not None, "a sweep drops no history"  # noqa: S101
        with plain_errors():
            dropped = self.expire(self.start(), self.table, snapshot, plan)
        try:
            self.lock.check()
            after = commit_drop_history(
                self.table.store, snapshot, plan, dropped.entry, writer_id=self.writer_id
            )
        except BaseException as error:
            self._withdraw(error, dropped.files)
            raise
        metrics = dropped.entry.metrics
        return after, replace(
            done,
            rows_dropped=int(metrics["rows_dropped"]),
            bytes_dropped=int(metrics["bytes_dropped"]),
            bytes_written=sum(block.length for block in dropped.entry.moved),
        )

    def _combine(
        self, snapshot: Snapshot, groups: list[Group], done: Vacuumed
    ) -> tuple[Snapshot, Vacuumed]:
        write = GroupWriter(self.table.store, self.table.name)
        if self.here(groups):
            paths = write.here(groups)
        else:
            from singerlake.spark.jvm.failures import plain_errors

            with plain_errors():
                context = self.start().sparkContext
                # Not a frame: the first one of a session costs 2 s more than the first RDD, for
                # all of Spark's SQL that it loads. And each task is sent its own group alone.
                paths = context.parallelize(groups, len(groups)).map(write).collect()
        try:
            self.lock.check()
            after = combine.commit_combine(
                self.table.store,
                snapshot,
                [*zip(groups, paths, strict=True)],
                writer_id=self.writer_id,
            )
        except BaseException as error:
            self._withdraw(error, paths)
            raise
        return after, replace(
            done,
            files_in=sum(group.files for group in groups),
            files_out=len(groups),
            bytes_copied=sum(group.bytes for group in groups),
            bytes_written=done.bytes_written + sum(group.bytes for group in groups),
        )

    def _withdraw(self, error: BaseException, files: list[str]) -> None:
        """Delete new files, but only if it is certain that no log entry names them."""
        if isinstance(error, SingerlakeError) and not isinstance(error, OutcomeUnknownError):
            combine.withdraw(self.table.store, self.table.name, files)


@dataclass
class GroupWriter:
    """Copies a group of blocks into a new file. Sent to executors by value.

    Attributes:
        store: The lake's store.
        table: Whose blocks.
    """

    store: Store
    table: TableName

    def __call__(self, group: Group) -> str:
        """Write a group; the new file is durable when its path comes out."""
        return combine.write_group(self.store, self.table, group)

    def here(self, groups: Sequence[Group]) -> list[str]:
        """Write groups in this process: the system copies bytes without Python's lock."""
        with ThreadPoolExecutor(os.cpu_count(), "combine") as pool:
            return [*pool.map(self, groups)]
