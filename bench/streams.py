"""Very many streams of ten rows in one run of the target: what each costs beside its rows.

On a disk beside an SDK target that does nothing; on a store whose every answer takes 20 ms,
where what counts is how many commits wait at once; and on a server that speaks S3, where what counts
is what S3's client computes. That server computes more, and on the same processors.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import boto3

from bench import harness
from bench.harness import BIN, HERE, Case, Cost
from bench.s3_server import S3Server, s3_server
from bench.tables import DELAY, FarStore
from singerlake import lake as lakes
from singerlake.lake import Lake
from singerlake.storage.options import StoreOptions
from target_singerlake.target import TargetSingerlake

STREAMS, ROWS, ROWS_AT_FULL_SIZE = 1_000, 10, 1_000_000
QUIET = {"LOGLEVEL": "WARNING"}
BUCKET = "bench"
FIRST, AGAIN = "into new tables", "into existing tables"
NOTHING = "SDK target that does nothing"


def run(folder: Path, rows: int, rounds: int) -> str:
    streams = max(50, min(STREAMS, rows * STREAMS // ROWS_AT_FULL_SIZE))
    source = harness.messages(folder / "many.jsonl", streams * ROWS, streams)
    single = harness.messages(folder / "one.jsonl", streams * ROWS, 1)
    requests: dict[str, int] = {}
    serving: dict[str, list[float]] = {}
    cases: dict[str, Case] = {
        "the same rows as one stream": functools.partial(_disk, folder, single, 1)
    }
    places: dict[str, Callable[[Path, Path, int], Cost]] = {
        "a disk": _disk,
        f"{DELAY * 1000:.0f} ms a request": functools.partial(_far, requests),
    }
    for where, case in places.items():
        cases[f"{where}, {FIRST}"] = functools.partial(case, folder, source, streams)
        cases[f"{where}, {AGAIN}"] = functools.partial(case, folder, source, -streams)
    cases[NOTHING] = functools.partial(_nothing, source)
    with s3_server(folder / "s3.log") as server:
        boto3.client("s3", endpoint_url=server.address).create_bucket(Bucket=BUCKET)
        for again, number in ((FIRST, streams), (AGAIN, -streams)):
            name = f"S3, {again}"
            told = functools.partial(_told, server, requests, serving.setdefault(name, []), name)
            cases[name] = functools.partial(_s3, server, told, folder, source, number)
        times = harness.rounds(cases, rounds)
    lines = []
    for name, case in times.items():
        cpu = sorted(cost.cpu for cost in case.costs)[len(case.costs) // 2]
        sent = f"{requests[name]:,}" if name in requests else ""
        own = harness.number(statistics.median(serving[name])) if name in serving else ""
        row = [name, harness.number(case.median), case.spread, harness.number(cpu), own, sent]
        lines.append(row)
    headings = ["", "median s", "fastest–slowest", "CPU s", "the server's", "requests"]
    return "\n\n".join(
        [
            f"{streams:,} streams of {ROWS} rows, start-up included. "
            f"{harness.machine('singer-sdk')}.",
            harness.table(headings, lines),
        ]
    )


def _disk(folder: Path, source: Path, streams: int) -> Cost:
    """Streams are negative where the tables are to be there: the first run is not counted."""
    lake, settings = harness.fresh(folder / "lake"), folder / "target.json"
    settings.write_text(json.dumps({"lake": str(lake), "tap_id": "tap-bench"}))
    command = [BIN / "target-singerlake", "--config", settings]
    for _ in range(2 if streams < 0 else 1):
        cost = harness.command(command, stdin=source, env=QUIET)
    _check(Lake.open(str(lake)), streams)
    return cost


def _far(requests: dict[str, int], folder: Path, source: Path, streams: int) -> Cost:
    root = harness.fresh(folder / "lake")
    for _ in range(2 if streams < 0 else 1):
        store = FarStore(root)
        start, cpu = time.monotonic(), time.process_time()
        with (
            mock.patch.object(lakes, "open_store", return_value=store),
            contextlib.redirect_stdout(io.StringIO()),
            source.open("rb") as lines,
        ):
            target = TargetSingerlake(config={"lake": "s3://stand-in/lake", "tap_id": "tap-bench"})
            target.listen(lines)  # type: ignore[arg-type]
        cost = Cost(time.monotonic() - start, time.process_time() - cpu)
    which = AGAIN if streams < 0 else FIRST
    requests[f"{DELAY * 1000:.0f} ms a request, {which}"] = store.requests
    _check(Lake.open(str(root)), streams)
    return cost


def _s3(
    server: S3Server,
    told: Callable[[], AbstractContextManager[None]],
    folder: Path,
    source: Path,
    streams: int,
) -> Cost:
    lake, settings = f"s3://{BUCKET}/{uuid.uuid4().hex}", folder / "target.json"
    place = {"lake": lake, "aws_endpoint_url": server.address}
    settings.write_text(json.dumps({**place, "tap_id": "tap-bench"}))
    command = [BIN / "target-singerlake", "--config", settings]
    if streams < 0:
        harness.command(command, stdin=source, env=QUIET)
    with told():
        cost = harness.command(command, stdin=source, env=QUIET)
    _check(Lake.open(lake, StoreOptions(endpoint_url=server.address)), streams)
    return cost


@contextlib.contextmanager
def _told(
    server: S3Server, requests: dict[str, int], serving: list[float], name: str
) -> Iterator[None]:
    """Note what a run asks of the server, and what that costs it."""
    before, cpu = server.requests(), server.cpu()
    yield
    requests[name] = server.requests() - before
    serving.append(server.cpu() - cpu)


def _check(lake: Lake, streams: int) -> None:
    tables = lake.tables()
    assert len(tables) == abs(streams), len(tables)
    rows = [sum(b.rows for b in lake.table(name).snapshot().blocks) for name in tables]
    assert len(set(rows)) == 1, rows
    assert rows[0] % ROWS == 0, rows


def _nothing(source: Path) -> Cost:
    settings = source.with_suffix(".json")
    settings.write_text("{}")
    command = [BIN / "python", HERE / "nothing.py", "--config", settings]
    return harness.command(command, stdin=source, env=QUIET)
