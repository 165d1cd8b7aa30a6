"""The rows that somebody asks for: out of an index where there can be one, and what of them fits.

A query and :func:`singerlake.spark.read_table` go the same way. What becomes of values that do
not fit their columns is the asker's choice, and how many there are is always told.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from singerlake.errors import StoreError, UsageError
from singerlake.format.log import ColumnOverlay, Overlay
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.maintenance.misfits import ColumnMisfits
from singerlake.spark import index
from singerlake.spark import misfits as misfits_jobs
from singerlake.spark.frames import AS_TEXT, FAIL, NULL, Shape, shape_of
from singerlake.spark.state import state_inside
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)
CHOICES = (FAIL, NULL, AS_TEXT)


@dataclass(frozen=True)
class Asked:
    """Rows by place.

    Attributes:
        frame: The rows, with where they lie.
        shape: The columns they have.
        misfits: How many values of a column were replaced, where the asker let them be.
    """

    frame: DataFrame
    shape: Shape
    misfits: Mapping[str, int] = field(default_factory=dict)


def check_choice(misfits: str) -> None:
    """Refuse what is no choice.

    Raises:
        UsageError: It is none of ``fail``, ``null`` and ``text``.
    """
    if misfits not in CHOICES:
        raise UsageError(f"misfits={misfits!r} is none of {', '.join(CHOICES)}")


def rows(
    spark: SparkSession, own: SparkSession, table: Table, snapshot: Snapshot, misfits: str = FAIL
) -> Asked:
    """The rows of a table at a transaction.

    Args:
        spark: The session that makes an index.
        own: The session that reads.
        table: The table.
        snapshot: The table at the transaction.
        misfits: What becomes of values that do not fit: ``fail`` makes it an error to read
            one, ``null`` reads it as null, ``text`` makes text of the whole column, each value
            as the tap wrote it.
    """
    built = _index(spark, table, snapshot)
    found: list[ColumnMisfits] = []
    if misfits != FAIL:
        if built is not None:
            found = index.misfits(spark, built)
        else:
            found = misfits_jobs.of_state(spark, table, snapshot)
    counts = {one.column: one.values for one in found}
    if counts and misfits == AS_TEXT:
        text = {**snapshot.overlay.columns, **dict.fromkeys(counts, ColumnOverlay("text"))}
        laid_over = snapshot.laid_over(Overlay(text))
        return Asked(state_inside(own, table, laid_over), shape_of(laid_over), counts)
    if built is None:
        return Asked(state_inside(own, table, snapshot, misfits), shape_of(snapshot), counts)
    return Asked(index.read_inside(own, built, misfits), built.shape, counts)


def _index(spark: SparkSession, table: Table, snapshot: Snapshot) -> index.Index | None:
    # Files found without a log have no commit id that an index could be held to.
    if not snapshot.from_log:
        return None
    try:
        return index.ensure(spark, table, snapshot)
    except StoreError as error:
        logger.warning("reading without an index, for none can be kept: %s", error)
        return None


def replaced_words(table: TableName, counts: Mapping[str, int], misfits: str) -> Iterator[str]:
    """What is said of the values that were replaced."""
    for column, count in counts.items():
        values = "1 value that does" if count == 1 else f"{count:,} values that do"
        ending = "read as null" if misfits == NULL else "so all of it is read as text"
        yield f"{table}: column {column!r} has {values} not fit it, {ending}"
