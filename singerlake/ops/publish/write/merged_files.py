"""Published files written again with rows that changed: merged by one task each, in Arrow.

Their rows are in order already, and never become Spark's. The few that changed are sent to the task
that has their range, as whole Arrow tables.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from singerlake.engine.spark.jvm.session import cores
from singerlake.ops.publish.write.files_reader import FilesReader
from singerlake.ops.publish.write.published_files import (
    WRITTEN,
    FilesWriter,
    column,
    conformed,
    described,
    order_of,
)
from singerlake.publish.destinations.base import Destination
from singerlake.publish.keys import Keys
from singerlake.publish.merging import Order, merged, without
from singerlake.publish.projection import Projection
from singerlake.publish.published import DataFile
from singerlake.publish.ranges import SLOT, Places, Plan, Slots, parted
from singerlake.publish.shares import Shares, shares
from singerlake.rows.batches.packing import pack, unpack
from singerlake.rows.batches.steps import Batches, Pipeline
from singerlake.rows.blocks import block_tasks
from singerlake.sql.state.frames import numbered

MOST_CHANGED = 500_000
"""Changed rows up to which they are merged: a task may hold all of them."""
SHARE_BYTES = 4 << 20
"""Bytes of files that are enough for a task."""
_PACKED = "share int, gone boolean, rows binary"


def shares_of(projection: Projection, places: Places, plan: Plan, changed: int) -> Shares | None:
    """Share out the files that are written again; None where they cannot be merged.

    Args:
        projection: Says the order.
        places: The files.
        plan: Which of them are written again.
        changed: How many rows differ.
    """
    if changed > MOST_CHANGED:
        return None
    by = order_of(projection)
    descending = bool(by) and by[0].descending
    return shares(places, plan.touched, SHARE_BYTES, ordered=bool(by), descending=descending)


def write_merged(
    spark: SparkSession,
    gone: DataFrame | None,
    come: DataFrame,
    key: Sequence[str],
    shared: Shares,
    reader: FilesReader,
    projection: Projection,
    destination: Destination,
    slots: Slots,
) -> list[DataFile]:
    """Write files again, and new rows between them.

    Args:
        spark: The session.
        gone: Rows as they were that are gone, or are others now; None where no file has one.
        come: Rows as they are that are new, or were others.
        key: The columns by which rows are the same.
        shared: Which files, and which rows belong to each.
        reader: Reads the files; its files are those of which the shares say numbers.
        projection: Says order, partitions and size of the files.
        destination: Where they go.
        slots: Keeps rows apart that are not to be in one file.

    Returns:
        The files, in order.
    """
    task = _merger(key, shared, reader, projection, destination, slots)
    count = len(shared.runs) + 1
    # So that files are written again to which no row comes.
    each = spark.range(count, numPartitions=1).selectExpr(
        "int(id) as share", "boolean(null) as gone", "binary(null) as rows"
    )
    tasks = min(count, 2 * cores(spark))
    rows = each.unionAll(come.mapInArrow(_Packer(shared, conforming(come), False), _PACKED))
    if gone is not None:
        placed = [one.column for one in projection.partition_by]
        placed += [] if shared.bounded is None else [shared.bounded]
        # What says where a row was, and which; nothing else is needed of it.
        gone = gone.select(*(column(name) for name in dict.fromkeys((*key, *placed))))
        rows = rows.unionAll(gone.mapInArrow(_Packer(shared, conforming(gone), True), _PACKED))
    sent = rows.repartitionById(tasks, F.col("share") % tasks)
    return described(sent.mapInArrow(task, WRITTEN).collect(), task.writer, projection)


def write_given(
    spark: SparkSession,
    gone: Sequence[tuple[int, pa.Table]],
    come: pa.Table,
    key: Sequence[str],
    shared: Shares,
    reader: FilesReader,
    projection: Projection,
    destination: Destination,
    slots: Slots,
) -> list[DataFile]:
    """Do as :func:`write_merged` with rows that are here, and of which it is known where they lie.

    Args:
        spark: The session.
        gone: Keys of rows that are gone, or are others now, by the number of the file.
        come: Rows as they are that are new, or were others.
        key: The columns by which rows are the same.
        shared: Which files, and which rows belong to each.
        reader: Reads the files; its files are those of which the shares say numbers.
        projection: Says order, partitions and size of the files.
        destination: Where they go.
        slots: Keeps rows apart that are not to be in one file.
    """
    task = _merger(key, shared, reader, projection, destination, slots)
    count = len(shared.runs) + 1
    tasks = min(count, 2 * cores(spark))
    share_of = {
        index: share for share, runs in enumerate(shared.runs) for run in runs for index in run
    }
    given = [(share_of[index], True, pack(keys)) for index, keys in gone]
    for batch in come.combine_chunks().to_batches():
        given += [(share, False, pack(rows)) for share, rows in shared.come(batch)]
    step = Pipeline((_Given(count, given, tasks), task))
    written = numbered(spark, tasks).mapInArrow(step, WRITTEN).collect()
    return described(written, task.writer, projection)


def _merger(
    key: Sequence[str],
    shared: Shares,
    reader: FilesReader,
    projection: Projection,
    destination: Destination,
    slots: Slots,
) -> _Merger:
    target = projection.target
    assert target is not None  # noqa: S101  # who calls has looked
    folder, store = destination.folder(), destination.store
    writer = FilesWriter.of(projection, target, store, folder, reader.written)
    return _Merger(shared, reader, writer, Order(order_of(projection)), tuple(key), slots)


@dataclass
class _Given:
    """Gives shares their rows.

    Attributes:
        shares: How many there are.
        rows: Of each share some rows that are gone, or come; packed.
        tasks: How many tasks share the shares.
    """

    shares: int
    rows: Sequence[tuple[int, bool, bytes]]
    tasks: int

    def __call__(self, numbers: Batches) -> Batches:
        """Give what a ``_Merger`` takes, for the tasks whose numbers come."""
        for number in block_tasks.numbers(numbers):
            mine = range(number, self.shares, self.tasks)
            given: list[tuple[int, bool | None, bytes | None]]
            given = [(share, None, None) for share in mine]
            given += [one for one in self.rows if one[0] % self.tasks == number]
            columns = zip(*given, strict=True)
            types = (pa.int32(), pa.bool_(), pa.binary())
            arrays = [pa.array(one, type_) for one, type_ in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=["share", "gone", "rows"])


def conforming(frame: DataFrame) -> pa.Schema:
    """Return the columns of a frame as files are read back: times are of UTC."""
    fields = [T.StructField(one.name, one.dataType) for one in frame.schema.fields]
    return to_arrow_schema(T.StructType(fields), timezone="UTC")


@dataclass
class _Packer:
    """Packs rows for the shares that they belong to.

    Attributes:
        shared: The shares.
        schema: The columns.
        is_gone: Whether the rows are gone.
    """

    shared: Shares
    schema: pa.Schema
    is_gone: bool

    def __call__(self, batches: Batches) -> Batches:
        """Give one value for each batch and share."""
        for batch in batches:
            rows = conformed(batch, self.schema)
            found = list((self.shared.gone if self.is_gone else self.shared.come)(rows))
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([share for share, _ in found], pa.int32()),
                    pa.array([self.is_gone] * len(found), pa.bool_()),
                    pa.array([pack(some) for _, some in found], pa.binary()),
                ],
                names=["share", "gone", "rows"],
            )


@dataclass
class _Merger:
    """Writes the files of shares again.

    Attributes:
        shared: The shares.
        reader: Reads their files.
        writer: Writes files.
        order: The order of rows in them.
        key: The columns by which rows are the same.
        slots: Keeps rows apart that are not to be in one file.
    """

    shared: Shares
    reader: FilesReader
    writer: FilesWriter
    order: Order
    key: tuple[str, ...]
    slots: Slots

    def __call__(self, batches: Batches) -> Batches:
        """Write what the shares that come have."""
        gone: dict[int, list[pa.Table]] = {}
        come: dict[int, list[pa.Table]] = {}
        for batch in batches:
            for share, is_gone, rows in zip(*(one.to_pylist() for one in batch), strict=True):
                gone.setdefault(share, [])
                if rows is not None:
                    (gone if is_gone else come).setdefault(share, []).append(unpack(rows))
        files: list[bytes] = []
        for share in sorted(gone):
            new = pa.concat_tables(come.pop(share, []) or [self.reader.wanted.empty_table()])
            keys = [one.select(self.key) for one in gone[share]]
            rows = self._merged(share, new, Keys(pa.concat_tables(keys)) if keys else None)
            files += [pickle.dumps(file) for file in self.writer.files(self._apart(rows), share)]
        if files:
            yield pa.RecordBatch.from_arrays([pa.array(files, pa.binary())], names=["file"])

    def _merged(self, share: int, new: pa.Table, gone: Keys | None) -> Batches:
        if share == len(self.shared.runs):
            whole = new.combine_chunks().to_batches()
            for batch in whole:
                for _, rows in parted(batch, self.shared.partition_by):
                    yield from merged(
                        (), self.order.sorted(pa.Table.from_batches([rows])), self.order
                    )
            return
        runs = ([self._rows(index, gone) for index in run] for run in self.shared.runs[share])
        yield from merged(runs, self.order.sorted(new), self.order)

    def _rows(self, index: int, gone: Keys | None) -> Batches:
        for rows in self.reader.read(self.reader.files[index]):
            yield rows if gone is None else without(rows, gone)

    def _apart(self, batches: Batches) -> Batches:
        if not any(self.slots.starts.values()):
            yield from batches
            return
        for rows in batches:
            arrays = [*rows.columns, self.slots(rows)]
            yield pa.RecordBatch.from_arrays(arrays, names=[*rows.schema.names, SLOT])
