"""The tests themselves: dealt out to processes by whole files."""

from __future__ import annotations

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
from tests.side_by_side import SESSION

CONFTEST = """
import pytest
from tests.conftest import pytest_xdist_make_scheduler
from tests import side_by_side

side_by_side.SECONDS = {"test_c.py": 9}
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
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    for name, sign in zip("st", ("SparkSession", 'usefixtures("spark", "shop")'), strict=True):
        (tmp_path / f"test_{name}.py").write_text(f"{TESTS}\n# {sign}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "3", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
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


class Item:
    """As much of a test as one looks at that leaves some out."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

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


def test_every_file_whose_tests_take_the_session_says_so() -> None:
    takes = re.compile(
        r"""usefixtures\([^)]*"spark"|^def test_\w+\([^)]*\bspark\b[:,)]""", re.MULTILINE
    )
    texts = {file: file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py")}
    some = [file for file, text in texts.items() if takes.search(text)]
    assert len(some) > 50
    assert [file for file in some if not any(sign in texts[file] for sign in SESSION)] == []
