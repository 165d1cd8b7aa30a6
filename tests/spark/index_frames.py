"""An index's rows under the table's own names."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from singerlake.reading.index import Index
from singerlake.spark.state import frames, index_rows


def read_index(spark: SparkSession, built: Index) -> DataFrame:
    return frames.renamed(index_rows.readable(spark, built), built.shape)
