"""Published rows brought up to date by the blocks that came alone; indexes written as they lie."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from singerlake.engine.choice import EngineChoice
from singerlake.lake import Lake
from singerlake.ops.publish import publish_changes
from singerlake.ops.publish.outcome import Outcome, PublishOptions, Result
from singerlake.ops.publish.publish import publish
from singerlake.ops.publish.write import ordered_files, row_sources
from singerlake.publish.projection import Format, OrderKey, PartitionKey, Projection, Target
from singerlake.snapshot import building
from tests.build import commit_rows

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "shop": {"type": ["null", "string"]},
    "total": {"type": ["null", "number"]},
    "tags": {"type": ["null", "array"], "items": {"type": "string"}},
    "_sdc_deleted_at": {"type": ["null", "string"], "format": "date-time"},
}
GONE = {"_sdc_deleted_at": "2026-01-02T03:04:05Z"}
Row = dict[str, Any]


def order(number: int, total: float | None = 1.0, **more: Any) -> Row:
    return {
        "id": number,
        "shop": ("a", "b", "c d")[number % 3],
        "total": total,
        "tags": ["x"] * (number % 3),
        **more,
    }


class World:
    """A table, what was sent of it, and where it is published."""

    def __init__(self, engine: EngineChoice, folder: Path, **said: Any) -> None:
        self.engine = engine
        self.lake = Lake.open(str(folder / "lake"), create=True)
        sql = said.pop("sql", "select id, total, shop as place, tags from tap_shop.orders")
        self.folder = folder / "out"
        self.projection = Projection(
            "orders",
            sql,
            ("tap_shop.orders",),
            target=Target(str(self.folder), Format.PARQUET),
            **said,
        )
        self.rows: dict[int, Row] = {}

    def sync(self, *rows: Row) -> None:
        commit_rows(self.lake, "tap-shop.orders", COLUMNS, ["shop", "id"], list(rows))
        for row in rows:
            if "_sdc_deleted_at" in row:
                self.rows.pop(row["id"], None)
            else:
                self.rows[row["id"]] = row

    def publish(self, *, full: bool = False) -> Outcome:
        options = PublishOptions(full_refresh=full)
        (done,) = publish(self.lake, [self.projection], options, self.engine)
        assert done.error is None, done.error
        return done

    def files(self) -> list[Path]:
        said = json.loads((self.folder / "_latest.json").read_text())
        return sorted((self.folder / said["folder"]).rglob("*.parquet"))

    def read(self) -> list[Row]:
        return [
            row
            for file in self.files()
            for row in pq.read_table(file, partitioning=None).to_pylist()
        ]

    def check(self, rows: Sequence[Row]) -> None:
        wanted = [
            {"id": r["id"], "total": r["total"], "place": r["shop"], "tags": r["tags"]}
            for r in rows
        ]
        assert sorted(self.read(), key=lambda row: row["id"]) == wanted


@pytest.fixture
def no_other_way(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The states of the table are not compared."""

    def compared(*_: Any) -> None:
        raise AssertionError("two states were compared")

    monkeypatch.setattr(publish_changes, "planned_changes", compared)
    yield


@pytest.mark.usefixtures("no_other_way")
def test_new_blocks_tell_what_changed(engine: EngineChoice, tmp_path: Path) -> None:
    follow_changes(engine, tmp_path)


@pytest.mark.usefixtures("no_other_way")
def test_new_blocks_tell_what_changed_of_sql(spark: SparkSession, tmp_path: Path) -> None:
    where = "where total is not null and total < 5"
    follow_changes(EngineChoice.of(spark=spark), tmp_path, where)


def follow_changes(engine: EngineChoice, tmp_path: Path, where: str = "") -> None:
    sql = f"select id, total, shop as place, tags from tap_shop.orders {where}"
    world = World(engine, tmp_path, sql=sql, key=("place", "id"), order_by=(OrderKey("total"),))
    world.sync(*(order(n) for n in range(12)))
    world.publish()
    # Changed twice, moved out of the WHERE, deleted, new, new and deleted, and as it was.
    world.sync(order(1, 7.0), order(1, 2.0), order(2, None), order(3, **GONE), order(20))
    world.sync(order(21), order(21, **GONE), order(4), order(99, **GONE))
    done = world.publish()
    assert done.published is not None
    assert not done.published.full

    def kept(row: Row) -> bool:
        return not where or (row["total"] is not None and row["total"] < 5)

    world.check([row for _, row in sorted(world.rows.items()) if kept(row)])
    before = world.files()
    world.sync(order(5), order(1, 2.0))  # as they were
    jobs = count_jobs(engine)
    world.publish()
    assert world.files() == before
    assert count_jobs(engine) - jobs <= 2
    world.sync(*(order(n, **GONE) for n in world.rows))
    world.publish()
    assert world.read() == []


def count_jobs(engine: EngineChoice) -> int:
    if engine.start is None:
        return 0
    return len(engine.start().sparkContext.statusTracker().getJobIdsForGroup(None))


def test_a_key_that_only_folders_say(engine: EngineChoice, tmp_path: Path) -> None:
    """Then the states of the table are compared."""
    world = World(
        engine,
        tmp_path,
        sql="select * from tap_shop.orders",
        key=("shop", "id"),
        partition_by=(PartitionKey("shop"),),
    )
    world.sync(*(order(n, float(n % 2)) for n in range(6)))
    world.publish()
    world.sync(order(1, 3.0), order(2, **GONE), order(7, 1.0))
    done = world.publish()
    assert done.result is Result.DONE
    found = sorted((row["id"], row["tags"]) for row in world.read())
    assert found == [(n, row["tags"]) for n, row in sorted(world.rows.items())]
    named = {"shop=a", "shop=b", "shop=c d"}
    assert {file.parent.name for file in world.files()} == named


def test_an_index_and_its_layer_are_written_in_ranges(
    engine: EngineChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "LEAST_ROWS", 1)
    monkeypatch.setattr(row_sources, "FEW_BYTES", 0)
    monkeypatch.setattr(ordered_files, "SHARED_BYTES", 0)
    monkeypatch.setattr(ordered_files, "RANGE_BYTES", 1000)
    world = World(engine, tmp_path, key=("place", "id"), order_by=(OrderKey("id", True),))
    world.sync(*(order(n) for n in range(200)))
    world.publish()
    world.sync(order(7, 8.0), order(9, **GONE), order(300))
    done = world.publish(full=True)
    assert done.published is not None
    assert done.published.full
    assert len(world.files()) > 2
    assert [row["id"] for row in world.read()] == sorted(world.rows, reverse=True)
    world.check([row for _, row in sorted(world.rows.items())])
