"""The target beside target-jsonl, an SDK target that does nothing, and compression alone.

Start-up is what the same command takes on one SCHEMA line; rates are given with and without it.
target-jsonl and the SDK target get fewer records, for their rates do not depend on the number.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench import harness
from bench.harness import BIN, HERE, Cost, Times

PEER_ROWS = 50_000
STREAMS = 200
ON, OFF = "validation on (the default)", "validation off"
MANY = f"{STREAMS} interleaved streams"
UNTIMED = "no time_extracted"
HISTORY = "a history with valid_to 9999-12-31"
ISAL = "isal alone, one thread"
JSONL, NOTHING = "target-jsonl 0.1.4", "SDK target that does nothing"
QUIET = {"LOGLEVEL": "WARNING"}
COMPRESS = """
import sys
from isal import isal_zlib
with open(sys.argv[1], "rb") as source, open(sys.argv[2], "wb") as out:
    while data := source.read(8 << 20):
        out.write(isal_zlib.compress(data, 2, 31))
"""


def run(folder: Path, rows: int, rounds: int) -> str:
    """Measure.

    Args:
        folder: Where to work.
        rows: Records for the target.
        rounds: How often.
    """
    peers = min(rows, PEER_ROWS)
    one = harness.messages(folder / "one.jsonl", rows)
    small = harness.messages(folder / "small.jsonl", peers)
    many = harness.messages(folder / "many.jsonl", rows, STREAMS)
    untimed = _untimed(one, folder / "untimed.jsonl")
    history = _history(one, folder / "history.jsonl")
    jsonl = _target_jsonl(folder)
    ours = functools.partial(_target, folder)
    cases: dict[str, Callable[[Path], Cost]] = {
        ON: functools.partial(ours, {}),
        OFF: functools.partial(ours, {"validate_records": False}),
        MANY: functools.partial(ours, {}),
        UNTIMED: functools.partial(ours, {}),
        HISTORY: functools.partial(ours, {}),
        ISAL: functools.partial(_isal, folder),
        JSONL: jsonl,
        NOTHING: _nothing,
    }
    inputs = {MANY: many, UNTIMED: untimed, HISTORY: history, JSONL: small, NOTHING: small}
    inputs = {name: inputs.get(name, one) for name in cases}
    counts = {name: peers if name in (JSONL, NOTHING) else rows for name in cases}
    starts = {name: _schemas(inputs[name], folder / f"start-{n}") for n, name in enumerate(cases)}
    start = harness.rounds({n: functools.partial(cases[n], starts[n]) for n in cases}, rounds)
    times = harness.rounds(
        {n: functools.partial(cases[n], inputs[n]) for n in cases}, rounds, warm_up=True
    )
    return "\n\n".join(
        [
            f"{rows:,} records, {one.stat().st_size / 1e6:,.0f} MB; {peers:,} of them for "
            f"target-jsonl and the SDK target. {harness.machine('singer-sdk', 'isal', 'msgspec')}.",
            harness.times_table(times, counts),
            _start_up(start, times, counts),
            _goals(start, times, counts),
        ]
    )


def _start_up(
    start: Mapping[str, Times], times: Mapping[str, Times], counts: Mapping[str, int]
) -> str:
    rows = [
        [
            name,
            harness.number(start[name].median),
            f"{counts[name] / (case.median - start[name].median):,.0f}",
            harness.number(_cpu(case) - _cpu(start[name])),
        ]
        for name, case in times.items()
    ]
    headings = ["", "start-up s", "records/s without it", "CPU s without it"]
    return harness.table(headings, rows)


def _cpu(case: Times) -> float:
    return min(cost.cpu for cost in case.costs)


def _goals(
    start: Mapping[str, Times], times: Mapping[str, Times], counts: Mapping[str, int]
) -> str:
    def whole(name: str) -> float:
        return times[name].median / counts[name]

    def work(name: str) -> float:
        return (times[name].median - start[name].median) / counts[name]

    goals: list[tuple[str, Callable[[Callable[[str], float]], float], float, bool]] = [
        (f"{OFF}, times the rate of target-jsonl", lambda t: t(JSONL) / t(OFF), 80, True),
        (f"{OFF}, times the time of isal alone", lambda t: t(OFF) / t(ISAL), 1.7, False),
        (f"{ON}, times the rate of target-jsonl", lambda t: t(JSONL) / t(ON), 50, True),
        (f"{ON}, times the rate of the SDK target", lambda t: t(NOTHING) / t(ON), 60, True),
        (f"{MANY}, times the time of one stream", lambda t: t(MANY) / t(ON), 1.5, False),
    ]
    rows = []
    for words, ratio, goal, least in goals:
        with_start, without = ratio(whole), ratio(work)
        rows.append(
            [
                words,
                harness.number(with_start),
                harness.number(without),
                f"at {'least' if least else 'most'} {goal:g}",
                "yes" if (without >= goal if least else without <= goal) else "no",
            ]
        )
    peak = max(times[name].peak for name in (ON, OFF, MANY, UNTIMED, HISTORY)) / 2**20
    met = "yes" if peak < 200 else "no"
    rows.append(["peak memory, MiB", f"{peak:,.0f}", "", "below 200", met])
    headings = ["", "start-up included", "without", "goal, without start-up", "met"]
    return harness.table(headings, rows)


def _target(folder: Path, config: Mapping[str, object], source: Path) -> Cost:
    lake = harness.fresh(folder / "lake")
    settings = folder / "target.json"
    settings.write_text(json.dumps({"lake": str(lake), "tap_id": "tap-bench", **config}))
    command = [BIN / "target-singerlake", "--config", settings]
    cost = harness.command(command, stdin=source, env=QUIET)
    listed = [BIN / "singerlake", "--lake", lake, "--output", "json", "ls"]
    found = subprocess.run(listed, check=True, stdout=subprocess.PIPE).stdout
    assert sum(table["records"] for table in json.loads(found)) == _records(source)
    return cost


@functools.cache
def _records(source: Path) -> int:
    with source.open("rb") as file:
        return sum(line.startswith(b'{"type": "RECORD"') for line in file)


def _isal(folder: Path, source: Path) -> Cost:
    return harness.command([sys.executable, "-c", COMPRESS, source, folder / "isal.gz"])


def _nothing(source: Path) -> Cost:
    settings = source.with_suffix(".json")
    settings.write_text("{}")
    command = [sys.executable, HERE / "nothing.py", "--config", settings]
    return harness.command(command, stdin=source, env=QUIET)


def _target_jsonl(folder: Path) -> Callable[[Path], Cost]:
    """The peer, in an environment of its own: its dependencies are old."""
    peer = folder / "peer"
    venv.create(peer, with_pip=True)
    pip = [peer / "bin" / "pip", "install", "--quiet", "target-jsonl==0.1.4", "setuptools<80"]
    subprocess.run(pip, check=True)
    settings = folder / "jsonl.json"

    def case(source: Path) -> Cost:
        out = harness.fresh(folder / "jsonl")
        out.mkdir()
        settings.write_text(json.dumps({"destination_path": str(out)}))
        command = [peer / "bin" / "target-jsonl", "--config", settings]
        cost = harness.command(command, stdin=source)
        [found] = out.glob("*.jsonl") if _records(source) else [source]
        with found.open("rb") as file:
            assert sum(1 for _ in file) == (_records(source) or 1)
        return cost

    return case


def _schemas(source: Path, path: Path) -> Path:
    """The first line: all that a start-up needs."""
    with source.open("rb") as file:
        path.write_bytes(file.readline())
    return path


def _untimed(source: Path, path: Path) -> Path:
    """The same records as of a tap that says no times: each line gets one."""

    def lines() -> Iterator[bytes]:
        with source.open("rb") as file:
            for line in file:
                start, _, _ = line.partition(b', "time_extracted"')
                yield line if start is line or start == line else start + b"}\n"

    with path.open("wb") as out:
        out.writelines(lines())
    return path


def _history(source: Path, path: Path) -> Path:
    """The same records as rows of a slowly changing dimension, nearly all of which still hold."""
    time = {"type": ["null", "string"], "format": "date-time"}
    member = b'"record": {"valid_to": "9999-12-31T00:00:00+00:00", '
    with source.open("rb") as file, path.open("wb") as out:
        schema = json.loads(file.readline())
        schema["schema"]["properties"]["valid_to"] = time
        out.write(json.dumps(schema).encode() + b"\n")
        for line in file:
            out.write(line.replace(b'"record": {', member, 1))
    return path
