from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
