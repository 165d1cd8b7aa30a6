"""Differences between two states of a table, as frames."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql.pandas.types import from_arrow_schema

from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.engine.spark.jvm import failures, many_columns
from singerlake.format.sql_tokens import quote
from singerlake.lake import Table
from singerlake.ops.diff.diff import Diff, under_lease
from singerlake.rows.blocks.misfits import check_choice
from singerlake.rows.state.paired_rows import AFTER, BEFORE, RESPELLED, FlatStep
from singerlake.rows.state.rows_at import PAIR
from singerlake.sql import row_weight
from singerlake.sql.result import QueryResult


class FrameDiff(Diff[SparkRows]):
    """The difference, found and read by Spark."""

    @property
    def frame(self) -> DataFrame:
        """The rows that differ, in order of their keys, or of position.

        Its columns: ``change`` (``added``, ``changed`` or ``removed``); ``key``, a struct of the
        key's columns, or without a key ``row_id`` (``block:ordinal``); ``changed``, the names of
        the columns that differ, null unless the row is in both states; and ``before`` and
        ``after``, structs of all columns, null where the row is not in that state.
        """
        # To read what does not fit is an error, and so is a row that is too heavy.
        mark = many_columns.text(failures.MISFIT_MARK)
        refused = f"raise_error(concat({mark}, misfit))"
        sides = [
            f"case when misfit is null then {side} else {refused} end as {side}"
            for side in (BEFORE, AFTER)
        ]
        change = row_weight.checked("change", "weight")
        identity = "key" if self._shape.keys else "row_id"
        order = [f"key.{quote(name)}" for name in self.key] or [PAIR]
        rows = self._rows.frame.where(F.col("change") != RESPELLED)
        columns = [f"{change} as change", identity, "changed", *sides, PAIR]
        return many_columns.selected(rows, columns).orderBy(*order).drop(PAIR)

    @property
    def flat(self) -> DataFrame:
        """The same without structs: ``key.id``, ``before.total``, ``after.total``.

        Key columns are there once.
        """
        return self._flat(self.frame)

    def rows(self, most: int | None = None) -> QueryResult:  # noqa: D102
        return QueryResult(_first(self.frame, most), [])

    def flat_rows(self, most: int | None = None) -> QueryResult:  # noqa: D102
        return QueryResult(self._flat(_first(self.frame, most)), [])

    def _flat(self, frame: DataFrame) -> DataFrame:
        # Thousands of columns taken out of a struct keep Spark's optimizer busy for seconds.
        step = FlatStep(self._shape.columns, self._shape.keys)
        return frame.mapInArrow(step, from_arrow_schema(step.schema))


def diff(
    spark: SparkSession,
    table: Table,
    before: str,
    after: str | None = None,
    *,
    on_type_mismatch: str,
) -> FrameDiff:
    """Compare two states of a table. See :func:`singerlake.spark.diff`."""
    check_choice(on_type_mismatch)
    engine = SparkEngine(spark)
    return under_lease(
        table,
        before,
        after,
        lambda compared, lease: FrameDiff(engine, table, compared, lease, on_type_mismatch),
    )


def _first(frame: DataFrame, most: int | None) -> DataFrame:
    return frame if most is None else frame.limit(most)
