"""The change job: rows inserted, changed and deleted, as one transaction.

What is asked is held against the table's state, and the difference alone is written. Others may
commit meanwhile: as long as they changed other rows, the change is committed on top of theirs; if
not, it is worked out anew on theirs, and refused where somebody relied on what a row was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import ConflictError
from singerlake.format.log import FrozenVersion
from singerlake.lake import Table
from singerlake.lineage import told
from singerlake.maintenance import blocking
from singerlake.maintenance import change as plans
from singerlake.maintenance.change import ChangeOptions, ChangePlan, Mode
from singerlake.records.rows import problems
from singerlake.records.rows.packing import Unpacked
from singerlake.records.rows.problems import Problems, Stages
from singerlake.records.rows.row_columns import BLOCK, MISFITS
from singerlake.records.state.blocked_keys import BlockedRows
from singerlake.records.state.shape import Shape, shape_of
from singerlake.spark.jobs.changes import delta
from singerlake.spark.jobs.changes.change_output import ChangeOutput
from singerlake.spark.jobs.changes.change_version import Freezing
from singerlake.spark.jobs.changes.delta import DELETED, INSERTED, UNCHANGED, UPDATED, Delta
from singerlake.spark.jobs.changes.present_rows import PresentRows
from singerlake.spark.jobs.changes.state_after import check_outcome
from singerlake.spark.jobs.row_sets import asked_rows
from singerlake.spark.jobs.row_sets.asked_rows import Asked, Part
from singerlake.spark.jobs.row_sets.row_set import RowSet
from singerlake.spark.jobs.row_sets.selected_rows import named_rows
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.progress import stages
from singerlake.spark.state import frames
from singerlake.transactions import blocked, conflicts, log
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import update_catalogues, update_checkpoint

ATTEMPTS = 5
"""Times that a change is worked out anew, because others changed the same rows."""

Parts: TypeAlias = Callable[[Snapshot], Sequence[Part]]
"""Makes the parts of a change for a table as it is: their columns are that table's."""


@dataclass(frozen=True)
class Changed:
    """What a change did, or would do.

    Attributes:
        transaction: The one that it made; None where it made none.
        inserted: Rows that were not there.
        updated: Rows that are others now.
        deleted: Rows that are gone.
        unchanged: Rows that were asked for and were as they should be.
        absent: Rows that were to be deleted and were not there.
        whole: Whether all rows were written anew, behind ACTIVATE_VERSION.
        version: The version of what it left, where one was asked for.
        blocked: Rows that were left out because their keys are blocked.
    """

    transaction: int | None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    absent: int = 0
    whole: bool = False
    version: FrozenVersion | None = None
    blocked: int = 0


class _OvertakenError(ConflictError):
    """Others changed the same rows: the change is to be worked out anew."""


def change(
    spark: SparkSession,
    table: Table,
    rows: Callable[[Snapshot], Sequence[RowSet]],
    mode: Mode,
    *,
    options: ChangeOptions | None = None,
) -> Changed:
    """Change rows of a table.

    Args:
        spark: The session.
        table: The table.
        rows: Makes what is asked for the table as it is; called again where others changed the
            same rows meanwhile, or its columns.
        mode: What is asked of the rows.
        options: How.

    Raises:
        RejectedRowsError: Rows that cannot be taken; each problem is named.
        ConflictError: Rows were changed since they were read, or the table has moved on from the
            etag; nothing was changed.
        UsageError: It cannot be done as asked.
        LockTimeoutError: A writer did not give its lock up in time.
    """

    def parts(present: Snapshot) -> list[Part]:
        return [Part(tuple(rows(present)), mode)]

    return change_parts(spark, table, parts, options=options)


def change_parts(
    spark: SparkSession, table: Table, parts: Parts, *, options: ChangeOptions | None = None
) -> Changed:
    """Change rows of a table in several steps that are one transaction.

    Args:
        spark: The session.
        table: The table.
        parts: The steps, in order.
        options: How.

    Raises:
        SingerlakeError: As :func:`change` does.
    """
    options = options or ChangeOptions()
    telling = told(table, "change", active=not options.dry_run)
    with telling as run, table.lease() as lease, plain_errors():
        present = first = lease.snapshot
        for _ in range(ATTEMPTS):
            wanted = plans.plan(present, options)
            try:
                done = _Job(spark, table, wanted).run(parts)
            except _OvertakenError:
                present = log.refresh(table.store, present)
                conflicts.check_not_dropped(present, first)
            else:
                if done.transaction is not None:
                    rows = done.inserted + done.updated + done.deleted
                    run.wrote(table.snapshot, rows=rows, version=done.version)
                return done
        raise plans.overtaken(present)


class _Job:
    """One attempt, on the table as it is."""

    def __init__(self, spark: SparkSession, table: Table, wanted: ChangePlan) -> None:
        self._spark = spark
        self._table = table
        self._wanted = wanted
        self._state = wanted.state
        self._shape: Shape = shape_of(self._state)
        self._now = PresentRows(spark, table, wanted, self._shape)
        self._checked = wanted.head

    def run(self, parts: Parts) -> Changed:
        given = [part for part in parts(self._state) if part.row_sets]
        if not given and self._wanted.asks_rows:
            given = [Part((named_rows(self._spark, [], str(self._table.name)),), Mode.UPSERT)]
        with ExitStack() as stack:
            found = self._difference(given, stack) if given else None
            return self._carry_out(found)

    def _difference(self, given: list[Part], stack: ExitStack) -> Delta:
        """The difference, kept on the executors' disks for as long as it is needed."""
        state, shape, options = self._state, self._shape, self._wanted.options
        blind, left_out = options.overwrite, self._left_out()
        wanted = asked_rows.asked(self._spark, state, shape, given, blind=blind, blocked=left_out)
        _keep(wanted.frame, stack)
        with stages(self._spark, "reading the rows", more=2):
            wrong = Stages(wanted.sources, problems.merged(wanted.seen.problems))
        if wrong.blind:
            raise problems.rejected(wrong.whole())
        asked_rows.check_named(wanted, state.table)
        self._now.check_key(replaced=wanted.replaces)
        rows: list[DataFrame] = []
        if wanted.replaces or wanted.seen.named:
            rows = self._now.meant(wanted)
        frame = _keep(delta.delta_frame(wanted, rows), stack)
        with stages(self._spark, "comparing with the table", more=1):
            summary = delta.summary_of(frame)
        wrong.add(delta.repeated(summary), of_read_cells=True)
        found = Delta(frame, wanted, summary, summary.counts)
        self._refuse(found, wrong)
        if error := delta.stale_error(found, state.table, shape):
            raise error
        check_outcome(found, self._now, self._wanted, shape)
        return self._unless_the_same(found)

    def _left_out(self) -> BlockedRows | None:
        """What tells rows with a blocked key; None where none is."""
        if self._wanted.head.blocked is None:
            return None
        return blocking.rows_of(self._state, blocked.read(self._table.store, self._wanted.head))

    def _refuse(self, found: Delta, wrong: Stages) -> None:
        """Name all that is wrong with any row.

        What has to hold of all rows together is not looked at: which rows there will be, nobody
        knows before all of them can be taken.

        Raises:
            RejectedRowsError: Something is.
        """
        wrong.add(delta.problems_of(found.summary, found.wanted))
        if wrong.total:
            wrong.add(delta.stale_problems(found, self._shape))
            wrong.add(self._output(found).problems())
            raise problems.rejected(wrong.whole())

    def _output(self, found: Delta | None) -> ChangeOutput:
        whole = found is not None and self._whole(found)
        return ChangeOutput(
            self._spark, self._table, self._wanted, self._shape, found, self._now, whole=whole
        )

    def _whole(self, found: Delta) -> bool:
        """Whether all rows are written anew."""
        counts = found.counts
        if not self._shape.keys:
            return bool(counts.get(UPDATED) or counts.get(DELETED))
        return self._now.written_again

    def _unless_the_same(self, found: Delta) -> Delta:
        """Where all rows of a table without a key are replaced by the same ones, do nothing."""
        rows = found.counts.get(INSERTED, 0)
        shape = self._shape
        if shape.keys or not found.wanted.replaces or rows != found.counts.get(DELETED, 0):
            return found
        if found.wanted.columns != tuple(range(len(shape.columns))):
            return found
        # What is left out may have a default, and a misfit only reads as null: never the same.
        left_out = F.size(delta.CHANGED) < len(shape.columns)
        misfits = F.coalesce(F.size(MISFITS), F.lit(0)) > 0
        new = found.frame.where(F.col(delta.STATUS) == INSERTED)
        new = new.select(*shape.aliases, F.when(left_out, 1).otherwise(0))
        now = self._now.frame
        now = now.select(*shape.aliases, F.when(misfits, 2).otherwise(0))
        if new.exceptAll(now).isEmpty():
            return replace(found, counts={UNCHANGED: rows})
        return found

    def _carry_out(self, found: Delta | None) -> Changed:
        options = self._wanted.options
        counts = found.counts if found is not None else {}
        told = {name: counts.get(name, 0) for name in (INSERTED, UPDATED, DELETED, UNCHANGED)}
        whole = found is not None and self._whole(found)
        done = Changed(
            None,
            inserted=told[INSERTED],
            updated=told[UPDATED],
            deleted=told[DELETED],
            unchanged=told[UNCHANGED],
            absent=counts.get(delta.ABSENT, 0),
            whole=whole,
            blocked=found.wanted.seen.blocked if found is not None else 0,
        )
        changes = found.changes if found is not None else 0
        says = self._wanted.overlay is not None or options.new_version or options.always
        if not (changes or says) or (options.dry_run and found is None):
            return done
        output = self._output(found)
        if options.dry_run:
            _check(output.problems())
            return done
        frozen = Freezing(self._spark, self._table, options) if options.new_version else None
        after = output.write(told, still_apart=partial(self._check_apart, found), frozen=frozen)
        update_checkpoint(self._table.store, after)
        update_catalogues(self._table.store, [after])
        version = after.frozen[-1] if options.new_version else None
        return replace(done, transaction=after.number, version=version)

    def _check_apart(self, found: Delta | None, present: Snapshot) -> None:
        """Make sure that what came in since the last look changed no row that the change goes by.

        Raises:
            ConflictError: The same rows were changed.
        """
        before, self._checked = self._checked, present
        if not conflicts.rows_changed_since(present, before.number):
            return
        if self._needs_all(found) or self._touched(found, present, before):
            raise _OvertakenError(str(plans.overtaken(present)))

    def _needs_all(self, found: Delta | None) -> bool:
        """Whether any row at all that others change is in the change's way.

        A column that is added has another value in rows that come after it, and what all rows
        have to be together any row may break.
        """
        if found is not None and (self._whole(found) or found.wanted.replaces):
            return True
        return _together(self._state) or self._wanted.overlay is not None

    def _touched(self, found: Delta | None, present: Snapshot, before: Snapshot) -> bool:
        """Tell it from the keys alone of what others committed."""
        if found is None or not self._shape.keys:
            return False  # rows without a key are only added
        since = present.blocks_after(before.number)
        if any(block.activations for block in since):
            return True  # it may remove rows of any key
        columns = self._shape.key_columns
        shape = Shape(columns, tuple(range(len(columns))), self._shape.survival)
        later = frames.read_blocks(self._spark, self._table, present, since, shape)
        # A block that a vacuum put together may hold older rows too.
        later = later.where(F.col(BLOCK) > before.last_block).select(*shape.aliases)
        own = self._asked_keys(found.wanted, shape)
        with stages(self._spark, "looking at what others changed"):
            return not own.join(later, shape.aliases, "left_semi").isEmpty()

    def _asked_keys(self, wanted: Asked, shape: Shape) -> DataFrame:
        """The keys of all rows that are asked for, also of those that are as they should be."""
        schema = frames.frame_schema(shape.columns, ())
        return wanted.rows.select("rows").mapInArrow(Unpacked(self._shape.key_aliases), schema)


def _together(state: Snapshot) -> bool:
    """Whether something is asked of all rows of a table together."""
    return any(one.kind == "unique" for one in state.overlay.constraints.values())


def _keep(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """Have a frame computed once, and then kept on the executors' disks."""
    frame.persist(StorageLevel.DISK_ONLY)
    stack.callback(frame.unpersist)
    return frame


def _check(found: Problems) -> None:
    if found.total:
        raise problems.rejected(found)
