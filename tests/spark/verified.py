"""Verifying on Spark and in this process, which must find the same."""

from __future__ import annotations

from pyspark.sql import SparkSession

from singerlake.lake import Table
from singerlake.maintenance.problems import Report
from singerlake.spark.jobs.maintenance import verify as on_spark
from singerlake.verifying.here import verify_here


def verify(spark: SparkSession, table: Table, version: str | None = None) -> Report:
    """Verify on Spark; the same is found without, where a table has no files that rows name."""
    report = on_spark.verify(spark, table, version)
    here = verify_here(table, version)
    assert here is not None or report.stored
    assert here in (None, report)
    return report
