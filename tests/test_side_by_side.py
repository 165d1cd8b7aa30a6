"""The tests themselves: dealt out to processes by whole files, the long ones first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.meltano.project import ROOT
from tests.side_by_side import DURATIONS, RECORD, Recorder, recorded

CONFTEST = """
import pytest
from tests.conftest import (
    pytest_collection_modifyitems, pytest_configure, pytest_xdist_make_scheduler
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


@pytest.mark.usefixtures("processes")
def test_each_file_runs_in_one_process_the_long_ones_first_and_spark_apart(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(PYTEST)
    (tmp_path / DURATIONS).write_text('{"test_c.py": 9, "test_gone.py": 8}')
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    for name, fixture in (("s", "spark"), ("t", "shop")):
        mark = f'pytestmark = pytest.mark.usefixtures("{fixture}")'
        (tmp_path / f"test_{name}.py").write_text(f"{TESTS}\n{mark}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "3", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), RECORD: "record"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
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
    assert recorded(tmp_path) == {}  # what is short is not kept, nor what is gone


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


def test_durations_are_recorded_by_file_and_those_of_other_files_stay(tmp_path: Path) -> None:
    for file in ("test_a.py", "test_b.py", "postgres/test_d.py"):
        path = tmp_path / "tests" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / DURATIONS).write_text('{"tests/test_a.py": 9, "tests/test_b.py": 8}')
    recorder = Recorder(tmp_path)
    for nodeid in ("tests/test_b.py::test", "tests/postgres/test_d.py::test"):
        for _ in range(3):
            report: Any = SimpleNamespace(nodeid=nodeid, duration=1.2)
            recorder.pytest_runtest_logreport(report)
    recorder.pytest_sessionfinish()
    assert recorded(tmp_path) == {"tests/postgres": 4, "tests/test_a.py": 9, "tests/test_b.py": 4}
