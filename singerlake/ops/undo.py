"""Undo: take back what some transactions did, by one new transaction, and leave what came after.

What becomes of each row is a merge of states (``ops/rows_back/merge.py``); what differs is written
as a revert writes it: lines as they were, and once more as deletions. A table without a key has no
key to tell rows apart by, so all rows that stay are written again, after ACTIVATE_VERSION messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.errors import ConflictError
from singerlake.lake import Table
from singerlake.lineage import same_columns, told
from singerlake.log.acknowledged import keeping_bookmark
from singerlake.log.commit import current_user
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions
from singerlake.ops.rows_back import checks, merge
from singerlake.ops.rows_back import engine as rows_back
from singerlake.ops.rows_back import undo_plan as plans
from singerlake.ops.rows_back.actions import Actions
from singerlake.ops.rows_back.lines_again import LinesAgain, Written, check_keys
from singerlake.ops.rows_back.merge import Tally
from singerlake.ops.rows_back.revert import Outcome
from singerlake.ops.rows_back.revert_plan import commit_revert
from singerlake.ops.rows_back.undo_plan import OnConflict, UndoPlan
from singerlake.quantities import count
from singerlake.rows.batches.violations import Violation
from singerlake.rows.changes.row_ids import id_text
from singerlake.rows.state import keys
from singerlake.rows.state.shape import shape_of

WHAT = "undoing transactions"
SHOWN = 10
"""So many conflicts are named in an error."""


@dataclass(frozen=True)
class UndoOptions:
    """The options of an undo.

    Attributes:
        numbers: The transactions, in any order.
        on_conflict: What becomes of rows that were touched again since.
        dry_run: Only find out what would be done; conflicts are no error then.
        writing: Locks, and what to keep with the transaction.
        if_transaction: The transaction that the table must still be at.
        allow_violations: Undo even if rows that come back break the constraints that the table has
            now; the transaction says so.
        allow_type_mismatches: Undo even if values that come back do not fit the current type of
            their column; the transaction says so.
        keep_bookmark: Leave bookmarks in the lake as they are; the transaction says so.
    """

    numbers: Sequence[int]
    on_conflict: OnConflict = OnConflict.FAIL
    dry_run: bool = False
    writing: WriteOptions = field(default_factory=WriteOptions)
    if_transaction: int | None = None
    allow_violations: bool = False
    allow_type_mismatches: bool = False
    keep_bookmark: bool = False


@dataclass(frozen=True)
class Conflict:
    """A row that was touched again after the transactions that are undone.

    Attributes:
        row: Its id.
        transaction: The last one that wrote it.
        deleted: Whether it is not there now.
    """

    row: str
    transaction: int
    deleted: bool

    def __str__(self) -> str:
        how = "gone since" if self.deleted else "written again by"
        return f"{self.row}: {how} transaction {self.transaction}"


@dataclass(frozen=True)
class Undone:
    """The result of an undo, or of its dry run.

    Attributes:
        undone: The transactions that were taken back.
        transaction: The transaction it made; None where it made none.
        put_back: Rows that are again what they were before.
        deleted: Rows that are gone again.
        conflicts: Rows that were touched again since.
        first_conflicts: Those of them that come first by their keys.
        schema_hash: The schema in effect.
        schema_stays: Whether they changed the schema, and others have written under it since.
        whole: Whether all rows of the table were written anew, behind ACTIVATE_VERSION.
        violations: The names of the constraints that rows which came back do not keep.
        misfits: The columns with values that do not fit the type they have by now.
    """

    undone: Sequence[int]
    transaction: int | None
    put_back: int
    deleted: int
    conflicts: int
    first_conflicts: Sequence[Conflict]
    schema_hash: str
    schema_stays: bool = False
    whole: bool = False
    violations: Sequence[str] = field(default_factory=list)
    misfits: Sequence[str] = field(default_factory=list)


def plan(table: Table, options: UndoOptions) -> UndoPlan:
    """Check what can be checked before a row is read; raises as :func:`undo` does."""
    return plans.plan(table.store, table.snapshot(), options.numbers, options.if_transaction)


def undo(
    table: Table,
    options: UndoOptions,
    choice: EngineChoice | None = None,
    *,
    outline: UndoPlan | None = None,
) -> Undone:
    """Take back what some transactions did, by one new transaction.

    Args:
        outline: What a caller has just got from :func:`plan`.

    Raises:
        NotFoundError: There is no such transaction, or a state that is needed was given up.
        UsageError: It cannot be undone; what can be done instead is said.
        ConflictError: Rows were touched again, and nothing was said of what becomes of them; or
            another process changed the table meanwhile. Nothing was changed.
        ViolationsError: Rows that come back do not keep the constraints, or the types, of now.
        DamagedError: A state that is needed cannot be read any more.
    """
    choice = choice or EngineChoice()
    # Java starts before a lease is asked for, and not for what is refused.
    engine = _engine_for(choice, outline or plan(table, options))
    telling = told(table, "revert", active=not options.dry_run)
    with telling as run, table.lease() as lease:
        wanted = plans.plan(table.store, lease.snapshot, options.numbers, options.if_transaction)
        # Another time: the table may have grown, or got constraints, since it was looked at.
        engine = _engine_for(choice, wanted, engine)
        done = _Job(table, wanted, engine, options, choice).run()
        if done.transaction is not None:
            head = table.snapshot()
            run.wrote(head, rows=done.put_back + done.deleted, columns=same_columns(head))
        return done


def _engine_for(
    choice: EngineChoice, wanted: UndoPlan, started: Engine[Any] | None = None
) -> Engine[Any]:
    work = rows_back.work(wanted.head, wanted.groups[0].before, wanted.first_block)
    sql = rows_back.asked_in_sql(choice, wanted)
    return choice.engine_for(work, WHAT, sql=sql, started=started)


class _Job:
    """One undo: first a look, then the writing of just what was seen."""

    def __init__(
        self,
        table: Table,
        wanted: UndoPlan,
        engine: Engine[Any],
        options: UndoOptions,
        choice: EngineChoice,
    ) -> None:
        self._table = table
        self._wanted = wanted
        self._engine = engine
        self._options = options
        self._choice = choice

    def run(self) -> Undone:
        """Find out what there is to do, and unless that alone is wanted, do it.

        Raises:
            ConflictError: Rows were touched again, and nothing was said of what becomes of them.
        """
        wanted, engine, options = self._wanted, self._engine, self._options
        merged = merge.merged(engine, self._table, wanted, options.on_conflict)
        with engine.keep(merged) as rows:
            with engine.stages("reading keys", "comparing snapshots", more=1):
                tally = merge.tally(engine, rows)
            if wanted.head.key:
                check_keys(wanted.head, tally.counted)
            found = self._found(tally)
            changes = bool(found.put_back or found.deleted)
            if found.put_back:
                outcome = self._outcome(rows)
                found = replace(found, violations=outcome.violations, misfits=outcome.misfits)
            if options.dry_run:
                return found
            if found.conflicts and options.on_conflict is OnConflict.FAIL:
                raise conflict_error(wanted, found)
            if not changes and wanted.schema_hash == wanted.head.schema_hash:
                return found
            return self._write(found, Actions(engine, rows) if changes else None)

    def _found(self, tally: Tally) -> Undone:
        wanted = self._wanted
        return Undone(
            undone=wanted.numbers,
            transaction=None,
            put_back=tally.came,
            deleted=tally.went,
            conflicts=tally.conflicts,
            first_conflicts=_conflicts(wanted.head, tally),
            schema_hash=wanted.schema_hash,
            schema_stays=wanted.schema_stays,
            whole=not wanted.head.key and bool(tally.came or tally.went),
        )

    def _outcome(self, rows: Any) -> Outcome:
        """Look for what is wrong with rows that come back, by what is said of them now."""
        wanted, options = self._wanted, self._options

        def broken() -> Sequence[Violation]:
            if not wanted.after.overlay.constraints:
                return []
            from singerlake.ops.rows_back.constraint_checks import broken_by_undo

            return broken_by_undo(self._choice, self._engine, self._table, wanted, rows)

        return checks.outcome(
            self._table,
            f"rows of {self._table.name} that would come back",
            "undo",
            checks.undo_misfits(self._engine, self._table, wanted, rows),
            broken,
            allow_violations=options.allow_violations,
            allow_type_mismatches=options.allow_type_mismatches,
        )

    def _write(self, found: Undone, actions: Actions | None) -> Undone:
        wanted, lines = self._wanted, self._lines(whole=found.whole)
        made: list[int] = []

        def committed(written: Written) -> TableState:
            done = commit_revert(
                self._table.store,
                wanted,
                written.blocks,
                lines.schemas,
                writer_id=written.writer_id,
                metrics={"put_back": found.put_back, "deleted": found.deleted},
                metadata={**self._options.writing.metadata, **self._said(found)},
            )
            made.append(done.number)
            return done

        lines.commit(actions, self._options.writing, committed, whole=found.whole)
        return replace(found, transaction=made[0])

    def _lines(self, *, whole: bool) -> LinesAgain:
        wanted = self._wanted
        hashes = {block.schema_hash for block in wanted.head.blocks}
        return LinesAgain.of(
            self._table,
            wanted.head,
            wanted.schema_hash,
            deleted_under=() if whole else hashes,
            put_back_under=hashes,
        )

    def _said(self, found: Undone) -> dict[str, object]:
        said: dict[str, object] = {"by": current_user(), "undone": list(found.undone)}
        said |= keeping_bookmark(keep=self._options.keep_bookmark)
        if found.conflicts:
            kept = self._options.on_conflict.kept
            said |= {"conflicts": found.conflicts, "conflicts_kept": kept}
        wrong = asdict(Outcome(found.violations, found.misfits))
        return said | {word: names for word, names in wrong.items() if names}


def _conflicts(head: TableState, tally: Tally) -> list[Conflict]:
    if tally.first is None:
        return []
    columns = keys.compared_columns(shape_of(head).key_columns)
    cells = [column.to_pylist() for column in tally.first.columns]
    return [
        Conflict(id_text(key, columns), head.transaction_of_block(block), gone)
        for *key, block, gone in zip(*cells, strict=True)
    ]


def conflict_error(wanted: UndoPlan, found: Undone) -> ConflictError:
    """Return the error of rows that were touched again, and of which nothing was said."""
    names = shape_of(wanted.head).key_names
    rows = count(found.conflicts, "row")
    lines = [
        f"{rows} of {wanted.head.table} that {_which(wanted)} wrote "
        f"{'was' if found.conflicts == 1 else 'were'} changed later; nothing was undone:",
        *(f"  {', '.join(names)} {one}" for one in found.first_conflicts[:SHOWN]),
    ]
    if (more := found.conflicts - len(lines) + 1) > 0:
        lines.append(f"  and {more:,} more")
    lines.append(
        "add --on-conflict keep to leave the later changes, or --on-conflict undo to undo them as "
        "well (on_conflict= in Python)"
    )
    error = ConflictError("\n".join(lines))
    error.lines = tuple(lines)
    return error


def _which(wanted: UndoPlan) -> str:
    numbers = wanted.numbers
    if len(numbers) == 1:
        return f"transaction {numbers[0]}"
    return f"transactions {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
