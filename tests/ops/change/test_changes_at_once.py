"""Changes of one table at the same moment: none is lost, and none undoes another's."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from pyspark.sql import SparkSession

import singerlake
from singerlake.engine.choice import EngineChoice
from singerlake.errors import ConflictError
from singerlake.ops.change.change import ChangeStep, change
from singerlake.ops.change.plan import Mode
from singerlake.ops.change.sql.selected_rows import Selection
from singerlake.sql.state.from_blocks import state
from tests.build import commit_rows

PROPERTIES = {"id": {"type": "integer"}, "n": {"type": "integer"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lake = singerlake.open(tmp_path / "lake", create=True)
    rows = [{"id": number, "n": 0} for number in range(6)]
    commit_rows(lake, "tap.counts", PROPERTIES, ["id"], [*rows], block_rows=4)
    return tmp_path / "lake"


def counts(spark: SparkSession, folder: Path) -> list[int]:
    table = singerlake.open(folder).table("tap.counts")
    return [row["n"] for row in state(spark, table, table.snapshot()).orderBy("id").collect()]


def test_threads(spark: SparkSession, folder: Path) -> None:
    begin = Barrier(4)

    def add_one(where: str | None) -> None:
        lake = singerlake.open(folder)
        table = lake.table("tap.counts")
        begin.wait()
        with Selection(lake, table, where, {"n": "n + 1"}) as rows:
            change(table, [ChangeStep(Mode.UPDATE, rows, "")], None, EngineChoice.of(spark=spark))

    def overwrite(number: int) -> bool:
        table = singerlake.open(folder).table("tap.counts")
        begin.wait()
        try:
            with table.change(spark=spark) as mine:
                mine.update([{"id": 0, "n": number, "_row_version": version}])
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_one, [None, None, "id = 3", "id >= 4"]))
        assert counts(spark, folder) == [2, 2, 2, 3, 3, 3]
        table = singerlake.open(folder).table("tap.counts")
        version = table.snapshot().last_block
        with table.change(spark=spark) as mine:
            mine.update([{"id": 0, "n": 50}])
        version = table.snapshot().last_block
        # All of them read the same version of the same row: one of them may write.
        assert sorted(pool.map(overwrite, range(100, 104))) == [False, False, False, True]
    assert counts(spark, folder)[0] >= 100


@pytest.mark.usefixtures("processes")
def test_processes(spark: SparkSession, folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "singerlake_cli",
        "--lake",
        str(folder),
        "update",
        "tap.counts",
    ]
    running = [
        subprocess.Popen([*command, "--set", f"n = n + {add}"], stderr=subprocess.PIPE, text=True)
        for add in (1, 10)
    ]
    for one in running:
        _, said = one.communicate(timeout=500)
        assert one.returncode == 0, said
    assert counts(spark, folder) == [11] * 6
