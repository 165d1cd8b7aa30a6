"""A table as a frame in somebody's own session."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from singerlake.errors import NotFoundError, UsageError
from singerlake.lake import Lake
from singerlake.log.lease import leases
from singerlake.spark import read_table, register
from tests.build import commit_rows
from tests.frozen import freeze_on_spark as freeze

PROPERTIES = {"id": {"type": "integer"}, "v": {"type": "string"}}


@pytest.fixture
def filled(lake: Lake, spark: SparkSession) -> Lake:
    commit_rows(lake, "t-x.s", PROPERTIES, ["id"], [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    freeze(spark, lake.find("t-x.s")[0], label="first")
    commit_rows(lake, "t-x.s", PROPERTIES, ["id"], [{"id": 1, "v": "c"}])
    return lake


def test_heads_versions_labels_and_transactions(
    filled: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = [(1, "a"), (2, "b")], [(1, "c"), (2, "b")]
    uri = filled.store.uri

    def rows(name: str, **more: object) -> list[tuple[object, ...]]:
        frame = read_table(name, spark=spark, **more)  # type: ignore[arg-type]
        assert frame.columns == ["id", "v"]
        return sorted(tuple(row) for row in frame.collect())

    assert rows("t-x.s", lake=uri) == new
    assert rows("t-x.s", lake=filled, version=1) == old
    assert rows("t-x.s.1", lake=filled) == old
    assert rows("t-x.s", lake=filled, version="first") == old
    assert rows("t-x.s", lake=filled, version="@1") == old
    monkeypatch.setenv("SINGERLAKE_LAKE", uri)
    assert rows("t-x.s") == new


def test_provenance_and_joins(filled: Lake, spark: SparkSession) -> None:
    head = read_table("t-x.s", lake=filled, spark=spark, row_metadata=True)
    assert sorted(tuple(row) for row in head.collect()) == [
        ("1", 2, 3, 1, "c"),
        ("2", 1, 1, 2, "b"),
    ]
    before = read_table("t-x.s.1", lake=filled, spark=spark).withColumnRenamed("v", "was")
    changed = head.join(before, "id").where("v <> was")
    assert [(row["id"], row["was"], row["v"]) for row in changed.collect()] == [(1, "a", "c")]


def test_provenance_of_a_table_without_rows(lake: Lake, spark: SparkSession) -> None:
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [])
    assert not lake.find("tap.s")[0].snapshot().blocks
    frame = read_table("tap.s", lake=lake, spark=spark, row_metadata=True)
    assert dict(frame.dtypes)["_transaction"] == "bigint"
    assert frame.collect() == []
    assert frame.selectExpr("max(_transaction)").collect() == [(None,)]


def test_what_is_not_there(filled: Lake) -> None:
    with pytest.raises(NotFoundError, match="it has 1 \\(first\\)"):
        read_table("t-x.s", lake=filled, version=7)
    with pytest.raises(UsageError, match="give one"):
        read_table("t-x.s.1", lake=filled, version=1)
    with pytest.raises(NotFoundError, match="no table"):
        read_table("t-x.nothing", lake=filled)
    assert leases(filled.store, filled.find("t-x.s")[0].name) == []


def test_the_frame_holds_off_vacuums_and_lets_go(filled: Lake, spark: SparkSession) -> None:
    table = filled.find("t-x.s")[0]
    frame = read_table("t-x.s", lake=filled, spark=spark)
    assert len(leases(filled.store, table.name)) == 1
    commit_rows(filled, "t-x.s", PROPERTIES, ["id"], [{"id": 9, "v": "later"}])
    assert frame.count() == 2
    del frame
    gc.collect()
    assert leases(filled.store, table.name) == []


def test_the_data_source_reads_versions_and_what_was_queried(
    filled: Lake, spark: SparkSession
) -> None:
    register(spark)
    source = spark.read.format("singerlake").option("lake", filled.store.uri)
    old = source.load("t-x.s.1")
    assert old.columns == ["id", "v"]
    assert sorted(tuple(row) for row in old.collect()) == [(1, "a"), (2, "b")]
    assert source.option("version", "first").load("t-x.s").where("id = 2").count() == 1

    head = spark.read.format("singerlake").option("lake", filled.store.uri)
    assert sorted(tuple(row) for row in head.load("t-x.s").collect()) == [(1, "c"), (2, "b")]


def test_the_data_source_reads_every_type_as_read_table_does(
    lake: Lake, spark: SparkSession
) -> None:
    properties = {
        "i": {"type": "integer"},
        "n": {"type": ["null", "number"]},
        "d": {"type": "number", "multipleOf": 0.01},
        "t": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "b": {"type": "boolean"},
        "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "a": {"type": "array", "items": {"type": "string"}},
        "a.b": {"type": "string"},
    }
    row = '{"i": 1, "n": 1.5, "d": 1.10, "t": "2026-01-02T03:04:05Z", "day": "2026-01-02", '
    row += '"b": true, "o": {"x": 1}, "a": ["y"], "a.b": "z"}'
    commit_rows(lake, "t.all", properties, ["i"], [row])
    commit_rows(lake, "t.none", properties, ["i"], [{"i": 1, "_sdc_deleted_at": "2026-01-01"}])
    register(spark)
    for name in ("t.all", "t.none"):
        wanted = read_table(name, lake=lake, spark=spark)
        found = spark.read.format("singerlake").option("lake", lake.store.uri).load(name)
        assert found.dtypes == wanted.dtypes
        assert found.collect() == wanted.collect()


@pytest.mark.usefixtures("processes")
def test_the_name_is_there_without_pyspark() -> None:
    code = (
        "import sys\nfrom singerlake.spark import read_table\n"
        "assert read_table.__doc__\nassert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)
