"""Positions go to the task that writes them, and a task is sent its own blocks alone."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from singerlake.format.log import Block
from singerlake.records.blocks.block_tasks import MARK
from singerlake.spark.write import routing
from singerlake.spark.write.routing import Router, Task


def block(number: int, first_version: int = 0) -> Block:
    return Block(number, "h/f", 0, 1, 1, 1, first_version=first_version)


def routed(router: Router, versions: list[int]) -> list[tuple[int, int, str]]:
    columns = [pa.array(versions, pa.int64()), pa.array(range(len(versions)), pa.int32())]
    others = pa.array([f"of {version}" for version in versions])
    batch = pa.RecordBatch.from_arrays([*columns, others], names=["block", "row", "other"])
    (found,) = router(iter([batch]))
    assert found.schema.names == ["task", "block", "row", "other", "work"]
    assert found.column("work").null_count == found.num_rows
    return [tuple(found.column(n)[i].as_py() for n in (0, 1, 3)) for i in range(found.num_rows)]


@pytest.mark.parametrize("seed", range(20))
def test_each_position_goes_to_the_task_of_its_block(seed: int) -> None:
    """Held to a plain dictionary, with blocks put together, gone, and of no task."""
    chance = random.Random(seed)
    tasks: list[list[Block]] = [[] for _ in range(chance.randint(1, 4))]
    owner: dict[int, int] = {}
    number, task = 0, 0
    while number < 60:
        first = number + chance.choice([1, 1, 1, 3])
        number = first + chance.choice([0, 0, 4])
        task = min(task + chance.choice([0, 0, 0, 1]), len(tasks) - 1)
        if chance.random() < 0.3:
            continue  # it stays as it is
        tasks[task].append(block(number, first if number > first else 0))
        owner |= dict.fromkeys(range(first, number + 1), task)
    versions = [*range(1, 70), *chance.choices(range(1, 70), k=30)]
    found = routed(Router.of([Task(blocks, b"") for blocks in tasks]), versions)
    assert found == [(owner[v], v, f"of {v}") for v in versions if v in owner]


def test_without_tasks_nothing_is_routed() -> None:
    assert routed(Router.of([]), [1, 2]) == []


def test_what_all_tasks_are_sent_does_not_grow_with_the_blocks() -> None:
    def size(count: int) -> int:
        tasks = [Task([block(t * count + n + 1) for n in range(count)], b"") for t in range(5)]
        return len(cloudpickle.dumps(Router.of(tasks)))

    assert size(10_000) == size(10)


def test_each_task_comes_whole_and_in_order_behind_its_mark(spark: SparkSession) -> None:
    tasks = [Task([block(2 * t + 1), block(2 * t + 2)], b"task %d" % t) for t in range(9)]
    versions = [version for version in range(1, 21) if version not in (5, 6)]
    random.Random(1).shuffle(versions)
    rows = spark.createDataFrame(
        [(v, row, row == 1) for v in versions for row in (1, 0)],
        "block long, row int, gone boolean",
    )
    frame = routing.route(spark, rows, tasks)
    found = [[tuple(row) for row in part] for part in frame.rdd.glom().collect()]
    together = sorted((row for part in found for row in part), key=lambda row: row[:3])
    expected = []
    for number, task in enumerate(tasks):
        expected.append((number, 0, MARK, None, task.work))
        for one in task.blocks:
            if one.number not in (5, 6):
                expected += [(number, one.number, row, row == 1, None) for row in (0, 1)]
    assert together == expected
    for part in found:
        assert [row[:3] for row in part] == sorted(row[:3] for row in part)
        for task in {row[0] for row in part}:
            mine = [row for row in part if row[0] == task]
            assert mine[0][2] == MARK
            assert len(mine) == sum(row[0] == task for row in together)
