"""The constraints that rows which come back would break, as Spark checks them."""

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
from singerlake.rows.batches.violations import Violation
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot.index import Index
from singerlake.sql.state import frames, index_build, index_rows
from singerlake.sql.violations import check_constraints


def broken_by_revert(
    spark: SparkSession, table: Table, wanted: RevertPlan, old: Index
) -> list[Violation]:
    """Find the constraints of today that the rows of the old state do not keep."""
    after = wanted.after
    shape = shape_of(after)
    rows = index_rows.rows(spark, old)
    if not after.reads_like(wanted.to):
        # The index has the rows as of then. Without a key each row is read, whatever it has.
        read = Shape(shape.columns, (), old.shape.survival)
        every = frames.read_blocks(spark, table, after, wanted.to.blocks, read)
        rows = every.join(rows.select(BLOCK, ORDINAL), [BLOCK, ORDINAL], "left_semi")
    return check_constraints(rows, shape, after.overlay.constraints)


def broken_by_undo(
    spark: SparkSession, table: Table, wanted: UndoPlan, rows: SparkRows
) -> list[Violation]:
    """Find the constraints that rows which come back do not keep.

    Args:
        rows: Positions of the rows that are written, as in ``actions.FOUND``.
    """
    after = wanted.after
    asked = after.overlay.constraints
    shape = replace(shape_of(after), keys=())
    actions = SparkEngine(spark).map(rows, each_row, EACH_ROW).frame
    back = _read(spark, table, after, shape, actions.where("not deleted"))
    unique = any(one.kind == "unique" for one in asked.values())
    every = _whole(spark, table, after, wanted, actions, back) if unique else back
    return check_constraints(every, replace(shape, keys=after.key), asked)


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
