"""Meltano's state in the lake: it goes back with the rows, and the next run brings them again."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from singerlake.lake import Lake
from singerlake.log import bookmarks
from tests.cli.call import run
from tests.faults import plain
from tests.meltano import project
from tests.meltano.project import BESIDE, ORDERS, ROOT, Project, rows

pytestmark = pytest.mark.usefixtures("environments")
PACKAGE = ROOT / "packages" / "meltano-state-backend-singerlake"
ID = "dev:tap-shop-to-target-singerlake"
DAYS = ("2026-03-02T06:00:00Z", "2026-03-03T06:00:00Z")
SYNC = ("run", "tap-shop", "target-singerlake")


@pytest.fixture(scope="session")
def backend(environments: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built and unpacked, as Meltano's environment has it once it is installed."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    site = shared / "backend"
    with (shared / "backend.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not site.exists():
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
            subprocess.run([*command, "-w", site, PACKAGE], check=True, timeout=300)
            (built,) = site.glob("*.whl")
            with zipfile.ZipFile(built) as archive:
                archive.extractall(site)
    return site


@pytest.fixture
def here(tmp_path: Path, backend: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    path = [str(backend), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    made = project.copied(tmp_path, project.installed())
    file = tmp_path / "meltano.yml"
    settings = yaml.safe_load(file.read_text())
    command = str(BESIDE / "singerlake")
    settings["state_backend"] = {"uri": "singerlake:lake", "singerlake": {"command": command}}
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    return made


def kept(folder: Path, state_id: str = ID) -> Any:
    """What the bookmark says of orders, by the command, merged as Meltano does."""
    state = json.loads(run(str(folder / "lake"), "bookmark", "get", state_id).stdout)
    parts = [state[name] for name in ("partial", "completed") if state[name]]
    return parts[0]["singer_state"]["bookmarks"]["orders"]["updated_at"]


def ids(folder: Path) -> list[int]:
    table = plain.tables(plain.dump_folder(folder / "lake"))[str(ORDERS)]
    return sorted(row["id"] for row in table.state())


def back(folder: Path, *more: str) -> None:
    done = run(str(folder / "lake"), "revert", str(ORDERS), "--to-transaction", "1", *more)
    assert done.exit_code == 0, done.output
    assert ID in done.stderr


def test_a_revert_turns_the_state_back_and_the_next_run_brings_what_was_undone(
    tmp_path: Path, here: Project
) -> None:
    here.run(*SYNC)
    assert kept(tmp_path) == DAYS[0]
    here.run(*SYNC)
    assert kept(tmp_path) == DAYS[1]
    whole = ids(tmp_path)
    back(tmp_path)
    assert kept(tmp_path) == DAYS[0]
    assert DAYS[0] in here.run("state", "get", ID)
    assert ids(tmp_path) != whole
    here.run(*SYNC)
    assert (kept(tmp_path), ids(tmp_path)) == (DAYS[1], whole)
    assert rows(tmp_path)[-1] == ("sync", 41)

    back(tmp_path, "--keep-bookmark")
    here.run(*SYNC)
    assert kept(tmp_path) == DAYS[1]
    assert rows(tmp_path)[-1][0] == "revert"
    here.run("run", "--full-refresh", *SYNC[1:])
    assert kept(tmp_path) == DAYS[0]  # the tap brings a day a run
    assert bookmarks.ids(Lake.open(str(tmp_path / "lake")).store) == [ID]


def test_two_runs_at_once_leave_a_state_that_the_lake_has(tmp_path: Path, here: Project) -> None:
    """From two projects: runs of one project overwrite each other's files (run/tap-shop)."""
    here.run(*SYNC)
    other = Project(tmp_path / "other", here.program)
    shutil.copytree(tmp_path / "examples", other.folder / "examples")
    text = (tmp_path / "meltano.yml").read_text().replace("singerlake:lake", "singerlake:../lake")
    (other.folder / "meltano.yml").write_text(
        text.replace("${MELTANO_PROJECT_ROOT}/lake", str(tmp_path / "lake"))
    )
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(one.run, "run", "--force", *SYNC[1:]) for one in (here, other)]
        for one in runs:
            one.result()
    assert kept(tmp_path) == DAYS[1]
    assert rows(tmp_path) == [("sync", 100), ("sync", 41), ("sync", 41)]
    assert len(ids(tmp_path)) == 109
    assert not [*(tmp_path / "lake" / "bookmarks").glob("*.lock")]


def test_partial_states_are_merged_and_states_copied_moved_and_cleared(
    tmp_path: Path, here: Project
) -> None:
    here.run(*SYNC)
    here.run("run", "--state-strategy", "merge", *SYNC[1:])
    whole = json.loads(here.run("state", "get", ID))
    assert whole["singer_state"]["bookmarks"]["orders"]["updated_at"] == DAYS[1]
    more = {"singer_state": {"bookmarks": {"carts": {"id": 7}}}}
    here.run("state", "merge", ID, json.dumps(more))
    merged = json.loads(here.run("state", "get", ID))["singer_state"]["bookmarks"]
    assert merged == {"orders": {"updated_at": DAYS[1]}, "carts": {"id": 7}}
    back(tmp_path)
    turned = json.loads(here.run("state", "get", ID))["singer_state"]["bookmarks"]
    assert turned == {"orders": {"updated_at": DAYS[0]}}

    here.run("state", "copy", "--force", ID, "other")
    assert here.run("state", "list").split() == [ID, "other"]
    assert here.run("state", "list", "--pattern", "oth*").split() == ["other"]
    here.run("state", "move", "--force", "other", "third")
    here.run("state", "clear", "--force", ID)
    assert here.run("state", "list").split() == ["third"]
    assert json.loads(here.run("state", "get", "third"))["singer_state"]["bookmarks"] == turned


@pytest.mark.parametrize(
    ("uri", "command", "why"),
    [
        ("singerlake:", "singerlake", "names no lake"),
        ("singerlake://lake", "singerlake", "names no lake"),
        ("singerlake:lake", "no-such-command", "there is no command no-such-command"),
        ("singerlake:ftp://host/lake", "singerlake", "ftp"),
    ],
)
def test_what_is_set_wrongly_ends_a_run_before_anything_starts(
    tmp_path: Path, here: Project, uri: str, command: str, why: str
) -> None:
    file = tmp_path / "meltano.yml"
    settings = yaml.safe_load(file.read_text())
    settings["state_backend"]["uri"] = uri
    if command != "singerlake":
        settings["state_backend"]["singerlake"]["command"] = command
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    with pytest.raises(AssertionError) as failed:
        here.run(*SYNC)
    assert why in str(failed.value)
    assert not (tmp_path / "lake").exists()
