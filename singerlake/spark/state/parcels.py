"""Sends each task its own part of what is planned, and no other's.

The step that all tasks run is sent to each of them. It carries the parts of a small plan; with
those of a table of millions of blocks each task would read a hundred megabytes to find the few
kilobytes that are its own. So from some size on a part goes with its task, as a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.records.blocks.block_tasks import SENT

CARRIED_BYTES = 1 << 16
"""What a step carries at most."""
_SHARE_BYTES = 1 << 16
"""Of parts on their way to tasks of a later stage: about what one task passes on."""
_LOCAL_ROWS = "spark.sql.execution.arrow.localRelationThreshold"


def carried(parts: Sequence[bytes]) -> list[bytes]:
    """Return what the step must carry: all parts, or none where they are sent.

    Args:
        parts: What each task must know, encoded.
    """
    return [] if _are_sent(parts) else [*parts]


def numbered(spark: SparkSession, parts: Sequence[bytes]) -> DataFrame:
    """Give each task its number, in a partition of its own, and its part if the step lacks it."""
    if not _are_sent(parts):
        return spark.range(len(parts), numPartitions=max(1, len(parts)))
    alone = [([number], [part]) for number, part in enumerate(parts)]
    return _frame(spark, pa.schema({"id": pa.int64(), SENT: pa.binary()}), alone)


def joined(spark: SparkSession, rows: DataFrame, parts: Sequence[bytes]) -> DataFrame:
    """Add each task's part to the rows that go to it, as a row of its own, if the step lacks it.

    Args:
        spark: The session.
        rows: Have the number of their task in a column ``task``, an integer. In the rows that are
            added all other columns are null.
        parts: What each task must know, encoded.
    """
    if not _are_sent(parts):
        return rows
    shares: list[list[int]] = []
    size = _SHARE_BYTES
    for number, part in enumerate(parts):
        if size >= _SHARE_BYTES:
            shares.append([])
            size = 0
        shares[-1].append(number)
        size += len(part)
    groups = [(share, [parts[number] for number in share]) for share in shares]
    sent = _frame(spark, pa.schema({"task": pa.int32(), SENT: pa.binary()}), groups)
    nothing = [
        F.lit(None).cast(field.dataType).alias(field.name)
        for field in rows.schema.fields
        if field.name != "task"
    ]
    whole = sent.select("task", *nothing, SENT)
    return rows.withColumn(SENT, F.lit(None).cast("binary")).unionByName(whole)


def _are_sent(parts: Sequence[bytes]) -> bool:
    return sum(map(len, parts)) > CARRIED_BYTES


def _frame(
    spark: SparkSession, schema: pa.Schema, groups: list[tuple[list[int], list[bytes]]]
) -> DataFrame:
    """A frame with a partition for each of some groups of rows."""
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
            schema=schema,
        )
        for columns in groups
    ]
    with _as_partitions(spark):
        return spark.createDataFrame(pa.Table.from_batches(batches))


@contextmanager
def _as_partitions(spark: SparkSession) -> Iterator[None]:
    """Let Spark keep Arrow's batches as they are, where it would make rows of few, in few tasks."""
    before = spark.conf.get(_LOCAL_ROWS)
    spark.conf.set(_LOCAL_ROWS, "0")
    try:
        yield
    finally:
        if before is not None:
            spark.conf.set(_LOCAL_ROWS, before)
