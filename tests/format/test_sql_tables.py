"""Tables that a query reads, found without Spark; with Spark's parser in tests/histories."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.errors import InvalidQueryError, NotFoundError
from singerlake.format.names import TableName
from singerlake.format.sql_tables import Reference, find, reference, table_references

QUERIES = {
    "select * from tap_shop.orders": ["tap_shop.orders"],
    "select * from a.b, c.d e, `f-g`.`h i` as j": ["a.b", "c.d", "`f-g`.`h i`"],
    "SELECT 1 FROM a.b x JOIN c.d ON x.i = d.i LEFT JOIN e.f USING (i)": ["a.b", "c.d", "e.f"],
    "select * from a.b natural join c.d cross join e.f": ["a.b", "c.d", "e.f"],
    "select * from a.b where i in (select i from c.d) and exists (select 1 from e.f)": [
        "a.b",
        "c.d",
        "e.f",
    ],
    "with q as (select * from a.b), r (x) as (table c.d) select * from q, r": ["a.b", "c.d"],
    "with q as (with r as (select * from a.b) select * from r) select * from q": ["a.b"],
    "select * from (select * from a.b) as s, (c.d join e.f using (i))": ["a.b", "c.d", "e.f"],
    "select (select max(i) from a.b) as m, x from c.d": ["a.b", "c.d"],
    "(select * from a.b) union all (select * from c.d) except table e.f": ["a.b", "c.d", "e.f"],
    "from a.b select i": ["a.b"],
    "table a.b": ["a.b"],
    "table a.b |> where i > 1 |> join c.d on b.i = d.i |> select i, j |> union all table e.f": [
        "a.b",
        "c.d",
        "e.f",
    ],
    "select extract(year from x), trim(both ' ' from y), trim(from y), substring(y from 2) "
    "from a.b where x is distinct from b.y and x is not distinct from b.z": ["a.b"],
    "select * from a.b lateral view explode(m) t as k, v lateral view outer explode(n) u as w": [
        "a.b"
    ],
    "select * from a.b, lateral (select * from c.d where c = i), lateral explode(l) as x": [
        "a.b",
        "c.d",
    ],
    "select * from values (1), (2) as v, a.b, values (1)": ["a.b"],
    "select * from range(10) r, a.b, values (1), (2)": ["a.b"],
    "select * from values (1, 2), (3, 4) as v(x, y) join a.b on x = i": ["a.b"],
    "select * from a.b pivot (sum(x) for y in ('p', 'q')), c.d": ["a.b", "c.d"],
    "select * from a.b tablesample (10 percent) as s, c.d": ["a.b", "c.d"],
    "select 'from x.y', \"join x.z\", -- from u.v\n i /* from w.w /* in */ w */ from a.b": ["a.b"],
    "select `from`, a.from, x as `join` from a.b order by from, i": ["a.b"],
    "select * from a.b.2, a.b.`2` as c, a.b version as of 2, a.b for version as of 'may'": [
        "a.b.2",
        "a.b VERSION AS OF '2'",
        "a.b VERSION AS OF 'may'",
    ],
    "select * from a.b timestamp as of '2026-01-01' join a.b system_time as of '2026-01-02'": [
        "a.b TIMESTAMP AS OF '2026-01-01'",
        "a.b TIMESTAMP AS OF '2026-01-02'",
    ],
    "select * from a.b window w as (partition by i), v as (order by j)": ["a.b"],
    "select * from orders": ["orders"],
    "select 1": [],
    "no sql at all ((": [],
    "select * from": [],
}


@pytest.mark.parametrize(("sql", "tables"), QUERIES.items(), ids=range(len(QUERIES)))
def test_the_tables_of_a_query(sql: str, tables: list[str]) -> None:
    assert [str(one) for one in table_references(sql)] == tables


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None)
@example(["0", "0", "0", "0"], None)
@example(["a", "b", "1"], None)
@given(
    st.lists(NAMES, min_size=1, max_size=4),
    st.none() | st.tuples(st.booleans(), st.text(st.characters(codec="utf-8"), max_size=6)),
)
def test_a_name_is_read_as_it_was_spelled(parts: list[str], of: tuple[bool, str] | None) -> None:
    version = of[1] if of and of[0] else None
    timestamp = of[1] if of and not of[0] else None
    one = Reference(tuple(parts), version, timestamp)
    assert reference(str(one)) == one
    assert table_references(f"select * from {one}, {one} as again") in ([one], [])


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("abc.,() `'\"-/*\n1") | st.characters(codec="utf-8"), max_size=40))
def test_any_text_has_tables_or_none(text: str) -> None:
    table_references(text)


@pytest.mark.parametrize("text", ["", "a.b c", "a.b, c.d", "(a.b)", "'a.b'", "a.b version as of"])
def test_what_is_no_table(text: str) -> None:
    with pytest.raises(InvalidQueryError, match="tap.stream"):
        reference(text)


def test_a_name_is_found_as_sql_has_it() -> None:
    orders, dotted = TableName("tap-shop", "orders"), TableName("tap-shop", "orders.1")
    assert find(("tap_shop", "ORDERS"), [orders]) == (orders, None)
    assert find(("tap_shop", "orders", "1"), [orders, dotted]) == (orders, "1")
    assert find(("tap_shop", "orders.1"), [orders, dotted]) == (dotted, None)
    with pytest.raises(NotFoundError, match=r"did you mean tap-shop.orders\?"):
        find(("tap_shop", "order"), [orders])
    with pytest.raises(NotFoundError, match="write a table as tap.stream"):
        find(("orders",), [orders])
