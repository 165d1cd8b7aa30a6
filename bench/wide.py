"""Time each command on 50 rows with 10 and with 1,000 columns, flat and nested in one object."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import harness
from bench.harness import BIN, Cost, Times

FEW, MANY = 10, 1000
MOST = 3.0
"""The greatest allowed ratio of the time for many columns to that for few."""
ROWS = 50
TABLE = "tap-w.wide"
ALL = "select * from tap_w.wide"
FORMATS = ("parquet", "jsonl", "csv", "avro", "delta", "iceberg")
SHAPES = ("flat", "nested")
_FLAT_ONLY = {"publish csv"}
"""Topics without nested columns: CSV has no objects."""


def run(folder: Path, rows: int, rounds: int) -> str:
    del rows
    lakes = {
        (shape, columns): _Lake(folder / f"{shape}-{columns}", columns, nested=shape == "nested")
        for shape in SHAPES
        for columns in (FEW, MANY)
    }
    names = list(_commands(Path(), "x"))
    cases: dict[str, Callable[[], Cost]] = {
        f"{name}, {shape}, {columns:,}": lambda n=name, k=(shape, columns): lakes[k].run(n)
        for name in names
        for shape in SHAPES
        if shape == "flat" or name not in _FLAT_ONLY
        for columns in (FEW, MANY)
    }
    times = harness.rounds(cases, rounds)
    lines = [line for name in names for line in _lines(times, name)]
    over = [f"{name}: {ratio:.1f}" for name, ratio in _ratios(times) if ratio > MOST]
    return "\n\n".join(
        [
            f"{ROWS} rows of texts under a key, sent twice; each command as it is typed, from its start "
            "to its end (medians, seconds). " + harness.machine("pyspark", "pyarrow"),
            harness.table(["", f"{FEW} columns", f"{MANY:,} columns", "ratio"], lines),
            f"- {MANY:,} columns take at most {MOST:g} times what {FEW} take: "
            + (f"no ({'; '.join(over)})" if over else "yes, in each of these commands"),
        ]
    )


def _ratios(times: dict[str, Times]) -> Iterator[tuple[str, float]]:
    for name, many in times.items():
        what, _, columns = name.rpartition(", ")
        if columns == f"{MANY:,}":
            yield what, many.median / times[f"{what}, {FEW}"].median


def _lines(times: dict[str, Times], command: str) -> Iterator[list[str]]:
    ratios = dict(_ratios(times))
    for shape in SHAPES:
        what = f"{command}, {shape}"
        if what in ratios:
            both = (times[f"{what}, {columns:,}"].median for columns in (FEW, MANY))
            yield [what, *map(harness.number, both), f"{ratios[what]:.1f}"]


def _commands(folder: Path, row_file: str) -> dict[str, list[str]]:
    """Return the measured commands by name."""
    commands = {
        "query": ["query", ALL],
        "query csv": ["query", ALL, "--format", "csv"],
        "query jsonl": ["query", ALL, "--format", "jsonl"],
        "query parquet": ["query", ALL, "--out", str(folder / "rows.parquet")],
        "rows": ["rows", TABLE, "--key", "1"],
        "diff --stat": ["diff", TABLE, "@1", "@2", "--stat"],
        "diff": ["diff", TABLE, "@1", "@2"],
        "diff csv": ["diff", TABLE, "@1", "@2", "--format", "csv"],
        "diff jsonl": ["diff", TABLE, "@1", "@2", "--format", "jsonl"],
    }
    for form in FORMATS:
        to = ["--key", "id", "--to", str(folder / "published"), "--format", form]
        commands[f"publish {form}"] = ["publish", "--table", "tap_w.wide", *to]
    return commands | {
        "upload": ["upload", TABLE, row_file],
        "revert": ["revert", TABLE, "--to-transaction", "1"],
        "undo": ["undo", TABLE, "2"],
        "freeze": ["freeze", TABLE],
    }


class _Lake:
    """A lake with a table of two transactions; each command runs on a fresh copy."""

    def __init__(self, folder: Path, columns: int, *, nested: bool) -> None:
        self._folder = folder
        self._base = folder / "base"
        self._names = [f"f{number}" for number in range(columns)]
        self._nested = nested
        folder.mkdir()
        self._rows = folder / "rows.jsonl"
        self._rows.write_text("".join(f"{json.dumps(one)}\n" for one in self._records("c")))
        config, messages = folder / "config.json", folder / "messages.jsonl"
        config.write_text(json.dumps({"lake": str(self._base), "tap_id": "tap-w"}))
        for word in "ab":
            messages.write_text("".join(f"{json.dumps(one)}\n" for one in self._messages(word)))
            harness.command([BIN / "target-singerlake", "--config", config], stdin=messages)

    def run(self, name: str) -> Cost:
        """Run a command, and check that its output has all columns."""
        work = harness.fresh(self._folder / "work")
        work.mkdir()
        shutil.copytree(self._base, work / "lake")
        command = _commands(work, str(self._rows))[name]
        printed = work / "printed"
        cost = harness.command(
            [BIN / "singerlake", "--lake", work / "lake", *command], stdout=printed
        )
        if name.startswith(("query", "rows", "diff")) and "parquet" not in name:
            assert self._names[-1] in printed.read_text(), name
        return cost

    def _messages(self, word: str) -> Iterator[dict[str, Any]]:
        text = {"type": ["null", "string"]}
        members: dict[str, Any] = dict.fromkeys(self._names, text)
        inner = {"o": {"type": ["null", "object"], "properties": members}}
        properties = {"id": {"type": "integer"}} | (inner if self._nested else members)
        schema = {"type": "object", "properties": properties}
        yield {"type": "SCHEMA", "stream": "wide", "schema": schema, "key_properties": ["id"]}
        for record in self._records(word):
            yield {"type": "RECORD", "stream": "wide", "record": record}

    def _records(self, word: str) -> Iterator[dict[str, Any]]:
        for number in range(ROWS):
            cells = {name: f"{word} {name} {number}" for name in self._names}
            yield {"id": number, **({"o": cells} if self._nested else cells)}
