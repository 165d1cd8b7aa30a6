"""Revert: turn a table back to an earlier state, by one new transaction.

A keyed table gets the difference: rows that changed in a byte, or went, come back as the lines
they were, rows that came since are deleted. A keyless table has no key to tell rows apart by, so
all of the old rows are written again under a Singer version of their own, after ACTIVATE_VERSION
messages that remove everything before. A keyed table is done so as well where the keys of rows
written since cannot be read under the old schema: from then on nobody has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.format.overlaid import block_columns, reading_of
from singerlake.format.types import never_fails
from singerlake.lake import Table
from singerlake.lineage import same_columns, told
from singerlake.log.acknowledged import keeping_bookmark
from singerlake.log.commit import current_user
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions
from singerlake.ops.rows_back import checks, difference
from singerlake.ops.rows_back import engine as rows_back
from singerlake.ops.rows_back import revert_plan as plans
from singerlake.ops.rows_back.actions import Actions
from singerlake.ops.rows_back.lines_again import LinesAgain, Written, check_keys
from singerlake.ops.rows_back.revert import Outcome, Reverted, whole_lines
from singerlake.ops.rows_back.revert_plan import RevertPlan
from singerlake.rows.batches.violations import Violation
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import building
from singerlake.snapshot.content import count_rows
from singerlake.snapshot.index import Index

WHAT = "reverting a table"


@dataclass(frozen=True)
class RevertOptions:
    """The options of a revert.

    Attributes:
        to: The transaction to go back to.
        dry_run: Only find out what would be done.
        writing: Locks, and what to keep with the transaction.
        if_transaction: The transaction that the table must still be at.
        allow_violations: Revert even if old rows break the constraints that the table has now; the
            transaction says so.
        allow_type_mismatches: Revert even if old values do not fit the current type of their
            column; the transaction says so.
        keep_bookmark: Leave bookmarks in the lake as they are; the transaction says so.
    """

    to: int
    dry_run: bool = False
    writing: WriteOptions = field(default_factory=WriteOptions)
    if_transaction: int | None = None
    allow_violations: bool = False
    allow_type_mismatches: bool = False
    keep_bookmark: bool = False


def revert(
    table: Table,
    options: RevertOptions,
    choice: EngineChoice | None = None,
    *,
    head: TableState | None = None,
) -> Reverted:
    """Turn a table's present state into that of an earlier transaction.

    Args:
        head: The table as a caller has just read it.

    Raises:
        NotFoundError: There is no such transaction.
        UsageError: The old state lacks a column of the key that the table has now.
        ViolationsError: Its rows cannot have the key or the types that the table has now, or break
            its constraints.
        DamagedError: The old state cannot be read any more; what is missing is named.
        ConflictError: Another process changed the table meanwhile; nothing was changed.
    """
    choice = choice or EngineChoice()
    # Java starts before a lease is asked for, and not for what is refused.
    outline = plans.outlined(head or table.snapshot(), options.to, options.if_transaction)
    engine = _engine_for(choice, outline)
    with told(table, "revert", active=not options.dry_run) as telling, table.lease() as lease:
        wanted = plans.plan(table.store, lease.snapshot, options.to, options.if_transaction)
        # Another time: the table may have grown, or got constraints, since it was looked at.
        engine = _engine_for(choice, wanted, engine)
        old = building.ensure(engine, table, wanted.to)
        if wanted.same_state:
            count = count_rows(engine, old)
            return Reverted(options.to, None, 0, 0, count, wanted.to.schema_hash)
        outcome = _outcome(choice, engine, table, wanted, old, options)
        done = _Job(table, wanted, engine, old, options, outcome).run()
        if done.transaction is not None:
            telling.read(wanted.to, rows=done.put_back)
            rows = done.put_back + (done.deleted or 0)
            telling.wrote(table.snapshot, rows=rows, columns=same_columns(wanted.to))
        return done


def _engine_for(
    choice: EngineChoice, wanted: RevertPlan, started: Engine[Any] | None = None
) -> Engine[Any]:
    work = rows_back.work(wanted.head, wanted.to, wanted.to.last_block)
    sql = None if wanted.same_state else rows_back.asked_in_sql(choice, wanted)
    return choice.engine_for(work, WHAT, sql=sql, started=started)


def _outcome(
    choice: EngineChoice,
    engine: Engine[Any],
    table: Table,
    wanted: RevertPlan,
    old: Index,
    options: RevertOptions,
) -> Outcome:
    """Look for what is wrong with the old rows, by what is said of them now.

    Raises:
        ViolationsError: They may not come back.
    """

    def broken() -> Sequence[Violation]:
        if not wanted.after.overlay.constraints:
            return []
        from singerlake.ops.rows_back.constraint_checks import broken_by_revert

        return broken_by_revert(choice, engine, table, wanted, old)

    checks.check_key(engine, table, wanted, old)
    return checks.outcome(
        table,
        f"rows of {table.name} at transaction {wanted.to.number}",
        "revert",
        checks.revert_misfits(engine, table, wanted, old),
        broken,
        allow_violations=options.allow_violations,
        allow_type_mismatches=options.allow_type_mismatches,
    )


def old_shape(wanted: RevertPlan) -> Shape:
    """Return the shape that the index of the old state has."""
    return shape_of(wanted.to.earliest_equal())


def _keys_readable(wanted: RevertPlan) -> bool:
    """Tell whether rows written since can be told apart by the old keys, whatever came."""
    target = dict(old_shape(wanted).key_columns)
    head, to = wanted.head, wanted.to
    if to.overlay.key != head.overlay.key:
        return False
    if len({reading_of(one.overlay, target) for one in (to, head)}) > 1:
        return False
    for schema_hash in {block.schema_hash for block in head.blocks_after(to.number)}:
        schema = head.schema_of(schema_hash)
        # What is one key by the rules of today may be two by those of the old version:
        # 1.5 and 1.50, where a decimal was a string. Then neither can speak for the other.
        by_old_rules = dict(block_columns(schema, head.overlay, to.rules).columns)
        for name, type_ in head.columns_of(schema_hash).columns:
            if name not in target:
                continue
            if type_ != by_old_rules.get(name) or not never_fails(type_, target[name]):
                return False
    return True


class _Job:
    """Writes rows of an old state again.

    Args:
        outcome: What is wrong with the rows.
    """

    def __init__(
        self,
        table: Table,
        wanted: RevertPlan,
        engine: Engine[Any],
        old: Index,
        options: RevertOptions,
        outcome: Outcome,
    ) -> None:
        self._table = table
        self._wanted = wanted
        self._engine = engine
        self._old = old
        self._options = options
        self._outcome = outcome
        self._whole = not old_shape(wanted).keys or not _keys_readable(wanted)

    def run(self) -> Reverted:
        """Write the difference and commit it, or only find out what it is."""
        if self._whole:
            actions = difference.every_row(self._engine, self._old)
        else:
            actions = difference.difference(self._engine, self._table, self._wanted, self._old)
        if not self._options.dry_run:
            return self._write(actions)
        counted = actions.count()
        check_keys(self._wanted.head, counted)
        return self._result(None, counted.put_back, counted.deleted)

    def _result(self, transaction: int | None, put_back: int, deleted: int) -> Reverted:
        to = self._wanted.to
        return Reverted(
            to.number,
            transaction,
            put_back,
            None if self._whole else deleted,
            0 if self._whole else count_rows(self._engine, self._old) - put_back,
            to.schema_hash,
            whole=self._whole,
            **asdict(self._outcome),
        )

    def _write(self, actions: Actions) -> Reverted:
        wanted, lines = self._wanted, self._lines()
        made: list[int] = []

        def committed(written: Written) -> TableState | None:
            if not written.blocks and wanted.head.schema_hash == wanted.to.schema_hash:
                return None
            gone = {} if self._whole else {"deleted": written.deleted}
            done = plans.commit_revert(
                self._table.store,
                wanted,
                written.blocks,
                lines.schemas,
                writer_id=written.writer_id,
                metrics={"put_back": written.put_back, **gone},
                metadata={**self._options.writing.metadata, **self._said()},
            )
            made.append(done.number)
            return done

        written = lines.commit(actions, self._options.writing, committed, whole=self._whole)
        if not made:
            return self._result(None, 0, 0)
        return self._result(made[0], written.put_back, written.deleted)

    def _lines(self) -> LinesAgain:
        wanted = self._wanted
        if self._whole:
            return whole_lines(self._table, wanted)
        return LinesAgain.of(
            self._table,
            wanted.head,
            wanted.to.schema_hash,
            deleted_under={b.schema_hash for b in wanted.head.blocks_after(wanted.to.number)},
            put_back_under={block.schema_hash for block in wanted.to.blocks},
        )

    def _said(self) -> dict[str, Any]:
        wrong = {word: names for word, names in asdict(self._outcome).items() if names}
        said = {"by": current_user(), "reverted_to": self._wanted.to.number, **wrong}
        return said | keeping_bookmark(keep=self._options.keep_bookmark)
