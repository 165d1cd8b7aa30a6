"""What a state comes down to: its fingerprints, and its values that do not fit."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import BLOCK, DIGEST, MISFITS, ORDINAL, aliases
from singerlake.rows.blocks.misfits import ColumnMisfits
from singerlake.rows.state.fingerprint import FULL, SUMMED, Content, Proof, Summer
from singerlake.rows.state.misfit_steps import COUNTED, MisfitCounter, merged
from singerlake.rows.state.shape import Shape
from singerlake.snapshot import content as contents
from singerlake.snapshot.index import Index


def state_content(
    spark: SparkSession, table: Table, snapshot: TableState, *how: Any, **more: Any
) -> Content:
    """Count and fingerprint a state from its blocks alone; see ``snapshot/content.py``."""
    return contents.state_content(SparkEngine(spark), table, snapshot, *how, **more)


def index_content(spark: SparkSession, index: Index, *how: Any) -> Content:
    """Count and fingerprint what an index holds."""
    return contents.index_content(SparkEngine(spark), index, *how)


def frame_content(frame: DataFrame, columns: Columns, proofs: tuple[Proof, ...] = FULL) -> Content:
    """Count and fingerprint the rows of a frame.

    Args:
        frame: Rows with their digests.
        columns: Names and types.
        proofs: Which fingerprints.
    """
    kept = frame.select(*aliases(columns), DIGEST)
    engine = SparkEngine(frame.sparkSession)
    sums = engine.map(SparkRows(kept), Summer(columns, proofs), SUMMED)
    return contents.total(engine, sums, proofs)


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
