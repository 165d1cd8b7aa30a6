"""Writes all rows as files in the order that a projection says: ranges that follow each other.

A look at some rows tells where ranges begin. Then rows are sent to the part of their range, packed,
and sorted and written there, range by range. No task has more than one range in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from singerlake.engine.base import R
from singerlake.engine.spill import SpilledParts
from singerlake.ops.publish.write.published_files import (
    WRITTEN,
    FilesWriter,
    check_columns,
    described,
    order_of,
)
from singerlake.ops.publish.write.row_sources import RowSource, Sampled, gathered
from singerlake.publish.destinations.base import Destination
from singerlake.publish.projection import OrderKey, Projection
from singerlake.publish.published import DataFile
from singerlake.publish.ranges import SLOT
from singerlake.publish.sorting import Cuts, Sorting, cuts
from singerlake.rows.batches.packing import packed_cell, split, unpack
from singerlake.rows.batches.steps import Batches

RANGE_BYTES = 32 << 20
"""What the rows of a range take in memory, about: a file of a quarter of it, in most formats."""
SHARED_BYTES = 8 << 20
"""Rows that take less are sorted by one task."""
EVEN = 4
"""Ranges come by so many: as much work for each of two tasks, or of four."""
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
_SENT = "part int, range int, rows binary"


def write_ordered(
    source: RowSource[R],
    projection: Projection,
    destination: Destination,
    schema: pa.Schema,
    *,
    in_slots: bool = False,
    few: bool = False,
) -> list[DataFile]:
    """Write all rows as files in the order that a projection says.

    Without ``order_by`` rows are ordered by the key, and if there is none they stay as they lie.
    The files do not depend on the engine.

    Args:
        projection: Says order, key, partitions and size of the files.
        destination: Where they go. No reader sees them before its commit.
        schema: The columns of the files, see ``Destination.file_schema``.
        in_slots: Whether the source's rows have a column ``SLOT``.
        few: Whether one task is to write all.

    Returns:
        The files, in order.

    Raises:
        UsageError: A column of the order, the key or the partitions is not there, or not for that.
    """
    by = order_of(projection)
    if in_slots:
        by = (OrderKey(SLOT), *by)
    sorting = Sorting(by, projection.partition_by)
    check_columns(projection, source.schema)
    writer = FilesWriter.of(projection, destination, schema)
    try:
        found = source.engine.collect(_written(source, sorting, writer, few=few))
    finally:
        source.close()
    return described(found, writer, projection)


def _written(source: RowSource[R], sorting: Sorting, writer: FilesWriter, *, few: bool) -> R:
    step = RangeWriter(sorting, writer)
    if not sorting.columns:
        return source.alone(writer.write, WRITTEN) if few else source.written(writer)
    looked_at = None if few else source.sampled(sorting)
    if looked_at is None or looked_at.bytes <= SHARED_BYTES:
        return source.alone(step.alone, WRITTEN)
    found = cuts(looked_at.samples, _ranges(looked_at))
    if found is None:
        return source.alone(step.alone, WRITTEN)
    step.each = _ranges_of_a_task(found.ranges)
    sent = source.through(RangePacker(sorting, found, step.each), _SENT)
    parts = source.engine.exchange(sent, -(-found.ranges // step.each), "part")
    return source.engine.map(parts, step, WRITTEN)


def _ranges(sampled: Sampled) -> int:
    """Count the ranges."""
    ranges = sampled.bytes // RANGE_BYTES + 1
    return ranges if ranges == 1 else -(-ranges // EVEN) * EVEN


def _ranges_of_a_task(ranges: int) -> int:
    return max(1, min(MOST_RANGES, ranges // FILES))


@dataclass
class RangePacker:
    """Shares rows out to ranges.

    Attributes:
        sorting: What rows are compared by.
        each: How many ranges go to a part.
    """

    sorting: Sorting
    cuts: Cuts
    each: int = 1

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
                    [
                        pa.array([number // self.each], pa.int32()),
                        pa.array([number % self.each], pa.int32()),
                        packed_cell(some),
                    ],
                    names=["part", "range", "rows"],
                )


@dataclass
class RangeWriter:
    """Sorts ranges and writes them, one behind the other.

    Attributes:
        sorting: What rows are sorted by.
        each: How many ranges a part has.
    """

    sorting: Sorting
    writer: FilesWriter
    each: int = 1

    def __call__(self, batches: Batches) -> Batches:
        """Write the ranges of a part, which come packed in any order."""
        ranges = SpilledParts(self.each)
        part = 0
        for batch in batches:
            part = batch.column("part")[0].as_py()
            numbers = batch.column("range").to_numpy()
            for number in np.unique(numbers).tolist():
                ranges.add(number, batch.filter(pa.array(numbers == number)))
        yield from self.writer.write(self._ranges(ranges), part)

    def alone(self, batches: Batches) -> Batches:
        """Write rows that come as they are, all in one range."""
        return self.writer.write(self._sorted(list(gathered(batches, GATHERED_BYTES))))

    def _ranges(self, ranges: SpilledParts) -> Iterator[pa.RecordBatch]:
        for number in range(self.each):
            packed = (cell for batch in ranges.read(number) for cell in batch.column("rows"))
            yield from self._sorted([unpack(cell.as_buffer()) for cell in packed])

    def _sorted(self, pieces: list[pa.Table]) -> Iterator[pa.RecordBatch]:
        if not pieces:
            return
        rows = pa.concat_tables(pieces).combine_chunks()
        pieces.clear()
        order = self.sorting.keys(rows).order()
        for start in range(0, len(order), WRITTEN_ROWS):
            some = rows.take(order.slice(start, WRITTEN_ROWS))
            yield from some.combine_chunks().to_batches()
