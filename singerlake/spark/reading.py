"""A table as a Spark frame, for notebooks and for jobs of one's own."""

from __future__ import annotations

import logging
import os
import weakref

from pyspark.sql import DataFrame, SparkSession

from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.spark.failures import plain_errors
from singerlake.spark.frames import FAIL, renamed, with_provenance
from singerlake.spark.rows_asked import check_choice, replaced_words, rows
from singerlake.spark.session import session

logger = logging.getLogger(__name__)
DEFAULT_LAKE = "./lake"


def read_table(
    name: str,
    *,
    lake: str | Lake | None = None,
    version: int | str | None = None,
    spark: SparkSession | None = None,
    provenance: bool = False,
    misfits: str = FAIL,
) -> DataFrame:
    """See :func:`singerlake.spark.read_table`."""
    if not isinstance(lake, Lake):
        lake = Lake.open(lake or os.environ.get("SINGERLAKE_LAKE") or DEFAULT_LAKE)
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
            asked = rows(spark, spark, table, snapshot, misfits)
            frame = (with_provenance if provenance else renamed)(asked.frame, asked.shape)
    except BaseException:
        lease.release()
        raise
    for said in replaced_words(snapshot.table, asked.misfits, misfits):
        logger.warning("%s", said)
    weakref.finalize(frame, lease.release)
    return frame
