"""The index of a transaction, made on Spark (``snapshot/building.py``)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from singerlake.lake import Table
from singerlake.reading.index import Index
from singerlake.snapshot import building
from singerlake.spark.engine import SparkEngine
from singerlake.transactions.snapshot import Snapshot


def ensure(spark: SparkSession, table: Table, snapshot: Snapshot, **how: Any) -> Index:
    """Return the index of a transaction; see ``building.ensure``."""
    return building.ensure(SparkEngine(spark), table, snapshot, **how)
