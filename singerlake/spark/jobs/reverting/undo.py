"""The undo job: take back what some transactions did, and leave what came after.

What becomes of each row is worked out by positions (``undo_rows.py``); what differs is written as
a revert writes it: lines as they were, and once more as deletions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import ConflictError
from singerlake.lake import Table
from singerlake.lineage import same_columns, told
from singerlake.maintenance import undo as plans
from singerlake.maintenance.revert import commit_revert
from singerlake.maintenance.undo import OnConflict, UndoPlan
from singerlake.quantities import count
from singerlake.records.rows.row_columns import BLOCK, ORDINAL, aliases
from singerlake.records.state.shape import shape_of
from singerlake.rows_back.lines_again import LinesAgain, Written, check_keys
from singerlake.rows_back.revert import Outcome
from singerlake.spark.jobs.reverting import undo_rows
from singerlake.spark.jobs.reverting.actions_frame import ActionsFrame, lacking
from singerlake.spark.jobs.reverting.undo_checks import check_outcome
from singerlake.spark.jobs.reverting.undo_rows import CONFLICT, GOAL, NOW, TOUCHED
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.progress import stages
from singerlake.spark.state import frames
from singerlake.transactions.commit import current_user
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import WriteOptions

LISTED = 1000
"""So many conflicts are named at most."""
SHOWN = 10
"""So many of them in an error."""


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
    """What an undo did, or would do.

    Attributes:
        undone: The transactions that were taken back.
        transaction: The transaction it made; None where it made none.
        put_back: Rows that are again what they were before.
        deleted: Rows that are gone again.
        conflicts: Rows that were touched again since.
        first_conflicts: Those of them that come first by their ids.
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


def undo(
    spark: SparkSession,
    table: Table,
    numbers: Sequence[int],
    *,
    on_conflict: OnConflict = OnConflict.FAIL,
    dry_run: bool = False,
    options: WriteOptions | None = None,
    etag: int | None = None,
    allow_violations: bool = False,
    allow_misfits: bool = False,
) -> Undone:
    """Take back what some transactions did, by one new transaction.

    Args:
        spark: The session.
        table: The table.
        numbers: The transactions, in any order.
        on_conflict: What becomes of rows that were touched again since.
        dry_run: Only say what would be done; conflicts are no error then.
        options: Locks, and what to keep with the transaction.
        etag: The transaction that the table must still be at.
        allow_violations: Undo even if rows that come back do not keep the constraints that the
            table has now; the transaction says so.
        allow_misfits: Undo even if values that come back do not fit the type that their column
            has now; the transaction says so.

    Raises:
        NotFoundError: There is no such transaction, or a state that is needed was given up.
        UsageError: It cannot be undone; what can be done instead is said.
        ConflictError: Rows were touched again, and nothing was said of what becomes of them; or
            somebody changed the table meanwhile. Nothing was changed.
        ViolationsError: Rows that come back do not keep the constraints, or the types, of now.
        DamagedError: A state that is needed cannot be read any more.
        LockTimeoutError: A writer did not give its lock up in time.
    """
    telling = told(table, "revert", active=not dry_run)
    with telling as run, table.lease() as lease, plain_errors(), ExitStack() as stack:
        wanted = plans.plan(table.store, lease.snapshot, numbers, etag)
        job = _Job(spark, table, wanted, options or WriteOptions(), stack)
        job.allow_violations, job.allow_misfits = allow_violations, allow_misfits
        found = job.look(on_conflict)
        if dry_run:
            return found
        if found.conflicts and on_conflict is OnConflict.FAIL:
            raise conflict_error(wanted, found)
        done = job.write(found, on_conflict)
        if done.transaction is not None:
            head = table.snapshot()
            run.wrote(head, rows=done.put_back + done.deleted, columns=same_columns(head))
        return done


def conflict_error(wanted: UndoPlan, found: Undone) -> ConflictError:
    """Return the error of rows that were touched again, and of which nothing was said."""
    names = shape_of(wanted.head).key_names
    rows = count(found.conflicts, "row")
    lines = [
        f"{rows} of {wanted.head.table} that {_which(wanted)} wrote "
        f"{'was' if found.conflicts == 1 else 'were'} touched again since; nothing was changed:",
        *(f"  {', '.join(names)} {one}" for one in found.first_conflicts[:SHOWN]),
    ]
    if (more := found.conflicts - len(lines) + 1) > 0:
        lines.append(f"  and {more:,} more")
    lines.append(
        "say what becomes of them: --ours leaves them as they are now, --theirs takes them back to "
        "what they were before, too (on_conflict= in Python)"
    )
    error = ConflictError("\n".join(lines))
    error.lines = tuple(lines)
    return error


def _which(wanted: UndoPlan) -> str:
    numbers = wanted.numbers
    if len(numbers) == 1:
        return f"transaction {numbers[0]}"
    return f"transactions {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


class _Job:
    """One undo: first a look, then the writing of just what was seen.

    Attributes:
        allow_violations: As for :func:`undo`.
        allow_misfits: The same.
    """

    allow_violations = False
    allow_misfits = False

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        wanted: UndoPlan,
        options: WriteOptions,
        stack: ExitStack,
    ) -> None:
        self._spark = spark
        self._table = table
        self._wanted = wanted
        self._options = options
        self._stack = stack
        self._keyed = bool(wanted.head.key)
        self._actions: DataFrame | None = None

    def look(self, on_conflict: OnConflict) -> Undone:
        """Find out what there is to do."""
        wanted = self._wanted
        with stages(self._spark, "comparing what was, and is", more=1):
            found = self._look_by_keys(on_conflict) if self._keyed else self._look_by_places()
        if not (found.put_back or found.deleted):
            return found
        assert self._actions is not None, "a look finds them"  # noqa: S101
        outcome = Outcome()
        if found.put_back:
            outcome = check_outcome(
                self._spark,
                self._table,
                wanted,
                self._actions,
                allow_violations=self.allow_violations,
                allow_misfits=self.allow_misfits,
            )
        return replace(found, violations=outcome.violations, misfits=outcome.misfits)

    def write(self, found: Undone, on_conflict: OnConflict) -> Undone:
        """Write and commit what :meth:`look` has found."""
        wanted = self._wanted
        head = wanted.head
        made: list[int] = []
        if not (found.put_back or found.deleted) and wanted.schema_hash == head.schema_hash:
            return found

        def committed(written: Written) -> Snapshot:
            done = commit_revert(
                self._table.store,
                wanted,
                written.blocks,
                lines.schemas,
                writer_id=written.writer_id,
                metrics={"put_back": found.put_back, "deleted": found.deleted},
                metadata={**self._options.metadata, **self._said(found, on_conflict)},
            )
            made.append(done.number)
            return done

        lines = self._lines(whole=found.whole)
        actions = self._actions if found.put_back or found.deleted else None
        lines.commit(
            ActionsFrame(self._nothing() if actions is None else actions),
            self._options,
            committed,
            whole=found.whole,
        )
        return replace(found, transaction=made[0])

    def _look_by_keys(self, on_conflict: OnConflict) -> Undone:
        rows = self._kept(undo_rows.keyed_rows(self._spark, self._table, self._wanted, on_conflict))
        changes = rows.where(undo_rows.needs_writing(self._wanted))
        goes = F.col(GOAL).isNull()
        row = F.when(goes, F.col(NOW)).otherwise(F.col(GOAL))
        self._actions = changes.select(
            row[BLOCK].alias("block"),
            row[ORDINAL].alias("row"),
            goes.alias("deleted"),
            lacking([F.col(key) for key in aliases(shape_of(self._wanted.head).key_columns)]),
        )
        counted = ActionsFrame(self._actions).count()
        check_keys(self._wanted.head, counted)
        conflicts = rows.where(CONFLICT).count()
        first = self._first(rows, conflicts)
        return self._found(counted.put_back, counted.deleted, conflicts, first)

    def _first(self, rows: DataFrame, conflicts: int) -> list[Conflict]:
        if not conflicts:
            return []
        head = self._wanted.head
        shape = shape_of(head)
        own = replace(shape, columns=shape.key_columns, keys=tuple(range(len(shape.keys))))
        some = rows.where(CONFLICT).orderBy(*own.key_aliases).limit(LISTED)
        named = some.select(
            frames.row_id(own).alias("id"), TOUCHED, F.col(NOW).isNull().alias("no")
        )
        return [
            Conflict(one["id"], head.transaction_of_block(one[TOUCHED]), one["no"])
            for one in named.collect()
        ]

    def _look_by_places(self) -> Undone:
        shall, removed, returned = undo_rows.keyless_rows(self._spark, self._table, self._wanted)
        self._actions = shall.withColumn("deleted", F.lit(False))
        found = self._found(returned, removed, 0, [])
        return replace(found, whole=bool(removed or returned))

    def _found(
        self, put_back: int, deleted: int, conflicts: int, first: Sequence[Conflict]
    ) -> Undone:
        wanted = self._wanted
        return Undone(
            undone=wanted.numbers,
            transaction=None,
            put_back=put_back,
            deleted=deleted,
            conflicts=conflicts,
            first_conflicts=first,
            schema_hash=wanted.schema_hash,
            schema_stays=wanted.schema_stays,
        )

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

    def _said(self, found: Undone, on_conflict: OnConflict) -> dict[str, object]:
        said: dict[str, object] = {"by": current_user(), "undone": list(found.undone)}
        if found.conflicts:
            said |= {"conflicts": found.conflicts, "conflicts_kept": str(on_conflict)}
        wrong = {"violations": found.violations, "misfits": found.misfits}
        return said | {word: names for word, names in wrong.items() if names}

    def _nothing(self) -> DataFrame:
        return self._spark.createDataFrame([], "block long, row int, deleted boolean")

    def _kept(self, frame: DataFrame) -> DataFrame:
        """Have a frame computed once, and then kept on the executors' disks."""
        frame.persist(StorageLevel.DISK_ONLY)
        self._stack.callback(frame.unpersist)
        return frame
