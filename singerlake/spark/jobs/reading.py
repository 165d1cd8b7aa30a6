"""A table as a Spark frame, for notebooks and for jobs of one's own."""

from __future__ import annotations

import logging
import weakref

from pyspark.sql import DataFrame, SparkSession

from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.records.misfits import FAIL
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.session import session
from singerlake.spark.state.frames import renamed, with_provenance
from singerlake.spark.state.requested_rows import check_choice, replaced_words, rows

logger = logging.getLogger(__name__)


def read_table(
    name: str,
    *,
    lake: str | Lake | None = None,
    version: int | str | None = None,
    spark: SparkSession | None = None,
    provenance: bool = False,
    misfits: str = FAIL,
) -> DataFrame:
    """Do what :func:`singerlake.spark.read_table` says."""
    if not isinstance(lake, Lake):
        lake = Lake.open(lake)
    table, ref = lake.find(name)
    if version is not None and ref.version is not None:
        raise UsageError(f"{name} names a version, and version={version!r} another: give one")
    wanted = ref.version if version is None else str(version)
    spark = spark or session()
    check_choice(misfits)
    lease = table.lease().acquire()
    try:
        snapshot = lease.snapshot if wanted is None else lease.snapshot.named(wanted)[1]
        with plain_errors():
            requested = rows(spark, spark, table, snapshot, misfits)
            frame = (
                with_provenance(requested.frame, requested.shape, snapshot)
                if provenance
                else renamed(requested.frame, requested.shape)
            )
    except BaseException:
        lease.release()
        raise
    for message in replaced_words(snapshot.table, requested.misfits, misfits):
        logger.warning("%s", message)
    weakref.finalize(frame, lease.release)
    return frame
