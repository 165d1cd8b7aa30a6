"""Which queries take columns of a table as they are."""

from __future__ import annotations

import pytest

from singerlake.format.sql_tables import Reference
from singerlake.publish.plain_query import PlainQuery, plain_query

T = Reference(("tap", "t"))


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("select * from tap.t", PlainQuery(T)),
        ("SELECT *\nFROM `tap`.`t` -- all", PlainQuery(T)),
        ("select * from tap.t.2", PlainQuery(Reference(("tap", "t", "2")))),
        ("select * from tap.t VERSION AS OF 'q3'", PlainQuery(Reference(("tap", "t"), "q3"))),
        ("select id, `b c` from tap.t", PlainQuery(T, (("id", "id"), ("b c", "b c")))),
        ("select id as `from`, n AS m from tap.t", PlainQuery(T, (("id", "from"), ("n", "m")))),
        ("select `true` from tap.t", PlainQuery(T, (("true", "true"),))),
    ],
)
def test_columns_of_a_table_are_plain(sql: str, wanted: PlainQuery) -> None:
    assert plain_query(sql) == wanted


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "select",
        "select * from",
        "select * from t",
        "select id from tap.t where id > 1",
        "select id from tap.t limit 1",
        "select id from tap.t, tap.u",
        "select id from tap.t as x",
        "select distinct id from tap.t",
        "select all id from tap.t",
        "select distinct from tap.t",
        "select true from tap.t",
        "select id n from tap.t",
        "select id, from tap.t",
        "select id + 1 from tap.t",
        "select upper(id) from tap.t",
        "select t.id from tap.t",
        "select *, id from tap.t",
        "select * except (id) from tap.t",
        "select 1 from tap.t",
        "select 'id' from tap.t",
        "select * from tap.t union all select * from tap.u",
        "select * from (select * from tap.t)",
        "with x as (select 1) select * from tap.t",
        "select * from tap.t timestamp as of current_timestamp()",
        "from tap.t select id",
    ],
)
def test_all_else_is_left_to_sql(sql: str) -> None:
    assert plain_query(sql) is None
