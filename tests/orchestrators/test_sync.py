"""The script `sync`, whose tap's bookmark must never be ahead of the lake."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("processes")

SYNC = Path(__file__).parents[2] / "examples" / "sync"
TAP = '#!/bin/sh\necho "$@" >> "$HOME/asked"\n[ ! -e "$HOME/slow" ] || sleep 5\nexit "$TAP_CODE"\n'
TARGET = '#!/bin/sh\ncat > "$HOME/taken"\nprintf "$PUTS_OUT"\nexit "$TARGET_CODE"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, text in {"tap": TAP, "target-singerlake": TARGET}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def start(home: Path, puts_out: str, *, tap: int = 0, target: int = 0) -> subprocess.Popen[str]:
    codes = {"TAP_CODE": str(tap), "TARGET_CODE": str(target), "PUTS_OUT": puts_out}
    path = f"{home}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        [SYNC, "state.json", "target.json", "tap", "--config", "a b.json"],
        cwd=home,
        env={"HOME": str(home), "PATH": path, **codes},
        stderr=subprocess.PIPE,
        text=True,
    )


def sync(home: Path, puts_out: str, **codes: int) -> int:
    process = start(home, puts_out, **codes)
    process.communicate(timeout=60)
    return process.returncode


def bookmark(home: Path) -> str | None:
    path = home / "state.json"
    return path.read_text() if path.exists() else None


def test_the_tap_is_given_the_last_bookmark(home: Path) -> None:
    assert sync(home, "1\n2\n") == 0
    assert bookmark(home) == "2\n"
    assert sync(home, "") == 0
    assert bookmark(home) == "2\n", "a run without anything new leaves it"
    asked = (home / "asked").read_text().splitlines()
    assert asked == ["--config a b.json", "--config a b.json --state state.json"]


@pytest.mark.parametrize("codes", [{"tap": 3}, {"target": 5}])
def test_of_a_run_that_failed_too(home: Path, codes: dict[str, int]) -> None:
    assert sync(home, "7\n", **codes) == next(iter(codes.values()))
    assert bookmark(home) == "7\n"
    assert sorted(path.name for path in home.glob("state*")) == ["state.json", "state.json.lock"]


def test_half_a_line_is_no_bookmark(home: Path) -> None:
    assert sync(home, "1\n22", target=1) == 1
    assert bookmark(home) == "1\n"
    assert sync(home, "33", target=1) == 1
    assert bookmark(home) == "1\n"


def test_what_a_run_left_that_was_killed_counts(home: Path) -> None:
    (home / "state.json").write_text("1\n")
    (home / "state.json.new").write_text("2\n3\n4")
    assert sync(home, "", tap=1) == 1
    assert bookmark(home) == "3\n"
    assert (home / "asked").read_text() == "--config a b.json --state state.json\n"


def test_two_with_one_bookmark_exclude_each_other(home: Path) -> None:
    """Also where only the script was killed, and the tap lives on."""
    (home / "slow").touch()
    first = start(home, "1\n")
    deadline = time.monotonic() + 60
    while not (home / "asked").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.kill()
    assert first.wait(10) < 0
    second = start(home, "2\n")
    _, said = second.communicate(timeout=10)
    assert second.returncode == 4
    assert said == "sync: another sync with state.json is still running\n"
    assert first.stderr is not None
    first.stderr.close()
