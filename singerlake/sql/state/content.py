"""Values of a state that do not fit."""

from __future__ import annotations

from pyspark.sql import SparkSession

from singerlake.engine.spark.engine import SparkEngine
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.blocks.misfits import ColumnMisfits
from singerlake.snapshot import content as contents
from singerlake.snapshot.index import Index


def state_misfits(spark: SparkSession, table: Table, snapshot: TableState) -> list[ColumnMisfits]:
    """Find the values of a state that do not fit, from its blocks alone."""
    return contents.state_misfits(SparkEngine(spark), table, snapshot)


def index_misfits(spark: SparkSession, index: Index) -> list[ColumnMisfits]:
    """Find the values in an index that do not fit."""
    return contents.index_misfits(SparkEngine(spark), index)
