"""What a tap may send, followed from its messages to what DuckDB reads of the published files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

import singerlake
from singerlake.ops.vacuum.plan import DROP_HISTORY, VacuumOptions
from tests.frozen import vacuum_on_spark
from tests.histories import here
from tests.target import harness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "city": {"type": ["null", "string"]},
    "total": {"type": ["null", "number"]},
    "_sdc_deleted_at": {"type": ["null", "string"], "format": "date-time"},
}
GONE = {"_sdc_deleted_at": "2026-01-02T03:04:05Z"}
YAML = """
version: 1
projections:
- name: staged
  sql: select id, upper(city) as city from tap_test.orders where city is not null
  stage: staging.orders
  key: id
  order_by: id
  to: staged
- name: whole
  from: tap_test.orders
  order_by: id
  to: whole
- name: cities
  sql: select city, count(*) as orders from staging.orders group by city
  order_by: city
  to: cities
  format: jsonl
"""


class Chain:
    """A tap, its lake and its readers."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.rows: dict[Any, dict[str, Any]] = {}
        self.key = "id"
        self.columns = dict(COLUMNS)
        (folder / "projections.yml").write_text(YAML)

    @property
    def lake(self) -> singerlake.Lake:
        return singerlake.open(self.folder / "lake")

    @property
    def orders(self) -> singerlake.Table:
        return self.lake["tap-test.orders"]

    def sync(self, *rows: dict[str, Any], version: int | None = None) -> None:
        """Send rows as a tap does; with a version, they are all there are."""
        more = {} if version is None else {"version": version}
        lines = [harness.schema("orders", self.columns, [self.key])]
        lines += [harness.record("orders", row, **more) for row in rows]
        if version is not None:
            lines.append(harness.activate("orders", version))
            self.rows.clear()
        harness.run(self.folder / "lake", [*lines, harness.state(1)])
        for row in rows:
            if "_sdc_deleted_at" in row:
                self.rows.pop(row[self.key], None)
            else:
                self.rows[row[self.key]] = row

    def follow(self) -> dict[str, str]:
        """Publish, and hold what DuckDB reads against the rows; tells how each was done."""
        outcomes = self.lake.publish(projections=self.folder / "projections.yml", spark=self.spark)
        rows = sorted(self.rows.values(), key=lambda row: row["id"])
        names = [name for name in self.columns if name != "_sdc_deleted_at"]
        assert self.read("whole", names) == [tuple(row.get(name) for name in names) for row in rows]
        staged = [(row["id"], row["city"].upper()) for row in rows if row.get("city")]
        assert self.read("staged", ["id", "city"]) == staged
        cities = [city for _, city in staged]
        counted = [(city, cities.count(city)) for city in sorted(set(cities))]
        assert self.read("cities", ["city", "orders"]) == counted
        return {one.projection: one.staged.how if one.staged else "" for one in outcomes}

    def read(self, place: str, names: list[str]) -> list[tuple[Any, ...]]:
        said = json.loads((self.folder / place / "_latest.json").read_text())
        files = str(self.folder / place / said["folder"] / "*")
        reader = "read_json" if place == "cities" else "read_parquet"
        columns = ", ".join(f'"{name}"' for name in names)
        found = duckdb.sql(f"select {columns} from {reader}('{files}') order by 1")
        return found.fetchall()


def test_whatever_the_source_does_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    chain = Chain(spark, tmp_path)
    chain.sync(*({"id": n, "city": "Rome" if n % 2 else "Oslo", "total": n / 2} for n in range(6)))
    assert chain.follow()["staged"] == "created"
    # Changed, moved out of the WHERE and into it, new, deleted; and once more what was there.
    chain.sync(
        {"id": 1, "city": "Bonn", "total": 0.5},
        {"id": 2, "city": None, "total": 1.0},
        {"id": 7, "city": "Oslo", "total": None},
        {"id": 5, **GONE},
        {"id": 0, "city": "Oslo", "total": 0.0},
    )
    assert chain.follow()["staged"] == "incremental"
    here.freeze(chain.orders)
    before = dict(chain.rows)
    # The tap sends everything anew, fewer rows than there were.
    chain.sync({"id": 2, "city": "Rome", "total": 3.0}, version=1)
    chain.follow()
    here.revert(chain.orders, chain.orders.versions()[0].transaction)
    chain.rows = before
    chain.follow()
    # A column more, and what came before has none of it.
    chain.columns["note"] = {"type": ["null", "string"]}
    chain.sync({"id": 8, "city": "Bonn", "total": 4.0, "note": "new"})
    chain.follow()
    # History is dropped between: what was published last can be compared with nothing any more.
    chain.sync({"id": 8, "city": "Bonn", "total": 5.0, "note": "newer"})
    chain.sync({"id": 8, "city": "Bonn", "total": 6.0, "note": "newest"})
    options = VacuumOptions(retain_seconds=0, guard=False, parts=(DROP_HISTORY,))
    vacuum_on_spark(spark, chain.orders, options)
    chain.follow()
    # Another key: each row is its own from then on.
    chain.key = "note"
    chain.sync({"id": 9, "city": "Rome", "total": 7.0, "note": "newest"}, version=2)
    chain.follow()
