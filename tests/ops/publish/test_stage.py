"""Staging tables: rows that a projection's SQL says, refreshed by the difference alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.engine.choice import EngineChoice
from singerlake.errors import (
    InvalidQueryError,
    NotFoundError,
    OutcomeUnknownError,
    RejectedRowsError,
    StoreError,
    UsageError,
    ViolationsError,
)
from singerlake.format.names import TableName
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake, Table
from singerlake.log.commit import commit
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.change.table_change import TableChange
from singerlake.ops.drop import drop_table
from singerlake.ops.publish.projected import Projected
from singerlake.ops.publish.stage import RefreshKind, Staged, stage
from singerlake.ops.vacuum.plan import DROP_HISTORY, VacuumOptions
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, alter
from singerlake.publish.projection import OnSchemaChange, Projection
from singerlake.publish.refreshes import last_refresh
from tests.build import commit_rows
from tests.frozen import vacuum_on_spark
from tests.histories import here

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


def rows(lake: Lake, name: str = "staging.orders") -> list[tuple[Any, ...]]:
    return here.values(lake, name)


def fingerprint(table: Table) -> str:
    return here.content(table).fingerprint


def counts(done: Staged) -> tuple[int, int, int]:
    return (done.changed.inserted, done.changed.updated, done.changed.deleted)


def test_only_the_rows_that_changed_are_written(spark: SparkSession, lake: Lake) -> None:
    sync(lake, order(1), order(2, "done"), order(3), order(4))
    asked = stage(spark, lake, OPEN, dry_run=True)
    assert (asked.how, counts(asked), asked.transaction) == (RefreshKind.CREATED, (3, 0, 0), None)
    first = stage(spark, lake, OPEN)
    assert (first.how, counts(first), first.transaction) == (RefreshKind.CREATED, (3, 0, 0), 1)
    again = stage(spark, lake, OPEN)
    assert (again.how, again.transaction) == (RefreshKind.UP_TO_DATE, None)
    # One is done, one gone, one another, one new, one not done any more; one as it was.
    sync(lake, order(1, "done"), order(3, total=7), {**order(4), **GONE}, order(5), order(2))
    done = stage(spark, lake, OPEN)
    assert (done.how, done.why, counts(done)) == (RefreshKind.INCREMENTAL, "", (2, 1, 2))
    assert rows(lake) == [(2, "NEW", 2), (3, "NEW", 14), (5, "NEW", 2)]
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
    here.freeze(lake.table(NAME))
    assert stage(spark, lake, OPEN).how is RefreshKind.UP_TO_DATE
    sync(lake, order(9, "done"))
    moved = stage(spark, lake, OPEN)
    assert (moved.how, counts(moved), moved.transaction) == (RefreshKind.INCREMENTAL, (0, 0, 0), 3)
    assert stage(spark, lake, OPEN).how is RefreshKind.UP_TO_DATE
    before = fingerprint(table)
    full = stage(spark, lake, OPEN, full_refresh=True)
    assert (full.how, full.why, counts(full)) == (
        RefreshKind.COMPARED,
        "it was requested",
        (0, 0, 0),
    )
    assert full.transaction is None
    assert fingerprint(table) == before
    assert not here.problems(table)


SUMS = replace(
    OPEN,
    name="sums",
    sql="select status, count(*) as n, sum(total) as total from tap_shop.orders group by status "
    "having status is not null",
    key=("status",),
)


def test_what_is_computed_anew_is_compared(spark: SparkSession, lake: Lake) -> None:
    sync(lake, order(1), order(2, "done"), order(3), order(4, None))
    assert stage(spark, lake, SUMS).how is RefreshKind.CREATED
    sync(lake, order(3, "paid"), order(5, "done", 5), {**order(1), **GONE})
    planned = stage(spark, lake, SUMS, dry_run=True)
    assert (planned.how, counts(planned), planned.transaction) == (
        RefreshKind.COMPARED,
        (1, 1, 1),
        None,
    )
    done = stage(spark, lake, SUMS)
    assert done.why == "the SQL cannot be applied row by row (it aggregates rows)"
    assert (counts(done), done.changed.unchanged, done.transaction) == ((1, 1, 1), 0, 2)
    assert rows(lake) == [("done", 2, 6), ("paid", 1, 1)]
    assert stage(spark, lake, SUMS).how is RefreshKind.UP_TO_DATE


def test_without_a_key_all_rows_are_replaced_where_they_differ(
    spark: SparkSession, lake: Lake
) -> None:
    loose = replace(OPEN, sql="select status, total from tap_shop.orders", key=())
    sync(lake, order(1), order(2), order(3, "paid"))
    stage(spark, lake, loose)
    # The same rows, though others have them.
    sync(lake, order(3), order(2, "paid"))
    same = stage(spark, lake, loose)
    assert (same.why, counts(same)) == ("staging.orders has no key", (0, 0, 0))
    assert list(staged(lake).entries())[-1].blocks == []
    sync(lake, order(4))
    assert stage(spark, lake, loose).changed.whole
    assert rows(lake) == [("new", 1), ("new", 1), ("new", 1), ("paid", 1)]


def test_columns_follow_the_sql(spark: SparkSession, lake: Lake) -> None:
    every = replace(OPEN, sql="select * from tap_shop.orders")
    sync(lake, order(1), order(2))
    stage(spark, lake, every)
    # A column that the source has now, and one of another type.
    text = {"total": {"type": ["null", "string"]}, "note": {"type": ["null", "string"]}}
    sync(lake, order(2, total="x", note="a"), **text)
    told = replace(every, on_schema_change=OnSchemaChange.FAIL)
    with pytest.raises(UsageError, match="'total' is string instead of int64; 'note' is new"):
        stage(spark, lake, told)
    done = stage(spark, lake, every)
    assert [str(one) for one in done.columns] == [
        "'total' is string instead of int64",
        "'note' is new (string)",
    ]
    assert counts(done) == (0, 1, 0)  # of the other the number is a text now, and the same one
    assert rows(lake) == [(1, "new", "1", None), (2, "new", "x", "a")]
    assert stage(spark, lake, told).how is RefreshKind.UP_TO_DATE
    # A column that the SQL gives no more, and one that it gives again: both by one transaction.
    fewer = replace(OPEN, sql="select id, note from tap_shop.orders")
    assert stage(spark, lake, fewer).transaction == 3
    assert rows(lake) == [(1, None), (2, "a")]
    sync(lake, order(3, total="7", note="b"), **text)
    assert stage(spark, lake, fewer).how is RefreshKind.INCREMENTAL
    again = replace(OPEN, sql="select id, note, total, status as state from tap_shop.orders")
    stage(spark, lake, again)
    assert rows(lake) == [(1, "1", None, "new"), (2, "x", "a", "new"), (3, "7", "b", "new")]
    alone = replace(again, stage=TableName("staging", "alone"))
    stage(spark, lake, alone)
    assert fingerprint(staged(lake)) == fingerprint(staged(lake, alone.stage))


def test_another_key_is_followed(spark: SparkSession, lake: Lake) -> None:
    sync(lake, order(1), order(2, "paid"), order(3, "paid"))
    stage(spark, lake, replace(OPEN, sql="select id, status from tap_shop.orders"))
    other = replace(
        OPEN,
        sql="select id, explode(array(1, 2)) as part, status from tap_shop.orders where id > 1",
        key=("id", "part"),
    )
    done = stage(spark, lake, other)
    assert "the definition changed: sql, key" in done.why
    assert rows(lake) == [(2, "paid", 1), (2, "paid", 2), (3, "paid", 1), (3, "paid", 2)]
    # What was of the key may be null now.
    one = "select status, nullif(min(id), 2) as id from tap_shop.orders group by 1"
    stage(spark, lake, replace(OPEN, sql=one, key=("status",)))
    assert rows(lake) == [(1, "new"), (None, "paid")]


def test_a_key_that_is_none_is_told_with_its_values(spark: SparkSession, lake: Lake) -> None:
    by_status = replace(OPEN, sql="select status, total from tap_shop.orders", key=("status",))
    sync(lake, order(1), order(2, "paid"))
    stage(spark, lake, by_status)
    sync(lake, order(3, None), order(4, "paid"))
    with pytest.raises(ViolationsError) as found:
        stage(spark, lake, by_status)
    assert "status cannot be the key of staging.orders, and nothing was changed" in str(found.value)
    assert "status paid: 2 rows" in str(found.value)
    assert "1 row lacks a value" in str(found.value)
    with pytest.raises(UsageError, match="no column 'statu' to use as the key"):
        stage(spark, lake, replace(by_status, key=("statu",)))
    with pytest.raises(UsageError, match="cannot be a key: it is null in 1 of 4 rows"):
        stage(spark, lake, replace(by_status, stage=TableName("staging", "other")))


def test_what_others_did_to_it_is_undone(spark: SparkSession, lake: Lake) -> None:
    sync(lake, order(1), order(2))
    stage(spark, lake, OPEN)
    table, before = staged(lake), fingerprint(staged(lake))
    with TableChange(table, ChangeOptions(), EngineChoice.of(spark=spark)) as change:
        change.upsert([{"id": 1, "status": "mine"}, {"id": 9, "status": "mine"}])
        change.delete([2])
    here.freeze(table)
    done = stage(spark, lake, OPEN)
    assert (done.why, counts(done)) == (
        "transaction 2 of staging.orders was not a refresh",
        (1, 1, 1),
    )
    assert fingerprint(table) == before
    assert stage(spark, lake, OPEN).how is RefreshKind.UP_TO_DATE
    # What went back with the table, and a column and a constraint of somebody's own.
    here.revert(table, 2)
    alter(table.store, table.snapshot(), partial(says.with_column, name="own", schema={}))
    few = Constraint("range", ["twice"], maximum=10)
    alter(table.store, table.snapshot(), partial(says.with_constraint, name="few", constraint=few))
    last = last_refresh(lake.store, table.snapshot())
    assert last is not None
    assert (last.transaction, last.touched) == (4, table.snapshot().number)
    done = stage(spark, lake, OPEN)
    assert [str(one) for one in done.columns] == ["'own' is missing (text)"]
    assert fingerprint(table) == before
    assert "few" in table.snapshot().overlay.constraints
    sync(lake, order(3, total=6))
    with pytest.raises(RejectedRowsError, match="12"):
        stage(spark, lake, OPEN)


def test_a_refresh_that_was_overtaken_begins_anew(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, order(1))
    stage(spark, lake, OPEN)
    sync(lake, order(2))
    fresh, others = Projected.fresh, [stage]

    def overtaken(self: Projected, since: Any) -> Any:
        if others:
            others.pop()(spark, lake, OPEN)
        return fresh(self, since)

    monkeypatch.setattr(Projected, "fresh", overtaken)
    assert stage(spark, lake, OPEN).how is RefreshKind.UP_TO_DATE
    assert rows(lake) == [(1, "NEW", 2), (2, "NEW", 2)]
    assert len(list(staged(lake).entries())) == 2


@pytest.mark.parametrize("there", [True, False], ids=["refreshed", "made"])
def test_a_refresh_takes_no_staging_table_back(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Another reads a newer state of the source, and commits it, before this one looks."""
    sync(lake, order(1))
    if there:
        stage(spark, lake, OPEN)
    read, later = Projected.__enter__, [order(2)]

    def overtaken(self: Projected) -> Projected:
        if later:
            sync(lake, later.pop())
            stage(spark, lake, OPEN)
        return read(self)

    monkeypatch.setattr(Projected, "__enter__", overtaken)
    sync(lake, order(3))
    assert stage(spark, lake, OPEN).how is RefreshKind.UP_TO_DATE
    refreshed = [entry.metadata["sources"][0]["transaction"] for entry in staged(lake).entries()]
    assert refreshed == [1, 3][-1 - there :]


def test_a_refresh_that_ends_early_is_all_or_nothing(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, order(1), order(2))
    stage(spark, lake, OPEN)
    sync(lake, order(1, "done"), order(3))

    def ends(*args: Any, error: Exception, done: bool, **more: Any) -> Any:
        if done:
            commit(*args, **more)
        raise error

    for error, done in ((StoreError("gone"), False), (OutcomeUnknownError("gone"), True)):
        with monkeypatch.context() as patched, pytest.raises(type(error)):
            fake = partial(ends, error=error, done=done)
            patched.setattr("singerlake.ops.change.plan.commit", fake)
            stage(spark, lake, OPEN)
        assert rows(lake)[-1] == ((3, "NEW", 2) if done else (2, "NEW", 2))
        assert len(list(staged(lake).entries())) == 1 + done
    assert stage(spark, lake, OPEN).how is RefreshKind.UP_TO_DATE


def test_only_a_table_that_a_projection_made_is_replaced(spark: SparkSession, lake: Lake) -> None:
    sync(lake, order(1))
    sync(lake, order(1), table="staging.orders")
    with pytest.raises(UsageError, match="that no projection created"):
        stage(spark, lake, OPEN)
    drop_table(lake.store, staged(lake).snapshot(), AlterOptions())
    assert stage(spark, lake, OPEN).how is RefreshKind.CREATED
    with pytest.raises(UsageError, match="has no staging table"):
        stage(spark, lake, replace(OPEN, stage=None))


def test_an_incremental_one_answers_the_same_each_time(spark: SparkSession, lake: Lake) -> None:
    sync(lake, order(1))
    today = replace(OPEN, sql="select id, current_date() as day from tap_shop.orders")
    with pytest.raises(InvalidQueryError, match="the SQL of the projection open_orders calls cur"):
        stage(spark, lake, today)
    today = replace(today, incremental=False)
    stage(spark, lake, today)
    sync(lake, order(2))
    assert stage(spark, lake, today).why == "the projection is not incremental"


def test_sources_are_read_at_a_version(spark: SparkSession, lake: Lake) -> None:
    sync(lake, order(1), order(2))
    here.freeze(lake.table(NAME), label="monday")
    sync(lake, order(2, "done"), order(3))
    stage(spark, lake, OPEN)
    back = stage(spark, lake, OPEN, at="monday")
    assert (back.how, counts(back)) == (RefreshKind.INCREMENTAL, (1, 0, 1))
    (source,) = back.position.sources
    assert (source.version, source.transaction) == (1, 1)
    assert rows(lake) == [(1, "NEW", 2), (2, "NEW", 2)]
    assert stage(spark, lake, OPEN, at="1").how is RefreshKind.UP_TO_DATE
    first = stage(spark, lake, replace(OPEN, stage=TableName("staging", "first")), at="1")
    assert first.position.sources == back.position.sources
    last = last_refresh(lake.store, staged(lake, TableName("staging", "first")).snapshot())
    assert last is not None
    assert last.position.sources == back.position.sources
    assert counts(stage(spark, lake, OPEN)) == (1, 0, 1)
    with pytest.raises(NotFoundError, match="no version 'never'"):
        stage(spark, lake, OPEN, at="never")


def test_what_becomes_of_the_source_is_followed(spark: SparkSession, lake: Lake) -> None:
    every = replace(OPEN, sql="select * from tap_shop.orders")
    table = lake.table(NAME)

    def refreshed(how: RefreshKind, why: str = "") -> Staged:
        done = stage(spark, lake, every)
        assert done.how is how
        assert why in done.why
        assert rows(lake) == rows(lake, str(NAME))
        return done

    sync(lake, (order(1), 1), (order(2), 1), (order(3), 1))
    refreshed(RefreshKind.CREATED)
    sync(lake, (order(2), 2), (order(4), 2), 2)  # and no other row any more
    assert counts(refreshed(RefreshKind.INCREMENTAL)) == (1, 0, 2)
    here.revert(table, 1)
    assert counts(refreshed(RefreshKind.INCREMENTAL)) == (2, 0, 1)
    sync(lake, order(5))
    sync(lake, order(6))
    history = VacuumOptions(parts=(DROP_HISTORY,), retain_seconds=0, guard=False)
    vacuum_on_spark(spark, table, history)
    assert "the history of tap-shop.orders" in refreshed(RefreshKind.COMPARED).why
    commit_rows(lake, str(NAME), ORDERS, ["id", "status"], [order(7, "paid")])
    refreshed(RefreshKind.COMPARED, "the columns of tap-shop.orders have changed")
    drop_table(lake.store, table.snapshot(), AlterOptions())
    sync(lake, order(1))
    assert counts(refreshed(RefreshKind.COMPARED, "not the same table")) == (0, 0, 5)


def test_a_staging_table_is_a_source_like_any_other(spark: SparkSession, lake: Lake) -> None:
    sync(lake, order(1), order(2))
    stage(spark, lake, OPEN)
    below = replace(
        OPEN,
        name="below",
        sql="select id, twice from staging.orders",
        stage=TableName("staging", "below"),
    )
    stage(spark, lake, below)
    # The first moves on without a row: the second has nothing to do.
    sync(lake, order(3, "done"))
    assert stage(spark, lake, OPEN).transaction == 2
    assert stage(spark, lake, below).how is RefreshKind.UP_TO_DATE
    sync(lake, order(2, total=4))
    stage(spark, lake, OPEN)
    assert counts(stage(spark, lake, below)) == (0, 1, 0)
    assert rows(lake, "staging.below") == [(1, 2), (2, 8)]
