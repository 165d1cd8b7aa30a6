"""Dropped tables under Spark: no query, index or version mixes one with the one before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.errors import ConflictError, DroppedError, NotFoundError
from singerlake.lake import Lake
from singerlake.ops import freeze as freeze_plans
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.create import query_rows as creating
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.overlay.alter import AlterOptions
from singerlake.sql.queries.query import query
from tests.build import commit_rows
from tests.frozen import create_on_spark as create
from tests.frozen import freeze_on_spark as freeze
from tests.frozen import vacuum_on_spark
from tests.ops.change.row_sets import change, row_set
from tests.ops.verify.verified import verify

ID: dict[str, Any] = {"id": {"type": "integer"}}
AT_ONCE = VacuumOptions(retain_seconds=0, guard=False, lease_wait_seconds=0, stale_seconds=0.01)


def sync(lake: Lake, *ids: int) -> None:
    commit_rows(lake, "t.s", ID, ["id"], [{"id": n} for n in ids])


def drop(lake: Lake) -> None:
    table = lake.find("t.s")[0]
    drop_table(lake.store, table.snapshot(), AlterOptions(), with_versions=True)


def ids(spark: SparkSession, lake: Lake, table: str = "t.s") -> list[int]:
    with query(spark, lake, f"select id from {table} order by id") as result:
        return [row[0] for row in result.rows()]


def test_a_table_its_drop_and_the_next(spark: SparkSession, lake: Lake) -> None:
    sync(lake, 1, 2)
    table = lake.find("t.s")[0]
    freeze(spark, table)
    assert ids(spark, lake) == [1, 2]
    drop(lake)
    with pytest.raises(DroppedError, match="singerlake undrop"):
        ids(spark, lake)
    report = verify(spark, table)
    assert (report.problems, report.dropped, report.blocks, report.versions) == ([], True, 1, 1)
    undrop_table(lake.store, table.snapshot(dropped=True), AlterOptions())
    assert ids(spark, lake, "t.s.1") == [1, 2]
    assert verify(spark, table).problems == []
    drop(lake)
    sync(lake)  # under the same schema, and with no row: as like the old one as can be
    assert ids(spark, lake) == []
    sync(lake, 2, 3)
    assert ids(spark, lake) == [2, 3]
    with pytest.raises(NotFoundError, match="went with the table"):
        ids(spark, lake, "t.s.1")
    assert freeze(spark, table).number == 2
    drop(lake)
    sync(lake, 2)
    given: list[dict[str, Any]] = [{"id": 3}]
    wanted = ChangeOptions(new_version=True)
    change(spark, table, lambda s: [row_set(spark, s, given)], Mode.INSERT, options=wanted)
    assert [v.number for v in table.snapshot().frozen] == [3], "numbers go on"
    assert verify(spark, table).problems == []
    done = vacuum_on_spark(spark, table, AT_ONCE)
    assert done.files_deleted > 1, "the old index goes, too"
    assert ids(spark, lake, "t.s.3") == [2, 3]
    assert verify(spark, table).problems == []
    drop(lake)
    vacuum_on_spark(spark, table, AT_ONCE)
    gone = verify(spark, table)
    assert (gone.problems, gone.blocks) == ([], 0)
    assert not list(Path(lake.store.uri, "index").rglob("*.parquet"))


def test_a_query_makes_a_table_under_a_dropped_name(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, 1, 2)
    drop(lake)
    made = create(spark, lake, "t.s", "select id + 10 as id from range(2)", keys=("id",))
    assert (made.transaction, ids(spark, lake)) == (3, [10, 11])
    assert [b.number for b in lake.find("t.s")[0].snapshot().blocks] == [2]
    drop(lake)
    commit = creating.plans.commit_create

    def late(*args: Any) -> Any:
        sync(lake, 7)
        return commit(*args)

    monkeypatch.setattr(creating.plans, "commit_create", late)
    with pytest.raises(ConflictError, match="another process created"):
        create(spark, lake, "t.s", "select id from range(2)")
    assert ids(spark, lake) == [7]


def test_a_table_that_is_dropped_while_it_is_frozen(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, 1)
    commit = freeze_plans.commit_version

    def late(*args: Any, **more: Any) -> Any:
        drop(lake)
        sync(lake, 2)
        return commit(*args, **more)

    monkeypatch.setattr(freeze_plans, "commit_version", late)
    table = lake.find("t.s")[0]
    with pytest.raises(ConflictError):
        freeze(spark, table)
    assert table.snapshot().frozen == []
