"""Statements of the set, answered by DuckDB and by Spark: names, types, rows, order and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.engine.choice import EngineChoice
from singerlake.errors import SingerlakeError
from singerlake.format.sql_tokens import quote_versions, tokens
from singerlake.lake import Lake
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.local.query import planned
from singerlake.sql.local.query import query as on_duckdb
from singerlake.sql.queries.query import query as on_spark
from singerlake.sql.tables import Tables
from tests.build import commit_rows
from tests.needs import MORE
from tests.sql.local_cases import COLUMNS, SAME, T, fill, many_rows, plain_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("quick_plans")
LOCAL = EngineChoice("local")
FEW = (0, 7, 30, 52, 60, 78, 96)
"""Cases that ``make test`` tries: one of each kind."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = fill(Lake.open(str(tmp_path_factory.mktemp("both") / "lake"), create=True))
    commit_rows(lake, "tap-x.many", COLUMNS, ["id"], many_rows())
    commit_rows(lake, "tap-x.plain", COLUMNS, ["id"], plain_rows())
    return lake


def outcome(asked: Callable[[], Any], *, ordered: bool) -> Any:
    """What a statement gives, or why it does not."""
    try:
        with closing(asked()) as result:
            types = list(result.to_arrow().schema.types)
            rows = list(map(repr, result.rows()))
            first = list(map(repr, result.glimpse(3)))
            sources = sorted(map(str, result.sources))
    except SingerlakeError as error:
        return type(error), str(error)
    return result.columns, types, rows if ordered else sorted(rows), ordered and first, sources


def check(spark: SparkSession, lake: Lake, sql: str, **more: Any) -> Any:
    """Hold one engine against the other, and return what both give."""
    ordered = "order by" in sql
    found = outcome(lambda: on_duckdb(lake, sql, LOCAL, **more), ordered=ordered)
    assert found == outcome(lambda: on_spark(spark, lake, sql, **more), ordered=ordered)
    return found


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize(
    "sql", [pytest.param(sql, marks=() if n in FEW else MORE) for n, sql in enumerate(SAME)]
)
def test_duckdb_answers_as_spark(spark: SparkSession, lake: Lake, sql: str) -> None:
    found = check(spark, lake, sql)
    assert len(found) > 2, found  # it is no error


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize(
    "sql",
    [
        f"select * from {T} order by id",
        f"select _row_id, o._transaction, id from {T} o where _row_version > 1",
        "select _transaction, count(*) from tap_x.lines group by _transaction",
        "select * from tap_x.lines where _row_id = '1:3'",
        f"select _row_id from {T}.`@1`",
    ],
)
def test_row_metadata_is_the_same(spark: SparkSession, lake: Lake, sql: str) -> None:
    found = check(spark, lake, sql, row_metadata=True)
    assert found[2]


@pytest.mark.usefixtures("long_runs")
@pytest.mark.parametrize(
    "sql",
    [
        f"select nope from {T}",
        f"select id from {T} where o.id = 1 and Id = 2",
        f"select o.ids from {T} o join tap_x.lines l on o.id = l.order_id",
        f"select id from {T} order by nope",
        "select * from tap_x.nope",
        "select * from tap_y.orders",
        "select * from orders",
        "select * from `tap-x.orders`",
        "select * from `tap_x.lines`",
        "select * from `tap-x.nope`",
        f"select * from {T}.7",
        f"select * from {T}.`@99`",
        f"select * from {T} version as of 'x'",
        f"select * from {T}.`@1` version as of '@1'",
        f"select * from {T} timestamp as of '1999-01-01'",
    ],
)
def test_errors_are_the_same(spark: SparkSession, lake: Lake, sql: str) -> None:
    try:
        found = check(spark, lake, sql)
    except OutsideError:
        return  # Spark's error is the only one then
    assert issubclass(found[0], SingerlakeError)


TEN = {"type": ["null", "string"], "format": "singer.decimal", "precision": 38, "scale": 10}
DECIMALS: dict[str, Any] = {
    "id": {"type": "integer"},
    "d": TEN,
    "list": {"type": "array", "items": TEN},
    "obj": {"type": "object", "properties": {"d": TEN, "more": {"type": "array", "items": TEN}}},
}
VALUES = ["-0.0000000001", "0.0000000001", "0", "1.5", "-12345678901234567890.0000000100", "1E-9"]


@pytest.mark.parametrize(
    "sql",
    ["select * from tap_x.small", "select d, d + d as twice, d - 0.5 as less from tap_x.small"],
)
def test_small_decimals_have_the_same_digits(spark: SparkSession, lake: Lake, sql: str) -> None:
    rows = [
        {"id": n, "d": d, "list": [d, None], "obj": {"d": d, "more": [d]}}
        for n, d in enumerate(VALUES)
    ]
    commit_rows(lake, "tap-x.small", DECIMALS, ["id"], rows)
    found = check(spark, lake, f"{sql} order by id")
    assert len(found[2]) == len(VALUES)


PIECES = [[token.text for token in tokens(sql)] for sql in SAME]
WORDS = """
isnull notnull all any some exists desc asc first last nulls of as version timestamp date interval
end by using outer inner left full cross natural lateral semi anti rows fetch top values with over
sort qualify user current_date current_time localtimestamp div rlike ilike escape collate struct
map array if table tablesample pivot for 1.0 '' , ( ) . * - + = < not and or on is in like limit
"""
EDITS = st.tuples(
    st.sampled_from(["insert", "delete", "replace", "swap", "repeat", "move"]),
    st.integers(0, 99),
    st.integers(0, 99),
    st.sampled_from(WORDS.split()),
)


def edited(pieces: list[str], edits: list[tuple[str, int, int, str]]) -> str:
    """A statement with some of its pieces others, or in other places."""
    found = list(pieces)
    for kind, first, second, word in edits:
        one, other = first % len(found), second % len(found)
        if kind == "insert":
            found.insert(one, word)
        elif kind == "delete" and len(found) > 1:
            found.pop(one)
        elif kind == "replace":
            found[one] = word
        elif kind == "swap":
            found[one], found[other] = found[other], found[one]
        elif kind == "repeat":
            found.insert(one, found[one])
        else:
            found.insert(other, found.pop(one))
    text = ""
    for before, piece in pairwise(["", *found]):
        together = "." in (before, piece) or (before in "<>!=" and piece in "<>=")
        text += piece if together else f" {piece}"
    return text


MUTANTS = st.builds(edited, st.sampled_from(PIECES), st.lists(EDITS, min_size=1, max_size=2))


@pytest.mark.usefixtures("each_operation")
@settings(max_examples=300, deadline=None)
@given(sql=MUTANTS)
def test_what_spark_does_not_parse_is_left_to_it(spark: SparkSession, lake: Lake, sql: str) -> None:
    with closing_tables(lake) as tables:
        try:
            planned(sql, tables)
        except OutsideError:
            return
        except SingerlakeError:
            pass  # an error of names, which Spark has if it can read them
    spark._jsparkSession.sessionState().sqlParser().parsePlan(quote_versions(sql))


@pytest.mark.usefixtures("long_runs")
@settings(max_examples=200, deadline=None)
@given(sql=MUTANTS)
def test_mutants_are_answered_alike(spark: SparkSession, lake: Lake, sql: str) -> None:
    ordered = "order by" in sql
    try:
        found = outcome(lambda: on_duckdb(lake, sql, LOCAL), ordered=ordered)
    except OutsideError:
        return
    other = outcome(lambda: on_spark(spark, lake, sql), ordered=ordered)
    # Of several things that are wrong, each engine names one.
    assert found == other or (isinstance(found[0], type) and isinstance(other[0], type))


@contextmanager
def closing_tables(lake: Lake) -> Iterator[Tables]:
    tables = Tables(lake=lake)
    try:
        yield tables
    finally:
        tables.release()


WHOLE = ["0", "5", "-7", "9007199254740993", "-9223372036854775808", "2"]
NUMBERS = ["n", "`we.ird`", "id"]
LITERALS: dict[str, list[str]] = {
    **dict.fromkeys(NUMBERS, WHOLE),
    "x": ["0", "1.5", "-1.50", "0.1", "1e300", "2", "16777217", "1E300", ".5"],
    "d": ["0", "1.25", "-1.25", "0.1", "12345678.9", "-99999999999.99", "3"],
    "s": ["''", "'a'", "'b'", "'A'", "'😀'", "'a%'", "'zz'", '"a"'],
    "mixed": ["'a'", "'1.5'", "'true'", "''"],
    "Date": ["'d'", "'D'"],
    "day": ["'2026-01-01'", "date '0001-01-01'", "'9999-12-31'", "'2026-02-28'"],
    "at": [
        "'2026-01-01'",
        "timestamp '2026-01-01 00:00:00.000001'",
        "'0001-01-01 00:00:00'",
        "'9999-12-31T23:59:59.999999Z'",
    ],
    "flag": ["true", "false"],
}
COMPUTED = [
    "coalesce(s, '') = 'a'",
    "trim(s) <> Date",
    "concat(s, mixed) like '%a_'",
    "coalesce(flag, n = 5, false)",
    "case when n > 0 then s when flag then 'b' else Date end in ('a', 'b')",
    "case when x is null then d when d > 1 then 0.5 end is null",
]
"""Conditions on computed values."""
PATTERNS = ["'%'", "'a%'", "'%a'", "'_'", "'%_b%'", "''", "'%é%'"]
GROUPED = ["n", "d", "s", "mixed", "day", "at", "flag", "`we.ird`", "Date"]
AGGREGATES = [
    "count(*)",
    "count(1)",
    *(f"{name}({column})" for column in LITERALS for name in ("count", "min", "max")),
    *(f"count(distinct {column})" for column in GROUPED),
    *(f"sum({column})" for column in ("id", "`we.ird`", "d")),
    *(f"avg({column})" for column in ("id", "`we.ird`")),
]


@st.composite
def predicates(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(list(LITERALS)))
    one = st.sampled_from(LITERALS[column])
    sign = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">=", "=="]))
    forms = [
        f"{column} {sign} {draw(one)}",
        f"{draw(one)} {sign} {column}",
        f"{column} {draw(st.sampled_from(['', 'not ']))}between {draw(one)} and {draw(one)}",
        f"{column} {draw(st.sampled_from(['', 'not ']))}in ({draw(one)}, {draw(one)})",
        f"{column} is {draw(st.sampled_from(['', 'not ']))}null",
        draw(
            st.sampled_from(["flag", "n = id", "s = mixed", "s < Date", "day <> day", "at <= at"])
        ),
        draw(st.sampled_from(COMPUTED)),
        f"{draw(st.sampled_from(['s', 'mixed', 'Date']))} "
        f"{draw(st.sampled_from(['', 'not ']))}like {draw(st.sampled_from(PATTERNS))}",
    ]
    return draw(st.sampled_from(forms))


def conditions() -> st.SearchStrategy[str]:
    """Conditions, mostly without brackets: whose words belong together is for both to know."""
    return st.recursive(
        predicates(),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
            inner.map(lambda one: f"not {one}"),
            inner.map(lambda one: f"({one})"),
        ),
        max_leaves=5,
    )


@st.composite
def statements(draw: st.DrawFn) -> str:
    where = f" where {draw(conditions())}" if draw(st.booleans()) else ""
    ways = st.sampled_from(["", " asc", " desc", " nulls last", " desc nulls first"])
    kind = draw(st.sampled_from(["rows", "distinct", "groups", "whole"]))
    columns = st.lists(st.sampled_from(list(LITERALS)), min_size=1, max_size=4, unique=True)
    if kind == "rows":
        chosen = draw(
            st.sampled_from(["*", ", ".join(draw(columns)), f"{draw(predicates())} as p"])
        )
        keys = [f"{one}{draw(ways)}" for one in [*draw(columns), "id"]]
        order = f" order by {', '.join(keys)}" if draw(st.booleans()) else ""
        tail = draw(st.sampled_from(["", " limit 3", " limit 5 offset 2"])) if order else ""
        return f"select {chosen} from tap_x.many{where}{order}{tail}"
    keys = draw(st.lists(st.sampled_from(GROUPED), min_size=1, max_size=3, unique=True))
    order = f" order by {', '.join(f'{one}{draw(ways)}' for one in keys)}"
    order = draw(st.sampled_from(["", order]))
    if kind == "distinct":
        return f"select distinct {', '.join(keys)} from tap_x.many{where}{order}"
    values = ", ".join(draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4)))
    if kind == "whole":
        return f"select {values} from tap_x.many{where}"
    having = draw(
        st.sampled_from(["", " having count(*) > 1", " having min(id) < 20 or max(n) = 5"])
    )
    return (
        f"select {', '.join(keys)}, {values} from tap_x.many{where} "
        f"group by {', '.join(keys)}{having}{order}"
    )


@pytest.mark.usefixtures("long_runs")
def test_any_statement_of_the_set_is_answered_alike(spark: SparkSession, lake: Lake) -> None:
    @settings(max_examples=150)
    @given(statements())
    def same(sql: str) -> None:
        try:
            check(spark, lake, sql)
        except OutsideError:
            if "min(x)" not in sql and "max(x)" not in sql:  # some rows have -0.0
                raise

    same()


def whole(depth: int = 2) -> st.SearchStrategy[str]:
    """Whole numbers: columns, and what is computed of them."""
    column = st.sampled_from(["id", "n", "`we.ird`"])
    if not depth:
        return column
    number = st.one_of(whole(depth - 1), st.sampled_from(["1", "-2", "3000000000"]))
    made = st.tuples(whole(depth - 1), st.sampled_from(["+", "-", "*"]), number)
    return st.one_of(
        column,
        made.map(" ".join),
        made.map(lambda parts: f"({' '.join(parts)})"),
        made.map(lambda parts: f"{parts[2]} {parts[1]} ({parts[0]})"),
        chosen(whole(depth - 1), number),
    )


def decimals(depth: int = 2) -> st.SearchStrategy[str]:
    if not depth:
        return st.just("d")
    below = decimals(depth - 1)
    added = st.one_of(below, st.sampled_from(["1", "-0.25", "99.9"]))
    factor = st.one_of(whole(0), st.sampled_from(["2", "-3"]))
    return st.one_of(
        below,
        st.tuples(below, st.sampled_from(["+", "-"]), added).map(" ".join),
        st.tuples(below, factor).map(lambda two: f"({two[0]}) * {two[1]}"),
        st.tuples(below, factor).map(lambda two: f"{two[1]} * ({two[0]})"),
        chosen(below, added),
    )


def texts(depth: int = 2) -> st.SearchStrategy[str]:
    column = st.sampled_from(["s", "mixed", "Date", "date"])
    if not depth:
        return column
    below = texts(depth - 1)
    value = st.one_of(below, st.sampled_from(["''", "' a'", "'Zz'"]))
    call = st.sampled_from(["upper", "lower", "trim"])
    return st.one_of(
        below,
        st.tuples(call, value).map(lambda two: f"{two[0]}({two[1]})"),
        st.tuples(value, value).map(lambda two: f"concat({two[0]}, {two[1]})"),
        chosen(below, value),
    )


def chosen(one: st.SearchStrategy[str], other: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Values of which the first that is not null is taken, or one by a condition."""
    two = st.tuples(one, other)
    when = st.tuples(two, plain_conditions())
    return st.one_of(
        two.map(lambda both: f"coalesce({both[0]}, {both[1]})"),
        when.map(lambda all_: f"case when {all_[1]} then {all_[0][1]} else {all_[0][0]} end"),
        when.map(lambda all_: f"case when {all_[1]} then {all_[0][0]} end"),
    )


def plain_conditions() -> st.SearchStrategy[str]:
    return st.sampled_from(
        ["flag", "not flag", "n > 0", "s is null", "trim(s) = ''", "coalesce(date, 'Q') = 'Q'"]
    )


@st.composite
def computing(draw: st.DrawFn) -> str:
    others = st.sampled_from(
        [
            "coalesce(x, 0.5)",
            "case when flag then x else 1 end",
            "coalesce(day, date '2026-02-03')",
            "case when flag then at end",
            "coalesce(flag, true)",
            "case when flag then 'y' else 'n' end",
        ]
    )
    values = draw(st.lists(st.one_of(whole(), decimals(), texts(), others), min_size=1, max_size=3))
    named = ", ".join(f"{value} as v{number}" for number, value in enumerate(values))
    where = draw(st.sampled_from(["", f" where {draw(plain_conditions())}"]))
    return f"select id, {named} from tap_x.plain{where} order by id"


@pytest.mark.usefixtures("long_runs")
def test_any_computed_value_of_the_set_is_alike(spark: SparkSession, lake: Lake) -> None:
    answered = left = 0

    @settings(max_examples=100)
    @given(computing())
    def same(sql: str) -> None:
        nonlocal answered, left
        try:
            found = check(spark, lake, sql)
        except OutsideError as error:
            assert re.search("overflows|in a chain of several", str(error)), sql
            left += 1
        else:
            assert len(found) > 2, sql  # it is no error
            answered += 1

    same()
    assert answered > left
