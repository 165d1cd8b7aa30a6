"""The erase job: find the lines, write their files again without them, prove it, commit, delete.

Killed before the commit, nothing has changed; after it, no reader sees the rows, and what is left
to delete the next erasure or vacuum of the table finds by looking: dropped files, indexes from
before, and leftovers that the log names before they go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.erasure import obstacles
from singerlake.erasure.resealing import reseal
from singerlake.errors import ConflictError, OutcomeUnknownError, SingerlakeError
from singerlake.format.log import Block, Entry, decode_block
from singerlake.format.version_notes import ErasedVersion, Erasure
from singerlake.lake import Table
from singerlake.maintenance import erase as plans
from singerlake.maintenance import vacuum
from singerlake.maintenance.combine import withdraw
from singerlake.maintenance.erase import Erased, EraseOptions, ErasePlan
from singerlake.maintenance.vacuum import DELETE, VacuumOptions
from singerlake.records.blocks import positions
from singerlake.records.changes import row_ids
from singerlake.records.rows.row_columns import aliases
from singerlake.records.state.shape import shape_of
from singerlake.spark.jobs.maintenance import kept_keys
from singerlake.spark.jobs.maintenance.erase_collisions import Collisions
from singerlake.spark.jobs.maintenance.erase_proof import ErasureProof
from singerlake.spark.jobs.maintenance.erase_sweep import sweep_erased
from singerlake.spark.jobs.maintenance.erased_lines import AskedRows, Lines
from singerlake.spark.jobs.maintenance.kept_keys import KeptKeys, Put
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.progress import stages
from singerlake.spark.state import fold
from singerlake.spark.write import routing
from singerlake.spark.write.erasing import Eraser, encode, tasks_of
from singerlake.spark.write.rewriting import WRITTEN
from singerlake.transactions import blocked, log
from singerlake.transactions.commit import current_user, preview
from singerlake.transactions.folding import restored
from singerlake.transactions.locks.lock import Waiting, WriterLock, new_writer_id
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.staging import FILE_BYTES
from singerlake.transactions.writer import update_checkpoint

ATTEMPTS = 5
"""Times that an erasure is worked out anew, because others committed what it goes by."""
MOST_IDS = 1_000
"""Rows whose ids are looked for elsewhere."""

Start = Callable[[], SparkSession]
Clear = Callable[[Snapshot, "Sequence[str] | None"], None]
"""Raises where something else than the table's own data has the rows of some ids; None where these
are too many."""


def erase(
    start: Start, table: Table, asked: AskedRows, options: EraseOptions, *, clear: Clear
) -> Erased:
    """Erase rows of a table from everything that is the table's own.

    Where there are none, only what an erasure that died may have left is deleted.

    Args:
        start: Gives the Spark session.
        table: The table.
        asked: Which rows.
        options: How, and why.
        clear: Looks for the rows elsewhere.

    Raises:
        UsageError: It cannot be done as asked; nothing was changed.
        ConflictError: A vacuum is at work, or others commit faster than this can follow.
        DamagedError: A block cannot be read, or a version would not be what it should; nothing
            was changed.
        StoreError: The store refused. What was committed stays; run it again.
    """
    options.check()
    writer_id = new_writer_id()
    if options.dry_run:
        return _Job(start, table, asked, options, writer_id, None, clear).look()
    with vacuum.vacuum_lock(table.store, table.name, writer_id, _vacuuming(options)) as lock:
        return _Job(start, table, asked, options, writer_id, lock, clear).run()


def look_for(
    start: Start, table: Table, asked: AskedRows, options: EraseOptions, clear: Clear
) -> None:
    """Find rows, and look for them elsewhere, as :func:`erase` does before it writes anything.

    Raises:
        SingerlakeError: As :func:`erase` does.
    """
    _Job(start, table, asked, options, new_writer_id(), None, clear).look_for()


def _vacuuming(options: EraseOptions) -> VacuumOptions:
    """How what is left over is deleted: whatever its age."""
    return VacuumOptions(
        retain_seconds=0,
        parts=(DELETE,),
        guard=False,
        lease_wait_seconds=options.lease_wait_seconds,
        lock_wait_seconds=options.lock_wait_seconds,
        stale_seconds=options.stale_seconds,
    )


@dataclass
class _Found:
    """The lines that go, kept on the executors' disks, and what is made of them.

    ``state`` is the table that they are looked for in: one that was dropped, as it would come back.
    """

    state: Snapshot
    gone: DataFrame
    plan: ErasePlan
    lines: Lines
    keys: DataFrame | None
    kept: KeptKeys


@dataclass
class _Job:
    """One erasure."""

    start: Start
    table: Table
    asked: AskedRows
    options: EraseOptions
    writer_id: str
    lock: WriterLock | None
    clear: Clear
    _kept: list[DataFrame] = field(default_factory=list)

    def look(self) -> Erased:
        """Say what would be done."""
        try:
            found = self._find(self._head())
            self._check_versions(found)
            plan = found.plan
            going = []
            if plan.lines:
                going = self._proof(found, found.state).going()
            return replace(_told(plan, going), blocked=found.kept.new)
        finally:
            self._release()

    def look_for(self) -> None:
        """Only find the rows."""
        try:
            self._check_versions(self._find(self._head()))
        finally:
            self._release()

    def run(self) -> Erased:
        """Erase, and delete what had the rows."""
        done = Erased()
        for attempt in range(ATTEMPTS):
            try:
                done = self._erase()
                break
            except ConflictError:
                self._check_lock()
                if attempt == ATTEMPTS - 1:
                    raise
            finally:
                self._release()
        head = self.table.snapshot(dropped=True)
        if not head.erased_at:
            return done
        # Also where nothing was left to erase: a run that died may not have come so far.
        waiting = Waiting(self.options.lock_wait_seconds, self.options.stale_seconds)
        reseal(self.table.store, head, waiting=waiting, check=self._check_lock)
        younger = plans.seconds_since(head) if done.transaction is None else 0.0
        if self.lock is None:
            return done
        how = replace(_vacuuming(self.options), retain_seconds=younger)
        swept = sweep_erased(self.start, self.table, how, self.writer_id, self.lock)
        return replace(done, files_deleted=swept.files, bytes_deleted=swept.bytes, left=swept.left)

    def _erase(self) -> Erased:
        head = self._head()
        log.check_whole(self.table.store, head)
        found = self._find(head)
        plan = found.plan
        if not plan.files:
            return self._only_blocked(found)
        self._check_versions(found)
        erasure = Erasure(self.options.reason, current_user(), plan.keys, plan.lines)
        written, put = self._write(found), Put()
        try:
            put = found.kept.put(self.table.store, found.state, self.options.tell_seconds)
            said = structs.replace(erasure, notice=put.notice)
            entry, versions = self._entry(found, said, written)
            entry = structs.replace(entry, blocked=put.blocked)
            with stages(self.start(), "committing"):
                after = self._commit(found, erasure, entry)
        except BaseException as error:
            if isinstance(error, SingerlakeError) and not isinstance(error, OutcomeUnknownError):
                withdraw(self.table.store, self.table.name, _paths(written))
                put.withdraw(self.table.store, self.table.name)
            raise
        update_checkpoint(self.table.store, after, always=True)
        until = put.notice.until if put.notice is not None else ""
        done = _told(plan, versions, after.number)
        return replace(done, told_until=until, blocked=found.kept.new)

    def _only_blocked(self, found: _Found) -> Erased:
        """Block keys that no row has; a run that died may have left nothing else to do."""
        store, head = self.table.store, found.plan.snapshot
        put = found.kept.put(store, found.state, 0)
        if put.blocked is None:
            return Erased()
        try:
            self._check_lock()
            after = blocked.commit_blocked(store, head, put.blocked, self.writer_id)
        except SingerlakeError as error:
            if not isinstance(error, OutcomeUnknownError):
                put.withdraw(store, self.table.name)
            raise
        update_checkpoint(store, after, always=True)
        return Erased(blocked=found.kept.new)

    def _head(self) -> Snapshot:
        head = self.table.snapshot(dropped=True)
        plans.check_erasable(head, self.options)
        return head

    def _find(self, head: Snapshot) -> _Found:
        spark, state = self.start(), restored(head)
        lines = Lines(spark, self.table, state, self.asked)
        keys: DataFrame | None = None
        with plain_errors(), stages(spark, "looking for the rows", more=2):
            if lines.keyed:
                keys = self._keep(lines.keys(state.blocks))
                gone = self._keep(lines.of_keys(state.blocks, keys))
                names = aliases(shape_of(state).key_columns)
                place = F.struct("block", "row")
                lone = F.when(fold.lacks(names), place)
                count = gone.select(*names, lone).distinct().count()
            else:
                gone = self._keep(lines.single(state.blocks))
                count = gone.count()
            numbers: set[int] = set()
            total = 0
            for row in gone.groupBy("block").count().collect():  # one row a block
                numbers.add(positions.block_holding(state.blocks, row["block"]).number)
                total += row["count"]
            self.clear(state, self._ids(state, gone, count))
            telling = bool(self.options.tell_seconds and count)
            kept = KeptKeys(kept_keys.key_lines(state, gone, count) if telling else b"")
            if self.options.block and keys is not None:
                kept = kept.with_blocked(self.table.store, state, keys)
        start = len(self.table.name.folder)
        listed = self.table.store.list(self.table.name.folder)
        sizes = {item.key[start:]: item.size for item in listed}
        files = plans.plan_files(state, numbers, sizes)
        plan = ErasePlan(head, count, total, files)
        return _Found(state, gone.select("block", "row"), plan, lines, keys, kept)

    def _check_versions(self, found: _Found) -> None:
        """Make sure that no version would show other rows without these.

        Raises:
            UsageError: One would; nothing was changed.
        """
        if found.plan.blocks and found.state.key:
            first = min(block.number for block in found.plan.blocks)
            looked = Collisions(self.start(), self.table, found.state, found.gone, first)
            obstacles.refuse([self.table.name], [*looked.obstacles()])

    def _ids(self, head: Snapshot, gone: DataFrame, count: int) -> list[str] | None:
        """The ids of the rows that go, to look for them elsewhere."""
        if count > MOST_IDS:
            return None
        columns = shape_of(head).key_columns
        names = aliases(columns) or ["block", "row"]
        rows = gone.select(*names).dropna("any").distinct().toArrow().to_pylist()
        return sorted(row_ids.id_text([*row.values()], columns) for row in rows)

    def _write(self, found: _Found) -> list[Block]:
        spark = self.start()
        tasks = [
            routing.Task(sorted((r.block for r in task), key=lambda b: b.number), encode(task))
            for task in tasks_of(found.plan.files)
        ]
        with plain_errors(), stages(spark, "writing files without them", more=1):
            routed = routing.route(spark, found.gone, tasks)
            writer = Eraser(self.table.store, self.table.name, FILE_BYTES)
            # A description a block comes back to the driver, never rows.
            described = routed.mapInArrow(writer, WRITTEN).collect()
        return [decode_block(row["block"]) for row in described]

    def _entry(
        self, found: _Found, erasure: Erasure, written: list[Block]
    ) -> tuple[Entry, list[ErasedVersion]]:
        """The log entry, once it is proved what it makes of the table."""
        head = found.state
        entry = plans.draft_erase(head, erasure, written, [])
        if not found.plan.lines:
            return entry, []
        with stages(self.start(), "proving what versions will be"):
            versions = self._proof(found, preview(head, entry)).versions()
        return plans.draft_erase(head, erasure, written, versions), versions

    def _proof(self, found: _Found, after: Snapshot) -> ErasureProof:
        plan = found.plan
        return ErasureProof(self.start(), self.table, found.state, after, found.gone, plan.blocks)

    def _commit(self, found: _Found, erasure: Erasure, entry: Entry) -> Snapshot:
        store, plan = self.table.store, found.plan
        announced = plans.announce(
            store, plan, erasure, writer_id=self.writer_id, check=self._check_lock
        )
        return plans.commit_erase(
            store,
            plan.snapshot,
            announced,
            entry,
            writer_id=self.writer_id,
            check=self._check_lock,
            still_none=lambda present: self._check_none_came(found, present),
        )

    def _check_none_came(self, found: _Found, present: Snapshot) -> None:
        """Make sure that what others committed since has none of the rows.

        Raises:
            ConflictError: It has, or may have.
        """
        planned = found.plan.snapshot
        if present.last_block == planned.last_block:
            return
        if (present.schema_hash, present.overlay) == (planned.schema_hash, planned.overlay):
            since = present.blocks_after(planned.number)
            lines = Lines(self.start(), self.table, present, self.asked)
            with plain_errors():
                if found.keys is None:
                    came = lines.single(since)
                else:  # a condition may not hold for the new line of a row that is to go
                    came = lines.of_keys(since, lines.keys(since).unionAll(found.keys))
                if came.isEmpty():
                    return
        raise ConflictError(
            f"others write these rows to {self.table.name} while they are erased: nothing was "
            "changed; take them out of the source first, and run it again"
        )

    def _check_lock(self) -> None:
        if self.lock is not None:
            self.lock.check()

    def _keep(self, frame: DataFrame) -> DataFrame:
        """Have a frame computed once, and then kept on the executors' disks."""
        frame.persist(StorageLevel.DISK_ONLY)
        self._kept.append(frame)
        return frame

    def _release(self) -> None:
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()


def _told(plan: ErasePlan, versions: list[ErasedVersion], transaction: int | None = None) -> Erased:
    return Erased(
        transaction=transaction,
        keys=plan.keys,
        lines=plan.lines,
        blocks=len(plan.blocks),
        files=len(plan.files),
        versions=versions,
    )


def _paths(blocks: list[Block]) -> list[str]:
    return sorted({block.file for block in blocks})
