"""The revert job: what differs between two states is found and written on the executors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.format.log import Block
from singerlake.lake import Table
from singerlake.maintenance.revert import RevertPlan
from singerlake.reading.index import Index
from singerlake.records.lines import line_writer
from singerlake.records.lines.line_writer import Described
from singerlake.records.rows.row_columns import BLOCK, DIGEST, ORDINAL, PROVENANCE, alias, aliases
from singerlake.records.state import activations
from singerlake.records.state.shape import Shape
from singerlake.rows_back import revert as reverts
from singerlake.rows_back.lines_again import Actions, Counted, MakeWriter
from singerlake.rows_back.revert import Engine, Outcome, Reverted, under_other_schemas
from singerlake.spark.jobs.reverting.revert_checks import check_outcome
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.state import fold, frames, index_build, index_rows
from singerlake.spark.write import routing
from singerlake.transactions.writer import WriteOptions

LACKING = "lacking"
"""A column: which part of its key a row has a null in."""


def revert(
    spark: SparkSession,
    table: Table,
    to: int,
    *,
    dry_run: bool = False,
    options: WriteOptions | None = None,
    etag: int | None = None,
    allow_violations: bool = False,
    allow_misfits: bool = False,
) -> Reverted:
    """Turn a table's present state into that of an earlier transaction.

    Args:
        spark: The session.
        table: The table.
        to: The transaction to go back to.
        dry_run: Only say what would be done.
        options: Locks, and what to keep with the transaction.
        etag: The transaction that the table must still be at.
        allow_violations: Revert even if the old rows do not keep the constraints that the table
            has now; the transaction says so.
        allow_misfits: Revert even if old values do not fit the type that their column has now;
            the transaction says so.

    Raises:
        ViolationsError: Its rows cannot have the key or the types that the table has now, or do
            not keep the constraints.
        SingerlakeError: Anything else as ``reverted`` says.
    """

    def engine(wanted: RevertPlan) -> Engine:
        return _Executors(
            spark, table, wanted, allow_violations=allow_violations, allow_misfits=allow_misfits
        )

    return reverts.reverted(table, to, engine, dry_run=dry_run, options=options, etag=etag)


@dataclass(frozen=True)
class ActionsFrame(Actions):
    """Rows by position, as a frame.

    Attributes:
        frame: ``block``, ``row`` and ``deleted``; where a key may have a null, also ``LACKING``.
    """

    frame: DataFrame

    @plain_errors()
    def count(self) -> Counted:
        """Count the rows to put back, and those to delete."""
        first = F.lit(None)
        if LACKING in self.frame.columns:
            row = F.struct("block", "row", LACKING)
            first = F.min(F.when(F.col("deleted") & F.col(LACKING).isNotNull(), row))
        counts = (F.count_if(~F.col("deleted")), F.count_if("deleted"), first)
        ((put_back, deleted, keyless),) = self.frame.agg(*counts).collect()
        return Counted(put_back, deleted, None if keyless is None else tuple(keyless))

    @plain_errors()
    def write(self, blocks: Sequence[Block], writer: MakeWriter) -> Iterable[Described]:
        """Have them written, as :meth:`Actions.write` says."""
        frame = self.frame.select("block", "row", "deleted")
        routed, known = routing.by_blocks(self.frame.sparkSession, frame, blocks)
        return routed.mapInArrow(writer(known), line_writer.WRITTEN).collect()


def lacking(keys: Sequence[Column]) -> Column:
    """Which part of its key a row has a null in; null where it has none."""
    parts = (F.when(key.isNull(), F.lit(part)) for part, key in enumerate(keys))
    return F.coalesce(*parts).alias(LACKING)


def every_row(spark: SparkSession, index: Index) -> Actions:
    """Return all rows of a state, none of them to be deleted."""
    rows = index_rows.rows(spark, index)
    return ActionsFrame(
        rows.select(
            F.col(BLOCK).alias("block"), F.col(ORDINAL).alias("row"), F.lit(False).alias("deleted")
        )
    )


class _Executors(Engine):
    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        wanted: RevertPlan,
        *,
        allow_violations: bool,
        allow_misfits: bool,
    ) -> None:
        self._spark = spark
        self._table = table
        self._wanted = wanted
        self._allow_violations = allow_violations
        self._allow_misfits = allow_misfits
        with plain_errors():
            self._old = index_build.ensure(spark, table, wanted.to)

    @plain_errors()
    def rows(self) -> int:
        return index_rows.count(self._spark, self._old)

    @plain_errors()
    def check(self) -> Outcome:
        return check_outcome(
            self._spark,
            self._table,
            self._wanted,
            self._old,
            allow_violations=self._allow_violations,
            allow_misfits=self._allow_misfits,
        )

    @plain_errors()
    def everything(self) -> Actions:
        return every_row(self._spark, self._old)

    @plain_errors()
    def difference(self) -> Actions:
        old, now = self._old_rows().alias("old"), self._present().alias("now")
        names = aliases(len(self._old.shape.keys))
        places = (fold.own_place(names, f"{side}.") for side in ("old", "now"))
        same_key = _all_equal(names) & reduce(Column.eqNullSafe, places)
        same_row = _all_equal((BLOCK, ORDINAL))
        # By the bytes of the record: two values may look alike as columns, or be in none. A row
        # that came under another schema would read otherwise once that schema is back, and beyond
        # a change of defaults it shows another one.
        same_record = _all_equal((DIGEST,)) & ~_within(
            F.col(f"now.{BLOCK}"), under_other_schemas(self._wanted)
        )
        for side in ("old", "now"):
            same_record &= F.col(f"{side}.{BLOCK}").between(*self._wanted.default_span)
        came = F.col(f"old.{BLOCK}").isNull()
        went = F.col(f"now.{BLOCK}").isNull()
        return ActionsFrame(
            old.join(now, same_key, "full_outer")
            .where(came | went | ~(same_row | same_record))
            .select(
                F.coalesce(f"old.{BLOCK}", f"now.{BLOCK}").alias("block"),
                F.coalesce(f"old.{ORDINAL}", f"now.{ORDINAL}").alias("row"),
                came.alias("deleted"),
                lacking([F.col(f"now.{name}") for name in names]),
            )
        )

    def _old_rows(self) -> DataFrame:
        """The old state: its keys and provenance. Values do not matter."""
        keys = self._old.shape.key_aliases
        named = [F.col(key).alias(alias(n)) for n, key in enumerate(keys)]
        return index_rows.rows(self._spark, self._old, digests=True).select(*named, *PROVENANCE)

    def _present(self) -> DataFrame:
        """The state now, under the old keys, in the same columns."""
        head = self._wanted.head
        since = head.blocks_after(self._wanted.to.number)
        columns = self._old.shape.key_columns
        shape = Shape(columns, tuple(range(len(columns))), activations.survival(head.blocks))
        size = sum(block.bytes for block in since) + 3 * self._old.bytes
        later = frames.read_blocks(self._spark, self._table, head, since, shape, digests=True)
        earlier = fold.undeleted(self._old_rows())
        return fold.fold(earlier.unionAll(later), shape, size)


def _within(column: Column, ranges: list[tuple[int, int]]) -> Column:
    within = F.lit(False)
    for first, last in ranges:
        within |= column.between(first, last)
    return F.coalesce(within, F.lit(False))


def _all_equal(names: Iterable[str]) -> Column:
    equal = F.lit(True)
    for name in names:
        equal &= F.col(f"old.{name}").eqNullSafe(F.col(f"now.{name}"))
    return equal
