"""An older Python is told which one is needed, by whatever it tries first."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meltano.project import ROOT
from tests.test_wheel import PACKAGES, found

pytestmark = pytest.mark.usefixtures("processes")

OLD = next((path for v in ("3.9", "3.8") if (path := found(v))), None)
AS_OLD = (
    "import runpy, sys; sys.version_info = (3, 9, 18); runpy.run_module({!r}, run_name='__main__')"
)
MODULES = ("singerlake_cli", "target_singerlake", "tap_singerlake")


def _last_line(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("module", MODULES)
def test_from_a_checkout(module: str) -> None:
    words = "ImportError: Singerlake needs Python 3.10 or later, and this is 3."
    assert _last_line([sys.executable, "-c", AS_OLD.format(module)]).startswith(words)
    if OLD is not None:
        assert _last_line([OLD, "-m", module]).startswith(words)


@pytest.mark.usefixtures("environments")
@pytest.mark.skipif(OLD is None, reason="there is no older Python on this machine")
def test_its_pip_says_so_and_speaks_of_nothing_else(tmp_path: Path) -> None:
    assert OLD is not None
    # An older pip copies all of the folder, and here these are the environments of all tests, too.
    alone = tmp_path / "singerlake"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, alone / package, ignore=shutil.ignore_patterns("*.pyc"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, alone)
    pip = [OLD, "-m", "pip", "install", "--target", str(tmp_path / "there")]
    last = _last_line([*pip, str(alone)])
    assert last.startswith("ERROR: Package 'singerlake' requires a different Python: 3.")
    assert last.endswith("not in '>=3.10'")
