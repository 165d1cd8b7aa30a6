"""What a state comes down to: its fingerprints, and its values that do not fit."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.reading.index import Index
from singerlake.records.blocks.misfits import FAIL, ColumnMisfits
from singerlake.records.rows.row_columns import BLOCK, DIGEST, MISFITS, ORDINAL, aliases
from singerlake.records.rows.steps import Pipeline, Step
from singerlake.records.state.fingerprint import FULL, SUMMED, Content, Proof, Summer, Sums
from singerlake.records.state.misfit_steps import COUNTED, MisfitCheck, MisfitCounter, merged
from singerlake.records.state.shape import Shape
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.progress import stages
from singerlake.spark.state import from_blocks, index_rows
from singerlake.spark.state.frames import numbered
from singerlake.transactions.snapshot import Snapshot


def state_content(
    spark: SparkSession,
    table: Table,
    snapshot: Snapshot,
    proofs: tuple[Proof, ...] = FULL,
    misfits: str = FAIL,
) -> Content:
    """Count and fingerprint a state from its blocks alone, past any index.

    Args:
        spark: The session.
        table: The table.
        snapshot: The table at the transaction.
        proofs: Which fingerprints.
        misfits: What becomes of a value that does not fit. Only the fingerprint of the records
            tells one misfit from another that is read as null.

    Raises:
        DamagedError: A block cannot be read, or a value does not fit.
    """
    with plain_errors():
        plan = from_blocks.planned(
            spark, table, snapshot, digests=Proof.RECORDS in proofs, shown=True
        )
        shape = plan.shape
        summer: Step = Summer(shape.columns, proofs)
        if misfits == FAIL:
            check = MisfitCheck(table.name, shape.names, keyed=bool(shape.keys))
            summer = Pipeline((check, summer))
        return _total(from_blocks.through(spark, plan, summer, SUMMED), proofs)


def index_content(spark: SparkSession, index: Index, proofs: tuple[Proof, ...] = FULL) -> Content:
    """Count and fingerprint what an index holds."""
    columns = index.shape.columns
    with stages(spark, "adding up fingerprints"):
        if index.below is not None:
            return frame_content(index_rows.readable(spark, index, digests=True), columns, proofs)
        # Summed where it is read, every byte checked: the rows need not go through Java.
        summer = Pipeline((index.reader(digests=True), Summer(columns, proofs)))
        return _total(numbered(spark, len(index.parts)).mapInArrow(summer, SUMMED), proofs)


def frame_content(frame: DataFrame, columns: Columns, proofs: tuple[Proof, ...] = FULL) -> Content:
    """Count and fingerprint the rows of a frame.

    Args:
        frame: Rows with their digests.
        columns: Names and types.
        proofs: Which fingerprints.
    """
    kept = frame.select(*aliases(columns), DIGEST)
    return _total(kept.mapInArrow(Summer(columns, proofs), SUMMED), proofs)


def _total(sums: DataFrame, proofs: tuple[Proof, ...]) -> Content:
    """Add up what partitions have summed: a few kilobytes each, never rows."""
    total = Sums(proofs)
    for row in sums.collect():
        total.add(row.asDict())
    return total.content()


def state_misfits(spark: SparkSession, table: Table, snapshot: Snapshot) -> list[ColumnMisfits]:
    """Find the values of a state that do not fit, from its blocks alone."""
    plan = from_blocks.planned(spark, table, snapshot, shown=True)
    with plain_errors():
        counts = from_blocks.through(spark, plan, MisfitCounter.of(plan.shape), COUNTED).collect()
    return merged(counts, plan.shape)


def index_misfits(spark: SparkSession, index: Index) -> list[ColumnMisfits]:
    """Find the values in an index that do not fit."""
    if not index.misfits:
        return []
    return frame_misfits(index_rows.rows(spark, index), index.shape)


def frame_misfits(frame: DataFrame, shape: Shape) -> list[ColumnMisfits]:
    """Find the values in a frame of rows with provenance that do not fit."""
    some = frame.where(frame[MISFITS].isNotNull())
    selected = some.select(*shape.key_aliases, BLOCK, ORDINAL, MISFITS)
    with plain_errors():
        counts = selected.mapInArrow(MisfitCounter.of(shape), COUNTED).collect()
    return merged(counts, shape)
