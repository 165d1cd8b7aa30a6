"""``spark.readStream.format("singerlake")``: each transaction once, whatever is killed and when."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from singerlake.api.spark_source import SingerlakeSource
from singerlake.errors import ConflictError, UsageError
from singerlake.lake import Lake
from singerlake.log import lease
from singerlake.ops.vacuum import vacuum as vacuums
from singerlake.ops.vacuum.plan import PARTS, VacuumOptions
from singerlake.spark import register
from tests.build import commit_rows
from tests.histories import here

PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}
GONE = "2026-01-02T00:00:00Z"
TOO_BUSY = "Timed out while waiting for the Python worker to connect back"
"""Spark gives a process of Python ten seconds to connect, a number in its code. On a busy machine a
query fails by it, and whoever runs it starts it again: it goes on from its checkpoint."""


def write(lake: Lake, *messages: Any) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [*messages])


@pytest.fixture
def filled(lake: Lake) -> Lake:
    write(lake, {"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    here.freeze(lake.table("tap.s"), label="first")
    write(lake, {"id": 1, "_sdc_deleted_at": GONE}, {"id": 3, "name": "c"})
    return lake


def stream(spark: SparkSession, lake: Lake, **options: str) -> DataFrame:
    register(spark)
    wanted = {"lake": lake.store.uri, "change_feed": "true", **options}
    return spark.readStream.format("singerlake").options(**wanted).load("tap.s")


def run(changes: DataFrame, folder: Path, *, all_there_is: bool = True) -> StreamingQuery:
    """Write changes to Parquet, as far as they go."""
    sink = changes.writeStream.format("parquet").option("path", str(folder / "sink"))
    sink = sink.option("checkpointLocation", str(folder / "checkpoint"))
    if not all_there_is:
        return sink.start()
    for attempt in range(5):
        query = sink.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            if attempt == 4 or TOO_BUSY not in str(error):
                raise
    return query


def sunk(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    rows = spark.read.parquet(str(folder / "sink")).orderBy("_sequence").collect()
    return [(row.id, row.name, row._change_type, row._transaction) for row in rows]


def batches(query: StreamingQuery) -> list[int]:
    return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]


@pytest.mark.usefixtures("each_operation")
def test_each_transaction_comes_once_and_a_query_goes_on(
    filled: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    query = run(stream(spark, filled, max_transactions_per_trigger="1"), tmp_path)
    assert batches(query) == [2, 2]
    first = [
        (1, "a", "upsert", 1),
        (2, "b", "upsert", 1),
        (1, None, "delete", 3),
        (3, "c", "upsert", 3),
    ]
    assert sunk(spark, tmp_path) == first
    here.freeze(filled.table("tap.s"))
    assert run(stream(spark, filled), tmp_path).recentProgress[-1]["numInputRows"] == 0
    write(filled, {"id": 4, "name": "d"})
    run(stream(spark, filled), tmp_path)
    assert sunk(spark, tmp_path) == [*first, (4, "d", "upsert", 5)]
    assert lease.leases(filled.store, filled.table("tap.s").name) == []


def test_rows_limit_a_batch_and_a_running_query_takes_what_comes(
    filled: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    changes = stream(spark, filled, since="first", max_rows_per_trigger="3")
    query = run(changes, tmp_path, all_there_is=False)
    try:
        query.processAllAvailable()
        for number in (5, 6, 7):
            write(filled, {"id": number}, {"id": number + 10})
        query.processAllAvailable()
    finally:
        query.stop()
    assert [row[3] for row in sunk(spark, tmp_path)] == [3, 3, 4, 4, 5, 5, 6, 6]
    assert max(batches(query)) <= 3


def test_a_replaced_table_gives_what_is_gone(
    filled: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    write(filled, ({"id": 3, "name": "c"}, 7), 7)
    run(stream(spark, filled, since="@3"), tmp_path)
    assert sunk(spark, tmp_path) == [(2, "b", "delete", 4)]


def test_history_that_expired_below_the_checkpoint_is_said(
    filled: Lake, spark: SparkSession, tmp_path: Path
) -> None:
    run(stream(spark, filled, max_transactions_per_trigger="1"), tmp_path)
    write(filled, {"id": 4, "name": "d"})
    write(filled, {"id": 4, "name": "e"})
    table = filled.table("tap.s")
    vacuums.vacuum(table, VacuumOptions(retain_seconds=0, guard=False, parts=PARTS))
    with pytest.raises(Exception, match=r"have expired: .* start a new query"):
        run(stream(spark, filled), tmp_path)
    anew = tmp_path / "anew"
    run(stream(spark, filled), anew)
    assert {row[:2] for row in sunk(spark, anew)} == {(2, "b"), (3, "c"), (4, "e")}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sinse": "1"}, "the option 'sinse' is not known: did you mean since"),
        ({"version": "1"}, "a stream has no version: say where it begins with the option since"),
        ({"change_feed": "yes"}, "neither true nor false"),
        ({"max_rows_per_trigger": "0"}, "max_rows_per_trigger='0' is not a positive number"),
        ({"max_transactions_per_trigger": "1.5"}, "is not a positive number"),
        ({"path": "tap.s.1"}, "load tap.s, with since=1"),
        ({"on_type_mismatch": "text"}, "neither fail nor null"),
        ({"change_feed": "false"}, r'add .option\("change_feed", "true"\)'),
        ({"change_feed": "false", "since": "1"}, "is one of streams, with change_feed=true"),
    ],
)
def test_what_cannot_be_streamed_is_refused(
    filled: Lake, options: dict[str, str], said: str
) -> None:
    wanted = {"path": "tap.s", "lake": filled.store.uri, "change_feed": "true", **options}
    source = SingerlakeSource(wanted)
    with pytest.raises(UsageError, match=said):
        source.streamReader(source.schema()).initialOffset()


@pytest.mark.parametrize(
    ("options", "continued", "said"),
    [
        ({"change_feed": "false"}, False, 'add .option("change_feed", "true")'),
        ({"change_feed": "false"}, True, 'add .option("change_feed", "true")'),
        ({"max_rows_per_trigger": "0"}, False, "'0' is not a positive number"),
        ({"max_rows_per_trigger": "0"}, True, "'0' is not a positive number"),
        ({"since": "7"}, False, "has no version '7'"),
    ],
)
def test_error_of_a_stream_is_the_only_one(
    filled: Lake,
    spark: SparkSession,
    tmp_path: Path,
    options: dict[str, str],
    continued: bool,
    said: str,
) -> None:
    if continued:
        run(stream(spark, filled), tmp_path)
    with pytest.raises(StreamingQueryException) as found:
        run(stream(spark, filled, **options), tmp_path)
    assert said in str(found.value)
    assert "UnboundLocalError" not in str(found.value)


def test_a_snapshot_is_not_read_as_changes(filled: Lake) -> None:
    source = SingerlakeSource({"path": "tap.s", "lake": filled.store.uri, "change_feed": "true"})
    with pytest.raises(UsageError, match=r"one of spark.readStream: compare two snapshots"):
        source.reader(source.schema())


def test_columns_of_another_name_are_refused(filled: Lake) -> None:
    wanted = {"path": "tap.s", "lake": filled.store.uri, "change_feed": "true"}
    source = SingerlakeSource(wanted)
    reader = source.streamReader(source.schema().add("more", "string"))
    with pytest.raises(ConflictError, match="let it take the columns from the table"):
        reader.initialOffset()
        reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]


_QUERY = """
import sys
from pyspark.sql import SparkSession
lake, folder, limit = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
changes = (
    spark.readStream.format("singerlake").option("lake", lake).option("change_feed", "true")
    .option("max_transactions_per_trigger", limit).load("tap.s")
)
query = (
    changes.writeStream.format("parquet").option("path", folder + "/sink")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
print("begun", flush=True)
query.awaitTermination()
print("done", flush=True)
"""


def _java_home() -> str:
    from singerlake.engine.spark.jvm import java

    return str(java.find().path.parents[1])


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Any]:
    """Starts the query in a process group of its own; whatever is left of it ends with the test."""
    begun: list[subprocess.Popen[str]] = []
    where = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": _java_home()}

    def start(lake: Lake, folder: Path, limit: int) -> subprocess.Popen[str]:
        with (tmp_path / "stderr").open("w") as errors:
            made = subprocess.Popen(
                [sys.executable, "-c", _QUERY, lake.store.uri, str(folder), str(limit)],
                cwd=tmp_path,
                env={**os.environ, **where},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        begun.append(made)
        return made

    yield start
    for made in begun:
        _kill(made)


def _kill(program: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()


KILLS = 5 if os.environ.get("SINGERLAKE_FAULTS") == "all" else 2


@pytest.mark.usefixtures("processes", "long_runs")
def test_a_query_that_is_killed_anywhere_gives_every_transaction_once(
    lake: Lake, spark: SparkSession, tmp_path: Path, program: Any
) -> None:
    """Also with writers, freezes and vacuums beside it."""
    chance, wanted, number = random.Random(1), Counter[tuple[int, int]](), 0
    folder = tmp_path / "out"

    def fill() -> None:
        nonlocal number
        for _ in range(chance.randrange(2, 6)):
            rows = [{"id": number + n} for n in range(chance.randrange(1, 5))]
            number += len(rows)
            write(lake, *rows)
            at = lake.table("tap.s").snapshot().number
            wanted.update((row["id"], at) for row in rows)
        table = lake.table("tap.s")
        here.freeze(table)
        vacuums.vacuum(table, VacuumOptions(retain_seconds=0, guard=False, lease_wait_seconds=0))

    fill()
    killed = 0
    for _ in range(KILLS):
        made = program(lake, folder, chance.choice([1, 2]))
        assert made.stdout.readline() == "begun\n"
        fill()
        time.sleep(chance.uniform(0, 4))
        killed += made.poll() is None
        _kill(made)
    assert killed >= KILLS // 2
    done, said = False, TOO_BUSY
    while not done and TOO_BUSY in said:
        made = program(lake, folder, 3)
        done = made.communicate(timeout=300)[0].endswith("done\n")
        said = (tmp_path / "stderr").read_text()
    assert done, said[-10_000:]
    rows = spark.read.parquet(str(folder / "sink")).collect()
    assert Counter((row.id, row._transaction) for row in rows) == wanted
    offsets = [json.loads(f.read_text().splitlines()[-1]) for f in _offsets(folder)]
    assert len({one["transaction"] for one in offsets}) == len(offsets), "no batch is empty"


def _offsets(folder: Path) -> list[Path]:
    return [one for one in (folder / "checkpoint/offsets").iterdir() if one.name.isdecimal()]
