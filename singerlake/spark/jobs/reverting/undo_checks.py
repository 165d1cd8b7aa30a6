"""Whether rows that an undo brings back may be those of the table, by what is said of it now."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.lake import Table
from singerlake.maintenance.alter import retyped_columns
from singerlake.maintenance.undo import UndoPlan
from singerlake.records.rows.row_columns import BLOCK, ORDINAL
from singerlake.records.state.shape import Shape, shape_of
from singerlake.rows_back.revert import Outcome
from singerlake.spark.jobs.reverting.revert_checks import misfits_error, violations_error
from singerlake.spark.sql.violations import check_constraints
from singerlake.spark.state import content, frames, index_build, index_rows
from singerlake.transactions.snapshot import Snapshot


def check_outcome(
    spark: SparkSession,
    table: Table,
    wanted: UndoPlan,
    actions: DataFrame,
    *,
    allow_violations: bool,
    allow_misfits: bool,
) -> Outcome:
    """Refuse rows that do not keep what is asked of rows, by what is said now.

    Args:
        spark: The session.
        table: The table.
        wanted: The plan.
        actions: Positions of the rows that are written, and whether each is deleted.
        allow_violations: Name constraints that are broken, and refuse nothing for them.
        allow_misfits: The same of values that do not fit.

    Raises:
        ViolationsError: There are such rows, and they are not allowed.
    """
    after = _after(wanted)
    asked = after.overlay.constraints
    retyped = set[str]()
    for group in wanted.groups:
        if group.before is not None:
            retyped |= retyped_columns(group.before, after)
    if not asked and not retyped:
        return Outcome()
    shape = replace(shape_of(after), keys=())
    back = _read(spark, table, after, shape, actions.where("not deleted"))
    named = f"rows of {table.name} that would come back"
    misfits = [one for one in content.frame_misfits(back, shape) if one.column in retyped]
    if misfits and not allow_misfits:
        raise misfits_error(table, named, misfits)
    rows = back
    if any(one.kind == "unique" for one in asked.values()):
        rows = _whole(spark, table, after, wanted, actions, back)
    broken = check_constraints(rows, replace(shape, keys=after.key), asked) if asked else []
    if broken and not allow_violations:
        raise violations_error(table, named, broken, "undo")
    return Outcome([one.name for one in broken], [one.column for one in misfits])


def _after(wanted: UndoPlan) -> Snapshot:
    """The table as it will be read: under the schema to come, by what people say now."""
    state = wanted.head
    for group in wanted.groups:
        if group.restores_schema and group.before is not None:
            state = group.before.laid_over(wanted.head.overlay)
            break
    return replace(state, blocks=wanted.head.blocks)


def _read(
    spark: SparkSession, table: Table, after: Snapshot, shape: Shape, positions: DataFrame
) -> DataFrame:
    """Rows by their positions, with columns as they will be read."""
    every = frames.read_blocks(spark, table, after, after.blocks, shape)
    wanted = positions.select(F.col("block").alias(BLOCK), F.col("row").alias(ORDINAL))
    return every.join(wanted, [BLOCK, ORDINAL], "left_semi")


def _whole(
    spark: SparkSession,
    table: Table,
    after: Snapshot,
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
