"""Routes positions of rows to the tasks that write them, each with what it must know.

What a task must know (its blocks, say) comes as a row of its own, a mark, before the task's
other rows. So a task is sent its own part of a table's blocks; in the function that all tasks
run it would be sent those of all, and a table may have millions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812

from singerlake.format.log import Block
from singerlake.records.blocks import block_tasks
from singerlake.records.blocks.block_tasks import MARK
from singerlake.records.rows import packing
from singerlake.records.rows.steps import BATCH_ROWS, Batches
from singerlake.spark.jvm.session import cores

TASK, WORK = "task", "work"
"""The first and the last column; between them those of the rows, ``block`` and ``row`` first."""


class Task(NamedTuple):
    """What one task writes.

    Attributes:
        blocks: Whose rows it is sent, in order of number; no two tasks have one in common.
        work: What it must know, encoded.
    """

    blocks: Sequence[Block]
    work: bytes


def by_blocks(
    spark: SparkSession, actions: DataFrame, blocks: Sequence[Block]
) -> tuple[DataFrame, Sequence[Block]]:
    """Send rows to tasks that each write what comes from some neighbouring blocks.

    Args:
        spark: The session.
        actions: As ``rows`` of :func:`route`.
        blocks: All that rows may come from, in order.

    Returns:
        What :func:`route` gives, each task's work its blocks; and the blocks that the tasks must
        know besides, which are all of them where one task does everything.
    """
    tasks = block_tasks.to_write(blocks)
    if len(tasks) > 1:
        return route(spark, actions, [Task(t, block_tasks.encode(t)) for t in tasks]), []
    # Most tables: marks and their shuffle would take longer than the writing.
    alone = actions.select(F.lit(0).alias(TASK), "*", F.lit(None).cast("binary").alias(WORK))
    return alone.repartition(1).sortWithinPartitions("block", "row"), blocks


def packed_by_blocks(
    spark: SparkSession, packed: DataFrame, blocks: Sequence[Block]
) -> tuple[DataFrame, Sequence[Block]]:
    """Do as :func:`by_blocks` with packed rows, which stay so on their way.

    Args:
        spark: The session.
        packed: Has a column ``rows`` of packed tables with ``block`` and ``row``.
        blocks: All that rows come from, in order, and no others.

    Returns:
        Packed rows for :class:`InOrder`; and the blocks that the tasks must know besides.
    """
    tasks = block_tasks.split(blocks, 2 * cores(spark), block_tasks.WRITE_BYTES)
    if len(tasks) == 1:
        alone = packed.select(F.lit(0).alias(TASK), "rows", F.lit(None).cast("binary").alias(WORK))
        return alone.coalesce(1), blocks
    routed = packed.mapInArrow(PackedRouter(Router.of([Task(t, b"") for t in tasks])), _PACKED)
    marks = spark.createDataFrame(
        pa.table(
            {
                TASK: pa.array(range(len(tasks)), pa.int32()),
                "rows": pa.nulls(len(tasks), pa.binary()),
                WORK: pa.array([block_tasks.encode(task) for task in tasks], pa.binary()),
            }
        ),
        _PACKED,
    )
    # No more parts than tasks that may run at once need: a part may have several tasks.
    parts = min(len(tasks), 4 * cores(spark) + len(tasks) // 4)
    return routed.unionAll(marks).repartitionById(parts, F.col(TASK) % parts), []


_PACKED = f"{TASK} int, rows binary, {WORK} binary"


def route(spark: SparkSession, rows: DataFrame, tasks: Sequence[Task]) -> DataFrame:
    """Send rows to their tasks.

    Args:
        spark: The session.
        rows: Positions as ``block`` (a long) and ``row`` (an integer), then any other columns.
            Those of blocks that are no task's are left out.
        tasks: All tasks.

    Returns:
        Each task whole in one partition, first its mark, which alone has ``work``, then its rows
        in order. A partition may have several tasks, in order too.
    """
    fields = [T.StructField(f.name, f.dataType) for f in rows.schema.fields]
    first, last = T.StructField(TASK, T.IntegerType()), T.StructField(WORK, T.BinaryType())
    schema = T.StructType([first, *fields, last])
    count = len(tasks)
    marks = pa.table(
        {
            TASK: pa.array(range(count), pa.int32()),
            "block": pa.array([0] * count, pa.int64()),
            "row": pa.array([MARK] * count, pa.int32()),
            **{f.name: pa.array([None] * count, pa.null()) for f in fields[2:]},
            WORK: pa.array([task.work for task in tasks], pa.binary()),
        }
    )
    # By hash several tasks may meet in a part; with fewer parts than tasks none is left idle.
    parts = max(1, min(count, 4 * cores(spark) + count // 4))
    return (
        rows.mapInArrow(Router.of(tasks), schema)
        .unionAll(spark.createDataFrame(marks, schema))
        .repartition(parts, TASK)
        .sortWithinPartitions(TASK, "block", "row")
    )


@dataclass
class Router:
    """Tells which task writes a row; rows that none does are left out.

    Attributes:
        first: First version of each range of versions, rising.
        last: Its last version.
        task: Its task.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    task: NDArray[np.int32]

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Router:
        """Make one by the tasks' blocks; neighbours become one range."""
        owned: list[tuple[int, int, int]] = []
        for number, task in enumerate(tasks):
            for block in task.blocks:
                begin = block.lowest_version
                if owned and owned[-1][1:] == (begin - 1, number):
                    begin = owned.pop()[0]
                owned.append((begin, block.number, number))
        ranges = np.array(sorted(owned), dtype=np.int64).reshape(-1, 3)
        return cls(ranges[:, 0], ranges[:, 1], ranges[:, 2].astype(np.int32))

    def __call__(self, batches: Batches) -> Batches:
        """Route rows by their positions."""
        for batch in batches:
            blocks = batch.column("block").to_numpy()
            ranges = np.searchsorted(self.last, blocks)
            inside = ranges < len(self.last)
            inside[inside] = self.first[ranges[inside]] <= blocks[inside]
            tasks = np.zeros(len(blocks), dtype=np.int32)
            tasks[inside] = self.task[ranges[inside]]
            columns = [pa.array(tasks), *batch.columns, pa.nulls(len(blocks), pa.binary())]
            names = [TASK, *batch.schema.names, WORK]
            yield pa.RecordBatch.from_arrays(columns, names=names).filter(pa.array(inside))

    def tasks_of(self, blocks: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the task of each row, by the block it came in; all must be some task's."""
        found: NDArray[np.int32] = self.task[np.searchsorted(self.last, blocks)]
        return found


@dataclass
class PackedRouter:
    """Sends packed rows to their tasks.

    Attributes:
        router: Knows these.
    """

    router: Router

    def __call__(self, batches: Batches) -> Batches:
        """Split the tables in the column ``rows`` by task."""
        for batch in batches:
            for data in batch.column("rows").to_pylist():
                rows = packing.unpack(data)
                tasks = self.router.tasks_of(rows.column("block").to_numpy())
                count = int(self.router.task.max()) + 1
                for number, some in packing.split(rows, tasks, count):
                    values = (number, packing.pack(some), None)
                    types = (pa.int32(), pa.binary(), pa.binary())
                    arrays = [pa.array([v], t) for v, t in zip(values, types, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, names=[TASK, "rows", WORK])


class InOrder:
    """Gives each task's rows in the order of their positions, behind its mark if it has one."""

    def __call__(self, batches: Batches) -> Batches:
        """Take packed rows of whole tasks."""
        tasks: dict[int, list[bytes]] = {}
        works: dict[int, bytes] = {}
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in (TASK, "rows", WORK))
            for task, rows, work in zip(*columns, strict=True):
                if work is not None:
                    works[task] = work
                else:
                    tasks.setdefault(task, []).append(rows)
        for task in sorted(tasks):
            rows = pa.concat_tables([packing.unpack(data) for data in tasks.pop(task)])
            if task in works:
                yield _mark(rows.schema, works[task])
            rows = rows.sort_by([("block", "ascending"), ("row", "ascending")])
            rows = rows.append_column(WORK, pa.nulls(len(rows), pa.binary()))
            yield from rows.to_batches(max_chunksize=BATCH_ROWS)


def _mark(schema: pa.Schema, work: bytes) -> pa.RecordBatch:
    nothing = {field.name: pa.nulls(1, field.type) for field in schema}
    mark = {"row": pa.array([MARK], pa.int32()), WORK: pa.array([work], pa.binary())}
    return pa.RecordBatch.from_pydict({**nothing, **mark})
