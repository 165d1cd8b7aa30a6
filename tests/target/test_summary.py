"""What a run did is said at its end: in a file, to a command, to a webhook, and as metrics."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from singer_sdk.exceptions import ConfigurationError, ConfigValidationError

from singerlake.errors import InputError, LockTimeoutError, StoreError, UsageError
from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from target_singerlake import freezing, hook
from target_singerlake.run import Run
from tests.cli import call
from tests.target.harness import TAP, process, record, run, schema, state, tables, text

pytestmark = pytest.mark.usefixtures("processes")

GOOD = [schema("a"), schema("b"), record("a", {"id": 1}), record("b", {"id": 1})]
MIXED = [*GOOD, record("a", {"id": "x"}), state(1)]
OTHER = [schema("a", {"id": {"type": "number"}}), record("a", {"id": 1.5}), state(2)]


def command(folder: Path, *, then: str = "") -> str:
    """A command that keeps what it gets, an event a line, and says something itself."""
    script = folder / "my hook.py"
    script.write_text(
        "import sys\n"
        f"open({str(folder / 'events')!r}, 'a').write(sys.stdin.read())\n"
        f"print('told')\n{then}\n"
    )
    return f"{sys.executable} '{script}'"


def events(folder: Path) -> list[Any]:
    file = folder / "events"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def summary(file: Path) -> Any:
    found = json.loads(file.read_text())
    assert found.pop("started") <= found.pop("ended")
    return found


def test_a_run_that_put_lines_aside_and_one_whose_schema_changed(tmp_path: Path) -> None:
    lake, file = tmp_path / "lake", tmp_path / "summary.json"
    config = {
        "summary_file": str(file),
        "on_event": command(tmp_path),
        "invalid_records": "quarantine",
        "metadata": {"run_id": "r-1"},
    }
    done = process(lake, text(MIXED), **config)
    assert (done.returncode, done.stdout) == (0, b"1\n")  # what the command says is no STATE
    first = summary(file)
    sizes = [table.pop("bytes") for table in first["tables"]]
    assert first.pop("bytes") == sum(sizes) > 0
    about = {"lake": str(lake), "tap": TAP, "metadata": {"run_id": "r-1"}}
    assert first == {
        "outcome": "succeeded",
        **about,
        "read": {"records": 3, "bytes": len(text(MIXED))},
        "records": 2,
        "deletions": 0,
        "rejected": 1,
        "blocked": 0,
        "tables": [
            {"table": f"{TAP}.a", "transaction": 1, "records": 1, "deletions": 0, "rejected": 1},
            {"table": f"{TAP}.b", "transaction": 1, "records": 1, "deletions": 0, "rejected": 0},
        ],
        "schema_changes": [],
        "versions": [],
        "error": None,
    }
    run(lake, OTHER, **config)
    change = {
        "table": f"{TAP}.a",
        "stored": True,
        "change": "retyped",
        "column": "id",
        "before": "int64",
        "after": "double",
        "words": "column 'id' changed from int64 to double",
    }
    assert summary(file)["schema_changes"] == [change]
    found = events(tmp_path)
    assert [event.pop("time") for event in found] == sorted(
        event["time"] for event in events(tmp_path)
    )
    assert found == [
        {
            "event": "lines_rejected",
            **about,
            "lines": 1,
            "tables": [{"table": f"{TAP}.a__rejected", "lines": 1, "first_line": 5}],
        },
        {"event": "schema_changed", **about, "changes": [change]},
    ]


def test_lines_refused_of_a_stream_that_a_map_stores_under_another_name(tmp_path: Path) -> None:
    lake, file = tmp_path / "lake", tmp_path / "summary.json"
    maps = {"a": {"__alias__": "renamed"}}
    config = {"summary_file": str(file), "invalid_records": "quarantine", "stream_maps": maps}
    run(lake, [*MIXED[:-1], b"no message", state(1)], **config)
    rejected = {table["table"]: table["rejected"] for table in summary(file)["tables"]}
    assert rejected == {f"{TAP}.renamed": 1, f"{TAP}.b": 0}
    listed = {row["table"]: row["rejected"] for row in call.run_json(str(lake), "ls")}
    assert {table: lines for table, lines in listed.items() if lines} == {
        f"{TAP}.a__rejected": 1,
        f"{TAP}.__rejected": 1,
    }


def test_a_run_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, file = tmp_path / "lake", tmp_path / "summary.json"
    config = {"summary_file": str(file), "on_event": command(tmp_path)}
    with pytest.raises(InputError):
        run(lake, MIXED, **config)
    found = summary(file)
    assert (found["outcome"], found["tables"]) == ("failed", [])
    assert found["error"]["kind"] == "invalid_input"
    assert found["error"]["message"].startswith("line 5: the record of stream 'a'")
    assert found["error"]["exit_code"] == 5
    [event] = events(tmp_path)
    assert (event["event"], event["error"]) == ("run_failed", found["error"])

    def fails(_run: Run) -> None:
        raise error

    for error, told in [
        (StoreError("s3://k:hunter2@b is full"), ("store", "s3://***@b is full")),
        (LockTimeoutError("held"), ("lock_timeout", "held")),
        (ConfigurationError("no such map"), ("usage", "no such map")),
        (RuntimeError("hunter2"), ("unexpected", "RuntimeError")),
    ]:
        with monkeypatch.context() as patch, pytest.raises(type(error)):
            patch.setattr(Run, "commit", fails)
            run(lake, GOOD, **config)
        assert tuple(summary(file)["error"].values())[:2] == told
    with pytest.raises(UsageError):
        run(lake, GOOD, **config, job_url="none")
    assert [event["event"] for event in events(tmp_path)] == ["run_failed"] * 6
    assert events(tmp_path)[-1]["error"]["kind"] == "usage"


def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = FrozenVersion(
        number=3, transaction=1, schema_hash="", rows=1, fingerprint="lt1:00", label="x"
    )

    def freeze(_lake: Any, wanted: Any, _choice: Any, _logger: Any, _check: Any, done: Any) -> None:
        done(TableName(TAP, "a"), version)
        raise StoreError("the second one failed")

    monkeypatch.setattr(freezing, "freeze_tables", freeze)
    with pytest.raises(StoreError):
        run(tmp_path / "lake", GOOD, new_version=True, on_event=command(tmp_path))
    frozen, failed = events(tmp_path)
    assert frozen["event"] == "version_frozen"
    assert frozen["versions"] == [
        {
            "table": f"{TAP}.a",
            "version": 3,
            "transaction": 1,
            "rows": 1,
            "fingerprint": "lt1:00",
        }
    ]
    assert failed["error"]["message"] == "the second one failed"


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("import time\ntime.sleep(60)", "it took longer than 0.5 s"),
        ("import os\nos.execvp('sleep', ['sleep', '60'])", "it took longer than 0.5 s"),
    ],
)
def test_a_command_that_fails_or_hangs_fails_no_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    then: str,
    words: str,
) -> None:
    monkeypatch.setattr(hook, "SECONDS", 0.5)
    monkeypatch.setattr(hook, "_LATE", "it took longer than 0.5 s")
    started = time.monotonic()
    said = command(tmp_path, then=then) + " --token hunter2"
    assert run(tmp_path / "lake", MIXED, on_event=said, invalid_records="quarantine") == [1]
    assert time.monotonic() - started < 20
    [told] = [line for line in caplog.messages if line.startswith("on_event")]
    assert words in told
    assert "hunter2" not in caplog.text


def test_what_is_no_command(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for said in ("'open", "  ", "https://", "http://[bad"):
        with pytest.raises(UsageError, match="on_event"):
            run(tmp_path / "lake", GOOD, on_event=said)
    run(tmp_path / "lake", MIXED, on_event="/no/such/thing", invalid_records="quarantine")
    assert "/no/such/thing did not receive lines_rejected: it cannot be started" in caplog.text


class _Server(HTTPServer):
    """A webhook that answers as it is told."""

    answer = 204
    bodies: list[bytes]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Content-Type"] == "application/json"
        self.send_response(self.server.answer)
        if self.server.answer == 301:
            self.send_header("Location", "/moved")
        self.end_headers()

    def do_GET(self) -> None:
        self.send_response(200)  # what a redirected POST would have become
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        pass


@pytest.fixture
def server(services: None) -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as one:
        one.bodies = []
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def test_a_webhook(tmp_path: Path, server: _Server, caplog: pytest.LogCaptureFixture) -> None:
    url = f"http://127.0.0.1:{server.server_port}/hunter2"
    config = {"on_event": url, "invalid_records": "quarantine"}
    run(tmp_path / "one", MIXED, **config)
    assert [json.loads(body)["event"] for body in server.bodies] == ["lines_rejected"]
    server.answer = 500
    assert run(tmp_path / "two", MIXED, **config) == [1]
    assert "the webhook at 127.0.0.1 did not receive lines_rejected: it answered 500" in caplog.text
    server.answer = 301
    run(tmp_path / "moved", MIXED, **config)
    assert "did not receive lines_rejected: it answered 301" in caplog.text
    run(
        tmp_path / "three",
        MIXED,
        on_event="http://127.0.0.1:9/hunter2",
        invalid_records="quarantine",
    )
    assert "it cannot be reached (ConnectionRefusedError)" in caplog.text
    assert "hunter2" not in caplog.text


def test_where_no_summary_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (tmp_path, tmp_path / "not" / "there.json"):
        with pytest.raises(UsageError, match="summary_file"):
            run(tmp_path / "lake", GOOD, summary_file=str(path))
    assert tables(tmp_path / "lake") == {}
    file = tmp_path / "summary.json"
    file.write_text("of the run before")
    monkeypatch.setattr(
        Path, "write_text", lambda *_a, **_k: (_ for _ in ()).throw(OSError(28, "full"))
    )
    assert run(tmp_path / "lake", [*GOOD, state(1)], summary_file=str(file)) == [1]
    assert "cannot write summary_file" in caplog.text
    assert list(tmp_path.glob("*summary*")) == []


def test_a_summary_is_never_that_of_an_earlier_run(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    run(tmp_path / "lake", GOOD, summary_file=str(file))
    assert summary(file)["outcome"] == "succeeded"
    with pytest.raises(ConfigValidationError):
        run(tmp_path / "lake", GOOD, summary_file=str(file), max_invalid="x")
    assert not file.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_summary_goes_into_no_pipe_that_nobody_reads(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="is not a file"):
        run(tmp_path / "lake", GOOD, summary_file=str(pipe))
    assert not (tmp_path / "lake").exists()


def test_metrics_of_the_sdk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        run(tmp_path / "lake", MIXED, invalid_records="quarantine")
    points = [json.loads(m.partition(": ")[2]) for m in caplog.messages if m.startswith("METRIC")]
    assert {point["metric"] for point in points} == {"record_count"}
    counts = {point["tags"]["stream"]: point["value"] for point in points}
    assert counts == {"a": 1, "b": 1, "a__rejected": 1}
