"""The freeze job: index, count and fingerprint a transaction, then commit the version."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from singerlake.errors import DamagedError
from singerlake.format.log import FrozenVersion
from singerlake.lake import Table
from singerlake.maintenance import freeze as plans
from singerlake.spark import index
from singerlake.spark.failures import plain_errors
from singerlake.spark.fingerprint import Content, content
from singerlake.spark.frames import shape_of
from singerlake.spark.state import state
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
    """
    with table.lease() as lease:
        head = lease.snapshot
        wanted = plans.plan(head, at=at, label=label, comment=comment)
        found = _content(spark, table, wanted.at)
        return plans.commit_version(
            table.store, head, wanted, rows=found.rows, fingerprint=found.fingerprint
        )


def state_content(spark: SparkSession, table: Table, snapshot: Snapshot) -> Content:
    """Count and fingerprint a state from its blocks alone, past any index."""
    with plain_errors():
        return content(state(spark, table, snapshot), shape_of(snapshot).columns)


def _content(spark: SparkSession, table: Table, snapshot: Snapshot) -> Content:
    """Through the index; where it is not what it says, through a new one from the blocks."""
    try:
        with plain_errors():
            built = index.ensure(spark, table, snapshot)
            found = content(index.read_inside(spark, built), built.shape.columns)
        if built.marker.rows in (found.rows, None):
            return found
        logger.warning("the index of %s does not hold what it says; making it anew", table.name)
    except DamagedError as error:
        logger.warning("%s; trying once more without the indexes there are", error)
    with plain_errors():
        index.drop(table, snapshot)
        built = index.ensure(spark, table, snapshot, fresh=True)
        return content(index.read_inside(spark, built), built.shape.columns)
