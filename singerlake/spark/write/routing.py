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
from pyspark.sql import types as T  # noqa: N812

from singerlake.format.log import Block
from singerlake.records.blocks.block_tasks import MARK
from singerlake.records.rows.steps import Batches
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
