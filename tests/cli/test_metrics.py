"""`singerlake metrics`: what is measured, spelled as Prometheus reads it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from singerlake import __version__
from singerlake.annotations import changes
from singerlake.annotations.changes import Change
from singerlake.annotations.subjects import Subject
from singerlake.format import times
from singerlake.format.annotations import JobRun
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake.format.refused_lines import SCHEMA
from singerlake.lake import Lake
from singerlake_cli.commands.metrics import HELP
from tests.build import commit_rows
from tests.cli.call import run, run_json

ODD = 'b"\\n\n'
ID = {"id": {"type": "integer"}}
LINE = re.compile(r'singerlake_(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')


def parsed(text: str) -> dict[tuple[str, ...], float]:
    """Samples by name and labels; fails where a line is none of the format's."""
    found: dict[tuple[str, ...], float] = {}
    declared = None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            declared = line.split()[2].removeprefix("singerlake_")
            assert line.endswith(" gauge")
            continue
        match = LINE.fullmatch(line)
        assert match, line
        assert match[1] == declared
        labels = re.findall(r'="((?:[^"\\]|\\.)*)"', match[2] or "")
        key = (match[1], *labels)
        assert key not in found
        found[key] = float(match[3])
    return found


@pytest.fixture
def shop(lake: Lake) -> Lake:
    for stream, rows in (("orders", 3), (ODD, 1)):
        commit_rows(lake, f"tap-shop.{stream}", ID, ["id"], [{"id": n} for n in range(rows)])
    commit_rows(lake, "tap-shop.orders", ID, ["id"], [{"id": 9}])
    refuse(lake, "orders", 2)
    refuse(lake, "", 1)
    return lake


def refuse(lake: Lake, stream: str, lines: int) -> None:
    """Make the table of a stream's refused lines."""
    properties, keys = SCHEMA.schema["properties"], SCHEMA.key_properties
    rows = [{"digest": str(n), "line": n, "reason": "odd"} for n in range(lines)]
    commit_rows(lake, f"tap-shop.{stream}__rejected", properties, keys, rows)


def test_what_is_measured(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobRun(time="2026-01-01T00:00:00Z", outcome="failed")
    changes.record_run(shop, "tap-shop", job, [Change(Subject("tap-shop"), {"freshness": "2h"})])
    orders = TableName("tap-shop", "orders")
    for n in (1, 2):
        lock = {"writer-id": "w", "acquired": "", "refreshed": f"2026-01-01T00:00:0{n}Z"}
        shop.store.put_if_absent(orders.lease(f"h-{n}"), json.dumps(lock).encode())
    result = run(shop, "metrics", "--sizes")
    assert result.exit_code == 0
    found = parsed(result.stdout)
    at = ("tap-shop", "orders")
    assert found["info", __version__] == 1
    assert found[("table_up", *at)] == 1
    assert found[("table_records", *at)] == 4
    assert found[("table_rejected_lines", *at)] == 2
    assert found[("table_transaction", *at)] == 2
    assert found[("table_versions", *at)] == 0
    assert found[("table_freshness_seconds", *at)] == 7200
    assert found[("table_last_sync_timestamp_seconds", *at)] == pytest.approx(
        times.now().timestamp(), abs=600
    )
    assert found[("table_store_bytes", *at)] > found[("table_bytes", *at)] > 0
    assert found["tap_last_run_succeeded", "tap-shop"] == 0
    assert found["tap_last_run_timestamp_seconds", "tap-shop"] == 1767225600
    assert found[("locks", *at, "read")] == 2
    assert found[("lock_refreshed_timestamp_seconds", *at, "read")] == 1767225601
    assert found["table_records", "tap-shop", r"b\"\\n\n"] == 1
    lines = {key[2]: n for key, n in found.items() if key[0] == "table_rejected_lines"}
    assert lines == {"orders": 2, "": 1, r"b\"\\n\n": 0}
    listed = run_json(shop, "metrics")
    assert {
        "metric": "singerlake_table_records",
        "labels": {"tap": "tap-shop", "stream": ODD},
        "value": 1,
    } in listed


def test_refused_lines_of_a_stream_that_a_map_stores_elsewhere(shop: Lake) -> None:
    refuse(shop, "mapped", 2)
    found = parsed(run(shop, "metrics").stdout)
    assert found["table_rejected_lines", "tap-shop", "mapped"] == 2
    assert found["table_rejected_lines", "tap-shop", "orders"] == 2


def test_versions(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from singerlake.lake import Table

    version = FrozenVersion(
        number=2, transaction=1, schema_hash="", rows=3, fingerprint="", time="2026-01-01T00:00:00Z"
    )
    whole = Table.snapshot
    monkeypatch.setattr(Table, "snapshot", lambda self: replace(whole(self), frozen=[version]))
    found = parsed(run(shop, "metrics").stdout)
    at = ("tap-shop", "orders")
    assert found[("table_last_version", *at)] == 2
    assert found[("table_last_version_rows", *at)] == 3
    assert found[("table_last_version_timestamp_seconds", *at)] == 1767225600
    assert {name for name, *_ in found} <= HELP.keys()


def test_a_file_for_a_node_exporter_is_whole_and_says_what_is_damaged(
    shop: Lake, tmp_path: Path
) -> None:
    file = tmp_path / "singerlake.prom"
    file.write_text("before")
    name = TableName("tap-shop", "orders")
    (Path(shop.store.uri) / name.manifest).unlink(missing_ok=True)
    log = Path(shop.store.uri) / name.transaction(2)
    log.write_bytes(log.read_bytes().replace(b"sync", b"sink"))
    result = run(shop, "metrics", "--out", str(file))
    assert result.exit_code == 5
    assert result.stdout == ""
    assert "orders" in result.stderr
    found = parsed(file.read_text())
    assert found["table_up", "tap-shop", "orders"] == 0
    assert found["table_up", "tap-shop", "orders__rejected"] == 1
    assert ("table_records", "tap-shop", "orders") not in found
    assert [path.name for path in tmp_path.glob("*prom*")] == ["singerlake.prom"]


def test_an_empty_lake(lake: Lake) -> None:
    assert run(lake, "metrics").exit_code == 3
