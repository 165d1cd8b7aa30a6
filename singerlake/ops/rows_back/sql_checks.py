"""Rows that come back as Spark reads them, to be held against constraints."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.rows_back.actions import EACH_ROW, each_row
from singerlake.ops.rows_back.revert_plan import RevertPlan
from singerlake.ops.rows_back.undo_plan import UndoPlan
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot.index import Index
from singerlake.sql.state import frames, index_build, index_rows


def old_rows(spark: SparkSession, table: Table, wanted: RevertPlan, old: Index) -> DataFrame:
    """Return the rows of the old state, as they will be read."""
    after = wanted.after
    rows = index_rows.rows(spark, old)
    if after.reads_like(wanted.to):
        return rows
    # The index has the rows as of then. Without a key each row is read, whatever it has.
    read = Shape(after.columns, (), old.shape.survival)
    every = frames.read_blocks(spark, table, after, wanted.to.blocks, read)
    return every.join(rows.select(BLOCK, ORDINAL), [BLOCK, ORDINAL], "left_semi")


def rows_after(
    spark: SparkSession, table: Table, wanted: UndoPlan, rows: SparkRows, *, whole: bool
) -> DataFrame:
    """Return the rows that come back, or all rows of the table as it will be.

    Args:
        rows: Positions of the rows that are written, as in ``actions.FOUND``.
    """
    after = wanted.after
    shape = replace(shape_of(after), keys=())
    actions = SparkEngine(spark).map(rows, each_row, EACH_ROW).frame
    back = _read(spark, table, after, shape, actions.where("not deleted"))
    return _whole(spark, table, after, wanted, actions, back) if whole else back


def _read(
    spark: SparkSession, table: Table, after: TableState, shape: Shape, positions: DataFrame
) -> DataFrame:
    """Rows by their positions, with columns as they will be read."""
    every = frames.read_blocks(spark, table, after, after.blocks, shape)
    wanted = positions.select(F.col("block").alias(BLOCK), F.col("row").alias(ORDINAL))
    return every.join(wanted, [BLOCK, ORDINAL], "left_semi")


def _whole(
    spark: SparkSession,
    table: Table,
    after: TableState,
    wanted: UndoPlan,
    actions: DataFrame,
    back: DataFrame,
) -> DataFrame:
    """All rows of the table as it will be: what has to hold of all of them together."""
    shape = shape_of(after)
    if not shape.keys:
        return back  # all rows are written anew
    now = index_rows.rows(spark, index_build.ensure(spark, table, wanted.head))
    places = now.select(F.col(BLOCK).alias("block"), F.col(ORDINAL).alias("row"))
    stay = places.join(actions.where("deleted"), ["block", "row"], "left_anti")
    rows = _read(spark, table, after, replace(shape, keys=()), stay)
    others = rows.join(back.select(*shape.key_aliases), shape.key_aliases, "left_anti")
    return others.select(*back.columns).unionAll(back)
