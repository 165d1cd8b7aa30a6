"""The site of a lake of many tables: how long, how large, and how fast its search answers."""

from __future__ import annotations

import random
import statistics
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from bench import harness
from singerlake.format import metadata
from singerlake.format.log import Block, Entry, FrozenVersion, SchemaEntry, seal_entry
from singerlake.format.metadata import LakeFile
from singerlake.format.names import LAKE, TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.format.types import RULES
from singerlake.lake import Lake
from singerlake.log.checkpoint import to_manifest
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from singerlake.site import build as site
from singerlake.site.destination import open_destination
from singerlake.version import FORMAT

TABLES = 10_000
ROWS_AT_FULL_SIZE = 1_000_000
TAPS, COLUMNS, TRANSACTIONS = 20, 40, 20
GOAL_SECONDS, GOAL_PAGE, GOAL_INDEX, GOAL_SEARCH = 60, 150_000, 5_000_000, 0.050
WORDS = [
    "id",
    "name",
    "city",
    "street",
    "amount",
    "price",
    "total",
    "created",
    "updated",
    "state",
    "kind",
    "email",
    "phone",
    "order",
    "customer",
    "invoice",
    "line",
    "tax",
    "note",
    "source",
]
NOW = datetime(2026, 11, 20, tzinfo=timezone.utc)
KINDS: tuple[dict[str, Any], ...] = (
    {"type": "integer"},
    {"type": ["null", "string"], "maxLength": 200},
    {"type": ["null", "string"], "format": "date-time"},
    {"type": "number", "multipleOf": 0.01, "minimum": 0},
)
SEARCH = """async words => {
  const input = document.querySelector("input");
  input.focus();
  while (!window.singerlakeIndex) await new Promise(done => setTimeout(done, 20));
  await new Promise(done => setTimeout(done, 200));
  const times = [];
  for (const word of words) {
    input.value = word;
    const start = performance.now();
    input.dispatchEvent(new Event("input"));
    times.push(performance.now() - start);
    if (!document.querySelectorAll("[role=option]").length) throw new Error("nothing: " + word);
  }
  return times;
}"""


def run(folder: Path, rows: int, rounds: int) -> str:
    count = max(100, min(TABLES, rows * TABLES // ROWS_AT_FULL_SIZE))
    del rounds  # the first build is the one that is measured
    lake = _lake(folder / "lake", count)
    to = folder / "site"
    first, again = _build(lake, to), _build(lake, to)
    pages = sorted((path.stat().st_size, path) for path in to.rglob("*.html"))
    index = (to / "assets" / "search-index.js").stat().st_size
    tables = [size for size, path in pages if path.name == "index.html" and "tables" in path.parts]
    answers = _search(to)
    verdicts = [
        ("all pages", f"{first.cpu:,.1f} s of one core", f"{GOAL_SECONDS} s",
         first.cpu * TABLES / count <= GOAL_SECONDS),
        ("the same again, nothing changed", f"{again.cpu:,.1f} s", "", None),
        ("a table's page, median", f"{statistics.median(tables) / 1000:,.0f} kB", "", None),
        ("the largest page", f"{pages[-1][0] / 1000:,.0f} kB", "150 kB", pages[-1][0] <= GOAL_PAGE),
        ("the search index", f"{index / 1e6:,.2f} MB", "5 MB", index <= GOAL_INDEX),
    ]  # fmt: skip
    if answers:
        slowest = max(answers)
        verdicts.append(
            ("a search, slowest", f"{slowest * 1000:,.0f} ms", "50 ms", slowest <= GOAL_SEARCH)
        )
    lines = ["| what | measured | goal | met |", "|---|---:|---:|---|"]
    for what, measured, goal, met in verdicts:
        lines.append(
            f"| {what} | {measured} | {goal} | {'' if met is None else 'yes' if met else 'no'} |"
        )
    return "\n".join(
        [
            f"{count:,} tables of {TAPS} taps, {COLUMNS} columns, {TRANSACTIONS} transactions and "
            f"2 versions each; {len(pages):,} pages. " + harness.machine("jinja2"),
            "",
            *lines,
        ]
    )


def _build(lake: Lake, to: Path) -> harness.Cost:
    start, cpu = time.monotonic(), time.process_time()
    with open_destination(str(to)) as place:
        site.build(lake, place, site.Options(now=NOW))
    return harness.Cost(time.monotonic() - start, time.process_time() - cpu)


def _search(to: Path) -> list[float]:
    """Seconds of some searches in Chromium; none where there is no browser."""
    try:
        from playwright.sync_api import sync_playwright

        from tests.site.browser import executable
    except ImportError:
        return []
    if (path := executable()) is None:
        print("  no chromium: the search is not measured", file=sys.stderr)
        return []
    with sync_playwright() as started:
        page = started.chromium.launch(executable_path=path).new_page()
        page.goto((to / "index.html").as_uri())
        words = ["id", "e", "customer_email_3", "stream_77", "price tax", "team", "a t"]
        found: list[float] = page.evaluate(SEARCH, words)
    return [milliseconds / 1000 for milliseconds in found]


def _lake(root: Path, count: int) -> Lake:
    """A lake's metadata alone, as many syncs would have left it: no page reads more."""
    Lake.open(str(root), create=True)
    draw = random.Random(7)
    for number in range(count):
        name = TableName(f"tap-{number % TAPS}", f"stream_{number}_{draw.choice(WORDS)}")
        entries, manifest = _table(name, draw)
        for entry in entries[-1:]:  # the log's end, by which a reader knows that it is whole
            path = root / name.transaction(entry.number)
            path.parent.mkdir(parents=True)
            path.write_bytes(seal_entry(entry)[1])
        (root / name.manifest).write_bytes(manifest)
    file = LakeFile(owner="Data team", description="A lake of many tables")
    (root / "raw").mkdir(exist_ok=True)
    (root / LAKE).write_bytes(metadata.encode(file))
    return Lake.open(str(root))


def _table(name: TableName, draw: random.Random) -> tuple[list[Entry], bytes]:
    properties = {"id": {"type": "integer"}}
    while len(properties) < COLUMNS:
        column = f"{draw.choice(WORDS)}_{draw.choice(WORDS)}_{draw.randrange(9)}"
        properties[column] = {**draw.choice(KINDS), "description": f"The {column} of the source"}
    schema = SchemaEntry({"type": "object", "properties": properties}, ["id"])
    hash_ = schema_hash(schema.schema, schema.key_properties)
    snapshot, entries, previous = TableState(name), [], ""
    for number in range(1, TRANSACTIONS + 1):
        stamp = (NOW - timedelta(days=TRANSACTIONS - number)).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        more: dict[str, Any] = {}
        if number in (10, 20):
            more["version"] = FrozenVersion(
                number=number // 10, transaction=number - 1, schema_hash=hash_, rows=100,
                fingerprint="lt1:" + "ab" * 32, time=stamp, types=RULES,
            )  # fmt: skip
        else:
            file = f"{hash_}/{name.stream}-20261120T000000000000Z-20261120T000000000000Z-{number:016x}.singer.gz"
            last = snapshot.last_block + 1
            more["blocks"] = [
                Block(last, file, 0, 5000, draw.randrange(1, 900), 40_000, stamp, stamp)
            ]
        entry = Entry(
            format=FORMAT, number=number, commit=f"{number:032x}", stream=name.stream, time=stamp,
            operation="freeze" if number in (10, 20) else "sync", schema_hash=hash_,
            schemas={hash_: schema} if number == 1 else {}, previous=previous, **more,
        )  # fmt: skip
        entry, _ = seal_entry(entry)
        previous = entry.chain
        entries.append(entry)
        snapshot = fold(snapshot, [entry])
    return entries, metadata.encode(to_manifest(snapshot))
