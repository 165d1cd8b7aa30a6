"""The tests themselves: dealt out to processes by whole files, the long ones first."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.meltano.project import ROOT
from tests.side_by_side import DURATIONS, RECORD, Recorder, recorded, tiers_to_record

CONFTEST = """
import pytest
from tests.conftest import (
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_xdist_make_scheduler,
)

@pytest.fixture(scope="session")
def spark():
    pass

@pytest.fixture
def shop(spark):
    pass
"""
PYTEST = """
[pytest]
markers =
    check
    all
    spark
"""
TESTS = """
import os, pathlib, time
import pytest

@pytest.mark.parametrize("n", range(4))
def test(n):
    time.sleep(0.02)
    with pathlib.Path("ran").open("a") as log:
        log.write(f"{os.environ['PYTEST_XDIST_WORKER']} {pathlib.Path(__file__).name} {n}\\n")
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in three processes, recording durations, in a folder with tests of its own."""
    (folder / "pytest.ini").write_text(PYTEST)
    (folder / "conftest.py").write_text(CONFTEST)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "3", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), RECORD: "record"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.usefixtures("processes")
def test_each_file_runs_in_one_process_the_long_ones_first_and_spark_apart(tmp_path: Path) -> None:
    durations = {"test_b.py": {"all": 99}, "test_c.py": {"check": 9}, "test_gone.py": {"check": 99}}
    (tmp_path / DURATIONS).write_text(json.dumps(durations))
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    for name, fixture in (("s", "spark"), ("t", "shop")):
        mark = f'pytestmark = pytest.mark.usefixtures("{fixture}")'
        (tmp_path / f"test_{name}.py").write_text(f"{TESTS}\n{mark}")
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [line.split() for line in (tmp_path / "ran").read_text().splitlines()]
    assert len({(file, n) for _, file, n in ran}) == len(ran) == 24
    workers = defaultdict(set)
    for worker, file, _ in ran:
        workers[file].add(worker)
    assert all(len(of_file) == 1 for of_file in workers.values()), workers
    assert workers["test_s.py"] != workers["test_c.py"]
    firsts = {worker: file for worker, file, _ in reversed(ran)}
    assert len(firsts) == 3
    assert "test_c.py" in firsts.values()
    assert {"test_s.py", "test_t.py"} <= {*firsts.values()}
    # What is short is not kept, nor a file or a file's tier that is gone.
    assert recorded(tmp_path) == {}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("named", ["test_gone.py", "test_a.py::test_gone"])
def test_what_pytest_cannot_find_is_an_error_of_its_own(tmp_path: Path, named: str) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    done = run_pytest(tmp_path, named)
    said = done.stdout + done.stderr
    assert re.search(rf"ERROR: .*not found: \S*{re.escape(named)}", said), said
    assert done.returncode == pytest.ExitCode.USAGE_ERROR


class Item:
    """As much of a test as one looks at that leaves some out."""

    fixturenames = ()

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def add_marker(self, name: str) -> None:
        """A mark of the tier."""

    def get_closest_marker(self, name: str) -> object:
        return name if name == self.mark else None


def test_variants_are_left_out_and_told_unless_all_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other, variant = items = Item("spark"), Item(""), Item("variant")
    told: list[Any] = []
    config: Any = SimpleNamespace(
        hook=SimpleNamespace(pytest_deselected=lambda items: told.extend(items))
    )
    for asked, left in ((None, [one, other]), ("all", [*items])):
        monkeypatch.delenv("SINGERLAKE_TESTS", raising=False)
        if asked:
            monkeypatch.setenv("SINGERLAKE_TESTS", asked)
        found: list[Any] = [*items]
        pytest_collection_modifyitems(config, found)
        assert found == left
    assert told == [variant]


def report(nodeid: str, tier: str, seconds: float) -> Any:
    keywords = {"test": 1, tier: 1, nodeid.rpartition("::")[2]: 1}
    return SimpleNamespace(nodeid=nodeid, keywords=keywords, duration=seconds)


def recording(tmp_path: Path) -> None:
    """Three files, and what was recorded of two of them."""
    for file in ("test_a.py", "test_b.py", "postgres/test_d.py"):
        path = tmp_path / "tests" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    before = {"tests/test_a.py": {"all": 9}, "tests/test_b.py": {"check": 8, "test": 7, "all": 6}}
    (tmp_path / DURATIONS).write_text(json.dumps(before))


@pytest.mark.parametrize(
    ("tiers", "of_b"),
    [
        (("check", "test", "all"), {"all": 4}),
        (("all",), {"all": 4, "check": 8, "test": 7}),
    ],
)
def test_durations_are_recorded_by_file_and_tier_and_others_stay(
    tmp_path: Path, tiers: tuple[str, ...], of_b: dict[str, float]
) -> None:
    recording(tmp_path)
    recorder = Recorder(tmp_path, tiers)
    for nodeid in ("tests/test_b.py::test", "tests/postgres/test_d.py::test"):
        for _ in range(3):
            recorder.pytest_runtest_logreport(report(nodeid, "all", 1.2))
    recorder.pytest_runtest_logreport(report("tests/test_gone.py::test", "check", 9))
    recorder.pytest_sessionfinish(pytest.ExitCode.TESTS_FAILED)
    assert recorded(tmp_path) == {
        "tests/postgres": {"all": 4},
        "tests/test_a.py": {"all": 9},
        "tests/test_b.py": of_b,
    }


def test_durations_of_a_run_that_was_interrupted_are_not_recorded(tmp_path: Path) -> None:
    recording(tmp_path)
    before = recorded(tmp_path)
    recorder = Recorder(tmp_path)
    recorder.pytest_runtest_logreport(report("tests/test_b.py::test", "all", 1.2))
    for code in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
        recorder.pytest_sessionfinish(code)
    assert recorded(tmp_path) == before


@pytest.mark.parametrize(
    ("asked", "tiers"),
    [
        ({}, {"check", "test", "all"}),
        ({"markexpr": "check or test"}, {"check", "test"}),
        ({"markexpr": "spark"}, set()),
        ({"markexpr": "all and not spark"}, set()),
        ({"keyword": "freeze"}, set()),
        ({"maxfail": 1}, set()),
        ({"deselect": ["tests/cli"]}, set()),
        ({"lf": True}, set()),
        ({"args": ["tests/cli/test_diff.py"]}, {"check", "test", "all"}),
        ({"args": ["tests/cli/test_diff.py::test"]}, set()),
    ],
)
def test_durations_are_recorded_of_tiers_that_run_whole(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], tiers: set[str]
) -> None:
    options = {"markexpr": "", "keyword": "", "deselect": None, "maxfail": 0, "lf": False, **asked}
    args = options.pop("args", ["tests"])
    config: Any = SimpleNamespace(option=SimpleNamespace(**options), args=args)
    monkeypatch.setenv(RECORD, "record")
    assert {*tiers_to_record(config)} == tiers
    monkeypatch.delenv(RECORD)
    assert not tiers_to_record(config)
