# ruff: noqa: E501
"""Statements of the set that DuckDB answers, and tables with a column of each type."""

from __future__ import annotations

import random
from typing import Any

from singerlake.lake import Lake
from tests.build import commit_rows

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "n": {"type": ["null", "integer"]},
    "x": {"type": ["null", "number"]},
    "d": {"type": ["null", "number"], "multipleOf": 0.01},
    "s": {"type": ["null", "string"]},
    "day": {"type": ["null", "string"], "format": "date"},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "flag": {"type": ["null", "boolean"]},
    "mixed": {},
    "obj": {
        "type": ["null", "object"],
        "properties": {"a": {"type": "integer"}, "t": {"type": "string", "format": "date-time"}},
    },
    "list": {"type": ["null", "array"], "items": {"type": "string"}},
    "we.ird": {"type": ["null", "integer"]},
    "Date": {"type": ["null", "string"]},
    "date": {"type": ["null", "string"]},
    "a b`c": {"type": ["null", "string"]},
}
ROWS: list[Any] = [
    {"id": 1, "n": 5, "x": 1.5, "d": 1.25, "s": "a", "day": "2026-01-01",
     "at": "2026-01-01T00:00:00Z", "flag": True, "mixed": "a", "we.ird": 1, "Date": "D", "date": "d"},
    {"id": 2, "n": None, "x": 0.1, "d": 0.1, "s": "", "day": "0001-01-01",
     "at": "0001-01-01T00:00:00Z", "flag": False, "mixed": 1.50, "obj": {"a": 1}, "a b`c": "q"},
    {"id": 3, "n": -7, "x": None, "d": None, "s": None, "day": None, "at": None, "flag": None,
     "mixed": {"k": [1, None]}, "obj": {"a": None, "t": "2026-01-01T10:00:00.000001+02:00"},
     "list": ["x", None, "é"]},
    {"id": 4, "n": 5, "x": 1e300, "d": -99999999999.99, "s": "a%_\\b", "day": "9999-12-31",
     "at": "9999-12-31T23:59:59.999999Z", "flag": True, "mixed": True, "list": []},
    {"id": 5, "n": 9007199254740993, "x": 16777217.0, "d": 12345678.9, "s": "😀", "day": "2026-02-28",
     "at": "2026-02-28T12:34:56.789Z", "flag": False, "mixed": None, "we.ird": 2},
    {"id": 6, "n": -5, "x": -1.5, "d": -1.25, "s": "Ab\nc", "day": "2026-01-01",
     "at": "2026-01-01T00:00:00.000001Z", "flag": None, "mixed": "a", "Date": "d"},
]  # fmt: skip
LINES: dict[str, Any] = {
    "order_id": {"type": "integer"},
    "s": {"type": ["null", "string"]},
    "amount": {"type": ["null", "integer"]},
}


def fill(lake: Lake) -> Lake:
    """Commit two small tables, one of them with two versions of a row."""
    commit_rows(lake, "tap-x.orders", COLUMNS, ["id"], [{**ROWS[0], "n": 1, "s": "old"}])
    commit_rows(lake, "tap-x.orders", COLUMNS, ["id"], ROWS)
    lines = [{"order_id": n % 4, "s": "ab"[n % 2], "amount": n} for n in range(10)]
    commit_rows(lake, "tap-x.lines", LINES, [], [*lines, {"order_id": 9}])
    return lake


def many_rows() -> list[Any]:
    """Give rows with few values in each column, so that conditions and groups find several."""
    seeded = random.Random(36)
    names = [name for name in COLUMNS if name != "id"]
    rows = [{name: seeded.choice(ROWS).get(name) for name in names} for _ in range(60)]
    texts = ["", "a", "b", "A", "ab", "é", "e\u0301", "a\nb", "a\u0000b", "😀😀", "ß", "zz"]
    for row in rows:
        row["n"] = seeded.choice([None, 0, 5, -7, 9007199254740993, -(2**63), 2])
        row["x"] = seeded.choice([None, 0.0, -0.0, 0.1, 1.5, -1.5, 1e300, 16777217.0])
        row["s"], row["mixed"] = seeded.choice(texts), seeded.choice([*texts, 1.5, True, None])
    return [{"id": number, **row} for number, row in enumerate(rows)]


def plain_rows() -> list[Any]:
    """Give rows of which computed values are not left to Spark: few overflow, texts are ASCII."""
    seeded = random.Random(37)
    texts = [None, "", " a", "a ", "  a b  ", "\ta\t", "a\u0000b ", "zZ", "\n", "it's", "Q"]
    whole = [None, 0, 1, -7, 9007199254740993, -(2**62), 2**62, 3037000499]
    decimals = [None, 0, 1.25, -0.01, 12345678.9, -99999999999.99, 0.1]
    return [
        {
            "id": number,
            "n": seeded.choice(whole),
            "we.ird": seeded.choice([None, 1, 2, -3]),
            "x": seeded.choice([None, 0.0, 0.1, 1.5, 1e300]),
            "d": seeded.choice(decimals),
            "flag": seeded.choice([None, True, False]),
            "day": seeded.choice([None, "2026-01-01", "0001-01-01"]),
            "at": seeded.choice([None, "2026-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"]),
            **{name: seeded.choice(texts) for name in ("s", "mixed", "Date", "date")},
        }
        for number in range(60)
    ]


T = "tap_x.orders"
SAME = [
    f"select * from {T}",
    f"select orders.*, id from {T} order by id desc",
    f"select o.* from {T} o",
    "select tap_x.orders.id, `n`, orders.s from tap_x.orders where TAP_X.orders.id < 4",
    f"select id as a, n b, s as `c d` from {T}",
    f"select id, id, id as id from {T} where id = 2",
    f"select `we.ird`, Date, date, `a b``c`, `Date` from {T}",
    f"select obj, list, mixed from {T} order by id",
    # conditions
    f"select id from {T} where n = 5",
    f"select id from {T} where 5 <= n",
    f"select id from {T} where n <> 5",
    f"select id from {T} where n != -7 and n == 5 or id > 5",
    f"select id from {T} where not n = 5 and id < 9 or id = 3",
    f"select id from {T} where not (n = 5 and id < 9) or (id = 3 or n > 0)",
    f"select id from {T} where n between -7 and 5 and id not between 2 and 3",
    f"select id from {T} where n in (5, -7) or id not in (1, 2, 3)",
    f"select id from {T} where s in ('a', '') or s not in ('a', '')",
    f"select id from {T} where n is null or x is not null",
    f"select id from {T} where not n is null",
    f"select id from {T} where flag",
    f"select id from {T} where not flag",
    f"select id from {T} where flag = true or flag <> true",
    f"select id from {T} where flag is null and id <> 3",
    f"select id from {T} where n = 9007199254740993",
    f"select id from {T} where n < 9223372036854775807 and n > -9223372036854775808",
    f"select id from {T} where x = 0.1 or x = 1e300 or x = 16777217",
    f"select id from {T} where x > -1.5 and x <= 1.50",
    f"select id from {T} where x between -2 and 1.5e0",
    f"select id from {T} where x in (0.1, 1.5, 2)",
    f"select id from {T} where d = 0.1 or d = 1.25 or d = -99999999999.99",
    f"select id from {T} where d >= 1 and d < 12345678.90",
    f"select id from {T} where d in (1.25, -1.25, 3)",
    f"select id from {T} where s = 'a' or s = '' or s = '😀'",
    f"select id from {T} where s > 'A' and s <= 'b'",
    f'select id from {T} where s = "a"',
    f"select id from {T} where s like 'a%' or s like '_'",
    f"select id from {T} where s like '%b_c' or s not like '%a%'",
    f"select id from {T} where mixed like '%1%' and mixed <> '1'",
    f"select id from {T} where mixed = s or Date = date",
    f"select id from {T} where day = '2026-01-01' or day < date '0002-01-01'",
    f"select id from {T} where day between '2026-01-01' and '2026-12-31'",
    f"select id from {T} where day in ('2026-01-01', '9999-12-31')",
    f"select id from {T} where at > '2026-01-01'",
    f"select id from {T} where at >= '2026-01-01 00:00:00.000001' and at <= '2026-02-28T12:34:56.789Z'",
    f"select id from {T} where at = timestamp '2026-01-01 00:00:00' or at < timestamp '0001-01-02'",
    f"select id from {T} where n = id or n > `we.ird` or n <> id",
    f"select n > 1 as big, s is null as none, not flag as `not`, id in (1, 2) as low from {T}",
    # aggregates
    f"select count(*), count(1), count(n), COUNT(DISTINCT n), count(distinct s) from {T}",
    f"select sum(id), sum(n), sum(d), min(n), MAX(n), min(d), max(d) from {T}",
    f"select min(s), max(s), min(day), max(day), min(at), max(at), min(flag), max(flag) from {T}",
    f"select min(mixed), max(mixed) from {T}",
    f"select avg(id), avg(`we.ird`) from {T}",
    f"select min(x), max(x), count(x) from {T} where x < 1000",
    f"select sum(n), avg(n), min(x), count(*) from {T} where id > 100",
    f"select sum(o.n) as total, sum(`o`.n) from {T} o",
    f"select count(`we.ird`), sum(`we.ird`), min(`a b``c`), sum(o.id) from {T} o",
    f"select flag, count(*) as c from {T} group by flag order by flag",
    f"select flag, count(*) from {T} group by flag order by count(*) desc, flag",
    f"select n, s, max(id) from {T} group by n, s order by n, s",
    f"select flag as f, sum(n) from {T} group by f",
    f"select s, flag, count(*) from {T} group by 1, 2",
    f"select s, count(*), flag from {T} group by all",
    f"select d, count(*) from {T} group by d",
    f"select day, at, count(id) from {T} group by day, at",
    f"select flag from {T} group by flag",
    f"select flag from {T} where id > 100 group by flag",
    f"select flag, count(*) from {T} group by flag having count(*) > 1 and flag is not null",
    f"select count(*) from {T} having count(*) > 100",
    f"select flag, count(*) as c from {T} group by flag having count(*) > 1 order by c, flag",
    f"select count(*) as c from {T} o group by s having o.s <> '' order by o.s desc",
    f"select flag as n, max(id) as m from {T} group by flag order by max(id) desc, n",
    f"select s from {T} group by s order by count(*), s",
    f"select count(*) as s, s as t from {T} group by s order by s, t",
    f"select n as s, s as n, id from {T} order by orders.s, id",
    f"select flag, max(x) from {T} group by flag having max(x) > 1.5 or sum(d) < 0",
    f"select sum(n) > 3 as big, flag from {T} group by flag",
    # distinct, order, limit
    f"select distinct flag from {T}",
    f"select distinct n, flag from {T} order by n desc, flag",
    f"select distinct count(*) from {T} group by flag",
    f"select id from {T} order by n, id",
    f"select id from {T} order by n desc, id desc",
    f"select id from {T} order by n asc nulls last, id desc nulls first",
    f"select id, s from {T} order by s",
    f"select id, x from {T} order by x desc, 1",
    f"select id from {T} order by flag, day, at desc, d, mixed",
    f"select id as n, n as id from {T} order by id, n",
    f"select id from {T} o order by o.n, o.id",
    f"select id from {T} order by id limit 2",
    f"select id from {T} order by id limit 2 offset 3",
    f"select id from {T} order by id offset 4",
    f"select id from {T} limit 0",
    f"select id from {T} order by id limit 2147483647",
    # joins
    f"select o.id, l.amount from {T} o join tap_x.lines l on o.id = l.order_id",
    f"select o.id, lines.amount from {T} o inner join tap_x.lines on o.id = order_id and amount > 3",
    f"select o.id, l.s from {T} o left join tap_x.lines l on o.id = l.order_id and l.s = 'a'",
    f"select o.id, l.s from {T} o left outer join tap_x.lines l on o.id = l.order_id where l.s is null",
    f"select o.id, l.order_id from {T} o right join tap_x.lines l on o.id = l.order_id",
    f"select o.id, l.order_id from {T} o full outer join tap_x.lines l on o.id = l.order_id",
    f"select o.id, l.amount from {T} o cross join tap_x.lines l where o.id = 1",
    f"select o.id, l.amount from {T} o, tap_x.lines l where o.id = l.order_id",
    f"select a.id, b.id from {T} a join {T}.`@1` b on a.s <> b.s",
    "select * from tap_x.lines a join tap_x.lines b on a.s = b.s and a.amount < b.amount",
    f"select l.s, count(*), sum(o.n) from {T} o join tap_x.lines l on o.id = l.order_id group by l.s",
    f"select o.id, m.s from {T} o join tap_x.lines l on o.id = l.order_id left join {T} m on m.s = l.s",
    # versions, comments
    f"select s from {T} version as of '@1' -- the first\n where id = 1",
    f"select /* all */ count(*) from {T}.`@1`;",
    f"select count(*) from {T} timestamp as of '2999-01-01T00:00:00Z' t",
    # computed values
    f"select id + 1 as a, id - n as b, 2 * id as c, (n + id) * -3 - 1 as d, -1 + id as e from {T}",
    f"select d + 1 as a, d - 1.5 as b, d + d as c, d * 2 as e, id * d as f, (d - 1) * 3 as g from {T}",
    f"select upper(s) as a, lower(Date) as b, upper('x') as c from {T} where id in (1, 2, 3, 4, 6)",
    f"select trim(s) as a, concat(s, '-', mixed) as b, concat(trim(s), 'é') as c from {T}",
    f"select coalesce(s, 'none') as a, coalesce(n, `we.ird`, 0) as b, coalesce(d, 0.5) as c from {T}",
    f"select coalesce(x, 0) as a, coalesce(day, date '2026-01-01') as b, coalesce(flag, false) as c from {T}",
    f"select case when n = 5 then 'five' when n is null then s else 'more' end as a from {T}",
    f"select case when flag then n end as a, case when (id > 2) then true else false end as b from {T}",
    f"select case when flag then id * 2 else n end as a, coalesce(n + 1, 0) as b from {T}",
    f"select id from {T} where coalesce(s, '') = '' or trim(s) like 'a%' or concat(Date, s) = 'D'",
    f"select id from {T} where coalesce(flag, false) and case when n > 1 then s end is not null",
    f"select flag, coalesce(sum(n), 0) as a, count(*) * 2 as b, sum(d) + 1 as c from {T} group by flag",
    f"select (id) as a, (id + 1) as b, (n = 5 or flag) as c from {T} order by b desc, a",
    f"select s from {T} for version as of '@1' t where t.id = 1 -- a note\r and t.s = 'old'",
    f"select id as end, s as order, o.n as `from` from {T} as o",
    f"select distinct trim(s) as a, upper(Date) as b from {T} where s <> '😀' order by a",
]
