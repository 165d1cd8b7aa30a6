"""The rows that a caller requests: from an index if there can be one, misfits as requested.

A query and :func:`singerlake.spark.read_table` go the same way. The caller chooses the treatment of
values that do not fit their columns, and always gets their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from singerlake.engine.base import Engine
from singerlake.engine.local import LocalEngine
from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.work import SMALL
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.blocks.misfits import AS_TEXT, FAIL
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import building
from singerlake.snapshot.from_blocks import reading
from singerlake.snapshot.index import Index
from singerlake.sql.state import content, index_rows
from singerlake.sql.state.frames import renamed
from singerlake.sql.state.from_blocks import state_rows


@dataclass(frozen=True)
class RequestedRows:
    """Rows of a state: with provenance, columns as they are called inside, or as people see them.

    Attributes:
        misfits: The number of values replaced per column, if the caller allowed it.
    """

    frame: DataFrame
    shape: Shape
    misfits: Mapping[str, int] = field(default_factory=dict)


def rows(
    spark: SparkSession,
    own: SparkSession,
    table: Table,
    snapshot: TableState,
    misfits: str = FAIL,
    *,
    named: bool = False,
) -> RequestedRows:
    """Read the rows of a table at a transaction.

    Args:
        spark: The session that makes an index.
        misfits: The treatment of values that do not fit: ``fail`` makes it an error to read
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
        snapshot, built = snapshot.with_text(counts), None
    if built is None:
        # Values that are text now fit; those that do not must not become null.
        frame = state_rows(own, table, snapshot, FAIL if misfits == AS_TEXT else misfits)
        shape = shape_of(snapshot)
    else:
        if named and (plain := index_rows.plain(own, built)) is not None:
            return RequestedRows(plain, built.shape, counts)
        frame, shape = index_rows.readable(own, built, misfits), built.shape
    return RequestedRows(renamed(frame, shape) if named else frame, shape, counts)


def index_if_kept(
    spark: SparkSession,
    table: Table,
    snapshot: TableState,
    *,
    here: bool = False,
    shown: bool = False,
) -> Index | None:
    """Return a state's index, made if there is none; None if none can be kept.

    Args:
        here: Whether that of a small state is made in this process: Spark's jobs, and Python's
            processes that run them, take longer to start, and somebody waits for a first answer.
        shown: As for ``index_build.ensure``.
    """
    here = here and _is_small(snapshot)
    engine: Engine[Any] = LocalEngine() if here else SparkEngine(spark)
    return building.ensure_if_kept(engine, table, snapshot, shown=shown)


def _is_small(snapshot: TableState) -> bool:
    return reading(snapshot.earliest_equal()).fits(SMALL)
