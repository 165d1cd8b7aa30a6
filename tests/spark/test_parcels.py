"""Each task is sent its own part of a plan; what is sent to all does not grow with the table."""

from __future__ import annotations

import dataclasses

import msgspec
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from singerlake.lake import Lake
from singerlake.maintenance.verify import Problem
from singerlake.records.blocks import block_tasks
from singerlake.records.state.newest_rows import KeyStep, RowStep
from singerlake.spark.jobs.maintenance.verify import _OnSpark
from singerlake.spark.state import from_blocks, parcels
from singerlake.spark.state.from_blocks import Plan
from singerlake.transactions.snapshot import Snapshot
from tests.build import commit_rows

PARTS = [b"part %d" % number for number in range(5)]


@pytest.fixture(params=["carried", "sent"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "sent":
        monkeypatch.setattr(parcels, "CARRIED_BYTES", 0)
    return str(request.param)


def large(lake: Lake, count: int) -> Snapshot:
    """A table of many blocks, which are nowhere."""
    commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    table = lake.find("tap.s")[0]
    snapshot = table.snapshot()
    first = snapshot.blocks[0]
    blocks = [
        msgspec.structs.replace(first, number=number + 1, bytes=1 << 20) for number in range(count)
    ]
    return dataclasses.replace(snapshot, blocks=blocks)


def steps(plan: Plan) -> int:
    """How many bytes each task is sent of the steps that read blocks."""
    keys = KeyStep(plan.key_reader, plan.parts)
    rows = RowStep(plan.reader, plan.shape.survival, iter)
    return len(cloudpickle.dumps((keys, rows)))


def test_what_all_tasks_are_sent_does_not_grow_with_the_table(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcels, "CARRIED_BYTES", 1_000)
    sizes = []
    for count in (2_000, 40_000):
        snapshot = large(lake, count)
        table = lake.find("tap.s")[0]
        plan = from_blocks.planned(spark, table, snapshot)
        assert sum(len(block_tasks.decode(part)) for part in plan.sent) == count
        sizes.append(steps(plan))
    assert sizes[0] == sizes[1] < 10_000


def test_a_small_plan_goes_with_the_step(spark: SparkSession, lake: Lake) -> None:
    snapshot = large(lake, 100)
    plan = from_blocks.planned(spark, lake.find("tap.s")[0], snapshot)
    assert plan.reader.tasks == plan.key_reader.tasks == plan.sent
    assert parcels.carried(plan.sent) == plan.sent


def test_each_task_has_its_number_and_its_part_alone(spark: SparkSession, how: str) -> None:
    before = spark.conf.get(parcels._LOCAL_ROWS)
    frame = parcels.numbered(spark, PARTS)
    found = [[tuple(row) for row in part] for part in frame.rdd.glom().collect()]
    assert found == [
        [(number, part) if how == "sent" else (number,)] for number, part in enumerate(PARTS)
    ]
    assert parcels.carried(PARTS) == ([] if how == "sent" else PARTS)
    assert spark.conf.get(parcels._LOCAL_ROWS) == before


@pytest.mark.usefixtures("how")
def test_without_tasks_there_is_nothing(spark: SparkSession) -> None:
    assert parcels.numbered(spark, []).count() == 0


def test_rows_are_joined_by_the_parts_of_their_tasks(
    spark: SparkSession, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcels, "_SHARE_BYTES", 12)
    schema = "task int, picked binary"
    rows = spark.createDataFrame(pa.table({"task": [1, 3], "picked": [b"x", b"y"]}), schema)
    together = parcels.joined(spark, rows, PARTS)
    if how == "carried":
        assert together is rows
        return
    found = sorted((tuple(row) for row in together.collect()), key=repr)
    own = [(number, None, part) for number, part in enumerate(PARTS)]
    assert found == sorted([(1, b"x", None), (3, b"y", None), *own], key=repr)


@pytest.mark.usefixtures("how")
def test_a_verify_numbers_things_across_tasks(spark: SparkSession) -> None:
    def odd(thing: int) -> list[Problem]:
        return [Problem("block", str(thing), "even", "odd")] if thing % 2 else []

    tasks = [[1, 2], [3], [4, 5, 6, 7]]
    found, more = _OnSpark(spark).problems(tasks, odd)
    assert [problem.where for problem in found] == ["1", "3", "5", "7"]
    assert more == 0
