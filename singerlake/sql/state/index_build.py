"""The index of a transaction, made on Spark (``snapshot/building.py``)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from singerlake.engine.spark.engine import SparkEngine
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.snapshot import building
from singerlake.snapshot.index import Index


def ensure(spark: SparkSession, table: Table, snapshot: TableState, **how: Any) -> Index:
    """Return the index of a transaction; see ``building.ensure``."""
    return building.ensure(SparkEngine(spark), table, snapshot, **how)
