"""The rows of an index, read by Spark where it can reach the files, else in Python."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812  # as everybody names it

from singerlake.engine.spark.jvm import many_columns
from singerlake.format.metadata import IndexMarker
from singerlake.rows.batches.row_columns import DELETED, file_schema
from singerlake.rows.blocks.misfits import FAIL
from singerlake.rows.state.shape import Shape
from singerlake.snapshot.index import Index
from singerlake.sql.state import frames

_GLOB = re.compile(r"[*?{}\[\]\\]")
"""Spark takes these in a path for a pattern and finds nothing; with its option ``__globPaths__``
off, it reads each of several files twice (seen in 4.3)."""
ONE_TASK_BYTES = 1 << 20
"""A file of no more is read by one task, unless somebody has set Spark's sizes otherwise. Where
Spark knows that, an aggregate, a join or an order of its rows is done in that task, and not in
another stage."""
ONE_TASK_ROWS = 100_000
"""Of more rows, however well they are packed, what is made of them may be worth sharing out."""


def readable(
    spark: SparkSession, index: Index, misfits: str = FAIL, *, digests: bool = False
) -> DataFrame:
    """Return an index's rows with provenance, for queries.

    Args:
        misfits: The treatment of a value that does not fit, if it is read.
        digests: Whether the records' digests are wanted.
    """
    whole = rows(spark, index, digests=digests)
    return frames.guarded(whole, index.shape, index.table.name, index.misfits, misfits)


def rows(spark: SparkSession, index: Index, *, digests: bool = False) -> DataFrame:
    """Do as :func:`readable`, with each row's misfits, which are null in their columns."""
    own = own_rows(spark, index, digests=digests)
    if index.below is None:
        return own
    return over(rows(spark, index.below, digests=digests), own, index.shape)


def plain(spark: SparkSession, index: Index) -> DataFrame | None:
    """Return the table's columns alone, by their own names, just as the files have them.

    That asks Java a few times, however many columns there are.

    Returns:
        None where more has to be done than to read files: a layer lies over others, values do not
        fit, or Spark cannot reach them.
    """
    if index.below is not None or index.misfits or not index.parts:
        return None
    if (paths := _paths(index)) is None:
        return None
    frame = _files(spark, paths, _named(index)[: len(index.shape.columns)])
    return frame.coalesce(1) if _is_one_tasks(index.marker) else frame


def _is_one_tasks(marker: IndexMarker) -> bool:
    bytes_ = [file.bytes for file in marker.files]
    return len(bytes_) == 1 and bytes_[0] <= ONE_TASK_BYTES and (marker.rows or 0) <= ONE_TASK_ROWS


def own_rows(spark: SparkSession, index: Index, *, digests: bool) -> DataFrame:
    """Return the rows in an index's own files; of a layer, deletions too."""
    extra = index.own_columns
    schema = frames.frame_schema(index.shape.columns, extra)
    if not index.parts:
        return spark.createDataFrame([], schema)
    if (paths := _paths(index)) is not None:
        return many_columns.named(_files(spark, paths, _named(index)), schema.names)
    reading = index.reader(digests=digests)
    return frames.numbered(spark, len(index.parts)).mapInArrow(reading, schema)


def _paths(index: Index) -> list[str] | None:
    """Return the paths of an index's own files; None if Spark cannot read all of them."""
    paths = [index.table.store.local_path(part.key) for part in index.parts]
    if all(path is not None and not _GLOB.search(str(path)) for path in paths):
        return [*map(str, paths)]
    return None


def _named(index: Index) -> list[T.StructField]:
    """Return the columns of an index's own files, by their names there."""
    inside = frames.frame_schema(index.shape.columns, index.own_columns)
    own = file_schema(index.shape.columns, layer=index.below is not None)
    return [
        T.StructField(name, field.dataType) for name, field in zip(own.names, inside, strict=True)
    ]


def _files(spark: SparkSession, paths: list[str], fields: list[T.StructField]) -> DataFrame:
    # Days of our calendar, also those before 1582.
    reader = spark.read.schema(T.StructType(fields)).option("datetimeRebaseMode", "CORRECTED")
    # Spark searches a dictionary by a number's bits, which differ between 0.0 and -0.0: it would
    # skip a file that has only the other of the two.
    reader = reader.option("parquet.filter.dictionary.enabled", "false")
    # A flipped bit in a cache must be an error, not another answer.
    return reader.option("parquet.page.verify-checksum.enabled", "true").parquet(*paths)


# Lays the rows of a layer over those below it, as frames (``snapshot/building.py``).


def over(below: DataFrame, layer: DataFrame, shape: Shape) -> DataFrame:
    """Lay a layer over what is below it, which makes a state."""
    names = shape.key_aliases
    if names:
        changed = layer.select(*(F.col(name).alias(f"changed_{name}") for name in names))
        same = F.lit(True)
        for name in names:
            here, there = F.col(name), F.col(f"changed_{name}")
            same &= here == there if shape.apart else here.eqNullSafe(there)
        below = below.join(F.broadcast(changed), same, "left_anti")
    return below.unionByName(layer.where(~F.col(DELETED)).drop(DELETED))
