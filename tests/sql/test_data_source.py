"""``spark.read.format("singerlake")``: found by name, every option, and conditions pushed down."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import datasource as ds

from singerlake.api import spark_source
from singerlake.api.spark_source import FilteredReader
from singerlake.engine import work
from singerlake.engine.local import LocalEngine
from singerlake.errors import DamagedError
from singerlake.lake import Lake
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.rows.state import parquet_parts
from singerlake.snapshot import building, index
from singerlake.spark import read_table, register
from singerlake.sql.queries import pushed_filters
from tests.build import commit_rows

PROPERTIES = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "n": {"type": ["null", "number"]},
    "d": {"type": ["null", "number"], "multipleOf": 0.01},
    "day": {"type": ["null", "string"], "format": "date"},
    "ok": {"type": ["null", "boolean"]},
    "a.b": {"type": ["null", "string"]},
}
ROWS = [
    '{"id": 1, "name": "ä", "n": 1.5, "d": 1.10, "day": "2026-01-02", "ok": true, "a.b": "x"}',
    '{"id": 2, "name": "b", "n": null, "d": 2.5, "day": "2026-01-03", "ok": false, "a.b": "y"}',
    '{"id": 3, "name": null, "n": -0.0, "d": null, "day": null, "ok": null, "a.b": null}',
    '{"id": 4, "name": "B", "n": -0.5, "d": -1, "day": "2025-12-31", "ok": true, "a.b": ""}',
]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
CONDITIONS = [
    "id = 2",
    "id > 1 and id <= 3",
    "id in (1, 4, null)",
    "name = 'b'",
    "name >= 'b'",
    "name in ('B', 'ä')",
    "name is null",
    "name is not null and not ok",
    "d > 1.1",
    "d = -1",
    "day < date'2026-01-03'",
    "ok",
    "ok = false",
    "`a.b` = 'y'",
    "n > 1",
    "n = -0.5",
    "n = 0",
    "name like 'b%' and id < 3",
    "id = 1 or name = 'b'",
    "name <=> null",
]


ORDERS: dict[str, Any] = {
    "id": {"type": "integer"},
    "total": {"type": "number", "multipleOf": 0.01},
    "status": {"type": "string"},
}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def filled(lake: Lake) -> Lake:
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [*ROWS[:2]])
    freeze(lake.find("tap.s")[0], FreezeOptions(label="first"))
    commit_rows(lake, "tap.s", PROPERTIES, ["id"], [*ROWS[2:]])
    return lake


def source(spark: SparkSession, lake: Lake, **options: str) -> Any:
    register(spark)
    return spark.read.format("singerlake").option("lake", lake.store.uri).options(**options)


@pytest.mark.usefixtures("each_operation", "processes")
def test_spark_finds_it_by_its_name(filled: Lake, tmp_path: Path) -> None:
    """In a session that nobody of ours has made, and in a Python that imports nothing of ours."""
    code = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').getOrCreate()\n"
        "source = spark.read.format('singerlake')\n"
        "print('rows', source.load('tap.s').where('id > 1').count())\n"
    )
    from singerlake.engine.spark.jvm import java

    environment = {
        **os.environ,
        "SINGERLAKE_LAKE": filled.store.uri,
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(java.find().path.parents[1]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["rows 3"], done.stderr


def test_its_module_fails_in_no_way_that_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark_singerlake

    assert pyspark_singerlake.DefaultSource.name() == "singerlake"
    assert not hasattr(pyspark_singerlake, "Other")
    monkeypatch.setitem(sys.modules, "singerlake.api.spark_source", None)
    assert not hasattr(pyspark_singerlake, "DefaultSource")


@pytest.mark.parametrize(
    ("name", "options", "ids"),
    [
        ("tap.s", {}, [1, 2, 3, 4]),
        ("tap.s.1", {}, [1, 2]),
        ("tap.s", {"version": "1"}, [1, 2]),
        ("tap.s", {"label": "first"}, [1, 2]),
        ("tap.s", {"transaction": "1"}, [1, 2]),
        ("tap.s", {"time": "2999-01-01"}, [1, 2, 3, 4]),
    ],
)
def test_a_snapshot_is_named_in_many_ways(
    filled: Lake, spark: SparkSession, name: str, options: dict[str, str], ids: list[int]
) -> None:
    found = source(spark, filled, **options).load(name)
    assert sorted(row.id for row in found.collect()) == ids


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("tap.s", {"versoin": "1"}, "the option 'versoin' is not known: did you mean version"),
        (
            "tap.s",
            {"version": "1", "label": "first"},
            "specify one snapshot: version and label are",
        ),
        ("tap.s.1", {"transaction": "1"}, "specify one snapshot: tap.s.1 and transaction are"),
        ("tap.s", {"version": "7"}, "has no version .*7"),
        ("tap.s", {"time": "soon"}, "soon"),
        ("tap.s", {"on_type_mismatch": "text"}, "neither fail nor null"),
        ("tap.t", {}, "tap.t"),
        ("tap.s", {"columns": "id,nam"}, "tap.s has no column 'nam': did you mean name"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    filled: Lake, spark: SparkSession, name: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        source(spark, filled, **options).load(name).collect()


def test_only_the_columns_that_are_asked_for_are_read(filled: Lake, spark: SparkSession) -> None:
    found = source(spark, filled, columns="name, id").load("tap.s")
    assert found.columns == ["name", "id"]
    assert sorted(found.collect(), key=lambda row: row.id)[0] == ("ä", 1)
    named = source(spark, filled).schema("day date, id bigint").load("tap.s")
    assert sorted(named.collect(), key=lambda row: row.id)[0] == (date(2026, 1, 2), 1)


def test_ways_to_name_columns_on_the_page_run(lake: Lake, spark: SparkSession) -> None:
    page = (ROOT / "docs" / "guides" / "cluster.md").read_text("utf-8")
    (columns,) = re.findall(r'`.option\("columns", "(.*?)"\)`', page)
    (schema,) = re.findall(r'`.schema\("(.*?)"\)`', page)
    commit_rows(lake, "tap-shop.orders", ORDERS, ["id"], [{"id": 1, "total": 1.5, "status": "new"}])
    expected = [(1, Decimal("1.50"))]
    assert source(spark, lake, columns=columns).load("tap-shop.orders").collect() == expected
    found = source(spark, lake).schema(schema).load("tap-shop.orders").where("total > 1")
    assert found.collect() == expected


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("id bigint, nam string", "no column 'nam': did you mean name"),
        ("id int", "bigint, not int"),
    ],
)
def test_a_schema_of_other_columns_is_refused(
    filled: Lake, spark: SparkSession, schema: str, said: str
) -> None:
    with pytest.raises(Exception, match=said):
        source(spark, filled).schema(schema).load("tap.s").collect()


@pytest.fixture
def grouped(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table of 40 rows in row groups of 10; one name does not fit."""
    for module in (parquet_parts, spark_source):
        monkeypatch.setattr(module, "ROW_GROUP", 10)
    types = {"id": {"type": "integer"}, "name": {"type": ["null", "integer"]}}
    rows = [f'{{"id": {n}, "name": {n}}}' for n in range(39)]
    commit_rows(lake, "tap.g", types, [], [*rows, '{"id": 39, "name": "x"}'], block_rows=10)
    table = lake.find("tap.g")[0]
    building.ensure(LocalEngine(), table, table.snapshot(), shown=True)
    return lake


def reader(lake: Lake, *filters: ds.Filter) -> FilteredReader:
    asked = spark_source.SingerlakeSource({"path": "tap.g", "lake": lake.store.uri})
    table = lake.find("tap.g")[0]
    built = index.load(table, table.snapshot().earliest_equal())
    assert built is not None
    made = FilteredReader(built, asked.schema().names, "fail")
    assert [*made.pushFilters([*filters])] == []
    return made


def test_a_file_is_shared_out_by_its_row_groups(
    grouped: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_source, "TASK_BYTES", 1)
    made = reader(grouped, ds.LessThan(("id",), 39))
    parts = made.partitions()
    rows = [[row["id"] for b in made.read(part) for row in b.to_pylist()] for part in parts]
    assert len(parts) == 4
    assert sorted(number for some in rows for number in some) == [*range(39)]
    monkeypatch.setattr(spark_source, "TASK_BYTES", 8 << 20)
    assert len(made.partitions()) == 1


@pytest.mark.parametrize(
    ("condition", "ids", "groups"),
    [
        (ds.EqualTo(("id",), 15), [15], [1]),
        (ds.GreaterThan(("id",), 28), [*range(29, 39)], [2, 3]),
        (ds.In(("id",), (3, 21)), [3, 21], [0, 2]),
        (ds.EqualTo(("id",), 99), [], []),
    ],
)
def test_row_groups_that_cannot_match_are_not_read(
    grouped: Lake,
    monkeypatch: pytest.MonkeyPatch,
    condition: ds.Filter,
    ids: list[int],
    groups: list[int],
) -> None:
    read: list[int] = []
    there = parquet_parts.pq.ParquetFile.iter_batches

    def counted(file: Any, size: int, some: list[int], columns: list[str]) -> Any:
        read.extend(some)
        return there(file, size, some, columns)

    monkeypatch.setattr(parquet_parts.pq.ParquetFile, "iter_batches", counted)
    made = reader(grouped, condition, ds.LessThan(("id",), 39))
    parts = made.partitions()
    assert len(parts) == bool(groups), "a file without such a row group gets a task"
    batches = [batch for part in parts for batch in made.read(part)]
    assert [row["id"] for batch in batches for row in batch.to_pylist()] == ids
    assert read == groups


def test_a_value_that_does_not_fit_is_found_where_it_is_read(grouped: Lake) -> None:
    made = reader(grouped, ds.LessThan(("name",), 5))
    with pytest.raises(DamagedError, match="'x'|\"x\""):
        [*made.read(made.partitions()[0])]


def test_a_large_table_is_not_made_here(filled: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_source, "SMALL", work.Work(1, 1))
    asked = spark_source.SingerlakeSource({"path": "tap.s", "lake": filled.store.uri})
    with pytest.raises(Exception, match="is too large to make one here: freeze it"):
        asked.reader(asked.schema())


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_hold_for_the_same_rows_pushed_or_not(
    filled: Lake, spark: SparkSession, condition: str
) -> None:
    wanted = read_table("tap.s", lake=filled, spark=spark).where(condition)
    rows = sorted(row.id for row in wanted.collect())
    for enabled in ("false", "true"):
        spark.conf.set(PUSHDOWN, enabled)
        try:
            found = source(spark, filled).load("tap.s").where(condition).collect()
        finally:
            spark.conf.unset(PUSHDOWN)
        assert sorted(row.id for row in found) == rows


def test_what_is_pushed_is_what_both_mean_alike() -> None:
    columns = {
        "i": ("c0", pa.int64()),
        "t": ("c1", pa.string()),
        "n": ("c2", pa.float64()),
        "d": ("c3", pa.decimal128(10, 2)),
        "day": ("c4", pa.date32()),
        "ok": ("c5", pa.bool_()),
    }
    pushed = [
        ds.EqualTo(("i",), 1),
        ds.In(("t",), ("a", None)),
        ds.LessThan(("d",), Decimal("1.25")),
        ds.GreaterThanOrEqual(("day",), date(2026, 1, 1)),
        ds.EqualTo(("ok",), True),
        ds.IsNull(("n",)),
        ds.IsNotNull(("i",)),
    ]
    left = [
        ds.GreaterThan(("n",), 1.0),
        ds.EqualTo(("i",), "1"),
        ds.EqualTo(("i",), True),
        ds.LessThan(("d",), Decimal("1.255")),
        ds.EqualTo(("s", "x"), 1),
        ds.EqualTo(("gone",), 1),
        ds.StringStartsWith(("t",), "a"),
        ds.Not(ds.EqualTo(("i",), 1)),
    ]
    assert [one for one, made in pushed_filters.taken(pushed, columns) if made is None] == []
    assert [one for one, made in pushed_filters.taken(left, columns) if made is not None] == []
