"""The same records line by line and in files, into the target; beside it an SDK target.

What start-up takes, the same command shows on a SCHEMA line alone; rates are given without it. The
SDK's target gets fewer records, for its rate does not depend on the number; it keeps all records of
a file in memory, so each of its files has 10,000.
"""

from __future__ import annotations

import functools
import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from isal import igzip

from bench import harness
from bench.harness import HERE, Cost, Times
from bench.target import QUIET, _schemas, _target, _untimed

PEER_ROWS = 50_000
FILE_ROWS = 10_000
LINES, UNTIMED = "RECORD lines", "RECORD lines without time_extracted"
PLAIN, ZIPPED, PARQUET = "BATCH, jsonl", "BATCH, jsonl in gzip", "BATCH, Parquet"
SDK = "SDK target that does nothing, BATCH, jsonl in gzip"


def run(folder: Path, rows: int, rounds: int) -> str:
    """Measure.

    Args:
        folder: Where to work.
        rows: Records.
        rounds: How often.
    """
    peers = min(rows, PEER_ROWS)
    lines = harness.messages(folder / "lines.jsonl", rows)
    # Elsewhere: a process counts as its own the memory of the one that starts it.
    with ProcessPoolExecutor(1) as apart:
        inputs = apart.submit(_inputs, folder, lines, peers).result()
    counts = {name: peers if name == SDK else rows for name in inputs}
    ours = functools.partial(_ours, folder, rows)
    cases: dict[str, Callable[[Path], Cost]] = {
        name: _sdk if name == SDK else ours for name in inputs
    }
    starts = {n: _schemas(inputs[n], folder / f"start-{i}") for i, n in enumerate(cases)}
    start = harness.rounds({n: functools.partial(cases[n], starts[n]) for n in cases}, rounds)
    times = harness.rounds(
        {n: functools.partial(cases[n], inputs[n]) for n in cases}, rounds, warm_up=True
    )
    versions = harness.machine("singer-sdk", "isal", "msgspec", "pyarrow")
    return "\n\n".join(
        [
            f"{rows:,} records, {lines.stat().st_size / 1e6:,.0f} MB as RECORD lines; {peers:,} of "
            f"them for the SDK target. {versions}.",
            harness.times_table(times, counts),
            _rates(start, times, counts),
        ]
    )


def _inputs(folder: Path, lines: Path, peers: int) -> dict[str, Path]:
    return {
        LINES: lines,
        UNTIMED: _untimed(lines, folder / "untimed.jsonl"),
        PLAIN: _plain(lines, folder / "plain"),
        ZIPPED: _zipped(lines, folder / "zipped"),
        PARQUET: _parquet(lines, folder / "parquet"),
        SDK: _zipped(harness.messages(folder / "small.jsonl", peers), folder / "small"),
    }


def _rates(
    start: Mapping[str, Times], times: Mapping[str, Times], counts: Mapping[str, int]
) -> str:
    def work(name: str) -> float:
        return (times[name].median - start[name].median) / counts[name]

    def cpu(name: str) -> float:
        used = (min(cost.cpu for cost in one[name].costs) for one in (times, start))
        return (next(used) - next(used)) / counts[name]

    rows = [
        [
            name,
            f"{1 / work(name):,.0f}",
            harness.number(cpu(name) * 1e6),
            harness.number(work(LINES) / work(name)),
            harness.number(cpu(LINES) / cpu(name)),
        ]
        for name in times
    ]
    headings = [
        "",
        "records/s without start-up",
        "CPU s per million",
        "times the rate of RECORD lines",
        "the same in CPU time",
    ]
    return harness.table(headings, rows)


def _ours(folder: Path, rows: int, source: Path) -> Cost:
    config = {"batch_roots": [str(folder)]}
    if source.name.startswith("start"):
        return _target(folder, config, source)
    cost = harness.command(_command(folder, config), stdin=source, env=QUIET)
    listed = [harness.BIN / "singerlake", "--lake", folder / "lake", "--output", "json", "ls"]
    found = json.loads(_output(listed))
    assert sum(table["records"] for table in found) == rows
    return cost


def _command(folder: Path, config: Mapping[str, object]) -> list[str | Path]:
    lake = harness.fresh(folder / "lake")
    settings = folder / "target.json"
    settings.write_text(json.dumps({"lake": str(lake), "tap_id": "tap-bench", **config}))
    return [harness.BIN / "target-singerlake", "--config", settings]


def _output(command: Sequence[str | Path]) -> bytes:

    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def _sdk(source: Path) -> Cost:
    settings = source.with_suffix(".json")
    settings.write_text("{}")
    command = [sys.executable, HERE / "nothing_batch.py", "--config", settings]
    return harness.command(command, stdin=source, env=QUIET)


def _messages(path: Path, schema: bytes, files: Sequence[Path], form: str, packed: str) -> Path:
    stream = json.loads(schema)["stream"]
    encoding = {"format": form, "compression": packed}
    message = {"type": "BATCH", "stream": stream, "encoding": encoding}
    message["manifest"] = [file.as_uri() for file in files]
    path.write_bytes(schema + json.dumps(message).encode() + b"\n")
    return path


def _records(lines: Path) -> tuple[bytes, list[bytes]]:
    with lines.open("rb") as source:
        schema = source.readline()
        start, end = b'"record": ', b', "time_extracted"'
        records = [
            line[line.index(start) + len(start) : line.rindex(end)] + b"\n"
            for line in source
            if line.startswith(b'{"type": "RECORD"')
        ]
    return schema, records


def _plain(lines: Path, path: Path) -> Path:
    schema, records = _records(lines)
    file = path.with_suffix(".json")
    file.write_bytes(b"".join(records))
    return _messages(path, schema, [file], "jsonl", "none")


def _zipped(lines: Path, path: Path) -> Path:
    schema, records = _records(lines)
    files = []
    for at in range(0, len(records), FILE_ROWS):
        files.append(path.with_suffix(f".{at}.json.gz"))
        files[-1].write_bytes(igzip.compress(b"".join(records[at : at + FILE_ROWS])))
    assert gzip.decompress(files[0].read_bytes()).startswith(b"{")
    return _messages(path, schema, files, "jsonl", "gzip")


def _parquet(lines: Path, path: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, records = _records(lines)
    file = path.with_suffix(".parquet")
    writer = None
    for at in range(0, len(records), FILE_ROWS):
        table = pa.Table.from_pylist(list(map(json.loads, records[at : at + FILE_ROWS])))
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return _messages(path, schema, [file], "parquet", "none")
