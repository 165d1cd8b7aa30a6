"""Rows inserted, changed and deleted, as one transaction, on an engine.

What is asked is held against the table's state, and the difference alone is written. Others may
commit meanwhile: as long as they changed other rows, the change is committed on top of theirs; if
not, it is worked out anew on theirs, and refused where somebody relied on what a row was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.engine.base import Engine
from singerlake.errors import ConflictError
from singerlake.format.log import Block, FrozenVersion
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.lineage import told
from singerlake.log import blocked, conflicts, log
from singerlake.log.table_state import TableState
from singerlake.log.writer import update_catalogues, update_checkpoint
from singerlake.ops import suppression as blocking
from singerlake.ops.change import asked_rows, delta
from singerlake.ops.change import plan as plans
from singerlake.ops.change.asked_rows import ChangeRequest
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.output import ChangeOutput
from singerlake.ops.change.plan import ChangeOptions, ChangePlan, Mode
from singerlake.ops.change.present_rows import PresentRows
from singerlake.ops.change.row_set import Part, RowIds
from singerlake.ops.change.version import Freezing
from singerlake.rows.batches import packing, problems
from singerlake.rows.batches.packing import Unpacked
from singerlake.rows.batches.problems import Problems, Stages
from singerlake.rows.batches.row_columns import BLOCK, MISFITS, aliases
from singerlake.rows.batches.steps import Batches, Pipeline
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.changes.asked_rows import SHARED, compared_keys, shared
from singerlake.rows.changes.merge_terms import (
    ABSENT,
    CHANGED,
    DELETED,
    INSERTED,
    UNCHANGED,
    UPDATED,
)
from singerlake.rows.state import keys
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.blocked_keys import BlockedRows
from singerlake.rows.state.fingerprint import SUMMED, Content, Proof, Sums
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot.from_blocks import planned, through

ATTEMPTS = 5
"""Times that a change is worked out anew, because others changed the same rows."""

Parts: TypeAlias = Callable[[Engine[Any], TableState], Sequence[Part]]
"""Makes the parts of a change for a table as it is: their columns are that table's."""
EngineFor: TypeAlias = Callable[[ChangePlan], Engine[Any]]
"""Chooses the engine of an attempt."""
PresentOf: TypeAlias = Callable[[Engine[Any], Table, ChangePlan, Shape], PresentRows]
"""Knows the rows that there are, and what SQL has to check of them."""


@dataclass(frozen=True)
class Changed:
    """The result of a change, or of its dry run.

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


def change_rows(
    table: Table,
    parts: Parts,
    options: ChangeOptions,
    engine_for: EngineFor,
    present_of: PresentOf = PresentRows,
) -> Changed:
    """Change rows of a table in several steps that are one transaction.

    Args:
        parts: The steps, in order; made again if others changed the same rows meanwhile.
        engine_for: Chooses the engine, for each attempt.

    Raises:
        RejectedRowsError: Rows that cannot be taken; each problem is named.
        ConflictError: Rows were changed since they were read, or the table is no longer at
            ``if_transaction``; nothing was changed.
        UsageError: It cannot be done as asked.
    """
    telling = told(table, "change", active=not options.dry_run)
    with telling as run, table.lease() as lease:
        present = first = lease.snapshot
        for _ in range(ATTEMPTS):
            wanted = plans.plan(present, options)
            shape = shape_of(wanted.state)
            now = present_of(engine_for(wanted), table, wanted, shape)
            try:
                done = _Job(now, wanted, shape).run(parts)
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

    def __init__(self, now: PresentRows, wanted: ChangePlan, shape: Shape) -> None:
        self._now = now
        self._engine = now.engine
        self._table = now.table
        self._wanted = wanted
        self._state = wanted.state
        self._shape = shape
        self._checked = wanted.head

    def run(self, parts: Parts) -> Changed:
        given = [part for part in parts(self._engine, self._state) if part.row_sets]
        if not given and self._wanted.asks_rows:
            nobody = RowIds([]).row_set(self._engine, self._state, str(self._table.name))
            given = [Part((nobody,), Mode.UPSERT)]
        with ExitStack() as stack:
            found = self._difference(given, stack) if given else None
            return self._carry_out(found)

    def _difference(self, given: list[Part], stack: ExitStack) -> Delta:
        """The difference, kept for as long as it is needed."""
        engine, state, shape = self._engine, self._state, self._shape
        blind, left_out = self._wanted.options.overwrite, self._left_out()
        wanted = asked_rows.asked(engine, state, shape, given, blind=blind, blocked=left_out)
        wanted = replace(wanted, rows=stack.enter_context(engine.keep(wanted.rows)))
        with engine.stages("reading the rows", more=2):
            wrong = Stages(wanted.sources, problems.merged(wanted.seen.problems))
        if wrong.blind:
            raise problems.rejected(wrong.whole())
        asked_rows.check_named(wanted, state.table)
        self._now.check_key(replaced=wanted.replaces)
        needed = wanted.replaces or wanted.seen.named
        merged, count = delta.merged(wanted, self._now.meant(wanted) if needed else [])
        merged = stack.enter_context(engine.keep(merged))
        with engine.stages("comparing with the table", more=1):
            summary = delta.summary_of(wanted, merged)
        wrong.add(delta.repeated(summary), of_read_cells=True)
        counts = summary.counts
        if gone := self._now.not_found:
            counts = {**counts, DELETED: gone}
        found = Delta(merged, wanted, summary, counts, count)
        self._refuse(found, wrong)
        if error := delta.stale_error(found, state.table, shape):
            raise error
        self._now.check_outcome(found)
        return self._unless_the_same(found)

    def _left_out(self) -> BlockedRows | None:
        """Return what recognises rows with a blocked key; None if no key is."""
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
        return ChangeOutput(self._wanted, self._shape, found, self._now, whole=whole)

    def _whole(self, found: Delta) -> bool:
        """Tell whether all rows are written anew."""
        counts = found.counts
        if not self._shape.keys:
            return bool(counts.get(UPDATED) or counts.get(DELETED))
        return self._now.written_again

    def _unless_the_same(self, found: Delta) -> Delta:
        """Do nothing if all rows of a table without a key are replaced by the same ones."""
        rows = found.counts.get(INSERTED, 0)
        shape = self._shape
        if shape.keys or not found.wanted.replaces or rows != found.counts.get(DELETED, 0):
            return found
        if found.wanted.columns != tuple(range(len(shape.columns))):
            return found
        if are_the_same(self._engine, self._table, self._state, found):
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
            absent=counts.get(ABSENT, 0),
            whole=whole,
            blocked=found.wanted.seen.blocked if found is not None else 0,
        )
        changes = found.changes if found is not None else 0
        says = self._wanted.overlay is not None or options.new_version or options.always
        if not (changes or says) or (options.dry_run and found is None):
            return done
        frozen = None
        if options.new_version:
            frozen = Freezing(self._engine, self._table, options, self._now.check_version)
        output = self._output(found)
        if options.dry_run:
            _check(output.problems())
            return done
        after = output.write(told, still_apart=partial(self._check_apart, found), frozen=frozen)
        update_checkpoint(self._table.store, after)
        update_catalogues(self._table.store, [after])
        version = after.frozen[-1] if options.new_version else None
        return replace(done, transaction=after.number, version=version)

    def _check_apart(self, found: Delta | None, present: TableState) -> None:
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
        """Tell whether any row at all that others change is in the change's way.

        A column that is added has another value in rows that come after it, and what all rows
        have to be together any row may break.
        """
        if found is not None and (self._whole(found) or found.wanted.replaces):
            return True
        return _together(self._state) or self._wanted.overlay is not None

    def _touched(self, found: Delta | None, present: TableState, before: TableState) -> bool:
        """Tell it from the keys alone of what others committed."""
        if found is None or not self._shape.keys:
            return False  # rows without a key are only added
        since = present.blocks_after(before.number)
        if any(block.activations for block in since):
            return True  # it may remove rows of any key
        with self._engine.stages("checking concurrent changes"):
            last, survival = before.last_block, self._shape.survival
            return are_changed(self._table, present, since, last, found.wanted, survival)


def _together(state: TableState) -> bool:
    """Tell whether something is asked of all rows of a table together."""
    return any(one.kind == "unique" for one in state.overlay.constraints.values())


def _check(found: Problems) -> None:
    if found.total:
        raise problems.rejected(found)


# Whether the rows that are to replace all others are the same ones.

_SUMMED = f"{SUMMED}, unlike long"


def are_the_same(engine: Engine[Any], table: Table, state: TableState, found: Delta) -> bool:
    """Tell whether new rows, which name all columns, are those that a table without a key has.

    Args:
        state: As it is read after the change.
        found: The new rows, as many as there are.
    """
    columns = found.wanted.spec.columns
    step = Pipeline((Unpacked(column="new"), _Sum(columns)))
    new = _total(engine, engine.map(found.new, step, _SUMMED))
    if new is None:
        return False
    plan = planned(engine, table, state, shown=True)
    return new == _total(engine, through(engine, plan, _Sum(columns), _SUMMED))


def _total(engine: Engine[Any], summed: Any) -> Content | None:
    """Add rows up; None if some are like no row of the other side."""
    sums, unlike = Sums((Proof.VALUES,)), 0
    for row in engine.collect(summed):
        sums.add(row)
        unlike += row["unlike"]
    return None if unlike else sums.content()


@dataclass
class _Sum:
    """Sums up the values of rows, and counts those that are like no row of the other side.

    New rows are if they leave a column out, which may have a default. Present ones are if a value
    does not fit, which only reads as null.
    """

    columns: Columns

    def __call__(self, batches: Batches) -> Batches:
        """Give one row a part."""
        sums, unlike = Sums((Proof.VALUES,)), 0
        names = aliases(len(self.columns))
        for batch in batches:
            if CHANGED in batch.schema.names:
                said = pc.list_value_length(batch.column(CHANGED))
                unlike += pc.sum(pc.less(said, len(names))).as_py() or 0
            else:
                misfits = batch.column(MISFITS)
                unlike += len(misfits) - misfits.null_count
            if not unlike:  # of a value that a lake cannot hold there may be no text
                sums.take(batch.select(names), self.columns)
        yield sums.batch().append_column("unlike", pa.array([unlike], pa.int64()))


# Whether others changed rows that a change is asked for, told from the keys alone.

_MET = "met boolean"


def are_changed(
    table: Table,
    present: TableState,
    since: Sequence[Block],
    after: int,
    wanted: ChangeRequest,
    survival: Survival,
) -> bool:
    """Tell whether blocks have rows of the keys that are asked for.

    That is also asked of rows that are as they should be.

    Args:
        table: The table, which has a key.
        since: What others committed.
        after: The last block before: one that a vacuum put together may hold older rows too.
        survival: What the activations leave of what there was before.
    """
    engine, columns = wanted.engine, wanted.spec.key_columns
    shape = Shape(columns, tuple(range(len(columns))), survival)
    plan = planned(engine, table, present, shape=shape, blocks=since)
    later = _LaterKeys(plan.reader, columns, after, wanted.parts)
    both = engine.union(wanted.packed, engine.map(engine.source(plan.sent), later, SHARED))
    parts = engine.exchange(both, wanted.parts, "part")
    return bool(engine.collect(engine.map(parts, _Met(columns, wanted.spec.join), _MET)))


@dataclass
class _LaterKeys:
    """Shares out the keys of blocks, deletions too.

    Attributes:
        after: As for :func:`are_changed`.
        parts: Parts that keys are shared out to.
    """

    reader: BlockReader
    columns: Columns
    after: int
    parts: int

    def __call__(self, numbers: Batches) -> Batches:
        """Read the blocks of the tasks that come in."""
        for _, blocks in self.reader.given(numbers):
            for batch in self.reader.rows(blocks):
                later = pa.array(batch.column(BLOCK).to_numpy() > self.after)
                rows = pa.Table.from_batches([batch]).filter(later)
                own = compared_keys(rows, aliases(len(self.columns)), self.columns)
                yield from shared(own, keys.parts_of(own, self.parts), self.parts, present=True)


@dataclass
class _Met:
    """Gives a row for a part in which some key is asked for, and is there.

    Attributes:
        columns: Those of the key.
        names: What these are called in rows that are asked for.
    """

    columns: Columns
    names: Sequence[str]

    def __call__(self, batches: Batches) -> Batches:
        """Take all keys of some parts."""
        tables: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        for batch in batches:
            pairs = (batch.column(name).to_pylist() for name in ("present", "rows"))
            for present, data in zip(*pairs, strict=True):
                rows = packing.unpack(data)
                own = rows if present else compared_keys(rows, self.names, self.columns)
                tables[present].append(own)
        asked, there = tables
        if asked and there:
            codes = keys.numbered(pa.concat_tables([*asked, *there]))
            count = sum(map(len, asked))
            if len(np.intersect1d(codes[:count], codes[count:])):
                yield pa.RecordBatch.from_pydict({"met": [True]})
