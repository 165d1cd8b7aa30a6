"""Rows found by their keys: one erased, 100 changed, with bounds of keys in the blocks and without.

The lake is in 40 files, one a transaction, and its keys rise, as they do where a tap sends what is new. No
table has an index. All jobs run in one Spark session; processor time is that of this process, Java
and Python's workers together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

import singerlake
from bench import harness
from bench.harness import Cost, Times
from singerlake.engine.choice import EngineChoice
from singerlake.engine.spark.jvm.session import session
from singerlake.format import block as format_block
from singerlake.lake import Lake, Table
from singerlake.log import blocks as stored
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.table import EraseRequest, erase
from singerlake.rows.blocks.asked_keys import AskedKeys
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.state.shape import shape_of

FILES = 40
CHANGED = 100
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
PLAIN = "all blocks inflated, compressed and stored again, in one thread"
EACH = "40 rows erased, one in each file"
ONE, ONE_UNKNOWN = "one row erased", "one row erased, blocks without key statistics"
ABSENT = "a key that no row has"
NEAR, NEAR_UNKNOWN = (
    "100 neighbouring rows changed",
    "100 neighbouring rows changed, blocks without key statistics",
)
FAR, FAR_UNKNOWN = (
    "100 distant rows changed",
    "100 distant rows changed, blocks without key statistics",
)


def run(folder: Path, rows: int, rounds: int) -> str:
    """Measure.

    Args:
        folder: Where to work.
        rows: In the table.
        rounds: How often.
    """
    source = _messages(folder / "parts.jsonl", rows)
    known, unknown = (_lake(folder, how, source) for how in ("with", "without"))
    source.unlink()
    table = _table(known)
    one, each = [rows // 2 + 7], [rows // FILES * n + 11 for n in range(FILES)]
    near = [*range(rows // 3, rows // 3 + CHANGED)]
    far = [rows // CHANGED * n + 5 for n in range(CHANGED)]
    every = len(table.snapshot().blocks)
    erasures: dict[str, Callable[[], Cost]] = {
        PLAIN: lambda: _rewritten(folder, known),
        EACH: lambda: _erased(folder, known, each, FILES),
        ONE: lambda: _erased(folder, known, one, 1),
        ONE_UNKNOWN: lambda: _erased(folder, unknown, one, 1),
        ABSENT: lambda: _erased(folder, known, [rows + 1], 0),
    }
    changes: dict[str, Callable[[], Cost]] = {
        NEAR: lambda: _changed(folder, known, near),
        NEAR_UNKNOWN: lambda: _changed(folder, unknown, near),
        FAR: lambda: _changed(folder, known, far),
        FAR_UNKNOWN: lambda: _changed(folder, unknown, far),
    }
    times = harness.rounds({**erasures, **changes}, rounds, warm_up=True)
    read = {
        PLAIN: every,
        ABSENT: _read(table, [rows + 1]),
        ONE_UNKNOWN: every,
        NEAR_UNKNOWN: every,
        FAR_UNKNOWN: every,
        **{
            name: _read(table, some)
            for name, some in {ONE: one, EACH: each, NEAR: near, FAR: far}.items()
        },
    }
    size = sum(block.length for block in table.snapshot().blocks)
    return "\n\n".join(
        [
            f"{rows:,} rows in {FILES} files, {every} blocks, {size / 1e6:,.0f} MB. "
            + harness.machine("pyspark"),
            _report(times, erasures, read, {ONE: (PLAIN, EACH, ONE_UNKNOWN)}),
            _report(times, changes, read, {NEAR: (NEAR_UNKNOWN,), FAR: (FAR_UNKNOWN,)}),
        ]
    )


def _report(
    times: Mapping[str, Times],
    names: Sequence[str] | Mapping[str, object],
    read: Mapping[str, int],
    ratios: Mapping[str, Sequence[str]],
) -> str:
    """A table of some cases, and the processor time of some beside that of others."""
    cpu = {name: min(cost.cpu for cost in times[name].costs) for name in names}
    lines = [
        [name, harness.number(times[name].median), harness.number(cpu[name]), f"{read[name]:,}"]
        for name in names
    ]
    told = [
        f"- {name}: {harness.number(cpu[name] / cpu[other])}× the CPU time of: {other}"
        for name, others in ratios.items()
        for other in others
    ]
    headings = ["", "median s", "CPU s", "blocks inflated for their keys"]
    return harness.table(headings, lines) + "\n\n" + "\n".join(told)


def _messages(path: Path, rows: int) -> Path:
    """Messages with a STATE behind each fortieth of the records."""
    make = [sys.executable, str(harness.HERE / "make_messages.py"), str(rows), "1"]
    with path.open("wb") as out, subprocess.Popen(make, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        out.write(process.stdout.readline())
        for number, line in enumerate(process.stdout, start=1):
            out.write(line)
            if number % (rows // FILES) == 0:
                out.write(b'{"type": "STATE", "value": %d}\n' % number)
    assert number > rows  # its own STATE is behind them
    return path


def _lake(folder: Path, how: str, source: Path) -> Path:
    lake = folder / how
    harness.command([sys.executable, "-c", SYNC, lake, how], stdin=source)
    assert len([*lake.rglob("*.singer.gz")]) == FILES
    return lake


def _table(lake: Path) -> Table:
    return Lake.open(str(lake)).find(TABLE)[0]


def _copied(folder: Path, base: Path) -> Path:
    copy = harness.fresh(folder / "copy")
    shutil.copytree(base, copy)
    return copy


def _erased(folder: Path, base: Path, ids: list[int], files: int) -> Cost:
    """Erase rows from a copy."""
    table = _table(_copied(folder, base))
    options = EraseOptions("bench", lease_wait_seconds=0)
    began, used = time.perf_counter(), harness.processor()
    asked = EraseRequest(table, tuple(map(str, ids)))
    done = erase(asked, options, EngineChoice.of("spark", start=session))
    cost = Cost(time.perf_counter() - began, harness.processor() - used)
    assert (done.files, done.lines) == (files, len(ids) if files else 0), done
    return cost


def _changed(folder: Path, base: Path, ids: list[int]) -> Cost:
    """Change a column of some rows of a copy."""
    table = singerlake.open(str(_copied(folder, base))).table(TABLE)
    began, used = time.perf_counter(), harness.processor()
    with table.change() as change:
        change.upsert([{"id": id_, "name": "another"} for id_ in ids])
    cost = Cost(time.perf_counter() - began, harness.processor() - used)
    assert change.result is not None
    assert (change.result.updated, change.result.inserted) == (len(ids), 0), change.result
    return cost


def _rewritten(folder: Path, base: Path) -> Cost:
    """Write a table's blocks again, with nothing else done to them."""
    table = _table(base)
    to = harness.fresh(folder / "copy")
    to.mkdir()
    began, used = time.perf_counter(), harness.processor()
    for block, text in stored.read_blocks(table.store, table.name, table.snapshot().blocks):
        path = to / Path(block.file).name
        with path.open("ab") as out:
            out.write(format_block.encode(text, block.rows, 0))
            out.flush()
            os.fsync(out.fileno())
    return Cost(time.perf_counter() - began, harness.processor() - used)


def _read(table: Table, ids: list[int]) -> int:
    """How many blocks are inflated to find the rows of some keys."""
    snapshot = table.snapshot()
    shape = shape_of(snapshot)
    blocks = [*snapshot.blocks]
    reader = BlockReader.of(table.store, snapshot, [blocks], shape.key_columns, shape.key_names)
    reader.asked = AskedKeys.of(shape.key_columns, [pa.array(ids, pa.int64())])
    return sum(1 for _ in reader.texts(blocks))
