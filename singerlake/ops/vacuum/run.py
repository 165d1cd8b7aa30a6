"""One run of a vacuum, from the announcement to the last word.

It reads and copies rows, and so needs Arrow; a vacuum that finds nothing to do does not start it.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.errors import OutcomeUnknownError, SingerlakeError
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.log.locks.lock import Waiting, WriterLock, new_writer_id
from singerlake.log.log import refresh
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_checkpoint
from singerlake.ops.resealing import reseal
from singerlake.ops.vacuum import combine, expire
from singerlake.ops.vacuum import plan as plans
from singerlake.ops.vacuum.combine import Group
from singerlake.ops.vacuum.drop_history import DropHistoryPlan
from singerlake.ops.vacuum.plan import Vacuumed, VacuumOptions, VacuumPlan
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks
from singerlake.storage.base import Store

WHAT = "this vacuum"
_PATH = "number long, path string"
_GROUP = msgspec.msgpack.Decoder(Group)


def run(table: Table, options: VacuumOptions, choice: EngineChoice, wanted: VacuumPlan) -> Vacuumed:
    """Do what a plan has found, or what is left of it now.

    Args:
        table: The table.
        options: What to do, and how carefully.
        choice: What may copy its files, and read its rows.
        wanted: The plan; if the table has changed since, another is made.

    Raises:
        SingerlakeError: As :func:`singerlake.ops.vacuum.vacuum.vacuum` does.
    """
    # Java starts before the lock is asked for, and before anything is announced.
    engine = _engine_for(choice, wanted)
    writer_id = new_writer_id()
    with plans.vacuum_lock(table.store, table.name, writer_id, options) as lock:
        # Another vacuum may have been here while this one waited. It would have said so in the
        # log before it changed anything; what else may happen since the plan (a writer, a
        # reader, an index) may as well happen after it, and is looked at where it matters.
        present = refresh(table.store, wanted.snapshot)
        if present.number != wanted.snapshot.number:
            wanted = plans.plan_vacuum(table.store, present, options)
        if wanted.empty:
            _finish_erasures(present, table, options, lock)
            return Vacuumed(table.name, kept=wanted.garbage.kept)
        # Another time: the table may have grown since it was looked at.
        engine = _engine_for(choice, wanted, engine)
        return _Job(table, options, writer_id, lock, engine).run(wanted)


def sweep(
    table: Table, options: VacuumOptions, writer_id: str, lock: WriterLock, wanted: VacuumPlan
) -> Vacuumed:
    """Delete by a plan, for somebody who holds the vacuum's lock already.

    Args:
        table: The table.
        options: By which it was planned; they ask for deletion alone.

    Raises:
        SingerlakeError: As :func:`run` does.
    """
    return _Job(table, options, writer_id, lock, LocalEngine()).run(wanted)


def _engine_for(
    choice: EngineChoice, wanted: VacuumPlan, started: Engine[Any] | None = None
) -> Engine[Any]:
    """Choose what expires history and copies files; deleting needs no Spark, whatever is asked."""
    work = combine.work_of(wanted.combine)
    if wanted.drop_history is not None:
        work += expire.work_of(wanted.snapshot, wanted.drop_history)
    elif not wanted.combine:
        return started or LocalEngine()
    return choice.engine_for(work, WHAT, started=started)


def _finish_erasures(
    snapshot: TableState, table: Table, options: VacuumOptions, lock: WriterLock
) -> None:
    """Take out of the log what still tells of erased rows: a run that died may have left some."""
    if snapshot.erased_at:
        waiting = Waiting(options.lock_wait_seconds, options.stale_seconds)
        reseal(table.store, snapshot, waiting=waiting, check=lock.check)


@dataclass
class _Job:
    """One vacuum of one table, from the announcement to the last word."""

    table: Table
    options: VacuumOptions
    writer_id: str
    lock: WriterLock
    engine: Engine[Any]

    def run(self, wanted: VacuumPlan) -> Vacuumed:
        store = self.table.store
        snapshot, garbage = plans.announce(store, wanted, self.options, self.writer_id)
        _finish_erasures(snapshot, self.table, self.options, self.lock)
        done = Vacuumed(self.table.name)
        if wanted.drop_history is not None:
            snapshot, done = self._expire(snapshot, wanted.drop_history, done)
        groups = wanted.combine
        if wanted.drop_history is not None and plans.COMBINE in self.options.parts:
            listed = store.list(self.table.name.folder) if self.options.full else None
            groups = combine.plan_listed(snapshot, self.options.target_file_bytes, listed)
        if groups:
            snapshot, done = self._combine(snapshot, groups, done)
        if plans.DELETE in self.options.parts:
            # With no retention, what was dropped just now goes at once.
            garbage = plans.with_newly_dropped(store, snapshot, garbage, self.options)
        deleted, kept = plans.delete_garbage(
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
        snapshot = plans.finish(
            store, snapshot, deleted, garbage.vanished, writer_id=self.writer_id, metrics=metrics
        )
        # Readers begin their leases by it: the next vacuum need not wait for what this one did.
        update_checkpoint(store, snapshot, always=True)
        return replace(done, transaction=snapshot.number)

    def _expire(
        self, snapshot: TableState, history: DropHistoryPlan, done: Vacuumed
    ) -> tuple[TableState, Vacuumed]:
        expired = expire.expire(
            self.engine,
            self.table,
            snapshot,
            history,
            writer_id=self.writer_id,
            check=self.lock.check,
        )
        return expired.snapshot, replace(
            done,
            rows_dropped=expired.rows,
            bytes_dropped=expired.bytes,
            bytes_written=expired.bytes_written,
        )

    def _combine(
        self, snapshot: TableState, groups: list[Group], done: Vacuumed
    ) -> tuple[TableState, Vacuumed]:
        paths = self._copied(groups)
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

    def _copied(self, groups: list[Group]) -> list[str]:
        """Copy each group into a new file; these are durable when their paths are returned."""
        store, table, engine = self.table.store, self.table.name, self.engine
        if isinstance(engine, LocalEngine):
            # Side by side: the system copies bytes without Python's lock.
            with ThreadPoolExecutor(os.cpu_count(), "combine") as pool:
                return [*pool.map(partial(combine.write_group, store, table), groups)]
        tasks = engine.source([msgspec.msgpack.encode(group) for group in groups])
        copied = engine.collect(engine.map(tasks, _Copy(store, table), _PATH))
        paths = {row["number"]: row["path"] for row in copied}
        return [paths[number] for number in range(len(groups))]


@dataclass
class _Copy:
    """Copies the groups that come in into new files."""

    store: Store
    table: TableName

    def __call__(self, batches: Batches) -> Batches:
        """Give the path of each group's file."""
        for number, group in block_tasks.given(batches):
            path = combine.write_group(self.store, self.table, _GROUP.decode(group or b""))
            yield pa.RecordBatch.from_pydict({"number": [number], "path": [path]})
