from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from singerlake.errors import RuntimeMissingError
from singerlake.spark.session import check_java

ROOT = Path(__file__).parents[2]
SCRIPT = """
from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.spark.freeze import freeze
from singerlake.spark.query import query
from singerlake.spark.session import session
from tests.build import commit_rows

lake = Lake.open("lake", create=True)
commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
spark = session("local[1]")
assert session() is not None
freeze(spark, lake.find("tap.s")[0])
print(list(query(spark, lake, "select id from tap.s.1").rows()))
for wrong in ("select nope from tap.s", "selct", "select id / 0 from tap.s"):
    try:
        list(query(spark, lake, wrong).rows())
    except SingerlakeError as error:
        print(type(error).__name__)
"""


@pytest.mark.spark
def test_nothing_but_the_answer_reaches_the_terminal(tmp_path: Path) -> None:
    work, temporary = tmp_path / "work", tmp_path / "tmp"
    work.mkdir()
    temporary.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["[(1,)]", *["InvalidQueryError"] * 3]
    assert [path.name for path in work.iterdir()] == ["lake"]
    assert list(temporary.glob("singerlake-spark-*")) == []


def fake_java(folder: Path, *, release: str | None, says: str = "") -> Path:
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return home


@pytest.mark.parametrize(
    ("release", "says", "good"),
    [
        ("17.0.15", "", True),
        ("21", "", True),
        ("11.0.2", "", False),
        ("1.8.0_292", "", False),
        (None, 'openjdk version "11.0.2" 2019-01-15', False),
        (None, 'openjdk version "17-ea" 2021-09-14', True),
        (None, "something else", True),
    ],
)
def test_the_version_of_java(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    release: str | None,
    says: str,
    good: bool,
) -> None:
    home = fake_java(tmp_path, release=release, says=says)
    monkeypatch.setenv("JAVA_HOME", str(home))
    if good:
        check_java()
        return
    with pytest.raises(RuntimeMissingError) as caught:
        check_java()
    assert "Spark needs Java 17" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeMissingError, match="none in JAVA_HOME"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeMissingError, match="none on the PATH.*set JAVA_HOME"):
        check_java()
