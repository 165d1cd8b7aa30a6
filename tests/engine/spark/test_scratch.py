"""Spark's folder: gone at the end of its process; where that was killed, with the next start."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from singerlake.engine.spark.jvm import launch as scratch

MAKE = """
import sys
from singerlake.engine.spark.jvm import launch as scratch
made = scratch.scratch_folder()
(made / "shuffle").write_bytes(b"x" * 1000)
print(made, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_LOCKING", -1.0)
    return tmp_path


def process(place: Path) -> tuple[subprocess.Popen[str], Path]:
    started = subprocess.Popen(
        [sys.executable, "-c", MAKE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
    )
    assert started.stdout is not None
    return started, Path(started.stdout.readline().strip())


@pytest.mark.usefixtures("processes")
def test_a_killed_process_s_folder_goes_with_the_next_start(place: Path) -> None:
    alive, living = process(place)
    killed, dead = process(place)
    try:
        mine = scratch.scratch_folder()
        assert all(folder.is_dir() for folder in (living, dead, mine)), "all three live"
        killed.kill()
        killed.communicate()
        assert (dead / "shuffle").exists()
        other = scratch.scratch_folder()
        assert not dead.exists()
        assert all(folder.is_dir() for folder in (living, mine, other))
        assert (living / "shuffle").exists()
    finally:
        alive.communicate("")
    assert not living.exists(), "an orderly end leaves nothing"


def test_one_that_was_made_just_now_may_not_be_locked_yet(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    young = place / f"{scratch.PREFIX}young"
    young.mkdir()
    (young / scratch.ALIVE).touch()
    bare = place / f"{scratch.PREFIX}bare"
    bare.mkdir()
    monkeypatch.setattr(scratch, "_LOCKING", 60.0)
    scratch.scratch_folder()
    assert young.is_dir()
    assert bare.is_dir()
    old = bare.stat().st_mtime - 90_000
    os.utime(bare, (old, old))
    os.utime(young / scratch.ALIVE, (old, old))
    scratch.scratch_folder()
    assert not young.exists()
    assert not bare.exists()


def test_what_is_none_of_ours_is_left_alone(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / scratch.ALIVE).touch()
    (place / f"{scratch.PREFIX}link").symlink_to(elsewhere)
    (place / f"{scratch.PREFIX}file").touch()
    inside = place / f"{scratch.PREFIX}linked"
    inside.mkdir()
    (inside / scratch.ALIVE).symlink_to(elsewhere / scratch.ALIVE)
    piped = place / f"{scratch.PREFIX}piped"
    piped.mkdir()
    os.mkfifo(piped / scratch.ALIVE)
    scratch.scratch_folder()
    assert (elsewhere / scratch.ALIVE).exists()
    assert {f"{scratch.PREFIX}link", f"{scratch.PREFIX}file", inside.name} <= {
        path.name for path in place.iterdir()
    }
