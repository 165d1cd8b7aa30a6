"""Turning a table back: what Spark's job and this process do alike.

A keyed table gets the difference: rows that changed in a byte, or went, come back as the lines
they were, rows that came since are deleted. A keyless table has no key to tell rows apart by, so
all of the old rows are written anew under a Singer version of their own, behind ACTIVATE_VERSION
messages that remove everything before. A keyed table is done so as well where the keys of rows
written since cannot be read under the old schema: from then on nobody has to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from singerlake.format.laid import block_columns, reading_of
from singerlake.format.types import never_fails
from singerlake.lake import Table
from singerlake.lineage import same_columns, told
from singerlake.maintenance import revert as plans
from singerlake.maintenance.revert import RevertPlan
from singerlake.records.state.shape import Shape, shape_of
from singerlake.rows_back.lines_again import Actions, LinesAgain, Written, check_keys
from singerlake.transactions.commit import current_user
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import WriteOptions

MOST_RANGES = 200


@dataclass(frozen=True)
class Outcome:
    """What is wrong with rows that come back all the same.

    Attributes:
        violations: The names of the constraints of now that they do not keep.
        misfits: The columns with values that do not fit their type of now.
    """

    violations: Sequence[str] = field(default_factory=list)
    misfits: Sequence[str] = field(default_factory=list)


@dataclass(frozen=True)
class Reverted:
    """What a revert did, or would do.

    Attributes:
        to: The transaction that was gone back to.
        transaction: The transaction it made; None where it made none.
        put_back: Rows written as they were.
        deleted: Rows that had come since and are gone again; None where all rows were written
            anew, in place of whatever there was.
        unchanged: Rows that were as they should be. A keyless table is written whole and
            has none.
        schema_hash: The schema in effect.
        whole: Whether all rows of the old state were written anew, behind ACTIVATE_VERSION.
        violations: The names of the constraints that its rows do not keep.
        misfits: The columns with values that do not fit the type they have by now.
    """

    to: int
    transaction: int | None
    put_back: int
    deleted: int | None
    unchanged: int
    schema_hash: str
    whole: bool = False
    violations: Sequence[str] = field(default_factory=list)
    misfits: Sequence[str] = field(default_factory=list)


class Engine(ABC):
    """Finds rows of the old state and of now. Its index is there once one is made."""

    @abstractmethod
    def rows(self) -> int:
        """Count the rows of the old state."""

    @abstractmethod
    def check(self) -> Outcome:
        """Look for what is wrong with the old rows, by what is said of them now.

        Raises:
            ViolationsError: They may not come back.
        """

    @abstractmethod
    def difference(self) -> Actions:
        """Find the rows to put back and those to delete, by their keys."""

    @abstractmethod
    def everything(self) -> Actions:
        """Give all rows of the old state."""


def reverted(
    table: Table,
    to: int,
    engine: Callable[[RevertPlan], Engine],
    *,
    dry_run: bool = False,
    options: WriteOptions | None = None,
    etag: int | None = None,
) -> Reverted:
    """Turn a table's present state into that of an earlier transaction.

    Args:
        table: The table.
        to: The transaction to go back to.
        engine: Makes what finds rows, and the index of the old state if there is none.
        dry_run: Only say what would be done.
        options: Locks, and what to keep with the transaction.
        etag: The transaction that the table must still be at.

    Raises:
        NotFoundError: There is no such transaction.
        UsageError: The old state lacks a column of the key that the table has now.
        ViolationsError: What the engine finds wrong with its rows.
        DamagedError: The old state cannot be read any more; what is missing is named.
        ConflictError: Somebody changed the table meanwhile; nothing was changed.
        LockTimeoutError: A writer did not give its lock up in time.
    """
    with told(table, "revert", active=not dry_run) as telling, table.lease() as lease:
        wanted = plans.plan(table.store, lease.snapshot, to, etag)
        own = engine(wanted)
        if wanted.same_state:
            return Reverted(to, None, 0, 0, own.rows(), wanted.to.schema_hash)
        outcome = own.check()
        job = _Job(table, wanted, own, options or WriteOptions(), outcome)
        done = job.run(dry_run=dry_run)
        if done.transaction is not None:
            telling.read(wanted.to, rows=done.put_back)
            rows = done.put_back + (done.deleted or 0)
            telling.wrote(table.snapshot, rows=rows, columns=same_columns(wanted.to))
        return done


def old_shape(wanted: RevertPlan) -> Shape:
    """Return the shape that the index of the old state has."""
    return shape_of(wanted.to.earliest_equal())


def whole_lines(table: Table, wanted: RevertPlan) -> LinesAgain:
    """Return what writes all rows of the old state again."""
    return LinesAgain.of(
        table,
        wanted.head,
        wanted.to.schema_hash,
        deleted_under=(),
        put_back_under={block.schema_hash for block in wanted.to.blocks},
    )


def under_other_schemas(wanted: RevertPlan) -> list[tuple[int, int]]:
    """Ranges of row versions since the old state that came under another schema."""
    head, to = wanted.head, wanted.to
    ranges: list[tuple[int, int]] = []
    for block in head.blocks_after(to.number):
        if block.schema_hash == to.schema_hash:
            continue
        start = block.first_version or block.number
        if ranges and ranges[-1][1] == start - 1:
            ranges[-1] = (ranges[-1][0], block.number)
        else:
            ranges.append((start, block.number))
    # Too many make too large an expression; more rows than needed do no harm.
    return ranges if len(ranges) <= MOST_RANGES else [(ranges[0][0], ranges[-1][1])]


def _keys_readable(wanted: RevertPlan) -> bool:
    """Whether rows written since can be told apart by the old keys, whatever came."""
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
        table: The table.
        wanted: The plan.
        engine: Finds rows.
        options: Locks, and what to keep with the transaction.
        outcome: What is wrong with the rows.
    """

    def __init__(
        self,
        table: Table,
        wanted: RevertPlan,
        engine: Engine,
        options: WriteOptions,
        outcome: Outcome,
    ) -> None:
        self._table = table
        self._wanted = wanted
        self._engine = engine
        self._options = options
        self._outcome = outcome
        self._whole = not old_shape(wanted).keys or not _keys_readable(wanted)

    def run(self, *, dry_run: bool) -> Reverted:
        """Write the difference and commit it, or only say what it is."""
        engine = self._engine
        actions = engine.everything() if self._whole else engine.difference()
        if not dry_run:
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
            0 if self._whole else self._engine.rows() - put_back,
            to.schema_hash,
            whole=self._whole,
            **asdict(self._outcome),
        )

    def _write(self, actions: Actions) -> Reverted:
        wanted, lines = self._wanted, self._lines()
        made: list[int] = []

        def committed(written: Written) -> Snapshot | None:
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
                metadata={**self._options.metadata, **self._said()},
            )
            made.append(done.number)
            return done

        written = lines.commit(actions, self._options, committed, whole=self._whole)
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
        return {"by": current_user(), "reverted_to": self._wanted.to.number, **wrong}
