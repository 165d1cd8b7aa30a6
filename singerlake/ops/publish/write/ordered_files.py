"""Writes all rows as files in the order that a projection says: ranges that follow each other.

A look at some rows tells where ranges begin. Then rows are sent to the task of their range, packed,
and sorted and written there, range by range, so that no task holds more than one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.engine.spark.jvm.session import cores
from singerlake.errors import UsageError
from singerlake.ops.publish.write.published_files import (
    WRITTEN,
    FilesWriter,
    check_columns,
    described,
    order_of,
)
from singerlake.ops.publish.write.row_sources import (
    FrameRows,
    RowSource,
    Sampled,
    gathered,
)
from singerlake.publish.destinations.base import Destination
from singerlake.publish.projection import OrderKey, Projection
from singerlake.publish.published import DataFile
from singerlake.publish.ranges import SLOT, Slots
from singerlake.publish.sorting import Cuts, Sorting, cuts
from singerlake.rows.batches.packing import packed_cell, split, unpack
from singerlake.rows.batches.steps import Batches

RANGE_BYTES = 32 << 20
"""What the rows of a range take in memory, about: a file of a quarter of it, in most formats."""
SHARED_BYTES = 8 << 20
"""Rows that take less are sorted by one task."""
FILES = 64
"""Files that a table is cut into, at least, before they become as large as they may."""
MOST_RANGES = 16
"""Ranges that one task writes behind each other, at most."""
GATHERED_BYTES = 4 << 20
"""Bytes of rows that a task shares out at once: they stay in the processor's cache."""
PACK_BYTES = 64 << 10
"""Bytes of rows that are worth a pack of their own."""
WRITTEN_ROWS = 122_880
"""Rows that are put in order at once."""
_SENT = "range int, rows binary"


def write_ordered(
    spark: SparkSession,
    rows: RowSource | DataFrame,
    projection: Projection,
    destination: Destination,
    schema: pa.Schema,
    *,
    slots: Slots | None = None,
    few: bool = False,
) -> list[DataFile]:
    """Write all rows as files in the order that a projection says.

    Without ``order_by`` rows are ordered by the key, and where there is none they stay as they lie.

    Args:
        spark: The session.
        rows: The rows.
        projection: Says order, key, partitions and size of the files.
        destination: Where they go. No reader sees them before its commit.
        schema: The columns of the files, see ``Destination.file_schema``.
        slots: Keeps the rows of a frame apart that are not to be in one file, whatever the order.
        few: Whether one task is to write all.

    Returns:
        The files, in order.

    Raises:
        UsageError: A column of the order, the key or the partitions is not there, or not for that.
    """
    target = projection.target
    if target is None:
        raise UsageError(f"{projection.name} is only staged: it says no place in `to`")
    source = FrameRows(rows, slots) if isinstance(rows, DataFrame) else rows
    by = order_of(projection)
    if slots is not None:
        by = (OrderKey(SLOT), *by)
    sorting = Sorting(by, projection.partition_by)
    with plain_errors():
        check_columns(projection, source.schema)
        folder, store = destination.folder(), destination.store
        writer = FilesWriter.of(projection, target, store, folder, schema)
        try:
            found = _written(spark, source, sorting, writer, few=few).collect()
        finally:
            source.close()
    return described(found, writer, projection)


def _written(
    spark: SparkSession, source: RowSource, sorting: Sorting, writer: FilesWriter, *, few: bool
) -> DataFrame:
    if not sorting.columns:
        return source.through(writer, WRITTEN, alone=few)
    sampled = None if few else source.sampled(sorting)
    step = RangeWriter(sorting, writer)
    if sampled is None or sampled.bytes <= SHARED_BYTES:
        return source.through(step.alone, WRITTEN, alone=True)
    found = cuts(sampled.samples, _ranges(sampled, cores(spark)))
    if found is None:
        return source.through(step.alone, WRITTEN, alone=True)
    each = _ranges_of_a_task(found.ranges)
    sent = source.through(RangePacker(sorting, found), _SENT)
    parts = sent.repartitionById(
        -(-found.ranges // each), F.floor(F.col("range") / each).cast("int")
    )
    if each > 1:
        parts = parts.sortWithinPartitions("range")
    return parts.mapInArrow(step, WRITTEN)


def _ranges(sampled: Sampled, tasks: int) -> int:
    """Count the ranges: as many for each task that runs at the same time."""
    return -(-(sampled.bytes // RANGE_BYTES + 1) // tasks) * tasks


def _ranges_of_a_task(ranges: int) -> int:
    return max(1, min(MOST_RANGES, ranges // FILES))


@dataclass
class RangePacker:
    """Shares rows out to ranges.

    Attributes:
        sorting: What rows are compared by.
        cuts: Where ranges begin.
    """

    sorting: Sorting
    cuts: Cuts

    def __call__(self, batches: Batches) -> Batches:
        """Give the rows of each range, packed."""
        ranges = self.cuts.ranges
        for table in gathered(batches, max(GATHERED_BYTES, ranges * PACK_BYTES)):
            rows = table.combine_chunks()
            numbers = self.cuts.number(self.sorting.keys(rows))
            if ranges <= np.iinfo(np.uint16).max:
                numbers = numbers.astype(np.uint16)  # which NumPy sorts in no time
            for number, some in split(rows, numbers, ranges):
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int32()), packed_cell(some)],
                    names=["range", "rows"],
                )


@dataclass
class RangeWriter:
    """Sorts ranges and writes them, one behind the other.

    Attributes:
        sorting: What rows are sorted by.
        writer: Writes files.
    """

    sorting: Sorting
    writer: FilesWriter

    def __call__(self, batches: Batches) -> Batches:
        """Write the ranges that come packed, those of each together."""
        return self.writer(self._ranges(batches))

    def alone(self, batches: Batches) -> Batches:
        """Write rows that come as they are, all in one range."""
        return self.writer(self._sorted(list(gathered(batches, GATHERED_BYTES))))

    def _ranges(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.Table] = []
        last = None
        for batch in batches:
            numbers = batch.column("range").to_pylist()
            for number, data in zip(numbers, batch.column("rows"), strict=True):
                if number != last:
                    yield from self._sorted(waiting)
                    waiting = []
                last = number
                waiting.append(unpack(data.as_buffer()))
        yield from self._sorted(waiting)

    def _sorted(self, pieces: list[pa.Table]) -> Iterator[pa.RecordBatch]:
        if not pieces:
            return
        rows = pa.concat_tables(pieces).combine_chunks()
        pieces.clear()
        order = self.sorting.keys(rows).order()
        for start in range(0, len(order), WRITTEN_ROWS):
            some = rows.take(order.slice(start, WRITTEN_ROWS))
            yield from some.combine_chunks().to_batches()
