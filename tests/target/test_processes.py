"""The target as its users meet it: real processes, signals, sudden death, full disks."""

from __future__ import annotations

import fcntl
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest

from singerlake.errors import StoreError
from singerlake.format import sealed
from singerlake.lake import Lake
from tests.target.harness import (
    NOW,
    command,
    data_files,
    leftovers,
    lines_of,
    process,
    record,
    records_of,
    run,
    schema,
    state,
    tables,
    text,
)

PLAIN = [schema("a"), record("a", {"id": 1}), state({"n": 1})]

UNBUFFERED = "PYTHONUNBUFFERED"


class Live:
    """A target that waits for more input.

    Args:
        lake: Where it writes.
        config: Its settings.
    """

    def __init__(self, lake: Path, **config: Any) -> None:
        args, env = command(lake, **config)
        self.process = subprocess.Popen(
            args,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            bufsize=0,
        )

    def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        data = memoryview(text(lines))
        while data:
            data = data[self.process.stdin.write(data) :]

    def state(self) -> Any:
        """The next STATE, once it is out."""
        out: IO[bytes] | None = self.process.stdout
        assert out is not None
        return json.loads(out.readline())

    def end(self, signum: int) -> tuple[bytes, bytes, int]:
        self.process.send_signal(signum)
        out, err = self.process.communicate(timeout=60)
        return out, err, self.process.returncode


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_with_what_was_committed(tmp_path: Path, signum: int) -> None:
    lake = tmp_path / "lake"
    live = Live(lake, commit_minutes=0)
    live.send(schema("a"), record("a", {"id": 1}), state(1))
    assert live.state() == 1
    live.send(record("a", {"id": 2}))
    out, err, code = live.end(signum)
    assert out == b""
    assert code == 128 + signum
    assert b"Traceback" not in err
    assert signal.Signals(signum).name.encode() in err
    assert records_of(lake, "a") == [{"id": 1}]
    assert leftovers(lake) == []


@pytest.mark.usefixtures("processes")
def test_a_signal_while_waiting_for_a_lock(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run(lake, PLAIN)
    [path] = data_files(lake)
    lock = path.parent / "singerlake.lock"
    held = '{"writer-id":"other","acquired":"x","refreshed":"x"}'
    lock.write_text(held)
    live = Live(lake, commit_minutes=0)
    live.send(*PLAIN)
    wait_for(lambda: any(path.parent.name == ".staging" for path in leftovers(lake)))
    time.sleep(0.5)
    out, err, code = live.end(signal.SIGTERM)
    assert (out, code) == (b"", 128 + signal.SIGTERM)
    assert b"Traceback" not in err
    assert lock.read_text() == held
    assert tables(lake) == {"a": 1}


@pytest.mark.usefixtures("processes")
def test_a_signal_while_something_hangs(tmp_path: Path) -> None:
    """Another process, itself stopped, may hold the lock of replacements for ever."""
    lake = tmp_path / "lake"
    run(lake, PLAIN)
    args, env = command(lake)
    hurried = "from target_singerlake import interrupts, target; interrupts.GRACE_SECONDS = 1; "
    args[1:3] = ["-c", f"{hurried} target.main()"]
    with (lake / ".staging" / "replace.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        hanging = subprocess.Popen(
            args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )
        assert hanging.stdin is not None
        hanging.stdin.write(text([schema("b"), *PLAIN]))
        hanging.stdin.close()
        hanging.stdin = None
        wait_for(lambda: tables(lake).get("b") == 1 and tables(lake)["a"] == 2)
        time.sleep(0.5)
        hanging.send_signal(signal.SIGTERM)
        out, err = hanging.communicate(timeout=60)
    assert (out, hanging.returncode) == (b"", 128 + signal.SIGTERM)
    assert b"made no progress within 1 s" in err
    assert b"Traceback" not in err
    assert run(lake, PLAIN) == [{"n": 1}]


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.usefixtures("processes")
def test_sudden_death_at_random_moments(tmp_path: Path) -> None:
    """After each the table reads as after some commit, and never as in between."""
    lake = tmp_path / "lake"
    acknowledged, sent = 0, 0
    for _ in range(3):
        live = Live(lake, commit_minutes=0, block_rows=7, file_bytes=1, lock_stale_seconds=1)
        live.send(schema("a"))
        moment = float("inf")
        while time.monotonic() < moment:
            live.send(*(record("a", {"id": sent + n}) for n in range(20)), state(sent + 20))
            sent += 20
            if moment == float("inf"):
                acknowledged = live.state()  # it is up, and past the lock of the one before
                moment = time.monotonic() + random.random() * 0.3
            time.sleep(0.002)
        out, _, code = live.end(signal.SIGKILL)
        assert code == -signal.SIGKILL
        acknowledged = max([acknowledged, *map(json.loads, out.splitlines())])
        ids = [r["id"] for r in records_of(lake, "a")]
        # Whole STATEs' worth, in order, once each, and all that was acknowledged.
        starts = range(0, len(ids), 20)
        assert all(ids[n : n + 20] == list(range(ids[n], ids[n] + 20)) for n in starts)
        assert ids == sorted(set(ids))
        assert acknowledged - 1 in ids
    # What the dead left behind, a lock perhaps, does not stop the next.
    assert run(lake, PLAIN, lock_stale_seconds=1) == [{"n": 1}]
    assert list(lake.rglob("singerlake.lock")) == []


def one_plain_line(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one ERROR line of a run that failed; there is no traceback."""
    err = done.stderr.decode()
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if "| ERROR" in line]
    assert len(lines) == 1
    assert err.splitlines()[-1] == lines[0]
    return lines[0]


@pytest.mark.usefixtures("processes")
def test_bad_input_is_one_plain_line(tmp_path: Path) -> None:
    done = process(tmp_path / "lake", [*PLAIN, record("a", {"id": "x"}), state(2)])
    assert done.returncode == 5
    assert done.stdout == b""
    assert "line 4: the record of stream 'a', field 'id'" in one_plain_line(done)
    assert data_files(tmp_path / "lake") == []


@pytest.mark.usefixtures("processes")
def test_no_tap_id_is_a_usage_error(tmp_path: Path) -> None:
    done = process(tmp_path / "lake", PLAIN, tap_id="")
    assert done.returncode == 2
    assert "tap_id" in one_plain_line(done)


@pytest.mark.usefixtures("processes")
def test_a_map_that_is_wrong_is_a_usage_error(tmp_path: Path) -> None:
    done = process(tmp_path / "lake", PLAIN, stream_maps={"__other__": None})
    assert done.returncode == 2
    assert "__other__" in one_plain_line(done)


@pytest.mark.usefixtures("processes")
def test_a_newer_lake_is_refused(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run(lake, PLAIN)
    path = lake / "raw" / "singerlake.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 999'))
    done = process(lake, PLAIN)
    assert done.returncode == 5
    assert "999" in one_plain_line(done)
    path.write_text(path.read_text().replace("999", "1"))
    [manifest] = lake.rglob("manifest.json")
    newer = json.loads(manifest.read_text()) | {"format": 999}
    del newer["hash"]
    manifest.write_bytes(sealed.seal(json.dumps(newer).encode())[0])
    done = process(lake, PLAIN)
    assert done.returncode == 5
    assert "upgrade" in one_plain_line(done)
    assert done.stdout == b""
    assert len(data_files(lake)) == 1


@pytest.mark.usefixtures("processes")
def test_a_file_system_that_takes_no_more(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the write fails half-way."""
    lake = tmp_path / "lake"
    noise = [os.urandom(20_000).hex() for _ in range(20)]
    lines = [schema("a")] + [record("a", {"id": n, "x": x}) for n, x in enumerate(noise)]
    args, env = command(lake)
    limit = 200_000

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        args,
        input=text([*lines, state(1)]),
        capture_output=True,
        env=env,
        preexec_fn=limited,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert "cannot write" in one_plain_line(done)
    assert tables(lake) == {}
    assert leftovers(lake) == []


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("number", "words"), [("ENOSPC", "disk is full"), ("EROFS", "read-only"), ("EACCES", "denied")]
)
def test_a_disk_that_refuses(tmp_path: Path, number: str, words: str) -> None:
    """Root may write anywhere, so the refusal is put into the process."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "refuse.py").write_text(
        "import errno, os, sys\n"
        f"def fsync(handle): raise OSError(errno.{number}, 'refused')\n"
        "os.fsync = fsync\n"
        "from target_singerlake.target import main\n"
        "main()\n"
    )
    args, env = command(tmp_path / "lake")
    args = [sys.executable, str(site / "refuse.py"), *args[3:]]
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(
        args, input=text(PLAIN), capture_output=True, env=env, check=False, timeout=60
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert words in one_plain_line(done)
    assert tables(tmp_path / "lake") == {}
    assert data_files(tmp_path / "lake") == []


@pytest.mark.usefixtures("processes")
def test_a_state_that_no_one_reads_any_more(tmp_path: Path) -> None:
    args, env = command(tmp_path / "lake")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        args,
        input=text(PLAIN),
        stdout=writer,
        stderr=subprocess.PIPE,
        env=env,
        check=False,
        timeout=60,
    )
    os.close(writer)
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
    assert b"everything is committed" in done.stderr
    assert len(lines_of(tmp_path / "lake", "a")) == 1


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
def test_a_state_that_goes_to_a_full_disk(tmp_path: Path) -> None:
    """As users start it: with a buffer that Python would write once more at its end."""
    args, env = command(tmp_path / "lake")
    env = {name: value for name, value in {**os.environ, **env}.items() if name != UNBUFFERED}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            args,
            input=text(PLAIN),
            stdout=full,
            stderr=subprocess.PIPE,
            env=env,
            check=False,
            timeout=60,
        )
    assert done.returncode == StoreError.exit_code
    assert b"STATE could not be written to standard output: No space left" in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.usefixtures("processes")
def test_a_standard_output_that_is_closed(tmp_path: Path) -> None:
    args, env = command(tmp_path / "lake")
    shell = ["sh", "-c", '"$@" >&-', "sh", *args]
    done = subprocess.run(
        shell, input=text(PLAIN), stderr=subprocess.PIPE, env=env, check=False, timeout=60
    )
    assert done.returncode == StoreError.exit_code
    assert b"STATE could not be written to standard output: it is closed" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.usefixtures("processes")
def test_progress_level_and_structure_are_the_sdks(tmp_path: Path) -> None:
    args, env = command(tmp_path / "lake")

    def stderr(**more: str) -> str:
        done = subprocess.run(
            args,
            input=text(PLAIN),
            capture_output=True,
            env={**env, **more},
            check=True,
            timeout=60,
        )
        assert done.stdout == b'{"n": 1}\n'
        return done.stderr.decode()

    assert "committed 1 record to 1 table" in stderr()
    assert stderr(LOGLEVEL="ERROR") == ""
    config = tmp_path / "logging.yaml"
    config.write_text(
        "version: 1\ndisable_existing_loggers: false\n"
        "formatters: {s: {(): singer_sdk.logging.StructuredFormatter}}\n"
        "handlers: {h: {class: logging.StreamHandler, formatter: s, stream: ext://sys.stderr}}\n"
        "root: {level: INFO, handlers: [h]}\n"
    )
    structured = [
        json.loads(line) for line in stderr(SINGER_SDK_LOG_CONFIG=str(config)).splitlines()
    ]
    assert any("committed 1 record " in line["message"] for line in structured)


def test_progress_is_said_now_and_then(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("target_singerlake.progress.EVERY_SECONDS", 0)
    monkeypatch.setattr("target_singerlake.reader.CHUNK", 256)
    with caplog.at_level("INFO", logger="target-singerlake"):
        run(tmp_path / "lake", [schema("a")] + [record("a", {"id": n}) for n in range(50)])
    said = [r.getMessage() for r in caplog.records if "records/s" in r.getMessage()]
    assert len(said) > 5
    assert "50 records" in said[-1]
    assert "committed 50 records to 1 table" in said[-1]


@pytest.mark.usefixtures("processes")
def test_about_names_the_settings_and_no_one_elses(tmp_path: Path) -> None:
    args, env = command(tmp_path / "lake")
    done = subprocess.run(
        [*args[:3], "--about", "--format=json"],
        capture_output=True,
        env=env,
        check=True,
        timeout=60,
    )
    settings = json.loads(done.stdout)["settings"]["properties"]
    assert {"lake", "tap_id", "validate_records", "block_rows", "atomic", "stream_maps"} <= set(
        settings
    )
    assert not {"load_method", "batch_size_rows"} & set(settings)


@pytest.mark.usefixtures("processes")
def test_memory_stays_flat_with_many_streams(tmp_path: Path) -> None:
    """200 streams interleaved, more input than may be held, and lines of many sizes."""
    args, env = command(tmp_path / "lake")
    script = (
        "import re, runpy, sys\n"
        "sys.argv = ['target'] + sys.argv[1:]\n"
        "try:\n"
        "    runpy.run_module('target_singerlake.target', run_name='__main__')\n"
        "finally:\n"
        # Not ru_maxrss, which a process inherits from the one that started it.
        "    status = open('/proc/self/status').read()\n"
        "    print(re.search(r'VmHWM:\\s*(\\d+)', status)[1], file=sys.stderr)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, *args[3:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
    )
    streams = [f"s{n}" for n in range(200)]
    assert process.stdin is not None
    process.stdin.write(text(schema(s) for s in streams))
    filler = [os.urandom(size).hex() for size in (20, 200, 2000)]
    rounds = 240
    for n in range(rounds):
        lines = (
            b'{"type":"RECORD","stream":"%s","record":{"id":%d,"x":"%s"},"time_extracted":"%s"}'
            % (s.encode(), n, filler[k % 3].encode(), NOW.encode())
            for k, s in enumerate(streams)
        )
        process.stdin.write(text(lines))
    big = b'{"type":"RECORD","stream":"s0","record":{"id":1,"x":"%s"}}' % (b"y" * (1 << 20))
    process.stdin.write(text([*[big] * 5, state(1)]))
    out, err = process.communicate(timeout=120)
    assert out == b"1\n"
    assert process.returncode == 0
    assert len(lines_of(tmp_path / "lake", "s199")) == rounds
    assert Lake.open(str(tmp_path / "lake")).catalogue("tap-test") is not None
    peak = int(err.split()[-1]) / 1024
    assert peak < 200, f"{peak:.0f} MiB"
