"""The rows that somebody asks for: from an index where there can be one, misfits as they wish.

A query and :func:`singerlake.spark.read_table` go the same way. What becomes of values that do
not fit their columns is the caller's choice, and how many there are is always reported.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from singerlake.engine.local import LocalEngine
from singerlake.engine.work import SMALL, Work
from singerlake.errors import StoreError, UsageError
from singerlake.format.laid import with_texts
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.reading.index import Index
from singerlake.records.blocks.misfits import AS_TEXT, FAIL, NULL
from singerlake.records.state.shape import Shape, shape_of
from singerlake.snapshot import building
from singerlake.snapshot.from_blocks import needed_blocks
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.state import content, index_build, index_rows
from singerlake.spark.state.frames import renamed
from singerlake.spark.state.from_blocks import state_rows
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)
CHOICES = (FAIL, NULL, AS_TEXT)


@dataclass(frozen=True)
class RequestedRows:
    """Rows of a state: with provenance, columns as they are called inside, or as people see them.

    Attributes:
        frame: The rows.
        shape: The columns they have.
        misfits: How many values of a column were replaced, where the caller allowed it.
    """

    frame: DataFrame
    shape: Shape
    misfits: Mapping[str, int] = field(default_factory=dict)


def check_choice(misfits: str) -> None:
    """Refuse a name that is none of the choices.

    Raises:
        UsageError: It is none of ``fail``, ``null`` and ``text``.
    """
    if misfits not in CHOICES:
        raise UsageError(f"misfits={misfits!r} is none of {', '.join(CHOICES)}")


def rows(
    spark: SparkSession,
    own: SparkSession,
    table: Table,
    snapshot: Snapshot,
    misfits: str = FAIL,
    *,
    named: bool = False,
) -> RequestedRows:
    """Read the rows of a table at a transaction.

    Args:
        spark: The session that makes an index.
        own: The session that reads.
        table: The table.
        snapshot: The table at the transaction.
        misfits: What becomes of values that do not fit: ``fail`` makes it an error to read
            one, ``null`` reads it as null, ``text`` makes text of the whole column, each value
            as the tap wrote it.
        named: Whether the columns are to have their own names, and there is to be no provenance.
    """
    built = index_if_kept(spark, table, snapshot, here=True, shown=True)
    if misfits == FAIL:
        counts = {}
    elif built is not None:
        counts = {one.column: one.values for one in content.index_misfits(spark, built)}
    else:
        counts = {one.column: one.values for one in content.state_misfits(spark, table, snapshot)}
    if counts and misfits == AS_TEXT:
        snapshot, built = with_text(snapshot, counts), None
    if built is None:
        # What is text now fits; what does not all the same must not become null.
        frame = state_rows(own, table, snapshot, FAIL if misfits == AS_TEXT else misfits)
        shape = shape_of(snapshot)
    else:
        if named and (plain := index_rows.plain(own, built)) is not None:
            return RequestedRows(plain, built.shape, counts)
        frame, shape = index_rows.readable(own, built, misfits), built.shape
    return RequestedRows(renamed(frame, shape) if named else frame, shape, counts)


def with_text(snapshot: Snapshot, columns: Iterable[str]) -> Snapshot:
    """Return the same state, some of its columns read as text."""
    return snapshot.laid_over(with_texts(snapshot.overlay, columns))


def index_if_kept(
    spark: SparkSession,
    table: Table,
    snapshot: Snapshot,
    *,
    here: bool = False,
    shown: bool = False,
) -> Index | None:
    """Return a state's index, made where there is none; None where none can be kept.

    Args:
        spark: The session.
        table: The table.
        snapshot: The table at the transaction.
        here: Whether that of a small state is made in this process: Spark's jobs, and Python's
            processes that run them, take longer to start, and somebody waits for a first answer.
        shown: As for ``index_build.ensure``.
    """
    # Files read without a log have no commit id that an index could be held to.
    if not snapshot.from_log:
        return None
    try:
        with plain_errors():  # an executor's StoreError is to be known as one
            made = _made_here(table, snapshot) if here else None
            if made is not None:
                return made if shown else made.with_keys()
            return index_build.ensure(spark, table, snapshot, shown=shown)
    except StoreError as error:
        logger.warning("reading without an index, because none can be kept: %s", error)
        return None


def _made_here(table: Table, snapshot: Snapshot) -> Index | None:
    """Make the index of a small state, where there is none, in this process."""
    snapshot = snapshot.earliest_equal()
    work = Work.of(needed_blocks(snapshot), len(snapshot.columns))
    return building.ensure(LocalEngine(), table, snapshot, shown=True) if work.fits(SMALL) else None


def replaced_words(table: TableName, counts: Mapping[str, int], misfits: str) -> Iterator[str]:
    """Report the values that were replaced, a message a column."""
    for column, count in counts.items():
        values = "1 value that does" if count == 1 else f"{count:,} values that do"
        ending = "read as null" if misfits == NULL else "so all of it is read as text"
        yield f"{table}: column {column!r} has {values} not fit it, {ending}"
