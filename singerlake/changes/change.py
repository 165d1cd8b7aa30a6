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

from singerlake.changes import asked_rows, delta
from singerlake.changes.delta import Delta
from singerlake.changes.output import ChangeOutput
from singerlake.changes.overtaking import are_changed
from singerlake.changes.present_rows import PresentRows
from singerlake.changes.row_set import Part, RowIds
from singerlake.changes.same_rows import are_the_same
from singerlake.changes.version import Freezing
from singerlake.engine.base import Engine
from singerlake.errors import ConflictError
from singerlake.format.log import FrozenVersion
from singerlake.lake import Table
from singerlake.lineage import told
from singerlake.maintenance import blocking
from singerlake.maintenance import change as plans
from singerlake.maintenance.change import ChangeOptions, ChangePlan, Mode
from singerlake.records.changes.merge_terms import (
    ABSENT,
    DELETED,
    INSERTED,
    UNCHANGED,
    UPDATED,
)
from singerlake.records.rows import problems
from singerlake.records.rows.problems import Problems, Stages
from singerlake.records.state.blocked_keys import BlockedRows
from singerlake.records.state.shape import Shape, shape_of
from singerlake.transactions import blocked, conflicts, log
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import update_catalogues, update_checkpoint

ATTEMPTS = 5
"""Times that a change is worked out anew, because others changed the same rows."""

Parts: TypeAlias = Callable[[Engine[Any], Snapshot], Sequence[Part]]
"""Makes the parts of a change for a table as it is: their columns are that table's."""
EngineFor: TypeAlias = Callable[[ChangePlan], Engine[Any]]
"""Chooses the engine of an attempt."""
PresentOf: TypeAlias = Callable[[Engine[Any], Table, ChangePlan, Shape], PresentRows]
"""Knows the rows that there are, and what SQL has to check of them."""


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


def change_rows(
    table: Table,
    parts: Parts,
    options: ChangeOptions,
    engine_for: EngineFor,
    present_of: PresentOf = PresentRows,
) -> Changed:
    """Change rows of a table in several steps that are one transaction.

    Args:
        table: The table.
        parts: The steps, in order; made again if others changed the same rows meanwhile.
        options: How.
        engine_for: Chooses the engine, for each attempt.
        present_of: Reads what there is.

    Raises:
        RejectedRowsError: Rows that cannot be taken; each problem is named.
        ConflictError: Rows were changed since they were read, or the table has moved on from the
            etag; nothing was changed.
        UsageError: It cannot be done as asked.
        LockTimeoutError: A writer did not give its lock up in time.
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
        found = Delta(merged, wanted, summary, summary.counts, count)
        self._refuse(found, wrong)
        if error := delta.stale_error(found, state.table, shape):
            raise error
        self._now.check_outcome(found)
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
        return ChangeOutput(self._wanted, self._shape, found, self._now, whole=whole)

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
        output = self._output(found)
        if options.dry_run:
            _check(output.problems())
            return done
        frozen = None
        if options.new_version:
            frozen = Freezing(self._engine, self._table, options, self._now.check_version)
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
        with self._engine.stages("looking at what others changed"):
            last, survival = before.last_block, self._shape.survival
            return are_changed(self._table, present, since, last, found.wanted, survival)


def _together(state: Snapshot) -> bool:
    """Whether something is asked of all rows of a table together."""
    return any(one.kind == "unique" for one in state.overlay.constraints.values())


def _check(found: Problems) -> None:
    if found.total:
        raise problems.rejected(found)
