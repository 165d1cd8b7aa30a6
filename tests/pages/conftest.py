"""What pages begin with: programs, a lake as it is after Tuesday's sync, a bucket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.pages import running
from tests.storage.conftest import s3_port

__all__ = ["s3_port"]

SETTINGS = {"lake": "lake", "tap_id": "tap-shop"}
TARGET = """\
#!/usr/bin/env python3
# In place of any Singer target: takes messages, and says the last STATE once it has them.
import json, sys
last = None
for line in sys.stdin:
    message = json.loads(line)
    last = message["value"] if message["type"] == "STATE" else last
print(json.dumps(last))
"""


@pytest.fixture(scope="session")
def shop(processes: None, tmp_path_factory: pytest.TempPathFactory, spark: object) -> Path:
    """A folder with the README's lake after Tuesday's sync: Monday's orders are frozen."""
    del spark
    folder = tmp_path_factory.mktemp("shop")
    for name in ("target.json", "tap.json"):
        (folder / name).write_text(json.dumps(SETTINGS))
    sync = "singerlake demo --messages {} | target-singerlake --config target.json >> state.jsonl"
    bin_first = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    here = {**os.environ, "PATH": bin_first, "LOGNAME": "ada"}
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("LOGNAME", "ada")
        monkeypatch.delenv("SINGERLAKE_LAKE", raising=False)
        for command in (
            sync.format("monday"),
            "singerlake freeze tap-shop.orders --label monday",
            sync.format("tuesday"),
        ):
            running.run(command, here)
    return folder


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands under test, a target by somebody else, and a home with a repository in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "ada")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.delenv("SINGERLAKE_LAKE", raising=False)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"target-postgres": TARGET}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    first = [str(Path(sys.executable).parent), str(programs)]
    monkeypatch.setenv("PATH", os.pathsep.join([*first, os.environ["PATH"]]))


@pytest.fixture
def repository(processes: None, tmp_path: Path, programs: None) -> None:
    """A repository of two revisions, as ``~/project``."""
    del programs
    project = tmp_path / "project"
    project.mkdir()

    def git(*args: str) -> None:
        named = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        subprocess.run(["git", "-C", str(project), *named, *args], check=True, capture_output=True)

    git("init", "--quiet")
    for name, text in {"README.md": "# Project\n", "app.py": "print(1)\n", "old.py": ""}.items():
        (project / name).write_text(text)
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    (project / "app.py").write_text("print('hello')\n")
    (project / "old.py").unlink()
    (project / "LICENSE").write_text("Do as you like.\n")
    git("add", "--all")
    git("commit", "--quiet", "--message", "second")


@pytest.fixture
def bucket(s3_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty bucket of the name ``bucket``, on a server that speaks S3."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{s3_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA-EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    boto3.client("s3").create_bucket(Bucket="bucket")
    yield
    there = boto3.resource("s3").Bucket("bucket")
    there.objects.all().delete()
    there.delete()
