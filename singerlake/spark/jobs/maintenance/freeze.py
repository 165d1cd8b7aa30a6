"""The freeze job: index, count and fingerprint a transaction, then commit the version."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import SparkSession

from singerlake.errors import SingerlakeError, ViolationsError
from singerlake.format.log import FrozenVersion
from singerlake.freezing import Proven, frozen, misfits_error
from singerlake.lake import Table
from singerlake.reading import index
from singerlake.records.state.fingerprint import Content
from singerlake.records.state.parquet_parts import IndexDamagedError
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.progress import followed_by, stages
from singerlake.spark.sql.violations import Violation, check_constraints
from singerlake.spark.state import index_build, index_rows
from singerlake.spark.state.content import index_content, index_misfits
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)


def freeze(
    spark: SparkSession,
    table: Table,
    *,
    at: int | None = None,
    label: str | None = None,
    comment: str | None = None,
    allow_violations: bool = False,
    again: bool = True,
    instead: Callable[[Snapshot], FrozenVersion | None] | None = None,
) -> FrozenVersion:
    """Make a table version.

    Args:
        spark: The session.
        table: The table.
        at: The transaction to freeze; the head by default.
        label: A name that can stand for the version's number.
        comment: Free text.
        allow_violations: Freeze it even if rows do not keep the table's constraints; the version
            says so.
        again: Make another version even if one means the same state, and has the label.
        instead: Finds a version that will do, instead of what ``again`` says.

    Returns:
        The version as the log has it.

    Raises:
        NotFoundError: There is no such table or transaction.
        UsageError: The label cannot be one or is taken, or the log is lost.
        ConflictError: The label was taken meanwhile, or a vacuum came in between.
        DamagedError: A row cannot be read under the table's schema.
        MisfitsError: A value does not fit its column.
        ViolationsError: Rows do not keep the table's constraints.
    """

    def prove(state: Snapshot) -> Proven:
        content = _content(spark, table, state)
        broken = broken_constraints(spark, table, state)
        if broken and not allow_violations:
            raise violations_error(state, broken)
        return Proven(content, [one.name for one in broken])

    return frozen(
        table,
        prove,
        at=at,
        label=label,
        comment=comment,
        again=again,
        allow_violations=allow_violations,
        instead=instead,
        committing=lambda: stages(spark, "committing"),
    )


def broken_constraints(spark: SparkSession, table: Table, snapshot: Snapshot) -> list[Violation]:
    """Find the constraints that the rows of a state do not keep."""
    asked = snapshot.overlay.constraints
    if not asked:
        return []
    with plain_errors():
        built = index_build.ensure(spark, table, snapshot, shown=True)
        return check_constraints(index_rows.rows(spark, built), built.shape, asked)


def violations_error(snapshot: Snapshot, found: list[Violation]) -> SingerlakeError:
    """Say why a state cannot be a version: its rows that do not keep the table's constraints."""
    return ViolationsError.of_lines(
        f"rows of {snapshot.table} at transaction {snapshot.number} do not keep its constraints, "
        "and nothing was frozen:",
        *(line for one in found for line in one.lines()),
        "correct these rows, drop the constraint (singerlake alter), or freeze them all the same "
        "with --allow-violations, which marks the version",
    )


def _content(spark: SparkSession, table: Table, snapshot: Snapshot) -> Content:
    """Through the index; where it is not what it says, through a new one from the blocks."""
    try:
        content, rows = _index_content(spark, table, snapshot)
        if rows in (content.rows, None):
            return content
        logger.warning("the index of %s is not what its marker says; making it again", table.name)
    except IndexDamagedError as error:  # of a block, or a row, it would be the same once more
        logger.warning("%s; trying once more without the indexes there are", error)
    index.drop(table, snapshot)
    return _index_content(spark, table, snapshot, fresh=True)[0]


def _index_content(
    spark: SparkSession, table: Table, snapshot: Snapshot, *, fresh: bool = False
) -> tuple[Content, int | None]:
    """What a transaction's index holds, and how many rows it says it has.

    Raises:
        MisfitsError: A value does not fit: a version is what its rows say, or none, and nothing
            is made null or text on the way.
    """
    with plain_errors():
        with followed_by(1):
            built = index_build.ensure(spark, table, snapshot, fresh=fresh, shown=True)
        if misfits := index_misfits(spark, built):
            raise misfits_error(snapshot, misfits)
        return index_content(spark, built), built.marker.rows
