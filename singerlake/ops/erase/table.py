"""Erases rows of one table: find the lines, write files without them, prove it, commit, delete.

If it is killed before the commit, nothing has changed. After it, no reader sees the rows, and the
next erasure or vacuum of the table finds by looking what is left to delete: dropped files, indexes
from before, and leftovers that the log names before they go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.engine.work import Work
from singerlake.errors import ConflictError, OutcomeUnknownError, SingerlakeError
from singerlake.format.log import Block, Entry, decode_block
from singerlake.format.version_notes import ErasedVersion, Erasure
from singerlake.lake import Table
from singerlake.log import blocked, log
from singerlake.log.commit import current_user, preview
from singerlake.log.folding import restored
from singerlake.log.locks.lock import Waiting, WriterLock, new_writer_id
from singerlake.log.staging import FILE_BYTES
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_checkpoint
from singerlake.ops.erase import kept_keys, obstacles
from singerlake.ops.erase import plan as plans
from singerlake.ops.erase.by_ids import ByIds
from singerlake.ops.erase.collisions import Collisions
from singerlake.ops.erase.kept_keys import MOST_TOLD, KeptKeys, Put
from singerlake.ops.erase.lines import FoundRows
from singerlake.ops.erase.plan import Erased, EraseOptions, ErasePlan
from singerlake.ops.erase.proof import ErasureProof
from singerlake.ops.erase.sweep import sweep_erased
from singerlake.ops.erase.writing import WRITTEN, Eraser, encode, tasks_of
from singerlake.ops.resealing import reseal
from singerlake.ops.vacuum import plan as vacuum
from singerlake.ops.vacuum.combine import withdraw
from singerlake.ops.vacuum.plan import DELETE, VacuumOptions

if TYPE_CHECKING:
    from singerlake.ops.erase.by_condition import ByConditionHere
    from singerlake.ops.erase.erased_lines import ByCondition

WHAT = "erasing rows"
ATTEMPTS = 5
"""Times that an erasure is worked out again, because others committed what it goes by."""
MOST_IDS = 1_000
"""Rows whose ids are looked for elsewhere."""

Clear: TypeAlias = "Callable[[TableState, Sequence[str] | None], None]"
"""Raises if something else than the table's own data has the rows of some ids; None for ids that
are too many."""


@dataclass(frozen=True)
class EraseRequest:
    """A request to erase rows of a table: by their ids, or by a condition.

    Attributes:
        table: The table.
        ids: As ``_row_id`` shows them.
        where: A condition in SQL; a row is meant if it held for the row as it was at any time.
    """

    table: Table
    ids: tuple[str, ...] = ()
    where: str | None = None


def engine_for(
    choice: EngineChoice,
    request: EraseRequest,
    state: TableState,
    started: Engine[Any] | None = None,
) -> Engine[Any]:
    """Choose what erases rows of a table, and start it.

    Args:
        state: The table; one that was dropped, as it would come back.
        started: What was chosen before; Spark stays.

    Raises:
        UsageError: A condition is given, and only this process may be used.
    """
    sql = None
    if request.where is not None:
        from singerlake.sql.constraints import condition_of_spark  # late: few select rows by SQL

        sql = condition_of_spark(choice, state, request.where)
    work = Work.of(state.blocks, len(state.columns))
    return choice.engine_for(work, WHAT, sql=sql, started=started)


def erase(
    request: EraseRequest,
    options: EraseOptions,
    choice: EngineChoice | None = None,
    *,
    engine: Engine[Any] | None = None,
    clear: Clear = lambda *_: None,
) -> Erased:
    """Erase rows of a table from everything that is the table's own.

    If there are none, only what an interrupted erasure may have left is deleted.

    Args:
        choice: What may read and write the table's files.
        engine: What was chosen, if anything was.

    Raises:
        UsageError: It cannot be done as asked; nothing was changed.
        ConflictError: A vacuum is at work, or others commit faster than this can follow.
        DamagedError: A block cannot be read, or a version would not be what it should; nothing
            was changed.
        StoreError: The store refused. What was committed stays; run it again.
    """
    options.check()
    table, writer_id = request.table, new_writer_id()
    job = _Job(request, options, choice or EngineChoice(), engine, writer_id, None, clear)
    if engine is None:  # Java starts before the lock is asked for, and not for what is refused
        job.find_engine(job.head())
    if options.dry_run:
        return job.look()
    with vacuum.vacuum_lock(table.store, table.name, writer_id, _vacuuming(options)) as job.lock:
        return job.run()


def look_for(
    request: EraseRequest,
    options: EraseOptions,
    choice: EngineChoice,
    *,
    engine: Engine[Any] | None = None,
    clear: Clear,
) -> None:
    """Find rows, and look for them elsewhere, as :func:`erase` does before it writes anything.

    Raises:
        SingerlakeError: As :func:`erase` does.
    """
    _Job(request, options, choice, engine, new_writer_id(), None, clear).look_for()


def _vacuuming(options: EraseOptions) -> VacuumOptions:
    """Return the options that delete orphan files, whatever their age."""
    return VacuumOptions(
        retain_seconds=0,
        parts=(DELETE,),
        guard=False,
        lease_wait_seconds=options.lease_wait_seconds,
        lock_wait_seconds=options.lock_wait_seconds,
        stale_seconds=options.stale_seconds,
    )


@dataclass(frozen=True)
class _Found:
    """The lines that go, and what is made of them.

    Attributes:
        engine: What found them.
        state: The table that they are in: one that was dropped, as it would come back.
        rows: The rows and their lines.
        kept: What is to be kept of the keys.
    """

    engine: Engine[Any]
    state: TableState
    rows: FoundRows
    plan: ErasePlan
    kept: KeptKeys


@dataclass
class _Job:
    """One erasure."""

    request: EraseRequest
    options: EraseOptions
    choice: EngineChoice
    engine: Engine[Any] | None
    writer_id: str
    lock: WriterLock | None
    clear: Clear

    @property
    def table(self) -> Table:
        """The table."""
        return self.request.table

    def look(self) -> Erased:
        """Say what would be done."""
        found = self._find(self.head())
        self._check_versions(found)
        going = self._proof(found, found.state).going() if found.plan.lines else []
        return replace(_told(found.plan, going), blocked=found.kept.new)

    def look_for(self) -> None:
        """Only find the rows."""
        self._check_versions(self._find(self.head()))

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
        swept = sweep_erased(self.table, how, self.writer_id, self.lock)
        return replace(done, files_deleted=swept.files, bytes_deleted=swept.bytes, left=swept.left)

    def head(self) -> TableState:
        """Read the table, of which rows can be erased."""
        head = self.table.snapshot(dropped=True)
        plans.check_erasable(head, self.options)
        return head

    def find_engine(self, head: TableState) -> Engine[Any]:
        """Choose the engine; if the table has grown since it was chosen, perhaps another one."""
        self.engine = engine_for(self.choice, self.request, restored(head), self.engine)
        return self.engine

    def _erase(self) -> Erased:
        head = self.head()
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
            with found.engine.stages("committing"):
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

    def _find(self, head: TableState) -> _Found:
        engine, state = self.find_engine(head), restored(head)
        keeping = self.options.tell_seconds or self.options.block
        with engine.stages("searching for the rows", more=2):
            most_keys = MOST_TOLD + 1 if keeping else 0
            rows = self._finder(engine).find(state, most_keys, MOST_IDS)
        self.clear(state, rows.ids)
        telling = bool(self.options.tell_seconds and rows.count)
        kept = KeptKeys(kept_keys.key_lines(state, rows.keys, rows.count) if telling else b"")
        if self.options.block:
            kept = kept.with_blocked(self.table.store, state, rows.asked)
        start = len(self.table.name.folder)
        listed = self.table.store.list(self.table.name.folder)
        sizes = {item.key[start:]: item.size for item in listed}
        files = plans.plan_files(state, rows.lines.packed, sizes)
        plan = ErasePlan(head, rows.count, rows.lines.count, files)
        return _Found(engine, state, rows, plan, kept)

    def _finder(self, engine: Engine[Any]) -> ByIds | ByCondition | ByConditionHere:
        if self.request.where is None:
            return ByIds(engine, self.table, self.request.ids)
        if isinstance(engine, LocalEngine):
            from singerlake.ops.erase.by_condition import ByConditionHere

            return ByConditionHere(engine, self.table, self.request.where)
        from singerlake.engine.spark.engine import SparkEngine
        from singerlake.ops.erase.erased_lines import ByCondition

        if not isinstance(engine, SparkEngine):
            raise TypeError("conditions are asked of DuckDB or Spark")
        return ByCondition(engine.spark, self.table, self.request.where)

    def _check_versions(self, found: _Found) -> None:
        """Make sure that no version would show other rows without these.

        Raises:
            UsageError: One would; nothing was changed.
        """
        if found.plan.blocks and found.state.key:
            looked = Collisions(found.engine, self.table, found.state, found.rows.lines)
            obstacles.refuse([self.table.name], [*looked.obstacles()])

    def _write(self, found: _Found) -> list[Block]:
        engine, lines = found.engine, found.rows.lines
        tasks = [encode(task, lines) for task in tasks_of(found.plan.files)]
        writer = Eraser(self.table.store, self.table.name, FILE_BYTES)
        with engine.stages("writing files without them", more=1):
            # A description of each block comes back, never rows.
            described = engine.collect(engine.map(engine.source(tasks), writer, WRITTEN))
        return [decode_block(row["block"]) for row in described]

    def _entry(
        self, found: _Found, erasure: Erasure, written: list[Block]
    ) -> tuple[Entry, list[ErasedVersion]]:
        """The log entry, once it is proved what it makes of the table."""
        head = found.state
        entry = plans.draft_erase(head, erasure, written, [])
        if not found.plan.lines:
            return entry, []
        with found.engine.stages("proving that versions lose only these rows"):
            versions = self._proof(found, preview(head, entry)).versions()
        return plans.draft_erase(head, erasure, written, versions), versions

    def _proof(self, found: _Found, after: TableState) -> ErasureProof:
        return ErasureProof(found.engine, self.table, found.state, after, found.rows.lines)

    def _commit(self, found: _Found, erasure: Erasure, entry: Entry) -> TableState:
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

    def _check_none_came(self, found: _Found, present: TableState) -> None:
        """Make sure that what others committed since has none of the rows.

        Raises:
            ConflictError: It has, or may have.
        """
        planned = found.plan.snapshot
        if present.last_block == planned.last_block:
            return
        if (present.schema_hash, present.overlay) == (planned.schema_hash, planned.overlay):
            since = present.blocks_after(planned.number)
            if not self._finder(found.engine).any_in(present, since):
                return
        raise ConflictError(
            f"other processes write these rows to {self.table.name} while they are erased: nothing "
            "was changed; remove them from the source first, and run it again"
        )

    def _check_lock(self) -> None:
        if self.lock is not None:
            self.lock.check()


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
