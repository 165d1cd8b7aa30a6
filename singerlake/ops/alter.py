"""The alter job: look at the rows, where what is to be said of a table depends on them.

A key is given only to rows that it is for. Rows that were replaced or deleted under the old key
may come back under a new one; then all rows of the state are written again, behind
ACTIVATE_VERSION lines that remove everything before, in the same transaction.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import InvalidQueryError, ViolationsError
from singerlake.format.laid import member_of
from singerlake.format.log import Block
from singerlake.lake import Table
from singerlake.log.commit import new_writer_id
from singerlake.log.writer import clean_up, hold_locks
from singerlake.ops.change.sql.state_after import check_defaults
from singerlake.ops.rows_back.difference import every_row
from singerlake.ops.rows_back.revert import whole_lines
from singerlake.ops.rows_back.revert_plan import RevertPlan
from singerlake.overlay import alter as plans
from singerlake.overlay.alter import (
    Altered,
    AlterOptions,
    AlterPlan,
    OverlayChange,
    Rewritten,
    looks_at_rows,
)
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.blocks.misfits import NULL
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot.index import Index
from singerlake.sql.state import content, from_blocks, index_build, index_rows
from singerlake.sql.state.key_violations import folds_alike, key_violations
from singerlake.sql.violations import Violation, check_constraints


def alter(
    spark: SparkSession,
    table: Table,
    change: OverlayChange,
    options: AlterOptions | None = None,
    *,
    allow_misfits: bool = False,
) -> Altered:
    """Alter a table, whatever is to be said of it.

    Args:
        spark: The session.
        table: The table.
        change: What is to be said.
        options: How.
        allow_misfits: Give a column its type even if values of it do not fit.

    Raises:
        NotFoundError: The table has no such column.
        UsageError: It cannot be said, or the table has lost its log.
        ViolationsError: Rows are not what they would have to be; nothing was changed.
        ConflictError: Somebody changed the table meanwhile; nothing was changed.
        DamagedError: A row that is needed cannot be read.
    """
    options = options or AlterOptions()
    with table.lease() as lease, plain_errors():
        wanted = plans.plan(lease.snapshot, change, options)
        if wanted.same:
            return Altered([])
        if not looks_at_rows(wanted):
            return plans.alter(table.store, lease.snapshot, change, options)
        return _Job(spark, table, wanted, change, options).run(allow_misfits=allow_misfits)


class _Job:
    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        wanted: AlterPlan,
        change: OverlayChange,
        options: AlterOptions,
    ) -> None:
        self._spark = spark
        self._table = table
        self._wanted = wanted
        self._change = change
        self._options = options

    def run(self, *, allow_misfits: bool) -> Altered:
        wanted = self._wanted
        if not allow_misfits:
            self._check_values()
        self._check_constraints(with_digits=not allow_misfits)
        if wanted.same_key:
            return self._commit(None)
        now = index_build.ensure(self._spark, self._table, wanted.head, shown=True)
        self._check_key(now)
        if folds_alike(self._spark, self._table, wanted.after, index_rows.rows(self._spark, now)):
            return self._commit(None)
        return self._rewrite(now)

    def _check_values(self) -> None:
        """Refuse a type that values of the column do not fit which fit before."""
        wanted = self._wanted
        if not (names := wanted.retyped):
            return
        found = content.state_misfits(self._spark, self._table, wanted.after)
        bad = [one for one in found if one.column in names]
        if bad:
            raise ViolationsError.of_lines(
                f"{wanted.head.table} has values that do not fit their new type, and nothing was "
                "altered:",
                *(line for one in bad for line in one.lines()),
                "give the column a type that all of them fit, or say --allow-misfits: they stay as "
                "they are, and whoever reads them is told",
            )

    def _check_constraints(self, *, with_digits: bool) -> None:
        """Refuse what rows do not keep, as they will be read."""
        wanted = self._wanted
        anew = {**wanted.rechecked, **(wanted.declared_digits if with_digits else {})}
        laid = wanted.after
        check_defaults(self._spark, laid, shape_of(laid), wanted.checked_defaults)
        found: list[Violation] = []
        if wanted.new_constraints:
            now = index_build.ensure(self._spark, self._table, wanted.head, shown=True)
            rows = index_rows.rows(self._spark, now)
            found += check_constraints(rows, now.shape, wanted.new_constraints)
        if anew:
            after = from_blocks.state_rows(self._spark, self._table, wanted.after, NULL)
            found += check_constraints(after, shape_of(wanted.after), anew)
        if broken := next((one for one in found if one.why), None):
            raise InvalidQueryError(broken.untold)
        if found:
            raise ViolationsError.of_lines(
                f"rows of {wanted.head.table} do not keep what is asked, and nothing was altered:",
                *(line for one in found for line in one.lines()),
                "correct these rows first, or ask for less",
            )

    def _check_key(self, now: Index) -> None:
        wanted = self._wanted
        own = {member_of(wanted.head.overlay, n): at for at, n in enumerate(now.shape.names)}
        names = wanted.after.schema.key_properties
        columns = [alias(own[member_of(wanted.overlay, name)]) for name in names]
        if wanted.after.rounds_keys:  # then rows with another key each may look alike
            found_misfits = content.state_misfits(self._spark, self._table, wanted.after)
            if bad := [one for one in found_misfits if one.column in names]:
                raise ViolationsError.of_lines(
                    f"{wanted.head.table} cannot have the key {', '.join(names)}, and nothing was "
                    "altered:",
                    *(line for one in bad for line in one.lines()),
                    "give these columns a type that holds every key first, for example "
                    "'decimal(38,0)' or text",
                )
        found = key_violations(index_rows.rows(self._spark, now), columns, names)
        if found:
            raise ViolationsError.of_lines(
                f"{wanted.head.table} cannot have the key {', '.join(names)}, and nothing was "
                "altered:",
                *found.lines(),
                "correct these rows first, or name more columns that tell them apart",
            )

    def _rewrite(self, now: Index) -> Altered:
        wanted, options = self._wanted, self._options
        if options.dry_run:
            rows = index_rows.count(self._spark, now)
            return Altered(wanted.words, None, rows)
        store, head = self._table.store, wanted.head
        lines = whole_lines(self._table, RevertPlan(head, head))
        writer_id = new_writer_id()
        with hold_locks(store, head.table, lines.schemas, writer_id, options.writing) as locks:
            blocks: list[Block] = []
            try:
                lines.write(every_row(SparkEngine(self._spark), now), blocks, whole=True)
                locks.check()
                return self._commit(Rewritten(blocks, lines.schemas, writer_id, locks.check))
            except BaseException as error:
                clean_up(error, locks, lambda: lines.withdraw(blocks))
                raise

    def _commit(self, rewritten: Rewritten | None) -> Altered:
        wanted, options = self._wanted, self._options
        if options.dry_run:
            return Altered(wanted.words)
        done = plans.commit_alter(
            self._table.store, wanted, self._change, options, by_rows=True, rewritten=rewritten
        )
        rows = None if rewritten is None else sum(block.rows for block in rewritten.blocks)
        return Altered(wanted.words, done.number, rows)
