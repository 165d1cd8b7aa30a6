"""What differs is the same, and comes in the same order, whatever finds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from singerlake.engine import spill
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.lake import Lake, Table
from singerlake.ops.diff.diff import Counts
from singerlake.ops.diff.diff_lake import diff_lake, plan
from singerlake.ops.diff.table import DiffOptions, diff
from singerlake.ops.freeze_lake import LakeFreezeOptions, freeze_lake
from singerlake.ops.freeze_lake import plan as freeze_plan
from singerlake.rows.blocks import block_tasks
from tests.build import commit_rows
from tests.cli.call import run
from tests.needs import MORE
from tests.ops.rows_back import histories
from tests.ops.rows_back.histories import NAME
from tests.ops.test_both_engines import CORPUS

ROOT = Path(__file__).parents[3]
ID = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}


@pytest.fixture
def tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "one task":
        monkeypatch.setattr(block_tasks, "TASK_BYTES", 2_000)
        monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)
        monkeypatch.setattr(spill, "HELD_BYTES", 2_000)
        monkeypatch.setattr(spill, "SEGMENT_BYTES", 1_000)


@pytest.mark.usefixtures("each_operation", "tasks")
@pytest.mark.parametrize(
    ("tasks", "name"),
    [
        pytest.param("many tasks", "random", marks=MORE),
        pytest.param("one task", "compound keys", marks=MORE),
        pytest.param("many tasks", "keyless", marks=MORE),
        pytest.param("many tasks", "all kinds of keys", marks=MORE),
        pytest.param("one task", "other schemas", marks=MORE),
        ("one task", "activations"),
    ],
    indirect=["tasks"],
)
def test_engines_answer_alike(spark: SparkSession, lake: Lake, name: str) -> None:
    table = CORPUS[name](lake)
    head = f"@{table.snapshot().number}"
    for states in (("@1", head), (head, "@1")):
        here, there = (
            everything(table, states, choice)
            for choice in (EngineChoice(LOCAL), EngineChoice.of(spark=spark))
        )
        assert here == there


def everything(table: Table, states: tuple[str, str], choice: EngineChoice) -> list[Any]:
    with diff(table, DiffOptions(*states), choice) as found:
        found.keep()
        flat = found.flat_rows()
        return [
            found.counts(),
            [*found.rows().rows()],
            [*flat.rows()],
            flat.to_arrow().to_pydict(),
            flat.glimpse(7),
            [*found.rows(3).rows()],
            found.compared.schema,
        ]


@pytest.mark.usefixtures("each_operation")
def test_engines_write_the_same_files(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    assert spark is not None
    histories.keys_of_all_kinds(lake)
    written = []
    for engine in ("local", "spark"):
        texts = [
            run(lake, "diff", NAME, "@1", "--format", form, "--engine", engine).stdout
            for form in ("csv", "jsonl", "table")
        ]
        path = tmp_path / f"{engine}.parquet"
        assert run(lake, "diff", NAME, "@1", "--out", str(path), "--engine", engine).exit_code == 0
        rows = pq.read_table(path)
        written.append((texts, rows.to_pylist(), [str(field) for field in rows.schema]))
    assert written[0] == written[1]


@pytest.mark.usefixtures("each_operation")
def test_lake_versions_are_counted_alike(spark: SparkSession, lake: Lake) -> None:
    here = EngineChoice(LOCAL)
    for number in (1, 2):
        for name in ("tap.a", "tap.b", f"tap.c{number}"):
            rows: list[Any] = [{"id": n, "name": f"{n // 2 * number}"} for n in range(5 * number)]
            commit_rows(lake, name, ID, ["id"], rows if name != "tap.b" else rows[:1])
        options = LakeFreezeOptions()
        freeze_lake(lake, freeze_plan(lake, lake.tables, options), options, here)
    found = []
    for choice in (here, EngineChoice.of(spark=spark)):
        wanted = plan(lake, "1", "2")
        assert [str(one.table) for one in wanted.todo] == ["tap.a"]
        diff_lake(lake, wanted, choice)
        found.append([(str(one.table), one.numbers()) for one in wanted.tables])
    assert found[0] == found[1]
    assert found[0] == [
        ("tap.a", (5, 3, 0, 2)),
        ("tap.b", (0, 0, 0, 1)),
        ("tap.c1", (0, 0, 0, 5)),
        ("tap.c2", (10, 0, 0, 0)),
    ]


@pytest.mark.usefixtures("processes")
def test_a_small_table_needs_no_pyspark(lake: Lake) -> None:
    for rows in ([{"id": 1}, {"id": 2}], [{"id": 2, "name": "x"}, {"id": 3}]):
        commit_rows(lake, "tap.s", ID, ["id"], rows)
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from singerlake import Lake\n"
        f"with Lake.open({lake.store.uri!r})['tap.s'].diff('@1') as found:\n"
        "    print(found.counts())\n"
        "    print([row[:2] for row in found.rows().rows()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    counts, rows_text = done.stdout.splitlines()
    assert counts == str(Counts(1, 1, 0, 1, 0, {"name": 1}))
    assert rows_text == "[('changed', {'id': 2}), ('added', {'id': 3})]"


@MORE
@pytest.mark.usefixtures("many_cases", "processes")
def test_memory_grows_by_less_than_the_rows_that_differ(lake: Lake) -> None:
    peaks = []
    for number, rows in enumerate((30_000, 120_000)):
        name = f"tap.s{number}"
        for text in ("a", "b"):
            records: list[Any] = [{"id": n, "name": f"{text}{n:0>1000}"} for n in range(rows)]
            commit_rows(lake, name, ID, ["id"], records, block_rows=2_000)
        code = (
            "from pathlib import Path\n"
            "from singerlake import Lake\n"
            "from singerlake.engine import spill\n"
            "from singerlake.rows.blocks import block_tasks\n"
            "spill.HELD_BYTES = block_tasks.TASK_BYTES = 8 << 20\n"
            f"with Lake.open({lake.store.uri!r})[{name!r}].diff('@1', engine='local') as found:\n"
            "    print(sum(len(batch) for batch in found.flat_rows().batches()))\n"
            "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        count, peak = map(int, done.stdout.split())
        assert count == rows
        peaks.append(peak)
    assert peaks[1] < peaks[0] + 120_000, f"{peaks} KiB: 180 MiB more of rows were compared"
