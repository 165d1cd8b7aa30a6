"""An index's rows under the table's own names, by Spark; a head's rows, read in this process."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import DIGEST, aliases
from singerlake.rows.state.fingerprint import FULL, SUMMED, Content, Proof, Summer
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import content as contents
from singerlake.snapshot import from_blocks as blocks_read
from singerlake.snapshot.index import Index
from singerlake.snapshot.selection import selection
from singerlake.snapshot.state_reader import StateReader
from singerlake.sql.state import frames, index_rows
from singerlake.sql.state.index_build import ensure


def read_index(spark: SparkSession, built: Index) -> DataFrame:
    return frames.renamed(index_rows.readable(spark, built), built.shape)


def rows_both_ways(spark: SparkSession, table: Table) -> list[dict[str, Any]]:
    """The head by two ways, which must agree: from the blocks alone, and by Spark's index.

    Both are read in this process: ``test_state.py`` holds Spark's own reading to them, and a job
    for each look at a table would take longer than what is looked at.
    """
    head = table.snapshot()
    chosen = selection(table.name, shape_of(head), None, None, strict=False)
    every = set(range(len(head.columns)))

    def from_blocks(columns: Any) -> Any:
        return (batch.select(list(columns)) for batch in blocks_read.local_rows(table, head))

    def read(reader: Any, misfits: set[int]) -> list[dict[str, Any]]:
        return [row for batch in chosen.rows(reader, misfits) for row in batch.to_pylist()]

    found = read(from_blocks, every)
    built = ensure(spark, table, head)
    indexed = read(StateReader.of(built).rows, built.misfits)
    assert sorted(map(repr, found)) == sorted(map(repr, indexed))
    return found


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
