"""A projection's SQL: whether it is row by row, and what changed of its answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import DamagedError, InvalidQueryError
from singerlake.lake import Lake
from singerlake.ops.publish.projected import Projected, SourceChanges
from singerlake.publish.positions import state_of
from singerlake.publish.published import SourceState
from tests.build import commit_rows
from tests.histories import here

ORDERS: dict[str, Any] = {
    "id": {"type": "integer"},
    "shop": {"type": "string"},
    "status": {"type": ["null", "string"]},
    "a.b`c": {"type": ["null", "integer"]},
}
GONE = {"_sdc_deleted_at": "2026-01-02T03:04:05Z"}
KEYED = "tap-shop.orders"
PLAIN = "tap-shop.events"
ODD = "tap-shop.odd"


def order(id_: int, status: str | None = "new", **more: Any) -> dict[str, Any]:
    return {"id": id_, "shop": "x", "status": status, "a.b`c": id_, **more}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = Lake.open(str(tmp_path_factory.mktemp("projected") / "lake"), create=True)
    key = ["shop", "id"]
    commit_rows(made, KEYED, ORDERS, key, [order(n) for n in range(6)])
    commit_rows(made, PLAIN, ORDERS, [], [order(1), order(1)])
    for status in ("new", "paid"):
        odd = {**order(1, status), "a.b`c": f"no number, {status}"}
        commit_rows(made, ODD, ORDERS, key, [odd])
    came = [order(0, "done"), order(1, "paid"), order(2, **GONE), order(3), order(7)]
    commit_rows(made, KEYED, ORDERS, key, came)
    commit_rows(made, PLAIN, ORDERS, [], [order(2)])
    return made


def state(lake: Lake, table: str, number: int) -> SourceState:
    return state_of(lake.find(table)[0].snapshot().at(number))


@pytest.fixture
def asked(spark: SparkSession, lake: Lake) -> Iterator[Any]:
    """Makes what is asked, and gives it up at the end."""
    held: list[Projected] = []

    def make(sql: str) -> Projected:
        held.append(Projected(spark, lake, sql))
        return held[-1]

    yield make
    for one in held:
        one.close()


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("select * from tap_shop.orders", ("shop", "id")),
        (
            "select o.shop, id from tap_shop.orders as o where status <> 'x' or id > 2",
            ("shop", "id"),
        ),
        ("select id + 1 as id, shop from tap_shop.orders", ()),
        (
            "select id as number, id, upper(shop) as shop, shop as s from tap_shop.orders",
            ("s", "number"),
        ),
        (
            "select b as c, s from (select id as b, shop as s, status from tap_shop.orders "
            "where status is not null) where b < 10",
            ("s", "c"),
        ),
        ("select shop from tap_shop.orders", ()),
        ("select id, shop from tap_shop.events", ()),
        ("select cast(id as string) as id, shop from tap_shop.orders", ()),
    ],
)
def test_a_query_that_is_row_by_row_keeps_a_key_or_not(
    asked: Any, lake: Lake, sql: str, key: tuple[str, ...]
) -> None:
    projected = asked(sql)
    assert projected.key == key
    assert projected.is_key(key[::-1]) is bool(key)
    assert not projected.is_key(key[:1])
    table = KEYED if ".orders" in sql else PLAIN
    keeps = key or table == PLAIN
    why = projected.obstacle([state(lake, table, 1)])
    assert why is None if keeps else "does not contain the key" in str(why)


def test_any_column_that_is_of_the_key_will_do(asked: Any) -> None:
    projected = asked("select id, id as number, shop, upper(shop) as s from tap_shop.orders")
    assert projected.is_key(["number", "shop"])
    assert not projected.is_key(["id", "number"])
    assert not projected.is_key(["number", "s"])
    assert not projected.is_key(["id", "number", "shop"])


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("select shop, count(*) as n from tap_shop.orders group by shop", "aggregates rows"),
        ("select distinct shop from tap_shop.orders", "duplicate rows"),
        ("select count(*) as n from tap_shop.orders", "aggregates rows"),
        (
            "select a.id, a.shop from tap_shop.orders a join tap_shop.events b using (id)",
            "more than",
        ),
        ("select id, shop from tap_shop.orders union all select 1, 'x'", "more than one table"),
        (
            "select id, shop, row_number() over (order by id) as n from tap_shop.orders",
            "other rows",
        ),
        ("select id, shop from tap_shop.orders limit 3", "limits the number of rows"),
        ("select id, shop from tap_shop.orders order by id", "sorts"),
        (
            "select id, shop, explode(array(1, 2)) as n from tap_shop.orders",
            "several rows from one",
        ),
        (
            "select id, shop from tap_shop.orders where id in (select id from tap_shop.events)",
            "contains another query",
        ),
        ("select id, (select max(id) from tap_shop.events) as m from tap_shop.orders", "another"),
        ("with o as (select * from tap_shop.orders) select * from o", "WITH"),
        ("select 1 as id", "OneRowRelation"),
    ],
)
def test_a_query_that_is_not_row_by_row_says_why(
    asked: Any, lake: Lake, sql: str, why: str
) -> None:
    projected = asked(sql)
    assert why in str(projected.obstacle([state(lake, KEYED, 1)]))
    assert projected.key == ()


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("rand()", "rand()"),
        ("concat('a', uuid())", "uuid()"),
        ("current_date", "current_date()"),
        ("date_sub(current_date(), 3)", "current_date()"),
        ("now()", "now()"),
        ("unix_timestamp()", "current_timestamp()"),
        ("localtimestamp()", "localtimestamp()"),
        ("monotonically_increasing_id()", "monotonically_increasing_id()"),
        ("spark_partition_id()", "SPARK_PARTITION_ID()"),
        ("(select max(id) from tap_shop.events where rand() > 0.5)", "rand()"),
        ("current_timezone()", "current_timezone()"),
        ("shuffle(array(1, 2))", "shuffle()"),
        ("randstr(3)", "randstr()"),
        ("uniform(1, 9)", "uniform()"),
    ],
)
def test_what_answers_otherwise_each_time_is_named(asked: Any, expression: str, name: str) -> None:
    projected = asked(f"select id, {expression} as x from tap_shop.orders")
    with pytest.raises(InvalidQueryError, match=r"incremental: false") as found:
        projected.check_deterministic("the SQL")
    assert f"calls {name}," in str(found.value)


@pytest.mark.parametrize(
    "sql",
    [
        "select id, upper(status) as s, make_date(2026, 1, id) as d from tap_shop.orders",
        "select shop, sort_array(collect_list(id)) as n, first(id) from tap_shop.orders group by 1",
    ],
)
def test_what_answers_the_same_is_let_pass(asked: Any, sql: str) -> None:
    asked(sql).check_deterministic("the SQL")


def test_a_sample_is_not_the_same_each_time(asked: Any) -> None:
    with pytest.raises(InvalidQueryError, match="TABLESAMPLE"):
        asked("select * from tap_shop.orders tablesample (10 percent)").check_deterministic("it")


def sides(changes: SourceChanges) -> set[tuple[Any, ...]]:
    return {
        tuple(side and tuple(side) for side in (row["before"], row["after"]))
        for row in changes.pairs.collect()
    }


def test_what_changed_of_an_answer(asked: Any, lake: Lake) -> None:
    projected = asked(
        "select shop as s, id as number, status, `a.b``c` from tap_shop.orders "
        "where status <> 'done'"
    )
    since = [state(lake, KEYED, 1)]
    assert projected.obstacle(since) is None
    changes = projected.changes(since)
    assert changes.key == ("s", "number")
    assert changes.before.columns == ["s", "number", "status", "a.b`c"]
    assert sides(changes) == {
        (("x", 0, "new", 0), None),  # it is done
        (("x", 1, "new", 1), ("x", 1, "paid", 1)),
        (("x", 2, "new", 2), None),  # it is gone
        (None, ("x", 7, "new", 7)),
    }


def test_what_changed_without_a_key_is_added(asked: Any, lake: Lake) -> None:
    projected = asked("select id, status from tap_shop.events")
    changes = projected.changes([state(lake, PLAIN, 1)])
    assert changes.key == ()
    assert changes.before.isEmpty()
    assert sides(changes) == {(None, (2, "new"))}


def test_a_value_that_does_not_fit_is_in_the_way_of_who_reads_it(asked: Any, lake: Lake) -> None:
    changes = asked("select id, shop, status from tap_shop.odd").changes([state(lake, ODD, 1)])
    assert sides(changes) == {((1, "x", "new"), (1, "x", "paid"))}
    changes = asked("select id, shop, `a.b``c` as n from tap_shop.odd").changes(
        [state(lake, ODD, 1)]
    )
    with pytest.raises(DamagedError, match="no number"), plain_errors():
        changes.pairs.collect()


def test_what_cannot_be_followed_says_why(asked: Any, lake: Lake) -> None:
    projected = asked("select * from tap_shop.orders")
    then = state(lake, KEYED, 1)
    assert "other tables" in str(projected.obstacle([]))
    assert "other tables" in str(projected.obstacle([then, then]))
    assert "other tables" in str(projected.obstacle([state(lake, PLAIN, 1)]))
    assert "not the same table" in str(projected.obstacle([replace(then, commit="another")]))
    assert "not the same table" in str(projected.obstacle([replace(then, transaction=99)]))


def test_a_query_is_asked_of_a_version(spark: SparkSession, lake: Lake) -> None:
    here.freeze(lake.find(PLAIN)[0], label="first")
    with Projected(spark, lake, "select id from tap_shop.events", at="first") as projected:
        assert [one.version for one in projected.sources] == [1]
        assert projected.rows().frame.count() == 3
