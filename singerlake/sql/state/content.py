"""The values of a state that do not fit."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import BLOCK, MISFITS, ORDINAL
from singerlake.rows.blocks.misfits import ColumnMisfits
from singerlake.rows.state.misfit_steps import COUNTED, MisfitCounter, merged
from singerlake.rows.state.shape import Shape
from singerlake.snapshot import content as contents
from singerlake.snapshot.index import Index


def state_misfits(spark: SparkSession, table: Table, snapshot: TableState) -> list[ColumnMisfits]:
    """Find the values of a state that do not fit, from its blocks alone."""
    return contents.state_misfits(SparkEngine(spark), table, snapshot)


def index_misfits(spark: SparkSession, index: Index) -> list[ColumnMisfits]:
    """Find the values in an index that do not fit."""
    return contents.index_misfits(SparkEngine(spark), index)


def frame_misfits(frame: DataFrame, shape: Shape) -> list[ColumnMisfits]:
    """Find the values in a frame of rows with provenance that do not fit."""
    some = frame.where(frame[MISFITS].isNotNull())
    selected = some.select(*shape.key_aliases, BLOCK, ORDINAL, MISFITS)
    with plain_errors():
        counts = selected.mapInArrow(MisfitCounter.of(shape), COUNTED).collect()
    return merged(counts, shape)
