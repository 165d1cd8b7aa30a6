"""What reads what: order, circles, and mistakes that only the whole shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import NotFoundError, UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.publish.graph import Reading, arranged, graph
from singerlake.publish.projection import Format, Projection, Target
from singerlake.publish.spelling import select_all, sources

ORDERS, ITEMS = TableName("tap-shop", "orders"), TableName("tap-shop", "items")
TABLES = [ORDERS, ITEMS]


def projection(
    name: str,
    reads: str,
    *,
    stage: str | None = None,
    to: str | None = None,
    form: Format = Format.PARQUET,
    line: int = 0,
    table: str = "",
) -> Projection:
    sql = reads if " " in reads else select_all(reads)
    catalog = {"type": "sql"} if table else {}
    return Projection(
        name,
        sql,
        sources(sql),
        stage=None if stage is None else TableName("staging", stage),
        target=None if to is None else Target(to, form, catalog=catalog, identifier=table),
        where=f"projections.yml, line {line}" if line else "",
    )


CLEAN = projection("clean", "tap_shop.orders", stage="orders")
DAILY = projection("daily", "staging.orders", stage="daily", to="/out/daily")
REPORT = projection(
    "report", "select 1 from staging.daily d join tap_shop.items.2 i on d.i = i.i", to="/out/report"
)


def test_projections_run_behind_those_that_they_read() -> None:
    found = arranged(TABLES, [REPORT, DAILY, CLEAN])
    assert found.projections == (CLEAN, DAILY, REPORT)
    assert found.readings["report"] == (
        Reading(TableName("staging", "daily"), maker="daily"),
        Reading(ITEMS, version="2"),
    )
    assert found.with_makers(["daily"]) == (CLEAN, DAILY)
    assert found.makers("report") == ("daily",)
    assert found.readers("clean") == ("daily",)
    with pytest.raises(UsageError, match="no projection 'dayly' is declared: did you mean daily"):
        found.get("dayly")


def test_a_table_that_is_there_is_not_made_again() -> None:
    both = [*TABLES, TableName("staging", "orders")]
    assert arranged(both, [DAILY]).readings["daily"] == (Reading(both[-1]),)
    assert arranged(both, [CLEAN, DAILY]).makers("daily") == ("clean",)


@pytest.mark.parametrize(
    ("projections", "says"),
    [
        (
            [projection("a", "x.y", to="o", line=3), projection("a", "x.y", to="p", line=9)],
            "there are two projections a: projections.yml, line 3 and projections.yml, line 9",
        ),
        (
            [
                projection("a", "tap_shop.orders", stage="s", line=3),
                projection("b", "x.y", stage="s"),
            ],
            r"a \(projections.yml, line 3\) and b have the same staging table: staging.s",
        ),
        (
            [projection("a", "tap_shop.orders", to="/x/../o"), projection("b", "x.y", to="/o/")],
            "a and b have the same destination: /o/",
        ),
        (
            [
                projection("a", "x.y", to="s3://b/o/in"),
                projection("b", "x.y", to="s3://b/o"),
                projection("c", "x.y", to="s3://b/o-other"),
            ],
            "one destination of a and b is inside the other: s3://b/o/ and s3://b/o/in/",
        ),
        (
            [
                projection("a", "x.y", to="/o", form=Format.ICEBERG, table="n.t"),
                projection("b", "x.y", to="/p", form=Format.ICEBERG, table="n.t"),
            ],
            "a and b have the same table in the catalog: n.t",
        ),
        (
            [projection("a", "staging.s", stage="s", line=4)],
            r"^a \(projections.yml, line 4\) reads staging.s, its own staging table$",
        ),
        (
            [
                projection("a", "staging.c", stage="a", line=4),
                projection("b", "staging.a", stage="b"),
                projection("c", "staging.b", stage="c"),
                projection("d", "staging.a", stage="d"),
            ],
            r"^a \(projections.yml, line 4\) has a cyclic dependency: a reads staging.c of c, "
            r"c reads staging.b of b, b reads staging.a of a$",
        ),
        (
            [projection("a", "select 1 from tap_shop.orders.1 version as of 2", to="o")],
            "a names two versions of tap-shop.orders at once",
        ),
    ],
)
def test_a_mistake_of_the_whole_is_named_in_full(projections: list[Projection], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        arranged(TABLES, projections)


def test_a_table_that_nobody_has_is_named_with_the_nearest(lake: Lake, tmp_path: Path) -> None:
    one = projection("a", "staging.ordres", to="/o", line=2)
    with pytest.raises(
        NotFoundError, match=r"a \(projections.yml, line 2\): .* mean staging.orders"
    ):
        arranged(TABLES, [CLEAN, one])
    with pytest.raises(NotFoundError, match="it is empty"):
        graph(lake, [one])
    inside = projection("a", "staging.ordres", to=f"{lake.store.uri}/published")
    with pytest.raises(UsageError, match="a would be published inside the lake, at "):
        graph(lake, [inside])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=1, max_size=6))
def test_every_order_is_one_or_there_is_a_circle(reads: list[list[int]]) -> None:
    known = [[f"staging.t{n % len(reads)}" for n in those] for those in reads]
    projections = [
        projection(
            f"p{n}", f"select 1 from {', '.join([*those, 'tap_shop.orders'])}", stage=f"t{n}"
        )
        for n, those in enumerate(known)
    ]
    try:
        found = arranged(TABLES, projections)
    except UsageError as error:
        assert "cyclic" in str(error) or "its own" in str(error)
        # There is one: from every projection that is left one can go on for ever.
        left = dict(enumerate(known))
        while gone := [n for n, those in left.items() if not {int(t[9:]) for t in those} & {*left}]:
            for n in gone:
                del left[n]
        assert left
        return
    done: set[str] = set()
    for one in found.projections:
        assert set(found.makers(one.name)) <= done
        done.add(one.name)
    assert len(done) == len(projections)
    needed = {one.name for one in found.with_makers(["p0"])}
    assert all(set(found.makers(name)) <= needed for name in needed)
