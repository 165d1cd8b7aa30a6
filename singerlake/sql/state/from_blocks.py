"""The rows of a state from its blocks, as a frame (``snapshot/from_blocks.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from singerlake.engine.spark.engine import SparkEngine
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import PROVENANCE, row_schema
from singerlake.rows.blocks.block_reader import combined
from singerlake.rows.blocks.misfits import FAIL
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot.from_blocks import planned, through
from singerlake.sql.state import frames


def state(spark: SparkSession, table: Table, snapshot: TableState) -> DataFrame:
    """Read a table's rows at a transaction, without an index.

    Columns are named exactly as the schema's properties; the session should be case
    sensitive, for two may differ only in case.
    """
    return frames.renamed(state_rows(spark, table, snapshot), shape_of(snapshot))


def state_rows(
    spark: SparkSession, table: Table, snapshot: TableState, misfits: str = FAIL
) -> DataFrame:
    """Do as :func:`state`, with provenance, and columns as they are called inside.

    Args:
        misfits: The treatment of a value that does not fit, if it is read.
    """
    read = rows(spark, table, snapshot, shown=True)
    shape = shape_of(snapshot)
    return frames.guarded(read, shape, table.name, range(len(shape.columns)), misfits)


def rows(
    spark: SparkSession,
    table: Table,
    snapshot: TableState,
    *,
    asked: Sequence[bytes] | None = None,
    **how: Any,
) -> DataFrame:
    """Read a state's rows with provenance, misfits as null.

    Args:
        asked: As for ``through``.
        how: As for ``planned``.
    """
    engine = SparkEngine(spark)
    plan = planned(engine, table, snapshot, **how)
    schema = row_schema(plan.shape.columns, PROVENANCE)
    return through(engine, plan, combined, schema, asked=asked).frame
