"""The same projections staged in this process and on Spark: the same transactions come out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.engine.choice import EngineChoice
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.publish.stage import stage
from singerlake.publish.projection import Projection
from tests.frozen import HERE, on
from tests.histories import here
from tests.needs import MORE
from tests.ops.publish.test_simple_sql import WHERE, steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("quick_plans")
STAGE = TableName("staging", "s")
GROUPED = "select shop, count(*) as n, sum(total) as t from tap.s group by shop having shop > ''"
CASES: list[tuple[str, tuple[str, ...]]] = [
    (WHERE, ("id",)),
    ("select * from tap.s", ("id",)),
    (
        "select id, id as number, total + 1 as more, coalesce(shop, '-') as s from tap.s",
        ("number",),
    ),
    ("select shop, total from tap.s where total > 20", ()),
    (GROUPED, ("shop",)),
]


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize(
    ("sql", "key"), [CASES[0], *(pytest.param(*one, marks=MORE) for one in CASES[1:])]
)
def test_staging_is_that_of_spark(
    spark: SparkSession, tmp_path: Path, sql: str, key: tuple[str, ...]
) -> None:
    projection = Projection("p", sql, ("tap.s",), STAGE, key=key)
    staged = [seen(tmp_path / n, projection, c) for n, c in (("a", HERE), ("b", on(spark)))]
    assert staged[0] == staged[1]


def seen(folder: Path, projection: Projection, choice: EngineChoice) -> list[Any]:
    """What becomes of a staging table, step by step."""
    lake = Lake.open(str(folder), create=True)
    found: list[Any] = []
    for number, _ in enumerate(steps(lake)):
        for options in ({"dry_run": True}, {}, {"full_refresh": True}):
            done = stage(lake, projection, choice, **options)
            found.append((options, done.how, done.why, done.changed, [*map(str, done.columns)]))
        found.append(table_of(lake))
        if number == 1:  # and at a version that is no longer the head
            here.freeze(lake.table("tap.s"), at=1)
            found.append(stage(lake, projection, choice, at="1").how)
            found.append(table_of(lake))
    return found


def table_of(lake: Lake) -> Any:
    table = lake.table(STAGE)
    entries = [
        (
            entry.operation,
            without_commits(dict(entry.metadata)),
            entry.schemas,
            dict(entry.metrics),
            sum(block.rows for block in entry.blocks),
        )
        for entry in table.entries()
    ]
    state, rows = table.snapshot(), sorted(map(repr, here.rows(table)))
    return entries, state.columns, state.key, here.content(table), rows


def without_commits(metadata: dict[str, Any]) -> dict[str, Any]:
    """What an entry says, without what differs from lake to lake."""
    sources = [{**one, "commit": ""} for one in metadata.pop("sources")]
    return {**metadata, "sources": sources}
