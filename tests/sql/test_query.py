# ruff: noqa: E501
from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import GatewayClient

from singerlake.engine.base import Engine
from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.spark.jvm.settings import EXACT_DECIMALS
from singerlake.engine.work import Work
from singerlake.errors import DamagedError, InvalidQueryError, NotFoundError, SingerlakeError
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.snapshot import building, index
from singerlake.snapshot.index import Index
from singerlake.sql import plan
from singerlake.sql.queries.query import query
from singerlake.sql.state import index_rows, requested_rows
from tests.build import commit_rows
from tests.histories import here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "foo": {"type": "string"},
    "we.ird": {"type": "number"},
}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two versions of ``tap-x.orders``, and other tables beside it."""
    lake = Lake.open(str(tmp_path_factory.mktemp("query") / "lake"), create=True)
    rows: list[Any] = [
        {"id": n, "foo": "bar" if n % 2 else None, "we.ird": n / 2} for n in range(10)
    ]
    commit_rows(lake, "tap-x.orders", COLUMNS, ["id"], rows)
    commit_rows(lake, "tap-x.public.lines", COLUMNS, [], rows[:3])
    commit_rows(lake, "tap_y.orders", COLUMNS, [], rows[:4])
    table = lake.find("tap-x.orders")[0]
    here.freeze(table, label="first one")
    commit_rows(lake, "tap-x.orders", COLUMNS, ["id"], [{"id": 100, "foo": "new"}])
    here.freeze(table)
    commit_rows(lake, "tap-x.orders", COLUMNS, ["id"], [{"id": 101}])
    return lake


@pytest.mark.parametrize(
    ("sql", "rows", "sources"),
    [
        ("select count(*) from tap_x.orders", [(12,)], ["tap-x.orders at transaction 5"]),
        ("select count(*) from `tap-x`.orders;", [(12,)], ["tap-x.orders at transaction 5"]),
        ("SELECT count(*) FROM tap_x.orders.1", [(10,)], ["tap-x.orders.1 at transaction 1"]),
        ("select count(*) from tap_x.orders.2 limit 10", [(11,)], ["tap-x.orders.2 at transaction 3"]),
        ("select max(id) from tap_x.orders.`2`", [(100,)], ["tap-x.orders.2 at transaction 3"]),
        ("select count(*) from tap_x.orders.`first one`", [(10,)], ["tap-x.orders.1 at transaction 1"]),
        ("select count(*) from tap_x.orders version as of 2", [(11,)], ["tap-x.orders.2 at transaction 3"]),
        ("select count(*) from tap_x.orders for version as of 'first one'", [(10,)],
         ["tap-x.orders.1 at transaction 1"]),
        ("select count(*) from tap_x.orders timestamp as of '2999-01-01T00:00:00Z' o", [(12,)],
         ["tap-x.orders at transaction 5"]),
        ("select foo from tap_x.orders.2 where foo = 'new'", [("new",)], None),
        ("select orders.id from tap_x.orders where orders.foo = 'new'", [(100,)], None),
        ("select tap_x.orders.id, tap_x.orders.`we.ird` from tap_x.orders where tap_x.orders.id = 3",
         [(3, 1.5)], None),
        ("select TAP_X.orders.* from tap_x.orders where id = 3", [(3, "bar", 1.5)], None),
        ("select tap_x.orders.id from tap_x.orders.1 where tap_x.orders.id = 3", [(3,)], None),
        ("select o.id, l.foo from tap_x.orders o join tap_x.public.lines as l using (id) where id = 1",
         [(1, "bar")], ["tap-x.orders at transaction 5", "tap-x.public.lines at transaction 1"]),
        ("select orders.id from tap_x.orders join tap_x.public.lines on lines.id = orders.id where lines.id = 2",
         [(2,)], None),
        ("select count(*) from tap_x.`public.lines`", [(3,)], None),
        ("select count(*) from tap_y.orders", [(4,)], None),
        ("with c as (select * from tap_x.orders.1) select count(*) from c, (select 1 from tap_y.orders)",
         [(40,)], ["tap-x.orders.1 at transaction 1", "tap_y.orders at transaction 1"]),
        ("with orders as (select 7 as id) select orders.id, o.id from orders, tap_x.orders.1 o where o.id = 1",
         [(7, 1)], None),
        ("select n.id from tap_x.orders.2 n left anti join tap_x.orders.1 v on n.id = v.id", [(100,)], None),
        ("select id from tap_x.orders where id in (select max(id) from tap_x.orders.1)", [(9,)], None),
        ("select '🙂', 'tap_x.orders.1', id from tap_x.orders.1 -- tap_x.nope\n where id = 1 /* ` */",
         [("🙂", "tap_x.orders.1", 1)], None),
        ("select id from tap_x.orders where id = 1 union all select id from tap_y.orders where id = 2",
         [(1,), (2,)], None),
        ("select sum(id) over w from tap_y.orders window w as (order by id) order by 1 limit 2",
         [(0,), (1,)], None),
        ("select count(*) from tap_y.orders tablesample (2 rows)", [(2,)], None),
        ("table tap_y.orders limit 1", [(0, None, 0.0)], None),
        ("from tap_y.orders select count(*)", [(4,)], None),
        ("values (1), (2)", [(1,), (2,)], []),
        ("select explode(array(1, 2)) as x", [(1,), (2,)], []),
        ("select .5, 1.5e3, 2.", [(Decimal("0.5"), 1500.0, Decimal(2))], []),
        ("select id from range(3) where id > 1", [(2,)], []),
    ],
)  # fmt: skip
def test_forms(
    spark: SparkSession, lake: Lake, sql: str, rows: list[Any], sources: list[str] | None
) -> None:
    answer = query(spark, lake, sql)
    assert list(answer.rows()) == rows
    if sources is not None:
        assert sorted(map(str, answer.sources)) == sources


def test_heads_are_taken_at_a_transaction(spark: SparkSession, lake: Lake) -> None:
    sql = "select count(*), (select count(*) from tap_x.orders.2) from tap_x.orders"
    with query(spark, lake, sql, heads={TableName("tap-x", "orders"): 1}) as result:
        assert list(result.rows()) == [(10, 11)]
        assert sorted(map(str, result.sources)) == [
            "tap-x.orders at transaction 1",
            "tap-x.orders.2 at transaction 3",
        ]


@pytest.mark.parametrize(
    "sql",
    [
        "insert into tap_x.orders select * from tap_x.orders",
        "create table x as select 1",
        "create temporary view x as select 1",
        "create function f as 'a.B'",
        "drop table tap_x.orders",
        "set spark.sql.runSQLOnFiles = true",
        "cache table x",
        "add jar '/x.jar'",
        "show tables",
        "describe tap_x.orders",
        "explain select 1",
        "use tap_x",
        "refresh '/etc'",
        "select transform(id) using 'cat' as (x) from tap_x.orders",
        "from tap_x.orders insert overwrite directory '/tmp/x' using parquet select *",
        "select reflect('java.lang.System', 'exit', '1')",
        "select 1 from tap_x.orders where java_method('java.lang.System', 'exit', '1') = ''",
        "select try_reflect('java.lang.System', 'exit', '1')",
        "select sum(id) over w from tap_x.orders window w as (partition by reflect('a', 'b'))",
        "select (select max(reflect('a', 'b')) from tap_x.orders)",
        "select identifier('reflect')('a', 'b')",
        "select * from identifier('tap_x.orders')",
        "select input_file_name() from tap_x.orders",
        "select from_protobuf(foo, 'm', '/etc/passwd') from tap_x.orders",
        "select system.session.f(1)",
        "select * from read_files('/etc')",
        "begin select 1; end",
        "execute immediate 'select 1'",
        "select 1; select 2",
        "selct 1",
        "select",
        "",
        "select * from tap_x.orders.1 version as of 2",
        "select * from tap_x.orders timestamp as of current_date()",
        "select 1/0",
        "select cast('a' as int)",
        "select id from tap_x.orders, tap_y.orders",
    ],
)
def test_refusals(spark: SparkSession, lake: Lake, sql: str) -> None:
    with pytest.raises(InvalidQueryError) as caught:
        list(query(spark, lake, sql).rows())
    said = str(caught.value)
    assert "\n" not in said
    assert "org.apache" not in said
    assert "singerlake_" not in said


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select * from tap_x.nope", ["tap_x.nope", "tap-x.orders", "tap_y.orders"]),
        ("select * from orders", ["orders", "tap.stream"]),
        ("select * from tap_x.orders.9", ["'9'", "1 (first one)", "2"]),
        ("select * from tap_x.orders version as of 'x'", ["'x'", "first one"]),
        ("select * from tap_x.orders timestamp as of '1999-01-01'", ["1999-01-01"]),
        ("select * from parquet.`/etc`", ["parquet./etc"]),
        ("select * from (select * from text.`/etc/passwd`)", ["text./etc/passwd"]),
        ("select sum(1) over w from tap_x.orders window w as (order by (select 1 from csv.`/x`))",
         ["csv./x"]),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named(
    spark: SparkSession, lake: Lake, sql: str, words: list[str]
) -> None:
    with pytest.raises(NotFoundError) as caught:
        query(spark, lake, sql)
    for word in words:
        assert word in str(caught.value)


def test_an_unknown_column_is_named_with_those_there_are(spark: SparkSession, lake: Lake) -> None:
    with pytest.raises(InvalidQueryError) as caught:
        query(spark, lake, "select nope from tap_x.orders")
    assert str(caught.value) == ("there is no column `nope`: tap-x.orders: it has id, foo, we.ird")


def test_taps_that_look_alike(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    alike = Lake.open(str(tmp_path / "alike"), create=True)
    for tap in ("a-b", "a_b", "c-d", "c.d".replace(".", "+")):
        commit_rows(alike, f"{tap}.s", {"tap": {}}, [], [{"tap": tap}])
    assert list(query(spark, alike, "select * from a_b.s").rows()) == [("a_b",)]
    assert list(query(spark, alike, "select * from `c+d`.s").rows()) == [("c+d",)]
    with pytest.raises(InvalidQueryError, match=r"c\+d.s or c-d.s|c-d.s or c\+d.s"):
        query(spark, alike, "select * from c_d.s")


def test_values_are_plain_python(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "plain"), create=True)
    columns = {
        "t": {"type": "string", "format": "date-time"},
        "o": {"type": "object", "properties": {"t": {"type": "string", "format": "date-time"}}},
        "l": {"type": "array", "items": {"type": "string", "format": "date-time"}},
    }
    stamp = "0001-01-01T00:00:00Z"
    commit_rows(lake, "tap.s", columns, [], [{"t": stamp, "o": {"t": stamp}, "l": [stamp, None]}])
    moment = dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc)
    answer = query(spark, lake, "select t, o, l, t from tap.s")
    assert answer.columns == ["t", "o", "l", "t"]
    assert list(answer.rows()) == [(moment, {"t": moment}, [moment, None], moment)]
    assert answer.first(5) == list(answer.rows())
    assert answer.first(0) == []


def test_a_version_does_not_move(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "still"), create=True)
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [{"id": 1, "foo": "a"}])
    table = lake.find("tap.s")[0]
    here.freeze(table)
    before = list(query(spark, lake, "select * from tap.s.1").rows())
    answer = query(spark, lake, "select * from tap.s")
    changed = {"id": {"type": "string"}, "other": {"type": "integer"}}
    commit_rows(lake, "tap.s", changed, ["id"], [{"id": "1", "other": 5}, {"id": "2"}])
    assert list(query(spark, lake, "select * from tap.s.1").rows()) == before == [(1, "a", None)]
    assert list(answer.rows()) == before
    rows = list(query(spark, lake, "select * from tap.s order by id").rows())
    assert rows == [("1", 5), ("2", None)]


def test_a_table_without_a_log_can_be_asked(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "scan"), create=True)
    name = commit_rows(lake, "tap.s", COLUMNS, ["id"], [{"id": 1}, {"id": 1, "foo": "x"}]).table
    lake.store.delete(name.manifest)
    lake.store.delete(name.transaction(1))
    assert list(query(spark, lake, "select foo from tap.s").rows()) == [("x",)]
    assert list(lake.store.list("index/")) == []


def test_bad_data_is_a_plain_error(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "bad"), create=True)
    commit_rows(lake, "tap.s", COLUMNS, ["id"], ['{"id": "x"}'])
    with pytest.raises(DamagedError, match="row 0 of block 1 of tap.s"):
        query(spark, lake, "select * from tap.s")


@pytest.mark.parametrize("place", ["relations", "check_analyzed"])
def test_java_that_ends_while_a_query_is_planned(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def gone(*_: object) -> None:
        raise ConnectionRefusedError("[Errno 111] Connection refused")

    monkeypatch.setattr(plan, place, gone)
    with pytest.raises(SingerlakeError, match="Java ended"):
        query(spark, lake, "select 1")


def test_a_stream_that_has_the_name_of_a_version(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "names"), create=True)
    for table in ("w.orders", "w.orders.2"):
        commit_rows(lake, table, COLUMNS, ["id"], [{"id": 1, "foo": table}])
    with pytest.raises(NotFoundError) as caught:
        query(spark, lake, "select * from w.orders.2")
    assert str(caught.value).endswith("; the stream of that name is written `w`.`orders.2`")
    assert query(spark, lake, "select foo from `w`.`orders.2`").first(1) == [("w.orders.2",)]


@pytest.mark.parametrize("columns", [2, 60])
def test_java_is_asked_as_often_whatever_columns_a_table_has(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Each question takes a tenth of a millisecond, and there were 20 for each column."""
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    properties = {f"c{n}": {"type": "integer"} for n in range(columns)}
    commit_rows(lake, "tap.s", properties, ["c0"], [{"c0": 1, "c1": 2}])
    sql = "select c0, sum(c1) as s from tap.s group by c0"
    with query(spark, lake, sql) as first:
        assert list(first.rows()) == [(1, 2)]
    asked = []
    send = GatewayClient.send_command

    def counted(self: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        if not command.startswith("m\n"):  # an object is forgotten whenever Python collects garbage
            asked.append(command)
        return send(self, command, *args, **kwargs)

    monkeypatch.setattr(GatewayClient, "send_command", counted)
    with query(spark, lake, sql) as again:
        assert list(again.rows()) == [(1, 2)]
    assert len(asked) < 230, "it was 190"


def test_the_index_of_a_small_table_is_made_in_this_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    ints = {"id": {"type": "integer"}, "n": {"type": "integer"}}
    for n in range(3):
        commit_rows(lake, "tap.s", ints, ["id"], [{"id": 1, "n": n}, {"id": n + 2, "n": n}])
    table = lake.find("tap.s")[0]
    made: list[int] = []
    ensure = building.ensure

    def noted(engine: Engine[Any], table: Table, at: TableState, **how: bool) -> Index:
        if isinstance(engine, SparkEngine):
            made.append(at.number)
        return ensure(engine, table, at, **how)

    monkeypatch.setattr(building, "ensure", noted)
    for number, limit in ((1, Work()), (2, Work(9_000, 3)), (3, Work(9_000, 99))):
        monkeypatch.setattr(requested_rows, "SMALL", limit)
        with query(spark, lake, f"select id, n from tap.s version as of '@{number}'") as answer:
            assert sorted(answer.rows()) == [
                (1, number - 1), *((n + 2, n) for n in range(number))
            ]  # fmt: skip
        assert index.sound(table, table.snapshot().at(number)) is not None
    assert made == [1, 2], "Spark makes what has more bytes, or more cells"


@pytest.mark.parametrize(("most", "stages"), [(0, 1), (1, 0)])
def test_rows_of_a_small_table_are_one_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, stages: int
) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}, {"id": 3}])
    monkeypatch.setattr(index_rows, "ONE_TASK_ROWS", 2 * most)
    with query(spark, lake, "select max(id) as last from tap.s") as answer:
        planned = answer.frame._jdf.queryExecution().executedPlan().toString()
        assert planned.count("Exchange SinglePartition") == stages
        assert list(answer.rows()) == [(3,)]


RATES: dict[str, Any] = {
    "id": {"type": "integer"},
    "rate": {"type": "number", "format": "singer.decimal", "precision": 12, "scale": 8},
    "amount": {"type": "number", "format": "singer.decimal", "precision": 12, "scale": 2},
    "price": {"type": ["null", "string"], "format": "singer.decimal"},
}


@pytest.fixture(scope="module")
def rates(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Decimals of several scales, none of which a double holds."""
    lake = Lake.open(str(tmp_path_factory.mktemp("rates") / "lake"), create=True)
    rows: list[Any] = [
        '{"id": 1, "rate": 0.00012345, "amount": 1.03, "price": "11.5"}',
        '{"id": 2, "rate": 0.00000012, "amount": 9999999999.99, "price": "0.25"}',
    ]
    commit_rows(lake, "tap.r", RATES, ["id"], rows)
    return lake


@pytest.mark.parametrize(
    ("expression", "exact"),
    [
        ("rate * amount", ["0.0001271535", "1199.9999999988"]),
        ("amount * rate * amount", ["0.000130968105", "11999999999976.000000000012"]),
        ("rate + amount", ["1.03012345", "9999999999.99000012"]),
        ("rate - amount", ["-1.02987655", "-9999999999.98999988"]),
        ("rate % amount", ["0.00012345", "0.00000012"]),
        ("coalesce(rate, amount)", ["0.00012345", "0.00000012"]),
        ("if(id > 0, rate, amount)", ["0.00012345", "0.00000012"]),
        ("greatest(rate, amount)", ["1.03000000", "9999999999.99000000"]),
        ("price * 2", ["23.000000000000000000", "0.500000000000000000"]),
        ("price * 0.19", ["2.18500000000000000000", "0.04750000000000000000"]),
    ],
)
def test_no_digit_of_a_decimal_is_lost(
    spark: SparkSession, rates: Lake, expression: str, exact: list[str]
) -> None:
    with query(spark, rates, f"select {expression} from tap.r order by id") as answer:
        assert [value for (value,) in answer.rows()] == [Decimal(text) for text in exact]


@pytest.fixture
def empty(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "empty"), create=True)


@pytest.mark.parametrize("numbers", [["-0.0", "1.5"], ["0.0", "1.5"], ["-0.0", "0.0"]])
def test_query_finds_a_zero_whatever_its_sign(
    spark: SparkSession, empty: Lake, numbers: list[str]
) -> None:
    """Spark looks values up in a Parquet file's dictionary by their bits, and 0.0 has two."""
    rows = [f'{{"id": {row}, "n": {n}}}' for row, n in enumerate(numbers)]
    columns = {"id": {"type": "integer"}, "n": {"type": "number"}}
    commit_rows(empty, "tap.z", columns, ["id"], rows)
    here.freeze(empty.find("tap.z")[0])
    zeros = [(row,) for row, n in enumerate(numbers) if float(n) == 0]
    for condition in ("n = 0", "n in (0, 7)", "n = -0.0D", "n between 0 and 1", "n >= 0 and n < 1"):
        sql = f"select id from tap.z.`@1` where {condition} order by id"
        with query(spark, empty, sql) as answer:
            assert [*answer.rows()] == zeros, condition


@pytest.mark.parametrize("name", ["tap.r as x(a, b, c, d)", "tap.r.`@1` x(a, b, c, d)"])
def test_columns_of_a_table_are_called_otherwise_in_a_query(
    spark: SparkSession, rates: Lake, name: str
) -> None:
    with query(spark, rates, f"select x.a from {name} order by 1") as answer:
        assert answer.first(1) == [(1,)]


def test_decimals_are_compared_and_put_together_as_they_are(
    spark: SparkSession, rates: Lake
) -> None:
    near = "select count(*) from tap.r a join tap.r b on a.rate + 1.03 = b.amount"
    both = "select rate from tap.r union all select amount from tap.r order by 1"
    total = "select sum(rate * amount), avg(rate), max(rate / amount) from tap.r"
    with query(spark, rates, near) as answer:
        assert answer.first(1) == [(0,)]
    with query(spark, rates, both) as answer:
        assert answer.first(1) == [(Decimal("0.00000012"),)]
    with query(spark, rates, total) as answer:
        ((product, mean, quotient),) = answer.rows()
    assert (product, mean) == (Decimal("1200.0001271523"), Decimal("0.000061785"))
    assert str(quotient).startswith("0.000119854368932038")


def test_what_has_no_room_in_a_decimal_is_an_error_with_a_way_out(
    spark: SparkSession, rates: Lake
) -> None:
    whole = "select price * price from tap.r"
    cast = "select cast(price as decimal(18,4)) * price from tap.r where id = 1"
    with (
        query(spark, rates, whole) as answer,
        pytest.raises(InvalidQueryError, match=r"Decimal\(38, 36\).* cast\(price as decimal"),
    ):
        list(answer.rows())
    with query(spark, rates, cast) as answer:
        assert [value for (value,) in answer.rows()] == [Decimal("132.25")]


def test_a_session_of_the_users_loses_no_digits_either(spark: SparkSession, rates: Lake) -> None:
    own = spark.newSession()
    for name in EXACT_DECIMALS:
        own.conf.set(name, str(own.conf.get(name) != "true").lower())
    with query(own, rates, "select rate * amount, coalesce(rate, amount) from tap.r") as answer:
        assert min(answer.rows()) == (Decimal("0.0001271535"), Decimal("0.00012345"))
