"""A table as a Spark frame, for notebooks and for jobs of one's own."""

from __future__ import annotations

import logging
import os
import weakref

from pyspark.sql import DataFrame, SparkSession

from singerlake.errors import StoreError, UsageError
from singerlake.lake import Lake, Table
from singerlake.spark import index
from singerlake.spark.failures import plain_errors
from singerlake.spark.frames import Shape, renamed, shape_of, with_provenance
from singerlake.spark.session import session
from singerlake.spark.state import state_inside
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)
DEFAULT_LAKE = "./lake"


def read_table(
    name: str,
    *,
    lake: str | Lake | None = None,
    version: int | str | None = None,
    spark: SparkSession | None = None,
    provenance: bool = False,
) -> DataFrame:
    """See :func:`singerlake.spark.read_table`."""
    if not isinstance(lake, Lake):
        lake = Lake.open(lake or os.environ.get("SINGERLAKE_LAKE") or DEFAULT_LAKE)
    table, ref = lake.find(name)
    if version is not None and ref.version is not None:
        raise UsageError(f"{name} names a version, and version={version!r} another: give one")
    wanted = ref.version if version is None else str(version)
    spark = spark or session()
    lease = table.lease().acquire()
    try:
        snapshot = lease.snapshot if wanted is None else lease.snapshot.named(wanted)[1]
        with plain_errors():
            inside, shape = _rows(spark, table, snapshot)
            frame = (with_provenance if provenance else renamed)(inside, shape)
    except BaseException:
        lease.release()
        raise
    weakref.finalize(frame, lease.release)
    return frame


def _rows(spark: SparkSession, table: Table, snapshot: Snapshot) -> tuple[DataFrame, Shape]:
    # Files found without a log have no commit id that an index could be held to.
    if snapshot.from_log:
        try:
            built = index.ensure(spark, table, snapshot)
            return index.read_inside(spark, built), built.shape
        except StoreError as error:
            logger.warning("reading without an index, for none can be kept: %s", error)
    return state_inside(spark, table, snapshot), shape_of(snapshot)
