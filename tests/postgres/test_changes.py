"""Rows that people change in a lake reach a database behind its tap, run by run."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.erase.plan import EraseOptions
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, OverlayChange, alter
from tests.erasing import erase
from tests.frozen import on
from tests.frozen import revert_on_spark as revert
from tests.histories import here
from tests.ops.change.row_sets import change, row_set
from tests.postgres.cluster import Cluster
from tests.postgres.plugins import load
from tests.tap.run import run as replay
from tests.target import harness

pytestmark = [
    pytest.mark.usefixtures("environments", "quick_plans"),
]
DATABASE = "changed"
TEXT = {"type": ["null", "string"]}
PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": TEXT,
    "total": {"type": ["null", "number"], "multipleOf": 0.01},
    "day": {**TEXT, "format": "date"},
    "at": {**TEXT, "format": "date-time"},
    "paid": {"type": ["null", "boolean"]},
    "address": {"type": ["null", "object"], "properties": {"city": TEXT, "no": TEXT}},
}
ROWS = [
    {
        "id": n,
        "name": "new",
        "total": 1.10,
        "day": "2026-01-01",
        "at": "2026-01-01T10:00:00Z",
        "paid": False,
        "address": {"city": "Ulm", "no": None},
    }
    for n in range(1, 6)
]


class Road:
    """A lake with a keyed and a keyless table, and a database that its tap fills."""

    def __init__(self, spark: SparkSession, cluster: Cluster, folder: Path) -> None:
        self.spark, self.cluster, self.folder = spark, cluster, folder
        cluster.sql("postgres", f"drop database if exists {DATABASE} with (force)")
        cluster.sql("postgres", f"create database {DATABASE}")
        self.lake = Lake.open(str(folder / "lake"), create=True)
        self.bookmark: Any = None

    def sync(self, stream: str, keys: list[str], rows: list[dict[str, Any]]) -> None:
        lines = [harness.record(stream, row) for row in rows]
        head = harness.schema(stream, PROPERTIES, keys)
        harness.run(self.folder / "lake", [head, *lines], tap_id="tap")

    def table(self, stream: str) -> Table:
        return self.lake.table(TableName("tap", stream))

    def change(
        self, stream: str, *rows: dict[str, Any], mode: Mode = Mode.UPSERT, **options: Any
    ) -> int | None:
        done = change(
            self.spark,
            self.table(stream),
            lambda present: [row_set(self.spark, present, rows)],
            mode,
            options=ChangeOptions(**options),
        )
        return done.transaction

    def check(self) -> None:
        """Let the tap read on, and hold the database against the lake."""
        run = replay(self.lake, self.bookmark, tap_id="tap")
        self.bookmark = run.state
        load(self.folder, self.cluster.port, DATABASE, run.out)
        for stream in ("main-orders", "main-events"):
            table = self.table(stream)
            columns = [name for name, _ in table.snapshot().columns]
            query = _query(stream.partition("-")[2], columns)
            found = [
                json.loads(row, parse_float=Decimal) for row in self.cluster.sql(DATABASE, query)
            ]
            assert _sorted(found) == _sorted(here.rows(table)), stream

    def say(self, stream: str, *changes: OverlayChange) -> None:
        for said in changes:
            alter(self.lake.store, self.table(stream).snapshot(), said)


def _query(table: str, columns: list[str]) -> str:
    """What a database has of a table; of columns that the table has no more, nothing."""
    at = """to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at"""
    listed = ", ".join(at if name == "at" else name for name in columns)
    rows = f"select {listed} from main.{table} where _sdc_deleted_at is null"
    return f"select row_to_json(t) from ({rows}) t"


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(_plain(row)) for row in rows)


def _plain(value: Any) -> Any:
    """A value as PostgreSQL writes it in JSON, without what is null."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in sorted(value.items()) if one is not None}
    if isinstance(value, datetime):
        return f"{value.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z"
    if isinstance(value, date):
        return value.isoformat()
    return value.normalize() if isinstance(value, Decimal) else value


def test_a_database_follows(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    road = Road(spark, cluster, tmp_path)
    road.sync("main-orders", ["id"], ROWS)
    road.sync("main-events", [], [*ROWS, ROWS[0]])
    road.check()
    changed = {
        "id": 1,
        "name": 'q"\n',
        "total": Decimal("9.99"),
        "day": None,
        "paid": True,
        "address": {"city": None, "no": "7"},
    }
    before = road.change("main-orders", changed, {"id": 2, "_delete": True}, {"id": 9, "name": ""})
    road.change("main-events", {"_row_id": "1:0", "name": "x"}, {"_row_id": "1:1", "_delete": True})
    road.check()
    road.sync("main-orders", ["id"], [{**ROWS[0], "name": "the tap's"}, {**ROWS[1], "id": 10}])
    road.change("main-orders", {"id": 3, "total": None}, new_version=True)
    road.change("main-events", {"id": 7, "name": "new"})
    road.check()
    assert before is not None
    revert(spark, road.table("main-orders"), before)
    road.change("main-orders", {"id": 4, "name": "after"}, {"id": 5, "_delete": True})
    road.check()


def test_a_database_follows_what_is_said_of_columns_and_tables(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    road = Road(spark, cluster, tmp_path)
    road.sync("main-orders", ["id"], ROWS)
    road.sync("main-events", [], [*ROWS, ROWS[0]])
    road.check()
    added = partial(says.with_column, name="region", schema=TEXT, default="US", initial="EU")
    for stream in ("main-orders", "main-events"):
        road.say(
            stream,
            added,
            partial(says.with_name, name="name", new="title"),
            partial(says.without_column, name="paid"),
            # The target refuses another type for a column that it has.
            partial(says.with_name, name="day", new="due"),
            partial(says.with_type, name="due", schema=TEXT),
        )
    road.check()
    road.sync("main-orders", ["id"], [{**ROWS[0], "id": 7, "name": "seven"}, ROWS[1]])
    before = road.change("main-orders", {"id": 7, "region": "JP"}, {"id": 3, "_delete": True})
    road.check()
    drop_table(road.lake.store, road.table("main-orders").snapshot(), AlterOptions())
    undrop_table(road.lake.store, road.table("main-orders").snapshot(dropped=True), AlterOptions())
    rows = [{"id": 1, "title": "first", "region": None}, {"id": 8, "title": "eight"}]
    road.change("main-orders", *rows, mode=Mode.REPLACE)
    road.check()
    assert before is not None
    revert(spark, road.table("main-orders"), before)
    road.say("main-orders", partial(says.with_restored, name="paid"))
    road.check()


def test_a_database_deletes_what_was_erased(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """And has nothing of the row any more but its key, marked; a row that comes again is there."""
    road = Road(spark, cluster, tmp_path)
    road.sync("main-orders", ["id"], ROWS)
    road.sync("main-events", [], ROWS)
    road.check()
    table = road.table("main-orders")
    options = EraseOptions("request 12", lease_wait_seconds=0, tell_seconds=3600)
    erase(on(spark), table, "2", "4", options=options)
    road.sync("main-orders", ["id"], [{**ROWS[3], "name": "anew"}, {**ROWS[0], "id": 6}])
    road.check()
    left = "select row_to_json(t) from main.orders t where id = 2"
    [row] = [json.loads(text) for text in cluster.sql(DATABASE, left)]
    kept = {name for name, value in row.items() if value is not None and name[:5] != "_sdc_"}
    assert kept == {"id"}
