"""Running the tap, within this process and as one of its own."""

from __future__ import annotations

import copy
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log.commit import commit, draft_entry
from tap_singerlake.tap import TapSingerlake

ROOT = Path(__file__).parents[2]


class Run:
    """What a run put out."""

    def __init__(self, out: bytes) -> None:
        self.out = out
        self.lines = out.splitlines(keepends=True)
        self.messages: list[dict[str, Any]] = [json.loads(line) for line in self.lines]

    def of(self, kind: str, stream: str | None = None) -> list[dict[str, Any]]:
        return [
            m
            for m in self.messages
            if m["type"] == kind and (stream is None or m.get("stream") == stream)
        ]

    def records(self, stream: str | None = None) -> list[dict[str, Any]]:
        return [m["record"] for m in self.of("RECORD", stream)]

    def raw_records(self) -> list[bytes]:
        return [
            line
            for line, m in zip(self.lines, self.messages, strict=True)
            if m["type"] in ("RECORD", "ACTIVATE_VERSION")
        ]

    @property
    def state(self) -> dict[str, Any]:
        value: dict[str, Any] = self.of("STATE")[-1]["value"]
        return value

    @property
    def kinds(self) -> list[str]:
        return [m["type"] for m in self.messages]


def config_of(lake: Lake, **settings: Any) -> dict[str, Any]:
    return {"lake": lake.store.uri, **settings}


def run(
    lake: Lake,
    state: dict[str, Any] | None = None,
    catalog: dict[str, Any] | None = None,
    **settings: Any,
) -> Run:
    """One sync within this process."""
    tap = TapSingerlake(
        config=config_of(lake, **settings), state=copy.deepcopy(state), catalog=catalog
    )
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(out):
        tap.sync_all()
    out.seek(0)
    return Run(out.buffer.read())


def catalog_of(lake: Lake, **settings: Any) -> dict[str, Any]:
    tap = TapSingerlake(config=config_of(lake, **settings), setup_mapper=False)
    catalog: dict[str, Any] = json.loads(tap.catalog_json_text)
    return catalog


def select(
    catalog: dict[str, Any], stream: str, *breadcrumb: str, selected: bool
) -> dict[str, Any]:
    """A catalog with one thing selected or not, as Meltano would write it."""
    changed = copy.deepcopy(catalog)
    for entry in changed["streams"]:
        if entry["tap_stream_id"] == stream:
            place = next(m for m in entry["metadata"] if m["breadcrumb"] == list(breadcrumb))
            place["metadata"]["selected"] = selected
    return changed


def freeze(lake: Lake, table: str, label: str | None = None, rows: int = 0) -> int:
    """A freeze entry as the core will write it; returns the version's number."""
    tap, _, stream = table.partition(".")
    name = TableName(tap, stream)
    snapshot = lake.table(name).snapshot()
    number = len(snapshot.frozen) + 1

    def draft(at: Any) -> Entry:
        version = FrozenVersion(
            number=number,
            transaction=at.number,
            schema_hash=at.schema_hash,
            rows=rows,
            types=at.rules,
            fingerprint="0" * 32,
            label=label,
        )
        return draft_entry(name, Operation.FREEZE, version=version)

    commit(lake.store, snapshot, draft)
    return number


def start(
    config: Path | None, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """The tap as a process, with a pipe on either side."""
    options = [] if config is None else ["--config", str(config)]
    return subprocess.Popen(
        [sys.executable, "-m", "tap_singerlake", *options, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
    )
