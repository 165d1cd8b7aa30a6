"""The tables that a query reads: what is found without Spark is what Spark's own parser finds."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from singerlake.errors import InvalidQueryError
from singerlake.format.sql_tables import Reference, table_references
from singerlake.format.sql_tokens import quote_versions
from singerlake.sql import plan
from tests.format.test_sql_tables import QUERIES

MORE = [
    "select count(*) filter (where x in (select i from a.b)) over (order by i) from c.d",
    "select case when exists (select 1 from a.b) then 1 end from c.d as `from`, e.f as joined",
    "with recursive r(n) as (select 1 union all select n + 1 from r, a.b) select * from r join c.d",
    "with a as (select 1), b (x) as (with c as (table a.b) select 2 from c) select * from a, b",
    "select * from a.b left semi join c.d on b.i = d.i left anti join e.f using (i)",
    "select * from a.b left join lateral (select max(i) m from c.d where d.i = b.i)",
    "select * from a.b cross join lateral explode(l) as t(x), c.d",
    "select a.* from a.b a, (values (1, 'from x.y')) as v(i, t) where a.i = v.i",
    "select * from (a.b join (c.d join e.f using (i)) using (i)), g.h",
    "((select * from a.b) intersect (select * from c.d)) minus all table e.f limit 3 offset 2",
    "from a.b select i, j where i > 1 order by (select max(i) from c.d)",
    "select transform(l, x -> x), overlay(s placing 'x' from 2 for 1), position('a' in s) from a.b",
    "select i from a.b group by i, j with rollup having max(j) > (select min(i) from c.d)",
    "select i from a.b group by grouping sets ((i), (j)) sort by i",
    "select /*+ broadcast(b) */ * from a.b join c.d /* from e.f */ on true -- join g.h",
    "select * from a.b pivot (sum(x) as s for (y, z) in (('p', 1) as pq)) join c.d using (i)",
    "select * from a.b unpivot (v for n in (x, y)) as u, c.d",
    "select * from a.b tablesample (5 rows), c.d tablesample (bucket 1 out of 2) as s",
    "select * from a.b lateral view outer explode(m) as k, v where k in (select i from c.d)",
    "select struct(b.i as from_x, 1 as to_y).from_x from a.b",
    "select * from `a`.`b.c`.`1`, a.`b c`.d, `ä-ö`.`x``y`",
    "select date_diff(day, x, y), timestampadd(hour, 1, x), interval '1' day from a.b",
    "table a.b |> extend i + 1 as j, i + 2 as k |> aggregate sum(j) as s group by i |> order by s",
    "table a.b |> select i |> where i in (select i from c.d) |> left join e.f using (i) |> as t",
    "table a.b |> pivot (sum(x) for y in ('p')) |> drop p |> set i = 1 |> limit 2",
    "select * from a.b where s like 'from %' escape '!' and r'\\' = s and x between 1 and 2",
    "select `select`.`from` from a.b `select` where `select`.x = (select 'table c.d')",
    "select * from a.b version as of 3 as t join a.b for system_version as of 'x y' u using (i)",
    "values (1), (2)",
    "select * from stack(2, 1, 2) as s(x), range(0, 10) r join a.b on r.id = b.i",
    "select distinct on_x from a.b where not (x is not distinct from y) and z is not null",
    "select cast(x as struct<table: string>), y::int from a.b",
    "select sum(x) over w from a.b window w as (partition by i order by j), v as (order by i)",
]


def by_spark(spark: SparkSession, sql: str) -> list[Reference]:
    found = (
        Reference(one.parts, one.version, one.timestamp)
        for one in plan.relations(spark, quote_versions(sql))
    )
    # A name of one part is that of a WITH; that there is one, Spark finds out later.
    return [one for one in dict.fromkeys(found) if len(one.parts) > 1]


def without_spark(sql: str) -> list[Reference]:
    return [one for one in table_references(sql) if len(one.parts) > 1]


def test_what_is_found_is_what_spark_finds(spark: SparkSession) -> None:
    refused = {}
    for sql in [*QUERIES, *MORE]:
        try:
            wanted = by_spark(spark, sql)
        except InvalidQueryError as error:
            refused[sql] = str(error)
            continue
        assert without_spark(sql) == wanted, sql
    assert {sql for sql in refused if sql in MORE} == set(), refused
    assert len(refused) < 5, refused  # those that are no SQL


NAMES = st.sampled_from(["a.b", "c.d.2", "`e f`.g", "x.y version as of 2", "x.y.`1` t"])


def _one_of(*forms: str) -> st.SearchStrategy[str]:
    return st.sampled_from(forms)


@st.composite
def queries(draw: st.DrawFn, depth: int = 2) -> str:
    """A SELECT with tables in all sorts of places."""

    def inner() -> str:
        return draw(queries(depth - 1))

    def relation() -> str:
        if depth and draw(st.booleans()):
            return draw(_one_of("({}) as s", "lateral ({}) l", "({})")).format(inner())
        return draw(
            st.one_of(NAMES, _one_of("range(3)", "values (1, 2) as v", "q", "(a.b join c.d)"))
        )

    joins = [", {}", " join {} on true", " cross join {}", " left join {} using (i)"]
    tables = relation().removeprefix("lateral ")
    for _ in range(draw(st.integers(0, 2))):
        join = draw(st.sampled_from(joins))
        other = relation()
        tables += join.format(other if "using" not in join else other.removeprefix("lateral "))
    column = draw(
        _one_of(
            "*",
            "`from`, extract(day from t)",
            "trim(both 'x' from s)",
            "'from u.v', /* join u.v */ 1",
            "x is distinct from y, sum(i) over (partition by j)",
        )
    )
    if depth and draw(st.booleans()):
        column += f", (select max(i) from ({inner()}) as m)"
    view = draw(_one_of("", " lateral view explode(m) z as k, v"))
    where = draw(_one_of("", " where i in (select i from w.w)", " group by i, j order by i, j"))
    sql = f"select {column} from {tables}{view}{where}"
    if depth and draw(st.booleans()):
        sql = draw(_one_of("with q as ({0}) {1}", "({0}) union all ({1})")).format(inner(), sql)
    return sql


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(sql=queries())
def test_any_query(spark: SparkSession, sql: str) -> None:
    try:
        wanted = by_spark(spark, sql)
    except InvalidQueryError:
        return
    assert without_spark(sql) == wanted
