"""Projections that compute, published by DuckDB and by Spark: the same files come out of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.lake import Lake
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.ops.publish.projected import Projected
from singerlake.ops.publish.simple_sql import SimpleSql
from singerlake.ops.rows_back.undo_plan import OnConflict
from singerlake.ops.undo import UndoOptions, undo
from singerlake.publish.ad_hoc import AdHoc
from tests.build import commit_rows
from tests.needs import MORE
from tests.ops.publish.test_both_engines import one, rows, shown
from tests.sql.local_cases import T, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("quick_plans")
ALONE = EngineChoice(LOCAL)
ASKED = [
    f"select id, s as text, n > 1 as big, x is null as none, at from {T} where n = 5 or flag",
    f"select o.id as number, id, obj, list from {T} o",
    f"select s, id from {T} version as of '@1' where id < 3",
    f"select flag, count(*) as n, sum(d) as total, min(at) as first from {T} group by flag",
    f"select o.s, l.amount from {T} o left join tap_x.lines l on o.id = l.order_id",
    f"select distinct flag from {T}",
    f"select id from {T} order by id limit 2",
    f"select count(s) as n, count(*) > 1 as many from {T} having count(*) > 2",
    "select s, amount from tap_x.lines where amount > 2",
    f"select id, coalesce(n, 0) as a, coalesce(n, `we.ird`) as b, id * 2 as d from {T}",
    f"select case when flag then s else 'no' end as a, case when n > 1 then true end as b from {T}",
    f"select case when flag then 'yes' else 'no' end as a, concat(Date, '!') as b from {T}",
    f"select flag, count(*) + 1 as n, coalesce(sum(n), 0) as m, count(n) from {T} group by flag",
]


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize("sql", [ASKED[0], *(pytest.param(sql, marks=MORE) for sql in ASKED[1:])])
def test_answer_is_that_of_spark(spark: SparkSession, lake: Lake, sql: str) -> None:
    fill(lake)
    freeze(lake.find("tap-x.orders")[0], FreezeOptions(at=1), ALONE)
    freeze(lake.find("tap-x.lines")[0], FreezeOptions(), ALONE)
    for at in (None, "1"):
        with (
            SimpleSql(lake, sql, ALONE, at=at) as here,
            Projected(spark, lake, sql, at=at) as there,
        ):
            assert here.schema == there.schema
            assert here.sources == there.sources
            assert here.states == there.states
            assert here.key == there.key
            assert here.lineage() == there.lineage()
            assert here.obstacle(here.sources) == there.obstacle(here.sources)
            assert here.count() == there.count()
            assert rows(here) == rows(there)


COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "shop": {"type": ["null", "string"]},
    "total": {"type": ["null", "number"], "multipleOf": 0.01},
    "x": {"type": ["null", "number"]},
}


def row(number: int, total: float | None, **more: Any) -> dict[str, Any]:
    return {"id": number, "shop": "abc"[number % 3], "total": total, "x": number / 2, **more}


def steps(lake: Lake) -> Any:
    """Change the table step by step."""
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [row(n, n * 1.25) for n in range(1, 60)])
    table = lake.table("tap.s")
    yield
    changed = [row(3, 99.5), row(7, None), row(61, 3.0), row(20, 0.5, shop=None)]
    commit_rows(lake, "tap.s", COLUMNS, ["id"], changed)
    yield
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [row(20, 26.25)])
    yield
    undo(table, UndoOptions([2], OnConflict.KEEP), ALONE)
    yield
    freeze(table, FreezeOptions(), ALONE)
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [row(n, 1.0) for n in range(70, 73)])
    yield


WHERE = "select id, shop as place, total, x > 5 as far from tap.s where total > 20 or shop = 'a'"
CASES = [
    {"sql": WHERE, "order_by": "total desc, id", "key": "id"},
    {"sql": WHERE, "format": "csv", "order_by": "id"},
    {"sql": WHERE, "format": "delta", "partition_by": "place", "order_by": "id", "key": "id"},
    {"sql": "select shop, total from tap.s where total > 20", "order_by": "total, shop"},
    {"sql": "select shop, count(*) as n, sum(total) as t from tap.s group by shop", "key": "shop"},
]


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize("said", [CASES[0], *(pytest.param(one, marks=MORE) for one in CASES[1:])])
def test_refreshes_write_the_files_that_spark_writes(
    spark: SparkSession, tmp_path: Path, said: dict[str, Any]
) -> None:
    told = []
    for name, choice in (("here", ALONE), ("there", EngineChoice.of(spark=spark))):
        lake = Lake.open(str(tmp_path / name / "lake"), create=True)
        projection, found = None, []
        for _ in steps(lake):
            to = str(tmp_path / name / "out")
            projection = projection or AdHoc(to, **said).projection(lake)
            wanted = one(lake, projection, choice, dry_run=True).published
            done = one(lake, projection, choice).published
            assert wanted is not None
            assert done is not None
            shows = replace(done, to=""), replace(wanted, to=""), *shown(projection)
            found.append(without_ids(shows))
        told.append(found)
    assert told[0] == told[1]
    if said is CASES[0]:
        assert [step[0].full for step in told[0]] == [True, False, False, False, False]


def without_ids(shows: tuple[Any, ...]) -> tuple[Any, ...]:
    done, wanted, position, *more = shows
    sources = [replace(source, commit="") for source in position.sources]
    return done, wanted, replace(position, sources=sources), *more
