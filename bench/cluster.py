"""A standalone master with two workers of one core beside ``local[2]``; what tasks are sent.

Master, workers and executors are processes on this machine, as far apart as on several: they share
no memory, the executors take the package that the driver sends, and rows go between them by TCP.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyspark

from bench import commits, harness, state
from singerlake import FORMAT
from singerlake.engine.spark.jvm import java
from singerlake.format.log import Block, Entry, seal_entry
from singerlake.lake import Lake
from singerlake.log.checkpoint import write_checkpoint
from singerlake.log.commit import appending
from singerlake.log.folding import fold
from singerlake.log.log import TableLog
from singerlake.log.table_state import TableState

WORKERS = 2
GOAL = 0.8
BLOCKS = (1_000, 100_000, 2_000_000)
AT_FULL_SIZE = 1_000_000
PER_ENTRY = 10_000
BLOCK_BYTES = 100_000
"""Inflated bytes of a block where only plans are measured: 200 GB in the largest table."""
PATIENCE = 60.0

SPENT = """
import os
from pathlib import Path

def spent(*workers):
    \"\"\"Processor seconds of this process, of the workers, and of all that they started.\"\"\"
    mine, stats = {os.getpid(), *map(int, workers)}, []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stats.append((int(path.parent.name), path.read_text().rpartition(")")[2].split()))
        except OSError:
            continue
    grew = True
    while grew:
        children = {pid for pid, stat in stats if int(stat[1]) in mine}
        grew = not children <= mine
        mine |= children
    ticks = sum(sum(map(int, stat[11:15])) for pid, stat in stats if pid in mine)
    return ticks / os.sysconf("SC_CLK_TCK")
"""

STATE = """
import json, shutil, sys, time
from singerlake.lake import Lake
from singerlake.sql.state import index_build
from singerlake.engine.spark.jvm.session import session

root, master, *workers = sys.argv[1:]
here = {"spark.driver.host": "127.0.0.1"}
spark = session(master, here if workers else None)
context = spark.sparkContext
while context._jsc.sc().getExecutorMemoryStatus().size() < 1 + len(workers):
    time.sleep(0.05)  # until every worker has an executor
spark.range(8, numPartitions=8).count()

lake = Lake.open(root)
table = lake.table(lake.tables()[0])
found = []
for _ in range(2):
    shutil.rmtree(root + "/index", ignore_errors=True)
    began, cpu = time.perf_counter(), spent(*workers)
    built = index_build.ensure(spark, table, table.snapshot())
    found += [time.perf_counter() - began, spent(*workers) - cpu]
print(json.dumps([built.marker.rows, *found]))
"""

SHIP = """
import json, re, sys, time
from pathlib import Path
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import functions as F
from singerlake.lake import Lake
from singerlake.format.names import TableName
from singerlake.rows.state.newest_rows import KeyStep, RowStep
from singerlake.engine.spark.jvm import launch
from singerlake.engine.spark.jvm.session import session
from singerlake.sql.state import from_blocks, parcels

spark = session("local[2]")
spark.range(8, numPartitions=8).count()
jvm = spark.sparkContext._jvm.org.apache
for logger in ("scheduler.TaskSetManager", "storage.memory.MemoryStore"):
    jvm.logging.log4j.core.config.Configurator.setLevel(
        "org.apache.spark." + logger, jvm.logging.log4j.Level.INFO
    )
log = launch._taken[-1].log
cpu, began = spent(), time.perf_counter()
table = Lake.open(sys.argv[1]).table(TableName(sys.argv[2], sys.argv[3]))
snapshot = table.snapshot()
opened = time.perf_counter()
plan = from_blocks.planned(spark, table, snapshot, digests=True)
planned = time.perf_counter()
steps = len(cloudpickle.dumps((
    KeyStep(plan.key_reader, plan.parts), RowStep(plan.reader, plan.shape.survival, iter)
)))

class Counted:
    \"\"\"Counts the blocks that tasks were sent, and reads none.\"\"\"

    def __init__(self, reader):
        self.reader = reader

    def __call__(self, batches):
        for batch in batches:
            if "picked" not in batch.schema.names:
                for number, blocks in self.reader.given([batch]):
                    yield pa.record_batch(
                        {"task": pa.array([number], pa.int32()), "picked": [b""], "n": [len(blocks)]}
                    )
                continue
            names = batch.schema.names
            sent = batch.column("blocks").to_pylist() if "blocks" in names else []
            tasks = batch.column("task").to_pylist()
            if not sent:  # the step knows them
                known = [len(self.reader.task(number)) for number in tasks]
            else:
                known = [len(self.reader.task(0, one)) for one in sent if one is not None]
            yield pa.record_batch({"n": pa.array([sum(known)], pa.int64())})

counted = Counted(plan.reader)
first = parcels.numbered(spark, plan.sent).mapInArrow(counted, "task int, picked binary, n bigint")
both = parcels.joined(spark, first.select("task", "picked"), plan.sent)
last = both.repartitionById(len(plan.tasks), "task").mapInArrow(counted, "n bigint")
sums = last.agg(F.sum("n")).first()[0]
shipped = time.perf_counter()
cpu = spent() - cpu
text = log.read_text()
tasks = [int(n) for n in re.findall(r"Starting task .*?, (\\d+) bytes", text)]
unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
pieces = {}
for name, size, measure in re.findall(
    r"Block broadcast_(\\d+)_piece\\d+ stored as bytes in memory \\(estimated size ([\\d.]+) (\\w+)", text
):
    pieces[name] = pieces.get(name, 0) + float(size) * unit[measure]

def peak(pid):
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) << 10

print(json.dumps({
    "blocks": sum(map(len, plan.tasks)), "received": sums, "tasks": len(plan.tasks),
    "open": opened - began, "plan": planned - opened, "ship": shipped - planned, "cpu": cpu,
    "steps": steps, "task": max(tasks), "broadcast": max(pieces.values()), "started": len(tasks),
    "python": peak("self"), "java": peak(spark.sparkContext._gateway.proc.pid),
}))
"""


def run(folder: Path, rows: int, rounds: int) -> str:
    lake = state.fill(folder / "lake", rows, 1)
    parts = [harness.machine("pyspark", "pyarrow"), _beside(folder, lake, rows, rounds)]
    shutil.rmtree(lake)
    counts = sorted({min(count, max(1_000, rows * 2)) for count in BLOCKS})
    return "\n\n".join([*parts, _shipping(folder, counts)])


# --- a cluster


@dataclass(frozen=True)
class Cluster:
    """One that runs.

    Attributes:
        master: Its URL.
        workers: The workers' process ids.
    """

    master: str
    workers: tuple[int, ...]


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A standalone master and two workers of one core, which end with the block."""
    home = Path(pyspark.__file__).parent
    runtime = java.find("spark://")
    env = {
        **os.environ,
        "JAVA_HOME": str(runtime.home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",  # as Spark's own scripts set it
        "SPARK_NO_DAEMONIZE": "1",
    }
    command = [str(runtime.path), *java.MODULE_OPTIONS, "-Xmx512m", "-cp", f"{home}/jars/*"]
    port, web = _free(), _free()
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *args: str) -> None:
        with (folder / f"{name}-{len(started)}.log").open("wb") as log:
            whole = [*command, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *args]
            started.append(subprocess.Popen(whole, stdout=log, stderr=log, env=env, cwd=folder))

    try:
        start("master.Master", "--port", str(port), "--webui-port", str(web))
        url = f"spark://127.0.0.1:{port}"
        for number in range(WORKERS):
            work = ("--work-dir", str(folder / f"work-{number}"), "--webui-port", "0")
            start("worker.Worker", "--cores", "1", "--memory", "2g", *work, url)
        _wait(f"http://127.0.0.1:{web}/json/", started)
        yield Cluster(url, tuple(process.pid for process in started[1:]))
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(30)


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _wait(status: str, started: list[subprocess.Popen[bytes]]) -> None:
    """Wait until the master has all its workers."""
    until = time.monotonic() + PATIENCE
    while True:
        assert all(process.poll() is None for process in started), "a process ended at once"
        with contextlib.suppress(OSError), urllib.request.urlopen(status, timeout=5) as answer:
            if json.load(answer)["aliveworkers"] == WORKERS:
                return
        assert time.monotonic() < until, "the workers did not come"
        time.sleep(0.1)


# --- a state on both


def _beside(folder: Path, lake: Path, rows: int, rounds: int) -> str:
    near, far = "`local[2]`", "a master, two workers of one core"
    found: dict[str, list[list[float]]] = {near: [], far: []}
    with cluster(folder) as running:
        places = {near: ["local[2]"], far: [running.master, *map(str, running.workers)]}
        for turn in range(rounds):
            for name, place in places.items():
                cost = _said(STATE, lake, *place)
                assert cost.pop(0) == rows
                print(f"  {turn + 1}/{rounds} {name}: {cost[0]:.2f} s", file=sys.stderr)
                found[name].append(cost)
    medians = {
        name: [statistics.median(column) for column in zip(*costs, strict=True)]
        for name, costs in found.items()
    }
    lines = [[name, *map(harness.number, middle)] for name, middle in medians.items()]
    heads = ["", "first job, s", "CPU s", "the same again, s", "CPU s"]
    goals = []
    for what, at in (("the first job of a session", 0), ("the same again", 2)):
        clock, processor = (medians[near][n] / medians[far][n] for n in (at, at + 1))
        goals.append(
            f"- {what}: {clock:.2f} of the rate of {near} in elapsed time, {processor:.2f} in CPU "
            f"time; the goal is {GOAL}: {'met' if clock >= GOAL else 'missed'}."
        )
    head = f"A snapshot of {rows:,} records, medians of {rounds}, each time in a new session:"
    return "\n".join([head, "", harness.table(heads, lines), "", *goals])


def _said(program: str, *args: str | Path) -> Any:
    command = [sys.executable, "-c", SPENT + program, *map(str, args)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


# --- what tasks are sent


def _shipping(folder: Path, counts: list[int]) -> str:
    lines = []
    for count in counts:
        root = harness.fresh(folder / "blocks")
        many_blocks(root, count)
        one = _said(SHIP, root, commits.NAME.tap, commits.NAME.stream)
        assert (one["blocks"], one["received"]) == (count, count), one
        print(f"  {count:,} blocks: {one}", file=sys.stderr)
        lines.append(
            [
                f"{count:,}",
                f"{one['tasks']:,}",
                *(f"{one[name] / 1e3:,.1f}" for name in ("steps", "task", "broadcast")),
                *(harness.number(one[name]) for name in ("open", "plan", "ship", "cpu")),
                *(f"{one[name] / 2**20:,.0f}" for name in ("python", "java")),
            ]
        )
    heads = [
        "blocks",
        "tasks",
        "steps, pickled, kB",
        "largest task, kB",
        "largest broadcast, kB",
        "opened, s",
        "planned, s",
        "shipped, s",
        "CPU s of all",
        "driver's Python, MiB",
        "driver's Java, MiB",
    ]
    head = (
        "Planning a table's blocks and sending them to tasks that count them, in both stages that read "
        "blocks; two tasks at a time:"
    )
    return "\n".join([head, "", harness.table(heads, lines)])


def many_blocks(root: Path, count: int) -> None:
    """The manifest of a table of very many blocks, which are nowhere."""
    lake = Lake.open(str(root), create=True)
    _, some = commits.block_of(0)
    per = min(PER_ENTRY, count // 2)
    whole = -(-count // per)

    def blocks(start: int) -> list[Block]:
        file = f"{commits.HASH}/orders-20260101T{start:012d}Z-20260101T{start:012d}Z.singer.gz"
        return [
            Block(
                n + 1, file, (n - start) * 20_000, 20_000, 250, BLOCK_BYTES, some.first, some.last
            )
            for n in range(start, min(start + per, count))
        ]

    def entries() -> Iterator[Entry]:
        chain = ""
        for number, start in enumerate(range(0, count, per), start=1):
            entry = Entry(
                format=FORMAT,
                number=number,
                commit=f"{number:032x}",
                operation="sync",
                stream=commits.NAME.stream,
                time=some.first,
                writer="host-4711-28ded5af",
                software="singerlake",
                schema_hash=commits.HASH,
                schemas={commits.HASH: commits.SCHEMA} if number == 1 else {},
                blocks=blocks(start),
            )
            written, _ = seal_entry(msgspec.structs.replace(entry, previous=chain))
            chain = written.chain
            yield written

    log = entries()
    write_checkpoint(lake.store, fold(TableState(commits.NAME), itertools.islice(log, whole - 1)))
    with appending(TableLog(lake.store, commits.NAME)) as append:
        for written in log:
            assert append(written)
