"""The tap as a process: pipes that close, signals, errors, imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from singerlake.format.names import TableName
from singerlake.lake import Lake
from tests.build import commit_rows
from tests.tap.run import ROOT, Run, config_of, run, start

pytestmark = pytest.mark.usefixtures("processes")

INT = {"id": {"type": "integer"}, "pad": {"type": "string"}}
ROWS = 4000


@pytest.fixture
def big(lake: Lake) -> Lake:
    """Three transactions, each of far more than a pipe holds."""
    for transaction in range(3):
        rows: list[Any] = [{"id": transaction * ROWS + n, "pad": "x" * 100} for n in range(ROWS)]
        commit_rows(lake, "tap_x.t", INT, ["id"], rows, block_rows=1000)
    return lake


@pytest.fixture
def config(big: Lake, tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config_of(big)))
    return path


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_ends_it_quietly(config: Path, unbuffered: str) -> None:
    process = start(config, env={"PYTHONUNBUFFERED": unbuffered})
    assert process.stdout is not None
    assert b"SCHEMA" in process.stdout.readline()
    process.stdout.close()
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGPIPE
    for word in (b"Traceback", b"roken", b"Exception", b"ERROR", b"failed"):
        assert word not in errors


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_between_two_lines(
    big: Lake, config: Path, signum: int, unbuffered: str
) -> None:
    process = start(config, env={"PYTHONUNBUFFERED": unbuffered})
    assert process.stdout is not None
    assert process.stderr is not None
    head = b"".join(process.stdout.readline() for _ in range(ROWS + 100))  # into the second
    process.send_signal(signum)
    time.sleep(0.1)
    rest, errors = process.stdout.read(), process.stderr.read()
    assert process.wait(timeout=20) == 128 + signum
    assert b"Traceback" not in errors
    out = head + rest
    assert out.endswith(b"\n")
    part = Run(out)  # every line is whole
    whole = run(big)
    assert out == whole.out[: len(out)]  # nothing out of turn: no STATE that was not due
    assert 1 <= len(part.of("STATE")) < 3
    process.communicate()

    states = [n for n, kind in enumerate(part.kinds, start=1) if kind == "STATE"]
    taken = Run(b"".join(part.lines[: states[-1]]))
    resumed = run(big, part.state)
    assert taken.raw_records() + resumed.raw_records() == whole.raw_records()


def test_a_signal_ends_it_though_nobody_reads(config: Path) -> None:
    process = start(config)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.3)  # the pipe is full now
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert process.wait(timeout=20) == 128 + signal.SIGTERM
    assert time.monotonic() - began < 10
    process.communicate()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_slow_reader_gets_everything(big: Lake, config: Path, unbuffered: str) -> None:
    process = start(config, env={"PYTHONUNBUFFERED": unbuffered})
    stdout = process.stdout
    assert stdout is not None
    parts: list[bytes] = []

    def read() -> None:
        while part := os.read(stdout.fileno(), 100_000):
            parts.append(part)
            time.sleep(0.001)

    reader = threading.Thread(target=read)
    reader.start()
    assert process.wait(timeout=30) == 0
    reader.join()
    assert b"".join(parts) == run(big).out
    assert process.stderr is not None
    assert b"Read 12,000 records of 1 stream:" in process.stderr.read()
    process.communicate()


def test_a_pipe_that_somebody_made_non_blocking(big: Lake, config: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    process = subprocess.Popen(
        [sys.executable, "-m", "tap_singerlake", "--config", str(config)],
        stdout=writing,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        out = pipe.read()
    assert process.wait(timeout=20) == 0
    assert out == run(big).out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
def test_a_full_disk_is_told(config: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tap_singerlake", "--config", str(config)],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            check=False,
        )
    assert done.returncode == 1
    last = done.stderr.decode().splitlines()[-1]
    assert last == "tap-singerlake: cannot write to standard output: No space left on device"


def test_a_damaged_block_is_named_and_no_state_goes_beyond_it(big: Lake, config: Path) -> None:
    table = big.table(TableName("tap_x", "t"))
    block = table.snapshot().blocks[6]  # in the second transaction
    path = Path(big.store.uri) / table.name.data(block.file)
    data = bytearray(path.read_bytes())
    data[block.offset + block.length // 2] ^= 0xFF
    path.write_bytes(data)
    process = start(config)
    out, errors = process.communicate(timeout=20)
    assert process.returncode == 5
    part = Run(out)
    assert [r["id"] for r in part.records()] == list(range(6000))  # what came before stays
    assert [m["value"]["bookmarks"]["t"]["transaction"] for m in part.of("STATE")] == [1]
    last = errors.decode().splitlines()[-1]
    assert last.startswith("tap-singerlake: block 7 of tap_x.t")
    assert b"Traceback" not in errors


def test_an_error_is_one_line(tmp_path: Path) -> None:
    process = start(None, env={"SINGERLAKE_LAKE": str(tmp_path / "nowhere")})
    out, errors = process.communicate(timeout=20)
    assert (process.returncode, out) == (3, b"")
    (line,) = (one for one in errors.decode().splitlines() if "INFO" not in one)
    assert line.startswith(f"tap-singerlake: there is no lake at {tmp_path / 'nowhere'}")


def test_discovery_prints_the_catalog(config: Path) -> None:
    process = start(config, "--discover")
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert [stream["tap_stream_id"] for stream in json.loads(out)["streams"]] == ["t"]


def test_settings_from_the_environment(big: Lake) -> None:
    env = {
        "TAP_SINGERLAKE_LAKE": big.store.uri,
        "TAP_SINGERLAKE_TABLE_VERSION": "a label",
        "TAP_SINGERLAKE_STREAMS": '["t"]',
    }
    process = start(None, "--config", "ENV", "--discover", env=env)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 3
    assert b"tap_x.t has no version 'a label'" in errors


def test_what_help_does_not_import() -> None:
    code = """
import sys
import tap_singerlake.tap as tap
sys.argv = ["tap-singerlake", "--help"]
try:
    tap.main()
except SystemExit as end:
    assert end.code == 0
heavy = {"pyspark", "pyarrow", "boto3", "botocore", "pandas", "sqlalchemy", "rich", "duckdb"}
print("LOADED", sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert "Execute the Singer tap" in done.stdout
    assert done.stdout.splitlines()[-1] == "LOADED []"
