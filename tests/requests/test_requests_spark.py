"""The budgets of what runs on Spark, executors included, as the command line is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from singerlake.engine.work import Work
from singerlake.snapshot import building
from singerlake.sql.state import requested_rows
from tests.requests.budget import hold
from tests.requests.world import TAP, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = f"{TAP}.s"


@pytest.fixture
def reachable(spark: SparkSession, world: World) -> Iterator[World]:
    """A world that the session's executors reach as the command line does."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in world.environment.items():
            # A session started by the command itself inherits these; the tests' was there before.
            patch.setitem(spark.sparkContext.environment, name, value)
        yield world


def test_a_table_from_freeze_to_vacuum(reachable: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world, run = reachable, reachable.command
    world.fill(transactions=4)
    hold("freeze", world.count(run("freeze", TABLE)), k=4)
    hold("query", world.count(run("query", "select * from tap_x.s.1")))
    hold("query", world.count(run("query", "select * from tap_x.s")))
    hold("vacuum-nothing", world.count(run("vacuum", TABLE, "--dry-run")), i=1)
    hold("verify", world.count(run("verify", TABLE)), t=5, k=4)
    on_spark = run("verify", TABLE, "--conf", "spark.sql.ansi.enabled=true")
    hold("verify-large", world.count(on_spark), t=5, k=4)
    world.fill(transactions=2)
    hold("rows", world.count(run("rows", TABLE, "--key", "1")), k=6)
    with monkeypatch.context() as patch:
        patch.setattr(requested_rows, "SMALL", Work())
        patch.setattr(building, "LEAST_ROWS", 1)
        patch.setattr(building, "SHARE", 1)
        hold("query-later", world.count(run("query", "select id from tap_x.s")), k=2)
    hold("vacuum", world.count(run("vacuum", TABLE)), t=7, k=6, i=2)
    hold("vacuum-nothing", world.count(run("vacuum", TABLE)), i=2)


def test_a_query_of_a_small_table_without_an_index(reachable: World) -> None:
    world = reachable
    world.fill(transactions=2)
    asked = world.command("query", "select id from tap_x.s")
    hold("query-later-small", world.count(asked), k=2)


def test_a_revert(reachable: World) -> None:
    world = reachable
    world.fill(transactions=2)
    world.command("freeze", TABLE)()
    world.fill("s", transactions=3)
    hold("revert", world.count(world.command("revert", TABLE, "--to", "1")), k=3, b=3, e=2)


def test_an_undo(reachable: World) -> None:
    world = reachable
    world.fill(transactions=3)
    hold("undo", world.count(world.command("undo", TABLE, "2")), k=3)


def test_another_upload_of_a_folder(reachable: World, tmp_path: Path) -> None:
    upload = reachable.command("upload", f"{TAP}.docs", str(tmp_path / "docs"))
    for number, names in enumerate((("a", "b"), ("c", "d", "e"))):
        for name in names:
            (tmp_path / "docs").mkdir(exist_ok=True)
            (tmp_path / "docs" / name).write_text(name)
        spent = reachable.count(upload)
        if number:
            hold("upload-folder", spent, k=3, b=1)
