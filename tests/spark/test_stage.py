"""Staging tables: rows that a projection's SQL says, refreshed by the difference alone."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.projections.projection import Projection
from singerlake.records.fingerprint import Proof
from singerlake.spark.jobs.freeze import freeze
from singerlake.spark.jobs.query import query
from singerlake.spark.jobs.stage import How, Staged, stage
from singerlake.spark.state.content import state_content
from tests.build import commit_rows

pytestmark = pytest.mark.spark
NAME = TableName("tap-shop", "orders")
STAGE = TableName("staging", "orders")
ORDERS: dict[str, Any] = {
    "id": {"type": "integer"},
    "status": {"type": ["null", "string"]},
    "total": {"type": ["null", "integer"]},
}
GONE = {"_sdc_deleted_at": "2026-01-02T03:04:05Z"}
OPEN = Projection(
    "open_orders",
    "select id, upper(status) as status, total * 2 as twice from tap_shop.orders "
    "where status <> 'done'",
    ("tap_shop.orders",),
    STAGE,
    key=("id",),
)


def sync(lake: Lake, *rows: Any, table: str = "tap-shop.orders", **more: Any) -> None:
    commit_rows(lake, table, {**ORDERS, **more}, ["id"], [*rows])


def order(id_: int, status: str | None = "new", total: int | None = 1, **more: Any) -> Any:
    return {"id": id_, "status": status, "total": total, **more}


def staged(lake: Lake, name: TableName = STAGE) -> Table:
    return lake.table(name)


def rows(spark: SparkSession, lake: Lake, name: str = "staging.orders") -> list[tuple[Any, ...]]:
    with query(spark, lake, f"select * from {name}") as result:  # a test's own
        return sorted(result.rows(), key=repr)


def fingerprint(spark: SparkSession, table: Table) -> str:
    return state_content(spark, table, table.snapshot(), (Proof.VALUES,)).fingerprint


def counts(done: Staged) -> tuple[int, int, int]:
    return (done.changed.inserted, done.changed.updated, done.changed.deleted)


def test_only_the_rows_that_changed_are_written(spark: SparkSession, lake: Lake) -> None:
    sync(lake, order(1), order(2, "done"), order(3), order(4))
    first = stage(spark, lake, OPEN)
    assert (first.how, counts(first), first.transaction) == (How.CREATED, (3, 0, 0), 1)
    again = stage(spark, lake, OPEN)
    assert (again.how, again.transaction) == (How.UP_TO_DATE, None)
    # One is done, one gone, one another, one new, one not done any more; one as it was.
    sync(lake, order(1, "done"), order(3, total=7), {**order(4), **GONE}, order(5), order(2))
    done = stage(spark, lake, OPEN)
    assert (done.how, done.why, counts(done)) == (How.INCREMENTAL, "", (2, 1, 2))
    assert rows(spark, lake) == [(2, "NEW", 2), (3, "NEW", 14), (5, "NEW", 2)]
    table = staged(lake)
    entries = list(table.entries())
    assert [entry.operation for entry in entries] == ["create", "change"]
    source = lake.table(NAME).snapshot()
    for number, entry in enumerate(entries, start=1):
        assert entry.metadata["projection"] == "open_orders"
        assert entry.metadata["definition"] == OPEN.definition
        assert entry.metadata["sources"] == [
            {
                "table": "tap-shop.orders",
                "transaction": number,
                "commit": source.summary(number).commit,
                "version": None,
            }
        ]
    assert entries[1].rows == 5
    # Columns that no one asks for, and rows that are not wanted: a position, and no row.
    freeze(spark, lake.table(NAME))
    assert stage(spark, lake, OPEN).how is How.UP_TO_DATE
    sync(lake, order(9, "done"))
    moved = stage(spark, lake, OPEN)
    assert (moved.how, counts(moved), moved.transaction) == (How.INCREMENTAL, (0, 0, 0), 3)
    assert stage(spark, lake, OPEN).how is How.UP_TO_DATE
    before = fingerprint(spark, table)
    full = stage(spark, lake, OPEN, full_refresh=True)
    assert (full.how, full.why, counts(full)) == (How.COMPARED, "it was asked for", (0, 0, 0))
    assert full.transaction is None
    assert fingerprint(spark, table) == before
