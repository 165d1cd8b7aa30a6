"""Whether rows that an undo brings back may be those of the table, by what is said of it now."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.rows_back.actions import EACH_ROW, each_row
from singerlake.ops.rows_back.revert import Outcome
from singerlake.ops.rows_back.revert_checks import outcome
from singerlake.ops.rows_back.undo_plan import UndoPlan
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL
from singerlake.rows.batches.violations import Violation
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.sql.state import content, frames, index_build, index_rows
from singerlake.sql.violations import check_constraints


def check_outcome(
    spark: SparkSession,
    table: Table,
    wanted: UndoPlan,
    rows: SparkRows,
    *,
    allow_violations: bool,
    allow_type_mismatches: bool,
) -> Outcome:
    """Refuse rows that do not keep what is asked of rows, by what is said now.

    Args:
        spark: The session.
        table: The table.
        wanted: The plan.
        rows: Positions of the rows that are written, as in ``actions.FOUND``.
        allow_violations: Name constraints that are broken, and refuse nothing for them.
        allow_type_mismatches: The same of values that do not fit.

    Raises:
        ViolationsError: There are such rows, and they are not allowed.
    """
    after, retyped = wanted.after, wanted.retyped
    asked = after.overlay.constraints
    shape = replace(shape_of(after), keys=())
    actions = SparkEngine(spark).map(rows, each_row, EACH_ROW).frame
    back = _read(spark, table, after, shape, actions.where("not deleted"))

    misfits = content.frame_misfits(back, shape) if retyped else []

    def find_broken() -> list[Violation]:
        if not asked:
            return []
        unique = any(one.kind == "unique" for one in asked.values())
        every = _whole(spark, table, after, wanted, actions, back) if unique else back
        return check_constraints(every, replace(shape, keys=after.key), asked)

    return outcome(
        table,
        f"rows of {table.name} that would come back",
        "undo",
        [one for one in misfits if one.column in retyped],
        find_broken,
        allow_violations=allow_violations,
        allow_type_mismatches=allow_type_mismatches,
    )


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
