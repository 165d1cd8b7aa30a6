"""Staging tables: rows that a projection's SQL says, refreshed by the difference alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from singerlake.engine.choice import EngineChoice
from singerlake.errors import (
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
from singerlake.ops.publish.answer import SqlAnswer
from singerlake.ops.publish.answers import opened_sql
from singerlake.ops.publish.stage import RefreshKind, Staged, stage
from singerlake.ops.vacuum.plan import DROP_HISTORY, VacuumOptions
from singerlake.overlay import overlay_changes as says
from singerlake.overlay.alter import AlterOptions, alter
from singerlake.publish.projection import OnSchemaChange, Projection
from singerlake.publish.refreshes import last_refresh
from tests.build import commit_rows
from tests.frozen import HERE, vacuum_here
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


@pytest.fixture
def choice() -> EngineChoice:
    """What reads the rows; see ``test_stage_on_spark.py``."""
    return HERE


def refresh(choice: EngineChoice, lake: Lake, projection: Projection, **options: Any) -> Staged:
    return stage(lake, projection, choice, **options)


def kind_of(choice: EngineChoice, lake: Lake) -> type[SqlAnswer[Any]]:
    """The class that answers."""
    with opened_sql(choice, lake, OPEN.name, OPEN.sql) as answer:
        return type(answer)


def staged(lake: Lake, name: TableName = STAGE) -> Table:
    return lake.table(name)


def rows(lake: Lake, name: str = "staging.orders") -> list[tuple[Any, ...]]:
    return here.values(lake, name)


def fingerprint(table: Table) -> str:
    return here.content(table).fingerprint


def counts(done: Staged) -> tuple[int, int, int]:
    return (done.changed.inserted, done.changed.updated, done.changed.deleted)


def test_only_the_rows_that_changed_are_written(lake: Lake, choice: EngineChoice) -> None:
    sync(lake, order(1), order(2, "done"), order(3), order(4))
    asked = refresh(choice, lake, OPEN, dry_run=True)
    assert (asked.how, counts(asked), asked.transaction) == (RefreshKind.CREATED, (3, 0, 0), None)
    first = refresh(choice, lake, OPEN)
    assert (first.how, counts(first), first.transaction) == (RefreshKind.CREATED, (3, 0, 0), 1)
    again = refresh(choice, lake, OPEN)
    assert (again.how, again.transaction) == (RefreshKind.UP_TO_DATE, None)
    # One is done, one gone, one another, one new, one not done any more; one as it was.
    sync(lake, order(1, "done"), order(3, total=7), {**order(4), **GONE}, order(5), order(2))
    done = refresh(choice, lake, OPEN)
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
    assert refresh(choice, lake, OPEN).how is RefreshKind.UP_TO_DATE
    sync(lake, order(9, "done"))
    moved = refresh(choice, lake, OPEN)
    assert (moved.how, counts(moved), moved.transaction) == (RefreshKind.INCREMENTAL, (0, 0, 0), 3)
    assert refresh(choice, lake, OPEN).how is RefreshKind.UP_TO_DATE
    before = fingerprint(table)
    full = refresh(choice, lake, OPEN, full_refresh=True)
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


def test_what_is_computed_anew_is_compared(lake: Lake, choice: EngineChoice) -> None:
    sync(lake, order(1), order(2, "done"), order(3), order(4, None))
    assert refresh(choice, lake, SUMS).how is RefreshKind.CREATED
    sync(lake, order(3, "paid"), order(5, "done", 5), {**order(1), **GONE})
    planned = refresh(choice, lake, SUMS, dry_run=True)
    assert (planned.how, counts(planned), planned.transaction) == (
        RefreshKind.COMPARED,
        (1, 1, 1),
        None,
    )
    done = refresh(choice, lake, SUMS)
    assert done.why == "the SQL cannot be applied row by row (it aggregates rows)"
    assert (counts(done), done.changed.unchanged, done.transaction) == ((1, 1, 1), 0, 2)
    assert rows(lake) == [("done", 2, 6), ("paid", 1, 1)]
    assert refresh(choice, lake, SUMS).how is RefreshKind.UP_TO_DATE


@pytest.mark.parametrize("key", [("number",), ()])
def test_columns_may_have_any_names(lake: Lake, choice: EngineChoice, key: tuple[str, ...]) -> None:
    names = "part, line, source, before, after, slot, gone, found, rows, keys, _delete, c0"
    columns = ", ".join(f"total as `{name}`" for name in names.split(", "))
    sql = f"select id as number, {columns}, status from tap_shop.orders where status = 'new'"
    named = replace(OPEN, sql=sql, key=key)
    sync(lake, order(1), order(2), order(3, "done"))
    refresh(choice, lake, named)
    sync(lake, order(1, total=5), order(2, "done"), order(3, total=7))
    assert counts(refresh(choice, lake, named)) == ((1, 1, 1) if key else (2, 0, 2))
    assert rows(lake) == [(1, *[5] * 12, "new"), (3, *[7] * 12, "new")]
    # What is gone from a state tells no block: the pairs of both states are compared.
    here.revert(lake.table(NAME), 1)
    refresh(choice, lake, named)
    assert rows(lake) == [(1, *[1] * 12, "new"), (2, *[1] * 12, "new")]


def test_without_a_key_all_rows_are_replaced_where_they_differ(
    lake: Lake, choice: EngineChoice
) -> None:
    loose = replace(OPEN, sql="select status, total from tap_shop.orders", key=())
    sync(lake, order(1), order(2), order(3, "paid"))
    refresh(choice, lake, loose)
    # The same rows, though others have them.
    sync(lake, order(3), order(2, "paid"))
    same = refresh(choice, lake, loose)
    assert (same.why, counts(same)) == ("staging.orders has no key", (0, 0, 0))
    assert list(staged(lake).entries())[-1].blocks == []
    sync(lake, order(4))
    assert refresh(choice, lake, loose).changed.whole
    assert rows(lake) == [("new", 1), ("new", 1), ("new", 1), ("paid", 1)]


def test_columns_follow_the_sql(lake: Lake, choice: EngineChoice) -> None:
    every = replace(OPEN, sql="select * from tap_shop.orders")
    sync(lake, order(1), order(2))
    refresh(choice, lake, every)
    # A column that the source has now, and one of another type.
    text = {"total": {"type": ["null", "string"]}, "note": {"type": ["null", "string"]}}
    sync(lake, order(2, total="x", note="a"), **text)
    told = replace(every, on_schema_change=OnSchemaChange.FAIL)
    with pytest.raises(UsageError, match="'total' is string instead of int64; 'note' is new"):
        refresh(choice, lake, told)
    done = refresh(choice, lake, every)
    assert [str(one) for one in done.columns] == [
        "'total' is string instead of int64",
        "'note' is new (string)",
    ]
    assert counts(done) == (0, 1, 0)  # of the other the number is a text now, and the same one
    assert rows(lake) == [(1, "new", "1", None), (2, "new", "x", "a")]
    assert refresh(choice, lake, told).how is RefreshKind.UP_TO_DATE
    # A column that the SQL gives no more, and one that it gives again: both by one transaction.
    fewer = replace(OPEN, sql="select id, note from tap_shop.orders")
    assert refresh(choice, lake, fewer).transaction == 3
    assert rows(lake) == [(1, None), (2, "a")]
    sync(lake, order(3, total="7", note="b"), **text)
    assert refresh(choice, lake, fewer).how is RefreshKind.INCREMENTAL
    again = replace(OPEN, sql="select id, note, total, status as state from tap_shop.orders")
    refresh(choice, lake, again)
    assert rows(lake) == [(1, "1", None, "new"), (2, "x", "a", "new"), (3, "7", "b", "new")]
    alone = replace(again, stage=TableName("staging", "alone"))
    refresh(choice, lake, alone)
    assert fingerprint(staged(lake)) == fingerprint(staged(lake, alone.stage))


def test_a_key_that_is_none_is_told_with_its_values(lake: Lake, choice: EngineChoice) -> None:
    by_status = replace(OPEN, sql="select status, total from tap_shop.orders", key=("status",))
    sync(lake, order(1), order(2, "paid"))
    refresh(choice, lake, by_status)
    sync(lake, order(3, None), order(4, "paid"))
    with pytest.raises(ViolationsError) as found:
        refresh(choice, lake, by_status)
    assert "status cannot be the key of staging.orders, and nothing was changed" in str(found.value)
    assert "status paid: 2 rows" in str(found.value)
    assert "1 row lacks a value" in str(found.value)
    with pytest.raises(UsageError, match="no column 'statu' to use as the key"):
        refresh(choice, lake, replace(by_status, key=("statu",)))
    with pytest.raises(UsageError, match="cannot be a key: it is null in 1 of 4 rows"):
        refresh(choice, lake, replace(by_status, stage=TableName("staging", "other")))


def test_what_others_did_to_it_is_undone(lake: Lake, choice: EngineChoice) -> None:
    sync(lake, order(1), order(2))
    refresh(choice, lake, OPEN)
    table, before = staged(lake), fingerprint(staged(lake))
    with TableChange(table, ChangeOptions(), choice) as change:
        change.upsert([{"id": 1, "status": "mine"}, {"id": 9, "status": "mine"}])
        change.delete([2])
    here.freeze(table)
    done = refresh(choice, lake, OPEN)
    assert (done.why, counts(done)) == (
        "transaction 2 of staging.orders was not a refresh",
        (1, 1, 1),
    )
    assert fingerprint(table) == before
    assert refresh(choice, lake, OPEN).how is RefreshKind.UP_TO_DATE
    # What went back with the table, and a column and a constraint of somebody's own.
    here.revert(table, 2)
    alter(table.store, table.snapshot(), partial(says.with_column, name="own", schema={}))
    few = Constraint("range", ["twice"], maximum=10)
    alter(table.store, table.snapshot(), partial(says.with_constraint, name="few", constraint=few))
    last = last_refresh(lake.store, table.snapshot())
    assert last is not None
    assert (last.transaction, last.touched) == (4, table.snapshot().number)
    done = refresh(choice, lake, OPEN)
    assert [str(one) for one in done.columns] == ["'own' is missing (text)"]
    assert fingerprint(table) == before
    assert "few" in table.snapshot().overlay.constraints
    sync(lake, order(3, total=6))
    with pytest.raises(RejectedRowsError, match="row '3', column 'twice': '12' is greater"):
        refresh(choice, lake, OPEN)


def test_a_refresh_that_was_overtaken_begins_anew(
    lake: Lake, choice: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, order(1))
    refresh(choice, lake, OPEN)
    sync(lake, order(2))
    kind = kind_of(choice, lake)
    fresh, others = kind.fresh, [refresh]

    def overtaken(self: SqlAnswer[Any], since: Any) -> Any:
        if others:
            others.pop()(choice, lake, OPEN)
        return fresh(self, since)

    monkeypatch.setattr(kind, "fresh", overtaken)
    assert refresh(choice, lake, OPEN).how is RefreshKind.UP_TO_DATE
    assert rows(lake) == [(1, "NEW", 2), (2, "NEW", 2)]
    assert len(list(staged(lake).entries())) == 2


@pytest.mark.parametrize("there", [True, False], ids=["refreshed", "made"])
def test_a_refresh_takes_no_staging_table_back(
    lake: Lake, choice: EngineChoice, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Another reads a newer state of the source, and commits it, before this one looks."""
    sync(lake, order(1))
    if there:
        refresh(choice, lake, OPEN)
    kind = kind_of(choice, lake)
    read, later = kind.__enter__, [order(2)]

    def overtaken(self: SqlAnswer[Any]) -> SqlAnswer[Any]:
        if later:
            sync(lake, later.pop())
            refresh(choice, lake, OPEN)
        return read(self)

    monkeypatch.setattr(kind, "__enter__", overtaken)
    sync(lake, order(3))
    assert refresh(choice, lake, OPEN).how is RefreshKind.UP_TO_DATE
    refreshed = [entry.metadata["sources"][0]["transaction"] for entry in staged(lake).entries()]
    assert refreshed == [1, 3][-1 - there :]


def test_a_refresh_that_ends_early_is_all_or_nothing(
    lake: Lake, choice: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, order(1), order(2))
    refresh(choice, lake, OPEN)
    sync(lake, order(1, "done"), order(3))

    def ends(*args: Any, error: Exception, done: bool, **more: Any) -> Any:
        if done:
            commit(*args, **more)
        raise error

    for error, done in ((StoreError("gone"), False), (OutcomeUnknownError("gone"), True)):
        with monkeypatch.context() as patched, pytest.raises(type(error)):
            fake = partial(ends, error=error, done=done)
            patched.setattr("singerlake.ops.change.plan.commit", fake)
            refresh(choice, lake, OPEN)
        assert rows(lake)[-1] == ((3, "NEW", 2) if done else (2, "NEW", 2))
        assert len(list(staged(lake).entries())) == 1 + done
    assert refresh(choice, lake, OPEN).how is RefreshKind.UP_TO_DATE


def test_only_a_table_that_a_projection_made_is_replaced(lake: Lake, choice: EngineChoice) -> None:
    sync(lake, order(1))
    sync(lake, order(1), table="staging.orders")
    with pytest.raises(UsageError, match="that no projection created"):
        refresh(choice, lake, OPEN)
    drop_table(lake.store, staged(lake).snapshot(), AlterOptions())
    assert refresh(choice, lake, OPEN).how is RefreshKind.CREATED
    with pytest.raises(UsageError, match="has no staging table"):
        refresh(choice, lake, replace(OPEN, stage=None))


def test_sources_are_read_at_a_version(lake: Lake, choice: EngineChoice) -> None:
    sync(lake, order(1), order(2))
    here.freeze(lake.table(NAME), label="monday")
    sync(lake, order(2, "done"), order(3))
    refresh(choice, lake, OPEN)
    back = refresh(choice, lake, OPEN, at="monday")
    assert (back.how, counts(back)) == (RefreshKind.INCREMENTAL, (1, 0, 1))
    (source,) = back.position.sources
    assert (source.version, source.transaction) == (1, 1)
    assert rows(lake) == [(1, "NEW", 2), (2, "NEW", 2)]
    assert refresh(choice, lake, OPEN, at="1").how is RefreshKind.UP_TO_DATE
    first = refresh(choice, lake, replace(OPEN, stage=TableName("staging", "first")), at="1")
    assert first.position.sources == back.position.sources
    last = last_refresh(lake.store, staged(lake, TableName("staging", "first")).snapshot())
    assert last is not None
    assert last.position.sources == back.position.sources
    assert counts(refresh(choice, lake, OPEN)) == (1, 0, 1)
    with pytest.raises(NotFoundError, match="no version 'never'"):
        refresh(choice, lake, OPEN, at="never")


def test_what_becomes_of_the_source_is_followed(lake: Lake, choice: EngineChoice) -> None:
    every = replace(OPEN, sql="select * from tap_shop.orders")
    table = lake.table(NAME)

    def refreshed(how: RefreshKind, why: str = "") -> Staged:
        done = refresh(choice, lake, every)
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
    vacuum_here(table, history)
    assert "the history of tap-shop.orders" in refreshed(RefreshKind.COMPARED).why
    commit_rows(lake, str(NAME), ORDERS, ["id", "status"], [order(7, "paid")])
    refreshed(RefreshKind.COMPARED, "the columns of tap-shop.orders have changed")
    drop_table(lake.store, table.snapshot(), AlterOptions())
    sync(lake, order(1))
    assert counts(refreshed(RefreshKind.COMPARED, "not the same table")) == (0, 0, 5)


def test_a_staging_table_is_a_source_like_any_other(lake: Lake, choice: EngineChoice) -> None:
    sync(lake, order(1), order(2))
    refresh(choice, lake, OPEN)
    below = replace(
        OPEN,
        name="below",
        sql="select id, twice from staging.orders",
        stage=TableName("staging", "below"),
    )
    refresh(choice, lake, below)
    # The first moves on without a row: the second has nothing to do.
    sync(lake, order(3, "done"))
    assert refresh(choice, lake, OPEN).transaction == 2
    assert refresh(choice, lake, below).how is RefreshKind.UP_TO_DATE
    sync(lake, order(2, total=4))
    refresh(choice, lake, OPEN)
    assert counts(refresh(choice, lake, below)) == (0, 1, 0)
    assert rows(lake, "staging.below") == [(1, 2), (2, 8)]
