"""Vacuum: small files combined beside ``cat`` of the same files, and dropped history.

Both sides end with their bytes synced to the disk, and begin with them in the page cache. All is
done in one Spark session; its start, and what its first job costs more, are shown apart.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from bench import harness
from bench.harness import BIN, Case, Cost
from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.spark.jvm.session import session
from singerlake.engine.work import SMALL
from singerlake.format.log import Block
from singerlake.lake import Lake, Table
from singerlake.log.staging import FILE_BYTES, StagedTable
from singerlake.ops.vacuum.combine import plan_combine, work_of
from singerlake.ops.vacuum.plan import COMBINE, DROP_HISTORY, VacuumOptions
from singerlake.ops.vacuum.vacuum import vacuum
from singerlake.snapshot.content import state_content
from singerlake.sql.state import index_build
from tests.frozen import vacuum_on_spark

FILES = 500
LARGE_BYTES = 800 << 20
GOAL = 1.5
HISTORY_GOAL = 2.0
VERSIONS = 5
TINY = "2 files of one row: all fixed costs"


def run(folder: Path, rows: int, rounds: int) -> str:
    """Measure.

    Args:
        folder: Where to work.
        rows: In the small files together; and of each version where history is dropped.
        rounds: How often.
    """
    start = harness.timed(session)
    first = _vacuum(folder, _tiny(folder, "first"))()
    tables = {
        TINY: _tiny(folder, "tiny"),
        "small": _small(folder, rows),
        "large": _large(folder),
    }
    cases: dict[str, Case] = {"a Spark job that does nothing": lambda: harness.timed(_nothing)}
    cases[TINY] = _vacuum(folder, tables.pop(TINY))
    names: dict[str, tuple[str, str]] = {}
    for kind, lake in tables.items():
        blocks = _table(lake).snapshot().blocks
        size = f"{len(blocks)} files, {sum(b.length for b in blocks) / 1e6:,.0f} MB"
        names[kind] = (f"cat of {size}", f"vacuum of {size}")
        cases[names[kind][0]] = _cat(folder, lake)
        cases[names[kind][1]] = _vacuum(folder, lake)
    times = harness.rounds(cases, rounds, warm_up=True)
    _check_state(tables["small"], folder / "copy")
    fixed = times[TINY].median
    ratios = []
    for cat, ours in names.values():
        one, other = times[ours].median, times[cat].median
        used, wanted = (min(cost.cpu for cost in times[name].costs) for name in (ours, cat))
        ratios.append(
            [
                ours,
                f"{one / other:.2f}",
                f"{(one - fixed) / other:.2f}",
                f"{harness.number(used)}, {harness.number(wanted)}",
                f"{used / wanted:.2f}",
                "yes" if one / other <= GOAL else "no",
            ]
        )
    headings = ["", "times `cat`", "without fixed costs", "CPU s, and `cat`'s"]
    headings += ["its ratio", f"goal: within {GOAL}×"]
    return "\n\n".join(
        [
            harness.machine("pyspark"),
            harness.times_table(times),
            harness.table(headings, ratios),
            f"Separately: starting the session took {harness.number(start.seconds)} s, and the first "
            f"vacuum in it, of 2 files, {harness.number(first.seconds)} s.",
            _drop_history(folder, rows),
        ]
    )


def _nothing() -> None:
    session().sparkContext.parallelize([b""], 1).map(len).collect()


def _sync(lake: Path, messages: Path, **config: object) -> Path:
    """One run of the target over generated messages."""
    settings = lake.with_suffix(".json")
    settings.write_text(json.dumps({"lake": str(lake), "tap_id": "b", **config}))
    harness.command([BIN / "target-singerlake", "--config", settings], stdin=messages)
    return lake


def _tiny(folder: Path, name: str) -> Path:
    return _sync(
        folder / name, harness.messages(folder / "two.jsonl", 2), file_bytes=1, block_rows=1
    )


def _small(folder: Path, rows: int) -> Path:
    messages = harness.messages(folder / "messages.jsonl", rows)
    return _sync(folder / "small", messages, file_bytes=1, block_rows=-(-rows // FILES))


def _large(folder: Path) -> Path:
    """Full blocks, each in a file of its own, again and again."""
    _sync(folder / "blocks", folder / "messages.jsonl")
    source, lake = _table(folder / "blocks"), folder / "large"
    snapshot = source.snapshot()
    target = Lake.open(str(lake), create=True).table(source.name)
    staged = StagedTable(target.store, target.name, 1)
    staged.set_schema(snapshot.schema_hash, snapshot.schema)
    while staged.size < LARGE_BYTES:
        for block in snapshot.blocks:
            staged.add(block.schema_hash, _bytes(source, block), block)
    target.writer().commit(staged)
    return lake


def _table(lake: Path) -> Table:
    opened = Lake.open(str(lake))
    return opened.table(opened.tables()[0])


def _bytes(table: Table, block: Block) -> bytes:
    return table.store.get_range(table.name.data(block.file), block.offset, block.length)


def _digest(pieces: Iterator[bytes]) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def _blocks_digest(table: Table) -> str:
    """All blocks in their order; reading them also puts their files into the page cache."""
    return _digest(_bytes(table, block) for block in table.snapshot().blocks)


def _copy(source: Path, target: Path) -> Path:
    """The lake once more. Its data files are write-once, so links to them do."""
    subprocess.run(["cp", "-al", source, harness.fresh(target)], check=True)
    return target


def _cat(folder: Path, lake: Path) -> Case:
    table = _table(lake)
    files = list(dict.fromkeys(lake / table.name.data(b.file) for b in table.snapshot().blocks))
    out = folder / "one"

    def case() -> Cost:
        wanted = _blocks_digest(table)
        out.unlink(missing_ok=True)
        os.sync()
        script = 'out=$1; shift; cat "$@" > "$out" && sync "$out"'
        cost = harness.command(["sh", "-c", script, "sh", out, *files])
        with out.open("rb") as file:
            assert _digest(iter(lambda: file.read(1 << 20), b"")) == wanted
        return cost

    return case


def _vacuum(folder: Path, lake: Path) -> Case:
    def case() -> Cost:
        table = _table(_copy(lake, folder / "copy"))
        before, wanted = table.snapshot(), _blocks_digest(table)
        done = []
        options = VacuumOptions(parts=(COMBINE,))
        os.sync()  # what the preparation left to be written is not to be paid for here
        # Of Spark and what it begins, in hundredths of a second; without Spark, of this process.
        little = work_of(plan_combine(before, FILE_BYTES)).fits(SMALL)
        counted = time.process_time if little else harness.processor
        used = counted()
        cost = harness.timed(lambda: done.append(vacuum(table, options)))
        cost = replace(cost, cpu=counted() - used)
        assert done[0].files_in == len({block.file for block in before.blocks}), done
        assert not plan_combine(table.snapshot(), FILE_BYTES)
        assert _blocks_digest(table) == wanted
        return cost

    return case


def _check_state(before: Path, after: Path) -> None:
    """The same rows, read from few files."""
    vacuum(_table(_copy(before, after)), VacuumOptions(parts=(COMBINE,)))
    one, other = (
        state_content(SparkEngine(session()), table, table.snapshot())
        for table in map(_table, (before, after))
    )
    assert one == other, (one, other)


def _worked(work: Callable[[], object]) -> Cost:
    """What a job costs, with the processor time of Java and of its tasks."""
    used = harness.processor()
    cost = harness.timed(work)
    return replace(cost, cpu=harness.processor() - used)


def _drop_history(folder: Path, rows: int) -> str:
    lake = folder / "history"
    for _ in range(VERSIONS):
        _sync(lake, folder / "messages.jsonl")
    table = _table(lake)
    before = table.snapshot()
    content = state_content(SparkEngine(session()), table, before)
    options = VacuumOptions(parts=(DROP_HISTORY,), retain_seconds=0, guard=False)
    done = []
    state = _worked(lambda: index_build.ensure(session(), table, before))
    shutil.rmtree(lake / "index")
    cost = _worked(lambda: done.append(vacuum_on_spark(session(), table, options)))
    after = table.snapshot()
    assert state_content(SparkEngine(session()), table, after) == content
    assert sum(block.rows for block in after.blocks) == content.rows == rows, content
    sizes = [sum(block.length for block in one.blocks) / 1e6 for one in (before, after)]
    own, child = (
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return (
        f"Expiring history: of {VERSIONS} versions of each of {rows:,} rows, one is left after "
        f"{harness.number(cost.seconds)} s, {done[0].rows_dropped:,} rows fewer, {sizes[0]:,.0f} MB "
        f"became {sizes[1]:,.0f} MB, including the proof that each snapshot reads as before. "
        f"Building the snapshot first took {harness.number(state.seconds)} s. Expiring takes "
        f"{cost.seconds / state.seconds:.2f} times as long, and in CPU time "
        f"{cost.cpu / state.cpu:.2f} times ({harness.number(cost.cpu)} and "
        f"{harness.number(state.cpu)} s); the goal is at most {HISTORY_GOAL:g}. "
        f"Peak memory: {own:.0f} MiB the driver's Python, {child:.0f} MiB the largest other "
        f"process. {os.cpu_count()} cores."
    )
