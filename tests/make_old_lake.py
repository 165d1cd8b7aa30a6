"""Write the lake of this release that is kept for ever: python -m tests.make_old_lake FOLDER.

It has what the release can write: see ``tests/lakes/README.md``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from singerlake.engine.spark.jvm.session import session
from singerlake.lake import Lake
from tests.cli.call import run
from tests.histories.test_old_lakes import read
from tests.target import harness

TAP = "tap-shop"
DELETED = {"_sdc_deleted_at": {"type": ["null", "string"], "format": "date-time"}}
FIRST: dict[str, Any] = {
    "id": {"type": "integer"},
    "total": {"type": ["null", "number"]},
    "note": {"type": ["null", "string"]},
    **DELETED,
}
SECOND: dict[str, Any] = {
    "id": {"type": "integer"},
    "total": {"type": ["null", "number"], "multipleOf": 0.01},
    "at": {"type": ["null", "string"], "format": "date-time"},
    **DELETED,
}
EVENTS: dict[str, Any] = {"what": {"type": "string"}, "n": {"type": ["null", "integer"]}}
KEPT = ("orders", "orders.1", "orders.2", "orders.3", "events", "events.1")


def main(folder: Path) -> None:
    lake = Lake.open(str(folder), create=True)
    first = [
        {"id": 1, "total": 1.1, "note": "a"},
        {"id": 2, "total": 2.5},
        {"id": 4711, "total": 3.0},
    ]
    _sync(lake, "orders", FIRST, first)
    _do(lake, "freeze", f"{TAP}.orders")
    more = [{"id": 4, "total": 4.04}, {"id": 5, "total": 5.5, "at": "2026-11-28T03:04:05.678901Z"}]
    _sync(lake, "orders", SECOND, [*more, {"id": 6, "total": "six"}])  # is rejected
    _sync(lake, "orders", SECOND, [{"id": 5, "_sdc_deleted_at": "2026-11-28T04:00:00Z"}])
    _do(lake, "freeze", f"{TAP}.orders", "--label", "q4", "--as", "current")
    _do(lake, "revert", f"{TAP}.orders", "--to", "1")
    _sync(lake, "orders", SECOND, [{"id": 7, "total": 7.77}, {"id": 4712, "total": 8}])
    _do(lake, "update", f"{TAP}.orders", "--set", "total = 8.88", "--key", "4712")
    _do(lake, "alter", f"{TAP}.orders", "retype", "total", "text")
    _do(lake, "rejected", f"{TAP}.orders", "--replay")
    _do(lake, "annotate", f"{TAP}.orders", "--require", "rows > 0", "--owner", "ada")
    orders = ("freeze", f"{TAP}.orders", "--label", "latest", "--as", "current")
    _do(lake, *orders, "--require", "nulls(id) = 0")
    _sync(lake, "events", EVENTS, [{"what": "in", "n": 1}, {"what": "out"}], keys=[])
    _do(lake, "freeze", "--all", "--label", "year")
    _signed(lake, f"{TAP}.orders.3")
    _do(lake, "erase", f"{TAP}.orders", "--key", "4711", "--reason", "request 1")
    query = "select id, total from tap_shop.orders"
    _do(lake, "create-table", "made.totals", "--from-query", query, "--key", "id")
    _do(lake, "erase", "made.totals", "--key", "4712", "--reason", "request 2", "--block")
    nothing_kept = ("--expire-history", "--retain", "0s", "--no-retention-guard")
    _do(lake, "vacuum", f"{TAP}.orders", *nothing_kept)
    _sync(lake, "orders", SECOND, [{"id": 10, "total": 9.99}])
    bookmark = '{"completed": {"singer_state": {"last": 1}}, "partial": {}}'
    _do(lake, "bookmark", "set", "dev:tap-shop-to-lake", input=bookmark)
    spark = session("local[1]")
    kept = [*(f"{TAP}.{name}" for name in KEPT), "made.totals"]
    answers = {name: read(spark, Lake.open(str(folder)), name) for name in kept}
    text = json.dumps(answers, indent=1, ensure_ascii=False, default=str)
    folder.with_suffix(".json").write_text(text + "\n")


def _sync(
    lake: Lake,
    stream: str,
    properties: dict[str, Any],
    records: Sequence[dict[str, Any]],
    keys: Sequence[str] = ("id",),
) -> None:
    spec = {"type": "object", "properties": properties}
    said = {"type": "SCHEMA", "stream": stream, "schema": spec, "key_properties": [*keys]}
    lines = [json.dumps(said).encode(), *(harness.record(stream, one) for one in records)]
    config = {"tap_id": TAP, "invalid_records": "quarantine"}
    harness.run(lake.store.uri, [*lines, harness.state({"last": len(records)})], **config)


def _do(lake: Lake, *arguments: str, **more: Any) -> None:
    done = run(lake, *arguments, **more)
    assert done.exit_code == 0, (arguments, done.output)


def _signed(lake: Lake, version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder, "key")
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True
        )
        _do(lake, "sign", version, "--key", str(key))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
