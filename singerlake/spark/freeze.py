"""The freeze job: index, count and fingerprint a transaction, then commit the version."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from singerlake.errors import MisfitsError
from singerlake.format.log import FrozenVersion
from singerlake.lake import Table
from singerlake.maintenance import freeze as plans
from singerlake.maintenance import misfits
from singerlake.spark import index
from singerlake.spark.failures import IndexDamagedError, plain_errors
from singerlake.spark.fingerprint import (
    FULL,
    SUMMED,
    Content,
    Proof,
    Summer,
    content,
    gathered,
)
from singerlake.spark.frames import FAIL, shape_of
from singerlake.spark.index import Index
from singerlake.spark.parts import PartReader
from singerlake.spark.state import state_inside
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)


def freeze(
    spark: SparkSession,
    table: Table,
    *,
    at: int | None = None,
    label: str | None = None,
    comment: str | None = None,
) -> FrozenVersion:
    """Make a table version.

    Args:
        spark: The session.
        table: The table.
        at: The transaction to freeze; the head by default.
        label: A name that can stand for the version's number.
        comment: Free text.

    Returns:
        The version as the log has it.

    Raises:
        NotFoundError: There is no such table or transaction.
        UsageError: The label cannot be one or is taken, or the log is lost.
        ConflictError: The label was taken meanwhile, or a vacuum came in between.
        DamagedError: A row cannot be read under the table's schema.
        MisfitsError: A value does not fit its column.
    """
    with table.lease() as lease:
        head = lease.snapshot
        wanted = plans.plan(head, at=at, label=label, comment=comment)
        found = _content(spark, table, wanted.at)
        return plans.commit_version(
            table.store,
            head,
            wanted,
            rows=found.rows,
            fingerprint=found.fingerprint,
            record_fingerprint=found.record_fingerprint,
            lanes={proof.value: hashed.encoded for proof, hashed in found.hashes.items()},
        )


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
        misfits: What becomes of a value that does not fit. Only that of the records tells one
            misfit from another that is read as null.
    """
    with plain_errors():
        digests = Proof.RECORDS in proofs
        frame = state_inside(spark, table, snapshot, misfits, digests=digests)
        return content(frame, shape_of(snapshot).columns, proofs)


def index_content(spark: SparkSession, built: Index, proofs: tuple[Proof, ...] = FULL) -> Content:
    """Count and fingerprint what an index holds."""
    columns, count = built.shape.columns, len(built.parts)
    if built.below is not None:
        return content(index.read_inside(spark, built, digests=True), columns, proofs)
    # Read where it is summed, every byte checked: the rows need not go through Java.
    summer = PartSummer(index.part_reader(built, digests=True), Summer(columns, proofs))
    parts = spark.range(count, numPartitions=max(1, count))
    return gathered(parts.mapInArrow(summer, SUMMED), proofs)


@dataclass
class PartSummer:
    """Sums up the files of an index on the executors.

    Attributes:
        reader: Reads the file of each number.
        summer: Sums its rows up.
    """

    reader: PartReader
    summer: Summer

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sum up the files whose numbers come in."""
        return self.summer(self.reader(numbers))


def _check_exact(spark: SparkSession, built: index.Index, snapshot: Snapshot) -> None:
    """A version is what its rows say, or none: nothing is made null or text on the way."""
    if found := index.misfits(spark, built):
        columns = [one.column for one in found]
        keyed = bool(snapshot.schema.key_properties)
        raise MisfitsError.of_lines(
            f"{snapshot.table} at transaction {snapshot.head} has values that do not fit their "
            "columns, and nothing was frozen:",
            *(f"  {one}" for one in found),
            misfits.ways_out(snapshot.table, columns, keyed=keyed),
        )


def _content(spark: SparkSession, table: Table, snapshot: Snapshot) -> Content:
    """Through the index; where it is not what it says, through a new one from the blocks."""
    try:
        with plain_errors():
            built = index.ensure(spark, table, snapshot)
            _check_exact(spark, built, snapshot)
            found = index_content(spark, built)
        if built.marker.rows in (found.rows, None):
            return found
        logger.warning("the index of %s does not hold what it says; making it anew", table.name)
    except IndexDamagedError as error:  # of a block, or a row, it would be the same once more
        logger.warning("%s; trying once more without the indexes there are", error)
    with plain_errors():
        index.drop(table, snapshot)
        built = index.ensure(spark, table, snapshot, fresh=True)
        _check_exact(spark, built, snapshot)
        return index_content(spark, built)
