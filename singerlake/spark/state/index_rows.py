"""The rows of an index, read by Spark where it can reach the files, else in Python."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812  # as everybody names it

from singerlake.reading.index import Index
from singerlake.records.blocks.misfits import FAIL
from singerlake.records.rows.row_columns import file_schema
from singerlake.spark.state import frames, layers

_GLOB = re.compile(r"[*?{}\[\]\\]")
"""Spark takes these in a path for a pattern and finds nothing; with its option ``__globPaths__``
off, it reads each of several files twice (seen in 4.3)."""


def readable(
    spark: SparkSession, index: Index, misfits: str = FAIL, *, digests: bool = False
) -> DataFrame:
    """Give an index's rows with provenance, for queries.

    Args:
        spark: The session.
        index: The index.
        misfits: What becomes of a value that does not fit, where it is read.
        digests: Whether the records' digests are wanted.
    """
    whole = rows(spark, index, digests=digests)
    return frames.guarded(whole, index.shape, index.table.name, index.misfits, misfits)


def rows(spark: SparkSession, index: Index, *, digests: bool = False) -> DataFrame:
    """Do as :func:`readable`, with each row's misfits, which are null in their columns."""
    own = own_rows(spark, index, digests=digests)
    if index.below is None:
        return own
    return layers.over(rows(spark, index.below, digests=digests), own, index.shape)


def count(spark: SparkSession, index: Index) -> int:
    """Count the rows of the state; a layer has to be laid over what is below to know."""
    known = index.marker.rows
    return rows(spark, index).count() if known is None else known


def own_rows(spark: SparkSession, index: Index, *, digests: bool) -> DataFrame:
    """Give the rows in an index's own files; of a layer, deletions too."""
    extra = index.own_columns
    schema = frames.frame_schema(index.shape.columns, extra)
    if not index.parts:
        return spark.createDataFrame([], schema)
    store = index.table.store
    paths = [store.local_path(part.key) for part in index.parts]
    if all(path is not None and not _GLOB.search(str(path)) for path in paths):
        own = file_schema(index.shape.columns, layer=index.below is not None)
        fields = [
            T.StructField(name, field.dataType)
            for name, field in zip(own.names, schema, strict=True)
        ]
        # Days of our calendar, also those before 1582.
        reader = spark.read.schema(T.StructType(fields)).option("datetimeRebaseMode", "CORRECTED")
        # A flipped bit in a cache must be an error, not another answer.
        reader = reader.option("parquet.page.verify-checksum.enabled", "true")
        return reader.parquet(*map(str, paths)).toDF(*schema.names)
    reading = index.reader(digests=digests)
    return frames.numbered(spark, len(index.parts)).mapInArrow(reading, schema)
