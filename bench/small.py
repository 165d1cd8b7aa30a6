"""Freeze, query and revert of a small table: what is there to wait for, start-up and all.

Of these only the query starts Java, and so has class data. All three on Spark, as of a large table,
are timed in one process.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path

from bench import harness
from bench.harness import BIN, Cost

QUERY = "query, with class data"
ON_SPARK = "all three on Spark, in one session"
GOALS = {"freeze": 4.0, "revert": 4.0, QUERY: 2.5}
"""Seconds that each of the three may take, start-up included."""
ARROW_GOAL = 0.6
"""Seconds for a version that has its index, from Python and without Spark."""
ROWS = 1000
PLAIN = "plain pyspark, one count"
TABLE = "tap-x.stream_0"
COUNT = "select count(*) as n, max(id) as last from tap_x.stream_0"
ARROW = "version 1 as Arrow, from Python"
READ = """
import sys
import singerlake
assert singerlake.open(sys.argv[1])["tap-x.stream_0"].at(1).to_arrow().num_rows == 1000
"""
PEER = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
assert spark.range(1000).count() == 1000
spark.stop()
"""
"""What Spark itself costs, with its own settings and its own launcher."""
PHASES = """
import json, sys, time
marks = [("", time.perf_counter())]
def mark(name):
    marks.append((name, time.perf_counter()))
from singerlake.lake import Lake
from singerlake.engine.spark.jvm import launch
mark("import the core")
launch.ahead()
from tests.frozen import freeze_on_spark as freeze
from singerlake.sql.queries.query import query
from tests.frozen import revert_on_spark as revert
from singerlake.engine.spark.jvm.session import session
mark("import the jobs")
from singerlake.engine.spark.jvm import session as sessions
connected = sessions._connected
def noted(*arguments):
    found = connected(*arguments)
    mark("until Java listens")
    return found
sessions._connected = noted
spark = session()
mark("Spark's session")
lake = Lake.open(sys.argv[2])
table = lake.find("tap-x.stream_0")[0]
assert freeze(spark, table).rows == 1100
mark("freeze")
with query(spark, lake, sys.argv[1]) as answer:
    assert answer.first(10) == [(1100, 1099)]
mark("query")
assert revert(spark, table, to=1).deleted == 100
mark("revert")
import atexit
atexit._run_exitfuncs()
mark("end")
print(json.dumps([(name, now - before) for (name, now), (_, before) in zip(marks[1:], marks)]))
"""


def run(folder: Path, rows: int, rounds: int) -> str:
    rows = min(rows, ROWS)
    base = _lake(folder, rows)
    cache = folder / "cache"
    kept, none = {"SINGERLAKE_CACHE": str(cache)}, {"SINGERLAKE_CACHE": "off"}
    trained = harness.command([sys.executable, "-m", "singerlake.ops.training"], env=kept)
    (archive,) = (cache / "java").glob("*.jsa")
    phases: dict[str, list[list[tuple[str, float]]]] = {"off": [], "kept": []}
    commands = _Commands(folder, base)
    both = {"without class data": none, "with class data": kept}
    cases = {"freeze": lambda: commands.run("freeze", none)}
    for name, env in both.items():
        cases[f"query, {name}"] = lambda e=env: commands.run("query", e)
    cases["revert"] = lambda: commands.run("revert", none)
    for name, env in both.items():
        found = phases["off" if env is none else "kept"]
        cases[f"{ON_SPARK}, {name}"] = lambda e=env, f=found: _api(folder, base, e, f)
    cases[ARROW] = lambda: harness.command([sys.executable, "-c", READ, base])
    cases[PLAIN] = lambda: harness.command([sys.executable, "-c", PEER])
    times = harness.rounds(cases, rounds, warm_up=True)
    return "\n\n".join(
        [
            f"A table of {rows:,} rows, then {rows // 10:,} more, and version 1 before them; each "
            "command from its start to its end. " + harness.machine("pyspark", "pyarrow"),
            harness.times_table(times),
            "Time by step, in seconds, medians: one process runs all three on Spark, as for large "
            "tables. Java starts while Python imports the jobs.",
            _breakdown(phases),
            f"The class data ({archive.stat().st_size / 2**20:,.0f} MiB) took "
            f"{harness.number(trained.seconds)} s to make, once, in the background.",
            "\n".join(_goal(times, case, goal) for case, goal in GOALS.items())
            + f" and {_ratio(times, QUERY, 'query, without class data')} of the time without class data"
            + f"\n- {ARROW} below {ARROW_GOAL:g} s: {harness.number(times[ARROW].median)} s",
        ]
    )


class _Commands:
    """The three commands in turn, on a fresh copy of the lake in every round."""

    def __init__(self, folder: Path, base: Path) -> None:
        self._work = folder / "commands"
        self._base = base

    def run(self, verb: str, env: Mapping[str, str]) -> Cost:
        lake = self._work / "lake"
        if verb == "freeze":
            shutil.copytree(self._base, harness.fresh(lake))
        arguments = {
            "freeze": ["freeze", TABLE],
            "query": ["query", COUNT],
            "revert": ["revert", TABLE, "--to", "1"],
        }[verb]
        said = self._work / "said.json"
        cost = harness.command(
            [BIN / "singerlake", "--lake", lake, "--output", "json", *arguments],
            stdout=said,
            env=env,
        )
        found = json.loads(said.read_text())
        if verb == "freeze":
            assert found["rows"] == 1100, found
        elif verb == "query":
            assert found["rows"] == [[1100, 1099]], found
        else:
            assert found["deleted"] == 100, found
        return cost


def _lake(folder: Path, rows: int) -> Path:
    """The lake that each round begins with."""
    lake = folder / "base"
    config = folder / "target.json"
    config.write_text(json.dumps({"lake": str(lake), "tap_id": "tap-x"}))
    sync = [BIN / "target-singerlake", "--config", config]
    harness.command(sync, stdin=harness.messages(folder / "first.jsonl", rows))
    harness.command(
        [BIN / "singerlake", "--lake", lake, "freeze", TABLE], env={"SINGERLAKE_CACHE": "off"}
    )
    both = harness.messages(folder / "both.jsonl", rows + rows // 10)
    lines = both.read_bytes().splitlines(keepends=True)
    more = folder / "more.jsonl"
    more.write_bytes(b"".join([lines[0], *lines[1 + rows :]]))
    harness.command(sync, stdin=more)
    return lake


def _api(
    folder: Path, base: Path, env: Mapping[str, str], found: list[list[tuple[str, float]]]
) -> Cost:
    work = folder / "api"
    work.mkdir(exist_ok=True)
    shutil.copytree(base, harness.fresh(work / "lake"))
    said = work / "said.json"
    script = work / "phases.py"
    script.write_text(PHASES)
    path = {"PYTHONPATH": str(harness.HERE.parent)}
    arguments = [sys.executable, script, COUNT, work / "lake"]
    cost = harness.command(arguments, stdout=said, env={**env, **path})
    found.append(json.loads(said.read_text()))
    return cost


def _breakdown(phases: Mapping[str, list[list[tuple[str, float]]]]) -> str:
    names = [name for name, _ in phases["off"][0]]
    rows = []
    for place, name in enumerate(names):
        medians = [
            statistics.median(once[place][1] for once in phases[which]) for which in ("off", "kept")
        ]
        rows.append([name, *map(harness.number, medians)])
    return harness.table(["", "without class data", "with"], rows)


def _goal(times: Mapping[str, harness.Times], case: str, goal: float) -> str:
    seconds = harness.number(times[case].median)
    return (
        f"- {case}, below {goal:g} s: {seconds} s, {_ratio(times, case, PLAIN)} of plain pyspark's"
    )


def _ratio(times: Mapping[str, harness.Times], case: str, other: str) -> str:
    return f"{times[case].median / times[other].median:.2f}"
