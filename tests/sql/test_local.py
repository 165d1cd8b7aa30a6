"""SQL in this process, on DuckDB: what is on the list, what is not, and what becomes of that."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from singerlake import extras
from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import (
    ConflictError,
    InvalidQueryError,
    NotFoundError,
    RuntimeMissingError,
    UsageError,
)
from singerlake.lake import Lake
from singerlake.sql.answers import answer
from singerlake.sql.local import duck
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.query import LocalQueryResult, query
from tests.build import commit_rows
from tests.histories import here
from tests.sql.local_cases import SAME, T, fill

LOCAL = EngineChoice("local")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return fill(Lake.open(str(tmp_path_factory.mktemp("local") / "lake"), create=True))


def ask(lake: Lake, sql: str, **more: Any) -> list[tuple[Any, ...]]:
    with query(lake, sql, LOCAL, **more) as result:
        return list(result.rows())


@pytest.mark.parametrize("sql", SAME)
def test_query_answers_what_is_on_the_list(lake: Lake, sql: str) -> None:
    with query(lake, sql, LOCAL) as result:
        table = result.to_arrow()
        assert table.num_rows == len(list(result.rows()))
        assert table.schema == result.schema


def test_query_gives_names_types_and_sources_of_spark(lake: Lake) -> None:
    sql = f"select flag, count(*), sum(`we.ird`), max(at) as last from {T}.`@1` group by flag"
    with query(lake, sql, LOCAL) as result:
        assert result.columns == ["flag", "count(1)", "sum(we.ird)", "last"]
        assert result.to_arrow().schema.types == [
            *(pa.bool_(), pa.int64(), pa.int64()),
            pa.timestamp("us", "UTC"),
        ]
        assert [str(one) for one in result.sources] == ["tap-x.orders at transaction 1"]


def test_row_metadata_is_in_front_of_the_columns(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    columns: dict[str, Any] = {"k": {"type": "string"}, "_ROW_ID": {"type": "integer"}}
    commit_rows(lake, "tap.s", columns, ["k"], [{"k": "a"}, {"k": "b"}])
    commit_rows(lake, "tap.s", columns, ["k"], [{"k": "b", "_ROW_ID": 7}])
    commit_rows(lake, "tap.n", columns, [], [{"k": "a"}, {"k": "b"}], block_rows=1)
    commit_rows(lake, "tap.two", columns, ["k", "_ROW_ID"], [{"k": "a", "_ROW_ID": 1}])
    with query(lake, "select * from tap.s order by k", LOCAL, row_metadata=True) as result:
        assert result.columns == ["__row_id", "__row_version", "__transaction", "k", "_ROW_ID"]
        assert list(result.rows()) == [("a", 1, 1, "a", None), ("b", 2, 2, "b", 7)]
    keyless = "select __row_id, __transaction as t from tap.n order by __row_id"
    assert ask(lake, keyless, row_metadata=True) == [("1:0", 1), ("2:0", 1)]
    assert ask(lake, "select k from tap.two", row_metadata=True) == [("a",)]
    with pytest.raises(
        OutsideError, match="_row_id in a table whose key is not a single number or string"
    ):
        ask(lake, "select * from tap.two", row_metadata=True)


def test_tables_without_rows_or_columns_are_answered(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    deleted = {"id": {"type": "integer"}, "_sdc_deleted_at": {"type": "string"}}
    commit_rows(lake, "tap.s", deleted, ["id"], [{"id": 1, "_sdc_deleted_at": "2026-01-01"}])
    commit_rows(lake, "tap.n", {}, [], [{}, {}])
    assert ask(lake, "select id from tap.s order by id") == []
    assert ask(lake, "select count(*), max(id) from tap.s") == [(0, None)]
    assert ask(lake, "select count(*) from tap.n") == [(2,)]


OUTSIDE = {
    "SUM of double": f"select sum(x) from {T}",
    "AVG of double": f"select avg(x) from {T}",
    "AVG of decimal(38,2)": f"select avg(d) from {T}",
    "SUM of string": f"select sum(s) from {T}",
    "the function sum() of something else": f"select sum(distinct n) from {T}",
    "COUNT of several columns": f"select count(distinct n, s) from {T}",
    "GROUP BY of double": f"select x, count(*) from {T} group by x",
    "DISTINCT of double": f"select distinct x from {T}",
    "COUNT DISTINCT of double": f"select count(distinct x) from {T}",
    "DISTINCT of array": f"select distinct list from {T}",
    "a comparison of two doubles": f"select id from {T} where x = x",
    "a comparison of bigint with string": f"select id from {T} where n = s",
    "a comparison of string with the number 1": f"select id from {T} where s = 1",
    "a comparison of bigint with a string": f"select id from {T} where n = '1'",
    "a comparison of bigint with the number 1.5": f"select id from {T} where n > 1.5",
    "a comparison of decimal(38,2) with bigint": f"select id from {T} where d = n",
    "a comparison of date with timestamp": f"select id from {T} where day = at",
    "the number 0.123": f"select id from {T} where d > 0.123",
    "the number 9223372036854775808": f"select id from {T} where n > 9223372036854775808",
    "the number 1e400": f"select id from {T} where x > 1e400",
    "a date written otherwise": f"select id from {T} where day = '2026-1-1'",
    "a timestamp written otherwise": f"select id from {T} where at > '2026-01-01 00:00:00+02:00'",
    "a comparison of struct": f"select id from {T} where obj is null",
    "arithmetic of double": f"select x + 1 as m from {T}",
    "arithmetic of literals": f"select id from {T} where case when flag then 1 + 1 end = 2",
    "ADD as a side of a comparison": f"select id from {T} where n + 1 = 2",
    "a condition on the function coalesce()": f"select id from {T} where coalesce(n + 1, 2) = 2",
    "a condition on the function upper()": f"select upper(s) = 'A' as m from {T}",
    "arithmetic, with LIMIT": f"select n + 1 as m from {T} limit 1",
    "LIMIT or HAVING": f"select n + 1 as m from {T} group by n having count(*) > 1",
    "decimal(38,2) * decimal(38,2)": f"select d * d as m from {T}",
    "bigint + decimal(38,2)": f"select n + d as m from {T}",
    "the number 1.5 ": f"select n * 1.5 as m from {T}",
    "+ after +": f"select n + +1 as m from {T}",
    "+ after select": f"select +s as m from {T}",
    "and after where": f"select id from {T} where and(flag)",
    "NEG": f"select -n as m from {T}",
    "the sign /": f"select n / 2 as m from {T}",
    "whose type no column decides": f"select case when n = 1 then 2 end as m from {T}",
    "a choice between bigint and string": f"select coalesce(n, s) as m from {T}",
    "a choice between struct": f"select coalesce(obj, obj) as m from {T}",
    "does not begin with its type": f"select coalesce(day, '2026-01-01') as m from {T}",
    "CASE with THIS": f"select case n when 1 then s end as m from {T}",
    "strings with bigint": f"select upper(n) as m from {T}",
    "beyond ASCII": f"select upper(concat(s, 'é')) as m from {T}",
    "trim() with POSITION": f"select trim(both from s) as m from {T}",
    "a number that overflows": f"select n * 9223372036854775807 as m from {T}",
    "the function substr()": f"select substr(s, 0, 1) as m from {T}",
    "the function cast()": f"select cast(s as int) as m from {T}",
    "the function mean()": f"select mean(n) as m from {T}",
    "the function nope()": f"select nope(s) as m from {T}",
    "a string with a backslash": rf"select id from {T} where s = 'a\nb'",
    "'it''s' without a blank": f"select id from {T} where s = 'it''s'",
    "a string after a string": f"select id from {T} where s = 'a' 'b'",
    "the name 1_000 without backticks": f"select id from {T} where n = 1_000",
    "the name 1L": f"select id from {T} where n = 1L",
    "the sign =>": f"select id from {T} where n <=> 1",
    "the sign !": f"select id from {T} where !flag",
    "LIKE of something else": f"select id from {T} where s like mixed",
    "ILIKE": f"select id from {T} where s ilike s",
    "IN with QUERY": f"select id from {T} where id in (select id from {T})",
    "EXISTS": f"select id from {T} where exists (select 1 from {T})",
    "IS of something else": f"select id from {T} where flag is true",
    "as a side of a comparison": f"select id from {T} where flag = n is null",
    "bigint as a condition": f"select id from {T} where n and flag",
    "WINDOW": f"select sum(n) over (order by id) as w from {T}",
    "FILTER": f"select count(*) filter (where flag) as w from {T}",
    "an aggregate in WHERE": f"select id from {T} where count(*) > 1",
    "neither in GROUP BY": f"select id, count(*) from {T} group by n",
    "HAVING without a group": f"select id from {T} having id > 1",
    "ROLLUP": f"select n, count(*) from {T} group by rollup (n)",
    "GROUP BY of something else": f"select n > 1 as m, count(*) from {T} group by all",
    "the position 7": f"select id from {T} order by 7",
    "not selected, with DISTINCT": f"select distinct n from {T} order by s",
    "not selected, with DISTINCT ": f"select distinct o.n from {T} o order by o.n",
    "which has no name of the answer": f"select max(n) as n from {T} order by max(n)",
    "no name of the answer": f"select s from {T} group by s having min(n) > 1 order by max(n)",
    "aggregate in ORDER BY": f"select distinct s, max(n) from {T} group by s order by max(n)",
    "LIMIT of something else": f"select id from {T} limit all",
    "several tables have": f"select s from {T} o, tap_x.lines l",
    "two tables called orders": f"select 1 as a from {T}, {T}",
    "LEFT SEMI JOIN": f"select id from {T} left semi join tap_x.lines on id = order_id",
    "JOIN with USING": f"select id from {T} join {T} o using (id)",
    "JOIN with METHOD": f"select id from {T} natural join {T} o",
    "SUBQUERY in FROM": f"select id from (select id from {T}) o",
    "more than one SELECT": f"select id from {T} union all select id from {T}",
    "something else than SELECT": "values (1)",
    "a SELECT without FROM": "select 1 as a",
    "a member of a column": f"select obj.a from {T}",
    "TABLE with SAMPLE": f"select id from {T} tablesample (2 rows)",
    "an expression in the select list": f"select n > 1 from {T}",
    "LITERAL": f"select 1 as one from {T}",
    "the sign |": f"select id from {T} |> where id = 1",
    "the sign {": f"select {{x}} from {T}",
    "a column of the answer": f"select id as a, n from {T} where a = 1",
}


NO_SQL_OF_SPARK = [
    f"select id from {T} order by id limit 1, 2",
    f"select id, from {T}",
    f"select ,id from {T}",
    f"select id,, n from {T}",
    f"select id from {T},",
    f"select id from {T} where id in (1,)",
    f"select id from {T} where id in (,1)",
    f"select id from {T} order by id,",
    f"select n, count(*) from {T} group by n,",
    f"select coalesce(s, s,) as a from {T}",
    f"select concat(,s) as a from {T}",
    f"select id from {T} limit 3 order by id",
    f"select id from {T} order by id offset 3 limit 2",
    f"select n, count(*) from {T} group by n where id > 1",
    f"select n, count(*) from {T} having count(*) > 1 group by n",
    f"select id from {T} order by n where id > 1",
    f"select id from {T} limit 2 where id > 1",
    f"select id from {T} where n isnull",
    f"select id from {T} where n notnull",
    f"select id from {T} where n not is null",
    f"select case when flag s end as a from {T}",
    f"select id from {T} order by id nulls first nulls last",
    f"select id from {T} order by id offset 2 rows",
    f"select n, count(*) from {T} group by all n",
    f"select n, count(*) from {T} group by all, n",
    f"select n, count(*) from {T} group by distinct n",
    f"select all, n from {T}",
    f"select distinct, n from {T}",
    f"select id from {T} as",
    f"select id as from {T}",
    f"select id from {T} where not",
    f"select id from {T} where id between 1, 2",
    f"select count(distinct) from {T}",
    f"select id from {T} /*+ hello */",
    f"select /*+ broadcast(o) */ id from {T} o",
    f"select id from {T} /* a /* b */ c */",
    f"select id from {T} /* open",
    f"select\x85id from {T}",
    f"select\u2029id from {T}",
    f"select\x0bid from {T}",
    f"select id from {T} where {' or '.join(f'n = {n}' for n in range(2000))}",
    f"select {' + '.join(['n'] * 2000)} as a from {T}",
    f"select id from {T} where {'(' * 900}flag{')' * 900}",
    f"select a.id from {T} a, {T} b join {T} c on c.id = a.id",
]


@pytest.mark.parametrize("sql", NO_SQL_OF_SPARK)
def test_what_spark_does_not_parse_is_left_to_it(lake: Lake, sql: str) -> None:
    with pytest.raises(OutsideError):
        query(lake, sql, LOCAL)


@pytest.mark.parametrize("name", ["all", "ALL", "distinct", "case", "order", "user"])
def test_columns_may_be_called_as_words_of_sql(tmp_path: Path, name: str) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    columns = {"id": {"type": "integer"}, name: {"type": "integer"}}
    commit_rows(lake, "t.t", columns, ["id"], [{"id": n, name: n % 2} for n in range(4)])
    assert ask(lake, f"select `{name}`, count(*) from t.t group by `{name}` order by 1") == [
        (0, 2),
        (1, 2),
    ]
    for sql in (f"select {name}, id from t.t", f"select id from t.t group by {name}, id"):
        try:
            rows = ask(lake, sql)
        except OutsideError:
            continue
        assert len(rows) == 4
        assert len(rows[0]) == sql.count(",") + 1 - sql.count("group")
    if name.casefold() == "all":
        with pytest.raises(OutsideError, match="with a column of that name"):
            ask(lake, "select id, count(*) from t.t group by all")


def test_literals_are_what_they_are_on_spark(lake: Lake) -> None:
    for text, zero in (("-0.0", "0.0"), ("-0", "0.0"), ("-0e0", "-0.0"), ("0", "0.0")):
        rows = ask(lake, f"select coalesce(x, {text}) as a from {T} where x is null")
        assert repr(rows[0][0]) == zero
    for text in (f"0.{'1' * 39}", f"{'1' * 30}.{'1' * 10}"):
        with pytest.raises(OutsideError, match="more than 38 digits"):
            ask(lake, f"select id from {T} where x < {text}")
    assert ask(lake, f"select count(*) from {T} where x < {'1' * 39}e0")


@pytest.mark.parametrize("sql", ["0 * n * n", "n * 0 * n", "n + -5 + (id + n)", "1 * (n * n)"])
def test_chains_that_spark_orders_otherwise_are_left_to_it(lake: Lake, sql: str) -> None:
    with pytest.raises(OutsideError, match="literals in a chain"):
        ask(lake, f"select {sql} as a from {T}")
    assert ask(
        lake, f"select n + id + n as a, n * 2 * 3 as b, 1 + n - id as c from {T} where id = 1"
    )


@pytest.mark.parametrize("name", ["current_time", "user", "session_user", "current_catalog"])
def test_functions_without_brackets_are_left_to_spark(lake: Lake, name: str) -> None:
    with pytest.raises(OutsideError):
        ask(lake, f"select {name} as a from {T}")


@pytest.mark.parametrize(("construct", "sql"), OUTSIDE.items())
def test_query_names_what_is_not_on_the_list(lake: Lake, construct: str, sql: str) -> None:
    with pytest.raises(OutsideError) as caught:
        query(lake, sql, LOCAL)
    assert construct.strip() in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "error", "says"),
    [
        (f"select nope from {T}", InvalidQueryError, "no column `nope`: tap-x.orders: it has"),
        (f"select o.idd from {T} o", InvalidQueryError, "did you mean id of tap-x.orders"),
        (f"select Id from {T}", InvalidQueryError, "no column `Id`"),
        ("select * from tap_x.nope", NotFoundError, "no table tap_x.nope"),
        ("select * from orders", NotFoundError, "write a table as tap.stream"),
        (f"select * from {T}.7", NotFoundError, "7"),
    ],
)
def test_query_fails_as_on_spark(lake: Lake, sql: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        query(lake, sql, LOCAL)
    assert says in str(caught.value)


def test_query_fails_if_the_table_has_moved(lake: Lake) -> None:
    assert ask(lake, f"select count(*) from {T}", if_transaction={"*": 2}) == [(6,)]
    with pytest.raises(ConflictError, match="at transaction 2, not 1 any more"):
        ask(lake, f"select count(*) from {T}", if_transaction={"tap-x.orders": 1})


def test_sums_that_spark_may_not_hold_are_left_to_it(lake: Lake) -> None:
    big = {"n": 2**62, "d": "9" * 38}
    decimal = {"type": "string", "format": "singer.decimal", "scale": 0}
    columns = {"n": {"type": "integer"}, "d": decimal}
    commit_rows(lake, "tap-x.big", columns, [], [big, big, {"n": -5, "d": "1"}])
    for value in ("sum(n)", "avg(n)", "sum(d)"):
        with pytest.raises(OutsideError, match="a sum that may exceed"):
            ask(lake, f"select {value} from tap_x.big")
    small = "select sum(n), avg(n), sum(d) from tap_x.big where n < 9007199254740993"
    assert ask(lake, small) == [(-5, -5.0, 1)]
    assert ask(lake, f"{small} and n > 0") == [(None, None, None)]


def test_zeros_whose_sign_the_order_decides_are_left_to_spark(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    columns = {"g": {"type": "integer"}, "x": {"type": "number"}}
    rows = [
        '{"g": 1, "x": -0.0}',
        '{"g": 1, "x": 0.0}',
        '{"g": 2, "x": 0.0}',
        '{"g": 3, "x": -0.0}',
    ]
    commit_rows(lake, "tap.s", columns, [], [*rows, '{"g": 3, "x": -1}'])
    for value in ("min(x)", "max(x)"):
        with pytest.raises(OutsideError, match="-0.0 as the smallest or largest"):
            ask(lake, f"select {value} from tap.s where g = 1")
    assert ask(lake, "select min(x), max(x) from tap.s where g = 2") == [(0.0, 0.0)]
    assert ask(lake, "select min(x) from tap.s where g = 3") == [(-1.0,)]
    assert len(ask(lake, "select g from tap.s where x = 0")) == 4


def test_values_that_do_not_fit_are_left_to_spark(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, "tap.s", {"a": {"type": "integer"}, "b": {}}, [], [{"a": "no", "b": 1}])
    assert ask(lake, "select count(*), max(b) from tap.s") == [(1, "1")]
    with pytest.raises(OutsideError, match="the column a, which has values that do not fit"):
        ask(lake, "select b from tap.s where a = 1")
    with pytest.raises(OutsideError, match="the column a"):
        ask(lake, "select b from tap.s", on_type_mismatch="null")


def test_tables_are_local_if_they_are_small_or_materialized(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    commit_rows(lake, "tap.s", {"a": {"type": "integer"}}, [], [{"a": 1}])
    nothing = EngineChoice("auto", limit=Work())
    with pytest.raises(OutsideError, match=r"tap\.s, which is large and not materialized yet"):
        query(lake, "select a from tap.s", nothing)
    here.freeze(lake.table("tap.s"))
    query(lake, "select a from tap.s", nothing).close()
    query(lake, "select a from tap.s.1", nothing).close()


def test_result_protects_what_it_reads_until_it_is_closed(lake: Lake) -> None:
    def leases() -> int:
        return sum("/leases/" in item.key for item in lake.store.list(""))

    before = leases()
    result = query(lake, f"select id from {T} order by id", LOCAL)
    assert leases() == before + 1
    assert list(result.rows()) == list(result.rows()) == [(n,) for n in range(1, 7)]
    result.close()
    result.close()
    assert leases() == before
    with pytest.raises(OutsideError):
        query(lake, f"select sum(x) from {T}", LOCAL)
    assert leases() == before


def test_rows_come_part_by_part(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    rows: list[Any] = [{"a": n} for n in range(70_000)]
    commit_rows(lake, "tap.s", {"a": {"type": "integer"}}, [], rows, block_rows=70_000)
    with query(lake, "select a from tap.s", LOCAL) as result:
        batches = list(result.batches())
        assert len(batches) > 2
        assert [row["a"] for one in batches for row in one.to_pylist()] == list(range(70_000))
        assert result.glimpse(3) == [(0,), (1,), (2,)]


def test_answer_chooses_the_engine(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with answer(lake, f"select id from {T}", EngineChoice()) as result:
        assert isinstance(result, LocalQueryResult)
    with pytest.raises(UsageError, match=r"SUM of double needs Spark: use the engine"):
        answer(lake, f"select sum(x) from {T}", LOCAL)
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "pyspark" else sys)
    with pytest.raises(RuntimeMissingError, match="with SUM of double needs pyspark, which"):
        answer(lake, f"select sum(x) from {T}", EngineChoice())
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(RuntimeMissingError, match="simple SQL needs less: pip install"):
        answer(lake, f"select id from {T}", EngineChoice())
    with pytest.raises(RuntimeMissingError, match=r"needs duckdb.*'singerlake\[sql\]'"):
        answer(lake, f"select id from {T}", LOCAL)


LOCKED = [
    "select * from read_csv('{file}')",
    "select * from '{file}'",
    "select * from read_text('{file}')",
    "select * from glob('{file}')",
    "select * from read_csv('http://127.0.0.1:9/x.csv')",
    "select * from secret",
    "copy (select 1) to '{file}.out'",
    "copy t0 from '{file}'",
    "attach '{file}.db'",
    "export database '{file}.out'",
    "import database '{file}'",
    "install httpfs",
    "load httpfs",
    "load '{file}'",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "set memory_limit = '100GB'",
    "set threads = 8",
    "set temp_directory = '{file}.tmp'",
    "set python_enable_replacements = true",
    "reset memory_limit",
    "create secret s (type s3)",
]


@pytest.mark.parametrize("sql", LOCKED)
def test_duckdb_is_locked_where_a_statement_gets_past_the_list(tmp_path: Path, sql: str) -> None:
    secret = pa.table({"canary": ["canary-4711"]})  # a name of this frame
    file = tmp_path / "canary.csv"
    file.write_text("canary-4711\n")
    connection = duck.locked()
    try:
        with pytest.raises(duckdb.Error) as caught:
            connection.sql(sql.format(file=file)).fetchall()
        assert "canary-4711" not in str(caught.value)
    finally:
        connection.close()
    assert [path.name for path in tmp_path.iterdir()] == ["canary.csv"]
    assert secret.num_rows == 1


def test_query_leaves_no_thread_behind(lake: Lake) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    ask(lake, f"select id from {T}")
    before = threads()
    for _ in range(5):
        ask(lake, f"select s, count(*) from {T} group by s order by s")
    assert threads() <= before


def test_statement_may_be_no_longer_than_its_tree_is_read(lake: Lake) -> None:
    with pytest.raises(OutsideError, match="very many words"):
        query(lake, f"select id from {T} where {' or '.join(['n = 1'] * 20_000)}", LOCAL)
    deep = f"select id from {T} where {'(' * 3000}n = 1{')' * 3000}"
    with pytest.raises(OutsideError):
        query(lake, deep, LOCAL)
    assert ask(lake, f"select id from {T} where {' or '.join(['id = 1'] * 100)}") == [(1,)]


def test_relation_that_a_plan_reads_twice_is_refused() -> None:
    """A stream of rows is read once, and would be empty for whoever reads it again."""
    schema = pa.schema([("n", pa.int64())])
    rows = pa.RecordBatch.from_pydict({"n": [1, 2]}, schema=schema)

    def answered(sql: str) -> list[dict[str, Any]]:
        given = duck.answered(
            sql, [], pa.schema([("n", pa.int64())]), [lambda: (schema, iter([rows]))]
        )
        return [row for batch in given for row in batch.to_pylist()]

    assert answered("SELECT n FROM t0 ORDER BY n") == [{"n": 1}, {"n": 2}]
    window = "SELECT n FROM (SELECT n, count(*) OVER (PARTITION BY n) AS c FROM t0) WHERE c = 1"
    assert len(answered(window)) == 2
    with pytest.raises(OutsideError, match="would read twice"):
        answered("SELECT a.n FROM t0 a JOIN t0 b ON a.n = b.n")
