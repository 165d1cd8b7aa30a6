"""A row erased by its key: with bounds of keys in the blocks, without them, and a full rewrite.

The lake is in 40 files, one a transaction, and its keys rise, as they do where a tap sends what is new. The full
rewrite is the same job for 40 rows, one in each file. All run in one Spark session; processor
time is that of this process, Java and Python's workers together.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import harness
from bench.harness import Cost
from singerlake.lake import Lake
from singerlake.maintenance.erase import EraseOptions
from singerlake.spark.jobs.maintenance import erase as job
from singerlake.spark.jobs.maintenance.erased_lines import AskedRows
from singerlake.spark.jvm.session import session

FILES = 40
TABLE = "tap-bench.stream_0"
SYNC = """
import sys
from singerlake.format import key_bounds
from target_singerlake.target import TargetSingerlake
if sys.argv[2] == "without":
    key_bounds.MOST_BYTES = 0
config = {"lake": sys.argv[1], "tap_id": "tap-bench", "commit_bytes": 1}
TargetSingerlake(config=config).listen(sys.stdin.buffer)
"""
ONE, UNKNOWN = "one row, blocks with bounds", "one row, blocks without"
ALL = "40 rows, one in each file: a full rewrite"
NONE = "a key that no row has: fixed costs"


def run(folder: Path, rows: int, rounds: int) -> str:
    """Measure.

    Args:
        folder: Where to work.
        rows: In the table.
        rounds: How often.
    """
    source = _in_parts(harness.messages(folder / "one.jsonl", rows), rows)
    lakes = {how: _lake(folder, how, source) for how in ("with", "without")}
    middle = str(rows // 2 + 7)
    each = [str(rows // FILES * n + 11) for n in range(FILES)]
    cases: dict[str, Callable[[], Cost]] = {
        NONE: lambda: _erased(folder, lakes["with"], [str(rows + 1)], 0),
        ONE: lambda: _erased(folder, lakes["with"], [middle], 1),
        UNKNOWN: lambda: _erased(folder, lakes["without"], [middle], 1),
        ALL: lambda: _erased(folder, lakes["without"], each, FILES),
    }
    times = harness.rounds(cases, rounds, warm_up=True)
    cpu = {name: min(cost.cpu for cost in case.costs) for name, case in times.items()}
    lines = [
        [
            name,
            harness.number(times[name].median),
            harness.number(cpu[name]),
            f"{cpu[name] / cpu[ALL]:.2f}",
            f"{(cpu[name] - cpu[NONE]) / (cpu[ALL] - cpu[NONE]):.3f}",
        ]
        for name in cases
    ]
    size = sum(path.stat().st_size for path in lakes["with"].rglob("*.singer.gz"))
    headings = ["", "median s", "processor s", "of a full rewrite", "without fixed costs"]
    return "\n\n".join(
        [
            f"{rows:,} rows in {FILES} files, {size / 1e6:,.0f} MB. {harness.machine('pyspark')}",
            harness.table(headings, lines),
        ]
    )


def _in_parts(source: Path, rows: int) -> Path:
    """The same messages with a STATE behind each fortieth of the records."""
    path = source.with_name("parts.jsonl")
    with source.open("rb") as file, path.open("wb") as out:
        out.write(file.readline())
        for number, line in enumerate(file, start=1):
            out.write(line)
            if number % (rows // FILES) == 0:
                out.write(b'{"type": "STATE", "value": %d}\n' % number)
    return path


def _lake(folder: Path, how: str, source: Path) -> Path:
    lake = folder / how
    harness.command([sys.executable, "-c", SYNC, lake, how], stdin=source)
    assert len([*lake.rglob("*.singer.gz")]) == FILES
    return lake


def _erased(folder: Path, base: Path, ids: list[str], files: int) -> Cost:
    """Erase rows from a copy."""
    copy = harness.fresh(folder / "copy")
    shutil.copytree(base, copy)
    table, _ = Lake.open(str(copy)).find(TABLE)
    options = EraseOptions("bench", lease_wait_seconds=0)
    began, used = time.perf_counter(), _processor()
    done = job.erase(session, table, AskedRows(tuple(ids)), options, clear=lambda *_: None)
    cost = Cost(time.perf_counter() - began, _processor() - used)
    assert (done.files, done.lines) == (files, len(ids) if files else 0), done
    return cost


def _processor() -> float:
    """Seconds of processor of this process and all that it began."""
    spent: dict[int, tuple[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        # The parent; then user and system, its own and of those it waited for.
        spent[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while more := {pid for pid, (parent, _) in spent.items() if parent in family} - family:
        family |= more
    return sum(spent[pid][1] for pid in family) / os.sysconf("SC_CLK_TCK")
