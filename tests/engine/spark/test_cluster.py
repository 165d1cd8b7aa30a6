"""Every Spark job on executors that are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.build import commit_rows

ROOT = Path(__file__).parents[3]
PROPERTIES = {"id": {"type": "integer"}, "v": {"type": "string"}}
SCRIPT = r"""
import json, os, sys
from click.testing import CliRunner
from singerlake_cli.main import cli

# Executors that live for a minute are not worth the second-tier compiler.
QUICK = "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
ON = ["--master", "local-cluster[2,1,1024]", "--conf", QUICK]

def run(*args):
    done = CliRunner().invoke(cli, ["--output", "json", *args])
    assert done.exit_code == 0, (args, done.output, done.exception)
    return json.loads(done.stdout) if done.stdout.startswith(("[", "{")) else done.stdout

said = {}
said["freeze"] = run("freeze", *ON, "t.s", "--label", "first", "--transaction", "1")["rows"]
said["rows"] = len(run("rows", *ON, "t.s", "--key", "3", "--history"))
run("create-table", *ON, "views.low", "--from-query", "select id, v from t.s where id < 10")
said["cut"] = run("revert", *ON, "t.s", "--to", "first")
said["query"] = run("query", *ON, "select sum(t.id), count(*), count_if(t.v = 'new'), count(low.id)"
    " from t.s t left join views.low low on t.id = low.id")
with open("more.csv", "w") as file:
    file.write("id,v\n3,up\n500,new\n")
said["uploaded"] = run("upload", *ON, "t.s", "more.csv")
said["made"] = run("upload", *ON, "views.more", "more.csv", "--key", "id")["inserted"]
said["staging"] = [name for name in os.listdir("lake/.staging") if name != "replace.lock"]
run("vacuum", *ON, "--all", "--expire-history", "--retain", "0s",
    "--no-retention-guard")
said["verified"] = run("verify", *ON, "--all")
said["again"] = run("query", *ON, "select count(*) as rows from t.s.first")

from pyspark.sql import SparkSession
context = SparkSession.getActiveSession().sparkContext
def where(_):
    import singerlake
    return [(os.getpid(), os.getppid(), singerlake.__file__)]
places = context.parallelize(range(4), 4).mapPartitions(where).collect()
said["master"] = context.master
said["workers"] = len({parent for _, parent, _ in places})
said["shipped"] = all(".zip" in place for _, _, place in places)
print(json.dumps(said))
"""


@pytest.mark.usefixtures("environments")
def test_every_job_on_two_executors(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    first = [{"id": n, "v": "old"} for n in range(200)]
    commit_rows(lake, "t.s", PROPERTIES, ["id"], first, block_rows=20)
    second = [{"id": n, "v": "new"} for n in range(50)]
    commit_rows(lake, "t.s", PROPERTIES, ["id"], second, block_rows=20)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["master"] == "local-cluster[2,1,1024]"
    assert said["workers"] == 2, "the tasks ran in one process"
    assert said["shipped"], "executors did not take the package that the driver sent"
    assert said["freeze"] == 200
    assert said["query"]["rows"] == [[19900, 200, 0, 10]], "it is back, and views.low has ten"
    assert said["rows"] == 2
    assert (said["uploaded"]["inserted"], said["uploaded"]["updated"], said["made"]) == (1, 1, 2)
    assert said["staging"] == [], "a file that was put within the executors' reach is left"
    assert (said["cut"]["put_back"], said["cut"]["unchanged"]) == (50, 150)
    assert [(one["table"], one["problems"]) for one in said["verified"]] == [
        ("t.s", []),
        ("views.low", []),
        ("views.more", []),
    ]
    assert said["again"]["rows"] == [[200]]
