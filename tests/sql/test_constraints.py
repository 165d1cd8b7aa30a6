"""Constraints are checked by DuckDB and by Spark: the same violations, counts and words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.engine.local import LocalEngine
from singerlake.errors import InvalidQueryError
from singerlake.format.overlay import Constraint
from singerlake.lake import Lake
from singerlake.rows.batches.violations import Violation
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import building
from singerlake.snapshot.from_blocks import local_rows
from singerlake.snapshot.index import Index
from singerlake.sql.conditions import with_check
from singerlake.sql.local.condition import constraint_of
from singerlake.sql.local.constraints import ConstraintChecks, check_in_set
from singerlake.sql.local.outside import OutsideError
from singerlake.sql.state import index_rows
from singerlake.sql.violations import check_constraints
from tests.build import commit_rows
from tests.needs import MORE
from tests.sql.local_cases import COLUMNS, many_rows
from tests.sql.test_both_engines import LITERALS, conditions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("quick_plans")
KEYED, KEYLESS = "tap-x.many", "tap-x.none"
LISTS: dict[str, list[Any]] = {
    "n": [5, -7, 0, 9007199254740993],
    "x": [0, 1.5, 1e300, -1.5],
    "d": [1.25, 0, -1.25, "0.10", 3],
    "s": ["a", "", "A", "true"],
    "mixed": ["1.5", "a", "true", 1.5, True],
    "day": ["2026-01-01", "9999-12-31"],
    "flag": [True],
}
BOUNDS: dict[str, list[float]] = {
    "n": [0, -7, 5, 4.5, 1e300, -1e30, 9007199254740993],
    "x": [0, -0.0, 1.5, 1e300, 16777217],
    "d": [0, 1.25, 1.255, -1.2549, 1e40, 1e20],
}
KEYS = ["n", "d", "s", "mixed", "day", "at", "flag", "Date", "id"]
TYPICAL = {
    "there": Constraint("not-null", ["s", "n"]),
    "listed": Constraint("enum", ["s", "mixed"], ["a", "b"]),
    "small": Constraint("range", ["n", "d"], minimum=-1.5, maximum=6),
    "short": Constraint("length", ["s"], maximum=1),
    "word": Constraint("pattern", ["s", "Date"], pattern="^[a-z]*$"),
    "checked": Constraint("check", ["n", "flag"], sql="`n` > 0 or `flag`"),
    "once": Constraint("unique", ["s", "n"]),
    "gone": Constraint("not-null", ["nothing"]),
    "kept": Constraint("check", ["id"], sql="`id` >= 0"),
    "first": Constraint("unique", ["id"]),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake.open(str(tmp_path_factory.mktemp("both") / "lake"), create=True)
    rows = many_rows()
    commit_rows(lake, KEYED, COLUMNS, ["id"], rows[:40], block_rows=16)
    commit_rows(lake, KEYED, COLUMNS, ["id"], [*rows[40:], {**rows[0], "n": None}])
    commit_rows(lake, KEYLESS, COLUMNS, [], rows, block_rows=16)
    commit_rows(lake, "tap-x.day", COLUMNS, ["day", "at"], rows)
    return lake


def index_of(lake: Lake, name: str) -> Index:
    table = lake.find(name)[0]
    return building.ensure(LocalEngine(), table, table.snapshot(), shown=True)


def on_duckdb(lake: Lake, name: str, constraints: Mapping[str, Constraint]) -> list[Violation]:
    table = lake.find(name)[0]
    shape = index_of(lake, name).shape
    check_in_set(shape, constraints)
    return ConstraintChecks(shape, constraints).violations(
        lambda _: local_rows(table, table.snapshot())
    )


def check(
    spark: SparkSession, lake: Lake, name: str, constraints: Mapping[str, Constraint]
) -> list[Violation]:
    """Hold one engine against the other, and return what both find."""
    index = index_of(lake, name)
    asked = check_constraints(index_rows.rows(spark, index), index.shape, constraints)
    found = on_duckdb(lake, name, constraints)
    assert found == [replace(one, breaking=None) for one in asked]
    return found


@pytest.mark.parametrize("name", [KEYED, pytest.param(KEYLESS, marks=MORE)])
@pytest.mark.usefixtures("each_operation")
def test_both_engines_find_the_same_violations(spark: SparkSession, lake: Lake, name: str) -> None:
    found = check(spark, lake, name, TYPICAL)
    assert [one.name for one in found] == [
        *("there", "listed", "small", "short", "word", "checked", "once")
    ]
    assert all(one.first and one.rows for one in found)


@pytest.mark.usefixtures("long_runs")
def test_keys_of_times_are_shown_alike(spark: SparkSession, lake: Lake) -> None:
    found = check(spark, lake, "tap-x.day", {"c": Constraint("not-null", ["n", "obj", "list"])})
    assert "at 2026-01-01 00:00:00" in str(found[0].first)


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    kind = draw(st.sampled_from(["not-null", "enum", "range", "length", "unique", "check"]))
    if kind == "check":
        columns = [name.strip("`") for name in LITERALS]
        return Constraint("check", columns, sql=draw(conditions()))
    if kind == "enum":
        column = draw(st.sampled_from(list(LISTS)))
        one = st.sampled_from(LISTS[column])
        return Constraint("enum", [column], draw(st.lists(one, min_size=1, max_size=3)))
    if kind in ("range", "length"):
        columns = [draw(st.sampled_from(list(BOUNDS) if kind == "range" else ["s", "mixed", "n"]))]
        ends = BOUNDS[columns[0]] if kind == "range" else [0, 1, 2]
        least, most = draw(st.sampled_from([*ends, None])), draw(st.sampled_from(ends))
        return Constraint(kind, columns, minimum=least, maximum=most)
    columns = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
    return Constraint(kind, columns)


@pytest.mark.usefixtures("long_runs")
def test_any_constraints_are_checked_alike(spark: SparkSession, lake: Lake) -> None:
    @settings(max_examples=100)
    @given(st.lists(constraints(), min_size=1, max_size=4), st.sampled_from([KEYED, KEYLESS]))
    def same(asked: list[Constraint], name: str) -> None:
        check(spark, lake, name, {f"c{number}": one for number, one in enumerate(asked)})

    same()


@pytest.mark.usefixtures("long_runs")
def test_any_condition_is_kept_alike(spark: SparkSession, lake: Lake) -> None:
    head = lake.find(KEYED)[0].snapshot()
    names = [name for name, _ in head.columns]

    @settings(max_examples=100)
    @given(conditions(), st.sampled_from(["", " -- day", "/* n */ "]))
    def same(sql: str, comment: str) -> None:
        text = f"{comment}{sql}" if comment.startswith("/*") else f"{sql}{comment}"
        asked = with_check(spark, "c", text)(head).constraints["c"]
        assert constraint_of(names, text) == asked

    same()


@pytest.mark.parametrize(
    ("sql", "kept", "columns"),
    [
        ("n>0", "`n`>0", ["n"]),
        ("day < date '2026-01-01' -- day", "`day` < date '2026-01-01' -- day", ["day"]),
        (
            "`Date`  = 'Date' /* n */ and (n) is null",
            "`Date`  = 'Date' /* n */ and (`n`) is null",
            ["Date", "n"],
        ),
        ("flag or not flag or s = 'flag'", "`flag` or not `flag` or `s` = 'flag'", ["flag", "s"]),
        ("`a b``c` like 's%'", "`a b``c` like 's%'", ["a b`c"]),
        (
            "case when n > 0 then concat(s, 's') else Date end = coalesce(s, 'n')",
            "case when `n` > 0 then concat(`s`, 's') else `Date` end = coalesce(`s`, 'n')",
            ["n", "s", "Date"],
        ),
    ],
)
def test_columns_of_a_condition_are_quoted(sql: str, kept: str, columns: list[str]) -> None:
    assert constraint_of([*COLUMNS], sql) == Constraint("check", columns, sql=kept)


@pytest.mark.parametrize("sql", ["n > 0) or (n < 1", "obj.a > 1", "n.2 > 1 and d > 1", "n / 1 > 2"])
def test_other_conditions_are_outside(sql: str) -> None:
    with pytest.raises(OutsideError):
        constraint_of([*COLUMNS], sql)


@pytest.mark.parametrize("sql", ["n + 1 > 2", "n + 1", "upper(s) = 'A'", "coalesce(s, 'a')"])
def test_conditions_that_rows_may_put_outside_are_outside(lake: Lake, sql: str) -> None:
    shape = shape_of(lake.find(KEYED)[0].snapshot())
    with pytest.raises(OutsideError):
        check_in_set(shape, {"c": constraint_of(shape.names, sql)})


def test_a_condition_names_columns_that_are_there() -> None:
    words = "'m > 1' is no condition .*: there is no column 'm': it has id, n, x"
    with pytest.raises(InvalidQueryError, match=words):
        constraint_of([*COLUMNS], "m > 1")


def test_rows_are_counted_and_shown(lake: Lake) -> None:
    commit_rows(lake, "tap-x.few", COLUMNS, ["id"], [{"id": n, "s": "ab"[n % 2]} for n in range(5)])
    asked = {
        "listed": Constraint("enum", ["s"], ["b"]),
        "once": Constraint("unique", ["s"]),
        "there": Constraint("not-null", ["id"]),
    }
    assert on_duckdb(lake, "tap-x.few", asked) == [
        Violation("listed", "s one of b", 3, ["id 0, s a", "id 2, s a", "id 4, s a"], 3),
        Violation("once", "s unique", 5, ["s a: 3 rows", "s b: 2 rows"], 2),
    ]


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (Constraint("unique", ["x"]), "UNIQUE of double in the constraint c"),
        (Constraint("unique", ["obj"]), "UNIQUE of struct"),
        (Constraint("check", ["s"], sql="upper(`s`) = 'A'"), r"the function upper\(\)"),
        (Constraint("check", ["s"], sql="`s`"), "string as a condition"),
        (Constraint("check", ["n"], sql="`gone` > 1"), "the column gone, which is not there"),
        (Constraint("check", ["obj"], sql="`obj`.a > 1"), "a member of a column"),
        (Constraint("check", ["n"], sql="sum(`n`) > 1"), "an aggregate"),
        (Constraint("check", ["n"], sql="`n` > 1) or (true"), "more than a condition|something"),
        (Constraint("range", ["s"], minimum=1), "a range of string"),
        (Constraint("enum", ["n"], ["5"]), 'a list of bigint with "5"'),
        (Constraint("enum", ["n"], [True]), "a list of bigint with true"),
        (Constraint("enum", ["n"], [1.5]), "a comparison of bigint with the number 1.5"),
        (Constraint("enum", ["d"], [1.255]), "the number 1.255 with a decimal"),
        (Constraint("enum", ["day"], ["2026-1-1"]), "a date written otherwise"),
        (Constraint("enum", ["flag"], ["true"]), "a list of boolean"),
    ],
)
def test_what_spark_casts_is_outside(lake: Lake, one: Constraint, words: str) -> None:
    with pytest.raises(OutsideError, match=words):
        check_in_set(index_of(lake, KEYED).shape, {"c": one})
