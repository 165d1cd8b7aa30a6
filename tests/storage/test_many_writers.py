"""Real targets side by side: one tap split by stream, and all of them on one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.format import names
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.verify.data_files import check_files
from singerlake.ops.verify.plan import check_log
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from tests.needs import MORE
from tests.storage.conftest import in_bucket
from tests.storage.plugins import s3_settings, start
from tests.target.harness import TAP, record, schema, state, text

COUNT = 3


def messages(number: int, commits: int) -> bytes:
    """A stream of its own, one that all write, and a STATE after each commit's worth."""
    own = f"own-{number}"
    columns = {"id": {"type": "integer"}, f"x{number % 2}": {"type": "string"}}
    lines = [schema(own), schema("shared", columns), record(own, {"id": number})]
    for n in range(commits):
        lines += [record("shared", {"id": 100 * number + n}), state([number, n])]
    return text(lines)


def run_all(folder: Path, config: dict[str, Any], commits: int) -> list[list[Any]]:
    """All targets at once; each one's STATEs."""
    running = [start("target_singerlake", folder, config) for _ in range(COUNT)]
    for number, process in enumerate(running):
        assert process.stdin is not None
        process.stdin.write(messages(number, commits))
        process.stdin.flush()
    found = []
    for process in running:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err.decode()
        found.append([json.loads(line) for line in out.splitlines()])
    return found


def assert_nothing_is_lost(store: Store, commits: int) -> None:
    table = TableName(TAP, "shared")
    found = check_log(store, table)
    assert found.problems == []
    assert check_files(found.snapshot, store.list(table.folder))[0] == []
    transactions = found.snapshot.transactions
    assert [t.number for t in transactions] == [*range(1, COUNT * commits + 1)]
    lake = Lake(store)
    ids = []
    for block in found.snapshot.blocks:
        for line in lake.table(table).read_block(block).splitlines():
            message = json.loads(line)
            ids += [message["record"]["id"]] if message["type"] == "RECORD" else []
    assert sorted(ids) == [100 * n + m for n in range(COUNT) for m in range(commits)]
    catalogue = json.loads(store.get(names.catalogue(TAP)).data)
    streams = [stream["stream"] for stream in catalogue["streams"]]
    assert streams == [*(f"own-{n}" for n in range(COUNT)), "shared"]
    assert TAP in json.loads(store.get(names.LAKE).data)["taps"]
    assert not [item.key for item in store.list(names.RAW) if item.key.endswith(".lock")]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("kind", "commits"), [("disk", 5), ("lakes", 3), pytest.param("non-conditional", 1, marks=MORE)]
)
def test_targets_side_by_side(tmp_path: Path, s3_port: int, kind: str, commits: int) -> None:
    store: Store = LocalStore(tmp_path / "lake")
    config: dict[str, Any] = {"tap_id": TAP, "commit_minutes": 0}
    if kind != "disk":
        config |= s3_settings(s3_port)
        store = in_bucket(s3_port, kind)
    if kind == "non-conditional":
        # Known beforehand is only how long to wait; that it is needed they find out at once.
        store.put_if_absent(names.LAKE, b'{"format": 1, "lock_settle_seconds": 0.5}')
    states = run_all(tmp_path, {**config, "lake": store.uri}, commits)
    assert states == [[[n, m] for m in range(commits)] for n in range(COUNT)]
    assert_nothing_is_lost(store, commits)
    if kind != "disk":
        file = json.loads(store.get(names.LAKE).data)
        assert file["conditional_writes"] is (kind == "lakes")
        assert [*store.list(names.STAGING)] == []
