"""What OpenLineage is told of runs: where its client is configured, and never in a run's way."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from singerlake import lineage, lineage_events
from singerlake.errors import InputError, StoreError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from tests.build import commit_rows
from tests.lineage_events import events, tell_into
from tests.tap.run import run as run_tap
from tests.target.harness import TAP, record, run, schema, state

GOOD = [
    schema("a", {"id": {"type": "integer", "description": "Which."}, "at": {"type": "string"}}),
    record("a", {"id": 1}),
    record("a", {"id": 2}),
    state(1),
]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return tell_into(tmp_path, monkeypatch)


def test_a_sync(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    run_id = "0192a7f1-8a31-7000-8000-000000000001"
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/nightly.sync/{run_id}")
    run(tmp_path / "lake", GOOD)
    start, done = events(file)
    assert [start["eventType"], done["eventType"]] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == done["run"]["runId"]
    assert done["job"]["namespace"] == "shop"
    assert done["job"]["name"] == f"target-singerlake.{TAP}"
    parent = done["run"]["facets"]["parent"]
    assert (parent["run"]["runId"], parent["job"]["name"]) == (run_id, "nightly.sync")
    [out] = done["outputs"]
    assert out["namespace"] == "file"
    assert out["name"] == str(tmp_path / "lake" / "raw" / TAP / "a")
    facets = out["facets"]
    assert [(f["name"], f["type"], f.get("description")) for f in facets["schema"]["fields"]] == [
        ("id", "int64", "Which."),
        ("at", "string", None),
    ]
    assert facets["version"]["datasetVersion"] == "1"
    assert facets["symlinks"]["identifiers"][0]["name"] == f"{TAP}.a"
    assert out["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert out["outputFacets"]["outputStatistics"]["size"] > 0


def test_a_sync_that_failed(tmp_path: Path, file: Path) -> None:
    with pytest.raises(InputError):
        run(tmp_path / "lake", [*GOOD, b"oops"], commit_bytes=1)
    failed = events(file)[-1]
    assert failed["eventType"] == "FAIL"
    assert "line 5 is not JSON" in failed["run"]["facets"]["errorMessage"]["message"]
    assert [out["facets"]["version"]["datasetVersion"] for out in failed["outputs"]] == ["1"]


def test_a_tap(tmp_path: Path, file: Path, lake: Lake) -> None:
    commit_rows(lake, "tap-shop.orders", {"id": {"type": "integer"}}, ["id"], [{"id": 1}] * 3)
    commit_rows(lake, "tap-shop.more", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    run_tap(lake, tap_id="tap-shop", streams=["orders"])
    done = events(file)[-1]
    assert (done["eventType"], done["job"]["name"]) == ("COMPLETE", "tap-singerlake.tap-shop")
    [read] = done["inputs"]
    assert read["name"].endswith("raw/tap-shop/orders")
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 3
    assert read["facets"]["version"]["datasetVersion"] == "1"
    assert done["outputs"] == []


@pytest.mark.parametrize("off", ["unset", "disabled"])
def test_nobody_is_told_where_nothing_is_configured(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, off: str
) -> None:
    if off == "disabled":
        monkeypatch.setenv("OPENLINEAGE_DISABLED", "True")
    else:
        for name in [name for name in os.environ if name.startswith("OPENLINEAGE_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    run(tmp_path / "lake", GOOD)
    assert not file.exists()
    if off == "unset":
        (tmp_path / "openlineage.yml").write_text("transport: {type: console}")
        assert lineage.is_configured() is False
        monkeypatch.chdir(tmp_path)
        assert lineage.is_configured()


def test_without_the_extra_it_says_what_installs_it(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lineage, "find_spec", lambda _name: None)
    assert run(tmp_path / "lake", GOOD) == [1]
    assert "pip install 'singerlake[lineage]'" in caplog.text
    assert not file.exists()


def test_a_server_that_is_gone_or_hangs_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    OpenLineageClient = pytest.importorskip("openlineage.client").OpenLineageClient
    monkeypatch.delenv("OPENLINEAGE_DISABLED")
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "hunter2-hunter2")
    monkeypatch.setattr(lineage, "SECONDS", 0.3)

    def refuses(_client: Any, _event: Any) -> None:
        raise ConnectionError("hunter2-hunter2")

    monkeypatch.setattr(OpenLineageClient, "emit", refuses)
    assert run(tmp_path / "one", GOOD) == [1]
    assert "events could not be sent to OpenLineage: ConnectionError" in caplog.text
    server_is_back = threading.Event()
    monkeypatch.setattr(OpenLineageClient, "emit", lambda *_: server_is_back.wait(30))
    started = time.monotonic()
    assert run(tmp_path / "two", GOOD) == [1]
    assert time.monotonic() - started < 20
    assert "not accept all events within 0.3 s" in caplog.text
    server_is_back.set()
    for thread in threading.enumerate():
        if thread.name == "lineage":
            thread.join()
    assert "hunter2" not in caplog.text


def test_what_cannot_be_read_again_is_left_out(
    tmp_path: Path, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def gone() -> Any:
        raise StoreError("gone")

    run = lineage.Told("s3://bucket/lakes/one/", "a job", "KIND")
    with caplog.at_level(logging.WARNING):
        run.wrote(gone)
    run.end(KeyboardInterrupt())
    run.end()
    told = events(file)
    assert [event["eventType"] for event in told] == ["START", "ABORT"]
    assert told[-1]["outputs"] == []
    assert "cannot send what was written to OpenLineage: gone" in caplog.text


def test_names_of_datasets() -> None:
    table = TableName("tap-shop", "größe/%")
    for uri, wanted in [
        ("s3://bucket/lakes/one/", ("s3://bucket", "lakes/one/raw/tap-shop/")),
        ("s3://bucket", ("s3://bucket", "raw/tap-shop/")),
        ("/data/lake", ("file", "/data/lake/raw/tap-shop/")),
    ]:
        namespace, name = lineage_events.dataset_name(uri, table)
        assert (namespace, name.removesuffix("gr%C3%B6%C3%9Fe%2F%25")) == wanted
    assert json.dumps(lineage_events.dataset_name("s3://b", table))
