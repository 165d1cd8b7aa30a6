"""The index of a transaction, made on Spark (``snapshot/building.py``)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from singerlake.lake import Table
from singerlake.reading import index
from singerlake.reading.index import Index
from singerlake.snapshot import building
from singerlake.spark.engine import SparkEngine
from singerlake.transactions.snapshot import Snapshot


def ensure(spark: SparkSession, table: Table, snapshot: Snapshot, **how: Any) -> Index:
    """Return the index of a transaction; see ``building.ensure``."""
    return building.ensure(SparkEngine(spark), table, snapshot, **how)


def at_hand(table: Table, snapshot: Snapshot) -> Index | None:
    """Return the index of a transaction if there is one, for somebody who finds rows by keys."""
    found = index.sound(table, snapshot.earliest_equal())
    return None if found is None else found.with_keys()


def has_base(table: Table, snapshot: Snapshot) -> bool:
    """Tell whether an index of a transaction can be a layer on an earlier one."""
    return building.layered_on(table, snapshot) is not None
