"""Verifying on Spark and in this process, which must find the same."""

from __future__ import annotations

from pyspark.sql import SparkSession

from singerlake.lake import Table
from singerlake.ops.verify.problems import Report
from tests.frozen import verify_here, verify_on_spark


def verify(spark: SparkSession, table: Table, version: str | None = None) -> Report:
    """Verify on Spark; the same is found without."""
    report = verify_on_spark(spark, table, version)
    assert verify_here(table, version) == report
    return report
