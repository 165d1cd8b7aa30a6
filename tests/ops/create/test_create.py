"""A table made of a query: exactly its rows, one transaction, or nothing at all."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from singerlake.engine.spark.engine import SparkRows
from singerlake.errors import (
    ConflictError,
    DamagedError,
    InvalidNameError,
    InvalidQueryError,
    StoreError,
    UsageError,
)
from singerlake.format.names import TableName
from singerlake.format.set_hash import SetHash
from singerlake.format.types import columns_of
from singerlake.lake import Lake, Table
from singerlake.log.commit import current_user
from singerlake.log.lease import leases
from singerlake.log.writer import WriteOptions
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.create import create as plans
from singerlake.ops.create import query_rows as job
from singerlake.ops.create import query_schema
from singerlake.ops.verify.plan import check_log
from singerlake.rows.batches.row_columns import DIGEST
from singerlake.rows.state.fingerprint import Proof
from singerlake.sql.queries.query import query
from singerlake.sql.result import plain_rows
from singerlake.sql.state.from_blocks import state
from singerlake.storage.base import Staged
from singerlake.storage.local.store import LocalStaged, LocalStore
from tests.build import commit_rows
from tests.frozen import create_on_spark as create
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import verify_on_spark as verify
from tests.histories.stores import FarStore
from tests.sql.index_frames import frame_content, state_content

NAME = TableName("views", "v")
PROPERTIES = {"id": {"type": "integer"}, "name": {"type": "string"}}
EVERYTHING = """
    select * from values
      (1, tinyint(1), 1.5D, -0.0D, 12345678901234567890.123456789BD, 'ä"\\\\ \u0001\u2028', true,
       date'0001-01-01', timestamp'9999-12-31T23:59:59.999999Z',
       array(1L, null), named_struct('a b', 1e300D, 'd', array(named_struct('t',
       timestamp'1969-12-31T23:59:59.999999Z', 'x', 1.10BD)))),
      (2, tinyint(-1), 5e-324D, 0.1D, -0.000000001BD, '', false, date'9999-12-31',
       timestamp'0001-01-01T00:00:00Z', array(), named_struct('a b', null, 'd', null)),
      (3, null, null, null, null, null, null, null, null, null, null)
    as t(id, tiny, big, f, `dec.imal`, text, flag, day, at, list, struct)
"""


@pytest.fixture
def shop(lake: Lake) -> Lake:
    rows: list[Any] = [{"id": n, "name": f"n{n}"} for n in range(5)]
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], rows)
    return lake


def data_files(lake: Lake) -> list[Path]:
    return sorted(Path(lake.store.uri, "raw", "views").rglob("*.singer.gz"))


def rows_of(spark: SparkSession, table: Table) -> list[tuple[Any, ...]]:
    return sorted(plain_rows(state(spark, table, table.snapshot())), key=repr)


def test_every_type_reads_back_as_it_was(spark: SparkSession, shop: Lake) -> None:
    made = create(spark, shop, "views.v", EVERYTHING, keys=("id",))
    table = shop.table(NAME)
    asked = query(spark, shop, EVERYTHING)
    wanted = sorted(asked.rows(), key=repr)
    assert rows_of(spark, table) == wanted
    assert wanted[0][4] == Decimal("12345678901234567890.123456789")
    assert wanted[0][7:9] == (
        date(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999999, timezone.utc),
    )
    columns = columns_of(table.snapshot().schema)
    asked_for = (Proof.VALUES,)
    placed = asked.frame.toDF(*(f"c{place}" for place in range(len(columns))))
    expected = frame_content(
        placed.withColumn(DIGEST, F.lit(None).cast("binary")), columns, asked_for
    )
    assert (made.rows, made.fingerprint) == (3, expected.fingerprint)
    assert state_content(spark, table, table.snapshot(), asked_for) == expected
    assert freeze(spark, table).fingerprint == made.fingerprint
    schema = table.snapshot().schema
    assert schema.key_properties == ["id"]
    assert schema.schema["properties"]["id"] == {"type": "integer"}
    assert schema.schema["properties"]["flag"] == {"type": ["null", "boolean"]}
    types = state(spark, table, table.snapshot()).schema
    assert types["dec.imal"].dataType == T.DecimalType(38, 9)
    assert types["struct"].dataType == T.StructType(
        [
            T.StructField("a b", T.DoubleType()),
            T.StructField(
                "d",
                T.ArrayType(
                    T.StructType(
                        [
                            T.StructField("t", T.TimestampType()),
                            T.StructField("x", T.DecimalType(38, 2)),
                        ]
                    )
                ),
            ),
        ]
    )


def test_lines_log_catalogue_and_lake_file(spark: SparkSession, shop: Lake) -> None:
    sql = "select id, name from tap_shop.orders where id < 2 order by id desc"
    create(spark, shop, "views.v", sql, options=ChangeOptions(metadata={"run": "nightly"}))
    table = shop.table(NAME)
    (entry,) = table.entries()
    assert (entry.number, entry.operation, entry.rows) == (1, "create", 2)
    read = shop.table(TableName("tap-shop", "orders")).snapshot()
    source = {"table": "tap-shop.orders", "version": None, "transaction": 1, "commit": read.commit}
    said = {"run": "nightly", "by": current_user(), "query": sql, "sources": [source]}
    assert entry.metadata == said
    schema, *lines = map(json.loads, table.read_block(entry.blocks[0]).splitlines())
    assert schema["type"] == "SCHEMA"
    assert schema["stream"] == "v"
    assert schema["key_properties"] == []
    assert [line["record"] for line in lines] == [{"id": 1, "name": "n1"}, {"id": 0, "name": "n0"}]
    assert {line["time_extracted"] for line in lines} == {entry.blocks[0].first}
    catalogue = shop.catalogue("views")
    assert catalogue is not None
    assert [stream.stream for stream in catalogue.streams] == ["v"]
    lake_file = json.loads(Path(shop.store.uri, "raw/singerlake.json").read_text())
    assert set(lake_file["taps"]) == {"tap-shop", "views"}
    assert check_log(shop.store, NAME).problems == []


def test_an_empty_answer_makes_a_table(spark: SparkSession, shop: Lake) -> None:
    made = create(spark, shop, "views.v", "select id from tap_shop.orders where id > 99")
    table = shop.find("views.v")[0]
    assert (made.rows, made.blocks, made.fingerprint) == (0, 0, SetHash().text)
    assert list(table.snapshot().schema.schema["properties"]) == ["id"]
    assert freeze(spark, table).rows == 0
    commit_rows(shop, "views.v", {"id": {"type": "integer"}}, [], [{"id": 1}])
    assert rows_of(spark, table) == [(1,)]


def test_many_parts_in_the_querys_order(
    spark: SparkSession, shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "PART_BYTES", 1000)
    monkeypatch.setattr(job, "MAX_ROWS", 70)
    sql = "select id, rand() as r from range(0, 1000, 1, 4)"
    made = create(spark, shop, "views.v", sql, keys=("id",))
    table = shop.table(NAME)
    blocks = table.snapshot().blocks
    assert made.blocks == len(blocks) == 16
    assert len({block.file for block in blocks}) == 4
    assert max(block.rows for block in blocks) == 70
    ids = [
        json.loads(line)["record"]["id"]
        for block in blocks
        for line in table.read_block(block).splitlines()[1:]
    ]
    assert ids == list(range(1000))
    assert state_content(spark, table, table.snapshot()).fingerprint == made.fingerprint


def test_on_a_store_that_spark_cannot_reach(spark: SparkSession, shop: Lake) -> None:
    assert isinstance(shop.store, LocalStore)
    far = Lake(FarStore(shop.store))
    made = create(spark, far, "views.v", "select * from tap_shop.orders", keys=("id",))
    assert freeze(spark, far.table(NAME)).fingerprint == made.fingerprint
    report = verify(spark, far.table(NAME))
    assert (report.problems, report.blocks, report.versions) == ([], 1, 1)
    data_files(shop)[0].write_bytes(b"")
    kinds = [problem.what for problem in verify(spark, far.table(NAME)).problems]
    assert kinds == ["file", "version"]


def test_its_readers_leases_end_with_it(spark: SparkSession, shop: Lake) -> None:
    """Not when the collector comes by: the error holds all that there was, the answer too."""
    with pytest.raises(UsageError, match="no column 'nobody'") as caught:
        create(spark, shop, "views.v", "select * from tap_shop.orders", keys=("nobody",))
    assert caught.tb is not None
    assert leases(shop.store, TableName("tap-shop", "orders")) == []


def test_small_parts_are_put_together(spark: SparkSession, shop: Lake) -> None:
    made = create(spark, shop, "views.v", "select id from range(0, 1000, 1, 8)", keys=("id",))
    assert (made.rows, made.blocks) == (1000, 1)


@pytest.mark.parametrize(
    ("sql", "keys", "error", "says"),
    [
        ("select 1 as a, 2 as a", (), InvalidQueryError, "more than once: 'a'"),
        ("select map('a', 1) as m", (), InvalidQueryError, "'m' is of the type map"),
        ("select array(X'00') as b", (), InvalidQueryError, r"'b\[\]' is of the type binary"),
        ("select null as n", (), InvalidQueryError, "'n' is of the type void"),
        ("select timestamp_ntz'2020-01-01' as t", (), InvalidQueryError, "'t' is of the type"),
        ("select double('NaN') as x", (), InvalidQueryError, "'x' holds NaN or Infinity"),
        (
            "select named_struct('i', array(double('-Infinity'))) as s",
            (),
            InvalidQueryError,
            "'s' holds NaN or Infinity",
        ),
        ("select cast(X'ff' as string) as t", (), InvalidQueryError, "'t' holds text that is"),
        ("select date'9999-12-31' + 1 as d", (), InvalidQueryError, "'d' holds a date outside"),
        (
            "select timestamp'0001-01-01' - interval 1 day as t",
            (),
            InvalidQueryError,
            "'t' holds a time outside",
        ),
        ("select 'x' as _sdc_deleted_at", (), InvalidQueryError, "marks deleted rows"),
        ("drop table tap_shop.orders", (), InvalidQueryError, "no SQL but SELECT"),
        ("select 1 as a", ("b",), UsageError, "no column 'b' to use as the key: it has a"),
        ("select 1 as a", ("a", "a"), UsageError, "named twice"),
        ("select array(1) as a", ("a",), UsageError, "'a' cannot be a key"),
        (
            "select nullif(id, 3) as k from tap_shop.orders",
            ("k",),
            UsageError,
            "'k' cannot be a key: it is null in 1 of 5 rows",
        ),
        (
            "select id % 2 as k, id % 4 as l from tap_shop.orders",
            ("k", "l"),
            UsageError,
            "1 of its values occur more than once, such as k 0, l 0: 2 times",
        ),
        ("select 1/0 as a", (), InvalidQueryError, "ivision"),
    ],
)
def test_what_cannot_be_a_table_makes_none(
    spark: SparkSession,
    shop: Lake,
    sql: str,
    keys: tuple[str, ...],
    error: type[Exception],
    says: str,
) -> None:
    with pytest.raises(error, match=says):
        create(spark, shop, "views.v", sql, keys=keys)
    assert [str(name) for name in shop.tables()] == ["tap-shop.orders"]
    assert data_files(shop) == []


def test_names_and_schemas_that_are_refused() -> None:
    with pytest.raises(InvalidQueryError, match="column 2 has the empty name"):
        query_schema.schema_of([T.StructField(n, T.LongType()) for n in ("a", "")], [])
    twice = T.StructType([T.StructField("x", T.LongType()), T.StructField("x", T.LongType())])
    with pytest.raises(InvalidQueryError, match="in 's' occur more than once: 'x'"):
        query_schema.schema_of([T.StructField("s", twice)], [])
    deep: T.DataType = T.LongType()
    for _ in range(40):
        deep = T.ArrayType(deep)
    with pytest.raises(InvalidQueryError, match="'d' is nested too deep"):
        query_schema.schema_of([T.StructField("d", deep)], [])
    for text, error in (("v", InvalidNameError), ("a.v.2", UsageError), ("a.v.@2", UsageError)):
        with pytest.raises(error):
            plans.new_name(text)


def test_a_table_that_is_there_is_left_alone(spark: SparkSession, shop: Lake) -> None:
    with pytest.raises(UsageError, match=r"tap-shop\.orders already"):
        create(spark, shop, "tap-shop.orders", "select 1 as a")
    table = shop.find("tap-shop.orders")[0]
    assert table.snapshot().number == 1
    shop.store.delete(table.name.transaction(1))
    shop.store.delete(table.name.manifest)
    with pytest.raises(DamagedError, match=r"singerlake rebuild tap-shop\.orders"):
        create(spark, shop, "tap-shop.orders", "select 1 as a")


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, target: object, name: str, act: Callable[[], object]
) -> None:
    """Do something just before a function runs for the first time."""
    real = getattr(target, name)
    waiting = [act]

    def late(*args: Any, **kwargs: Any) -> Any:
        while waiting:
            waiting.pop()()
        return real(*args, **kwargs)

    monkeypatch.setattr(target, name, late)


@pytest.mark.parametrize("step", ["check_still_new", "commit_create"])
def test_a_table_that_appears_meanwhile_wins(
    spark: SparkSession, shop: Lake, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    other: list[Any] = [{"id": 1, "name": "theirs"}]
    meanwhile(
        monkeypatch, plans, step, lambda: commit_rows(shop, "views.v", PROPERTIES, ["id"], other)
    )
    with pytest.raises(ConflictError, match=r"created views\.v in the meantime"):
        create(spark, shop, "views.v", "select 7 as x")
    table = shop.table(NAME)
    assert rows_of(spark, table) == [(1, "theirs")]
    assert len(data_files(shop)) == 1
    assert not list(Path(shop.store.uri).rglob("singerlake.lock"))


def test_what_does_not_read_back_is_not_committed(
    spark: SparkSession, shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def altered() -> None:
        real = job._Job._write_blocks

        def write(self: Any, blocks: Any, frame: Any, size: int) -> Any:
            return real(self, blocks, SparkRows(frame.frame.limit(3)), size)

        monkeypatch.setattr(job._Job, "_write_blocks", write)

    altered()
    with pytest.raises(Exception, match="differ from the result of the query"):
        create(spark, shop, "views.v", "select * from tap_shop.orders")
    assert data_files(shop) == []
    assert shop.table(NAME).store.exists(NAME.transaction(1)) is False


class FullStore(LocalStore):
    """A disk that is full for all parts but the first, once that one's file is there."""

    def stage(self) -> Staged:
        return FullStaged(self)


class FullStaged(LocalStaged):
    def publish(self, key: str) -> None:
        context = TaskContext.get()
        if context is not None and context.partitionId():
            folder = self._store.root / key.rpartition("/")[0]
            deadline = time.monotonic() + 10
            while not list(folder.glob("*.gz")) and time.monotonic() < deadline:
                time.sleep(0.01)
            raise StoreError("the disk is full")
        super().publish(key)


def test_a_disk_that_fills_up_leaves_nothing_to_be_seen(
    spark: SparkSession, shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(job, "PART_BYTES", 1000)
    assert isinstance(shop.store, LocalStore)
    full = Lake(FullStore(shop.store.root))
    with pytest.raises(StoreError, match="the disk is full"):
        create(spark, full, "views.v", "select id from range(0, 1000, 1, 4)")
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert data_files(shop) == []
    # The lock is left to go stale: a task may still be writing beside it.
    (lock,) = Path(shop.store.uri).rglob("singerlake.lock")
    options = ChangeOptions(writing=WriteOptions(lock_stale_seconds=0.3))
    made = create(spark, shop, "views.v", "select id from range(0, 1000, 1, 4)", options=options)
    assert made.rows == 1000
    assert not lock.exists()
