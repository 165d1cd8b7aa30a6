"""Revert: the difference as one transaction, and everything that must hold around it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.errors import ConflictError, DamagedError, NotFoundError
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops import freeze as plans
from singerlake.ops.rows_back.revert import Reverted
from singerlake.overlay import overlay_changes
from singerlake.overlay.alter import alter
from singerlake.rows.blocks import block_tasks
from tests.build import commit_rows
from tests.frozen import revert_on_spark as revert
from tests.histories import here

DELETED = "2026-02-01T00:00:00Z"
OLD = {"id": {"type": "integer"}, "name": {"type": "string"}}
NEW = {"id": {"type": "integer"}, "name": {"type": "string"}, "vip": {"type": "boolean"}}


def table_of(lake: Lake) -> Table:
    return lake.table(TableName("tap", "people"))


def rows(table: Table) -> list[dict[str, Any]]:
    return sorted(here.rows(table), key=repr)


def test_revert_reads_a_version_of_old_rules_by_those_of_today(
    spark: SparkSession, lake: Lake
) -> None:
    """1.50 and 1.5 were two strings by the rules of 0.1, and are one decimal now."""
    money = {"type": "string", "format": "x-singer.decimal"}
    properties = {"id": money, "n": {"type": "integer"}}
    first: list[Any] = [{"id": "1.50", "n": 1}, {"id": "2"}, {"id": "1.5", "n": 2}]
    commit_rows(lake, "tap.people", properties, ["id"], first)
    table = table_of(lake)
    plan = plans.FreezePlan(table.snapshot().by_rules(1), None, None)
    plans.commit_version(table.store, table.snapshot(), plan, rows=3, fingerprint="0" * 32)
    assert len(here.rows(table, table.snapshot().named("1")[1])) == 3
    commit_rows(lake, "tap.people", properties, ["id"], [{"id": "1.50", "n": 3}, {"id": "3"}])
    revert(spark, table, 1)
    assert [(str(row["id"]).rstrip("0"), row["n"]) for row in rows(table)] == [
        ("1.5", 2), ("2.", None)
    ]  # fmt: skip


def people(lake: Lake, properties: dict[str, Any], messages: list[Any]) -> None:
    commit_rows(lake, "tap.people", properties, ["id"], messages, block_rows=3)


@pytest.fixture
def moved(lake: Lake) -> Lake:
    """Transaction 1: ids 1 to 5. Since: 2 changed, 3 deleted, 4 the same again, 6 and 7 new."""
    people(lake, OLD, [f'{{"id": {n}, "name": "n{n}", "kept": 1.10}}' for n in range(1, 6)])
    people(lake, NEW, [{"id": 2, "name": "other", "vip": True}, {"id": 6, "name": "n6"}])
    people(
        lake,
        NEW,
        [{"id": 3, "name": "n3", "_sdc_deleted_at": DELETED}, '{"id": 4, "name": "n4"}'],
    )
    people(lake, NEW, [{"id": 7, "name": "n7", "vip": False}])
    return lake


def test_the_difference_is_what_is_written(spark: SparkSession, moved: Lake) -> None:
    table = table_of(moved)
    version = here.freeze(table, at=1)
    before = table.snapshot()
    # 4 was sent again under another schema, and comes back as well.
    assert revert(spark, table, 1, dry_run=True) == Reverted(1, None, 3, 2, 2, version.schema_hash)
    assert table.snapshot().number == before.number
    done = revert(spark, table, 1)
    assert (done.put_back, done.deleted, done.unchanged) == (3, 2, 2)
    after = table.snapshot()
    assert done.transaction == after.number == before.number + 1
    assert after.schema_hash == version.schema_hash
    assert sum(block.rows for block in after.blocks_after(before.number)) == 5
    again = here.freeze(table)
    assert (again.rows, again.fingerprint) == (version.rows, version.fingerprint)
    assert [row["name"] for row in rows(table)] == ["n1", "n2", "n3", "n4", "n5"]
    assert revert(spark, table, 1).transaction is None
    assert table.snapshot().number == again.transaction + 1


def test_rows_come_back_as_the_bytes_they_were(spark: SparkSession, moved: Lake) -> None:
    table = table_of(moved)
    first = table.read_block(table.snapshot().blocks[0])
    before = table.snapshot().number
    revert(spark, table, 1)
    written = b"".join(table.read_block(b) for b in table.snapshot().blocks_after(before))
    (line,) = [line for line in first.splitlines() if b'"id": 2' in line]
    assert line in written.splitlines()
    assert b'"kept": 1.10' in line


def test_a_revert_can_be_reverted(
    spark: SparkSession, moved: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_tasks, "WRITE_BYTES", 1)  # each block's rows are a task of their own
    table = table_of(moved)
    moved_on = here.freeze(table)
    revert(spark, table, 1)
    done = revert(spark, table, moved_on.transaction)
    again = here.freeze(table)
    assert (again.rows, again.fingerprint) == (moved_on.rows, moved_on.fingerprint)
    assert again.schema_hash == moved_on.schema_hash
    assert done.deleted == 1
    people(moved, NEW, [{"id": 2, "name": "later"}])
    assert {row["name"] for row in rows(table)} == {"n1", "later", "n4", "n5", "n6", "n7"}


def test_a_row_that_was_sent_again_unchanged_is_left_where_it_is(
    spark: SparkSession, lake: Lake
) -> None:
    people(lake, OLD, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    people(lake, OLD, [{"id": 1, "name": "a"}, {"id": 2, "name": "c"}])
    done = revert(spark, table_of(lake), 1)
    assert (done.put_back, done.deleted, done.unchanged) == (1, 0, 1)


def test_a_row_that_was_sent_again_shows_the_default_that_it_showed(
    spark: SparkSession, lake: Lake
) -> None:
    number: dict[str, Any] = {"type": ["null", "integer"]}
    added = partial(overlay_changes.with_column, name="c", schema=number, initial=0, default=5)
    people(lake, OLD, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    table = table_of(lake)
    alter(table.store, table.snapshot(), added)
    people(lake, OLD, [{"id": 1, "name": "a"}])
    assert [row["c"] for row in rows(table)] == [5, 0]
    done = revert(spark, table, 2)
    assert (done.put_back, done.deleted, done.unchanged) == (1, 0, 1)
    assert [row["c"] for row in rows(table)] == [0, 0]


def test_values_of_a_column_that_was_turned_back_stay_gone(spark: SparkSession, lake: Lake) -> None:
    people(lake, OLD, [{"id": 1, "name": "a"}])
    people(lake, NEW, [{"id": 1, "name": "a", "vip": True}])
    revert(spark, table_of(lake), 1)
    people(lake, NEW, [{"id": 2, "name": "b", "vip": True}])
    assert [row["vip"] for row in rows(table_of(lake))] == [None, True]


def test_a_keyless_table_is_written_whole(spark: SparkSession, lake: Lake) -> None:
    for messages in ([{"a": 1}, {"a": 1}, {"a": 2}], [{"a": 3}, 5, ({"a": 4}, 5)]):
        commit_rows(lake, "tap.people", {"a": {"type": "integer"}}, [], messages)
    table = table_of(lake)
    version = here.freeze(table, at=1)
    assert [row["a"] for row in rows(table)] == [4]
    done = revert(spark, table, 1)
    assert (done.put_back, done.deleted, done.unchanged) == (3, None, 0)
    *_, entry = table.entries()
    assert entry.metrics == {"put_back": 3}, "nobody counted the rows that went"
    assert here.freeze(table).fingerprint == version.fingerprint
    commit_rows(lake, "tap.people", {"a": {"type": "integer"}}, [], [{"a": 9}])
    assert [row["a"] for row in rows(table)] == [1, 1, 2, 9]
    revert(spark, table, 2)
    assert [row["a"] for row in rows(table)] == [4]


def test_back_to_a_narrower_column(spark: SparkSession, lake: Lake) -> None:
    people(lake, {"id": {"type": "integer"}, "v": {"type": "integer"}}, [{"id": 1, "v": 1}])
    version = here.freeze(table_of(lake))
    people(lake, {"id": {"type": "integer"}, "v": {"type": "string"}}, [{"id": 2, "v": "x"}])
    done = revert(spark, table_of(lake), version.transaction)
    # The value of a row that goes need not fit.
    assert (done.deleted, done.unchanged, done.whole) == (1, 1, False)
    assert rows(table_of(lake)) == [{"id": 1, "v": 1}]
    assert here.freeze(table_of(lake)).fingerprint == version.fingerprint


def test_back_to_keys_that_later_rows_cannot_have(spark: SparkSession, lake: Lake) -> None:
    people(lake, {"id": {"type": "integer"}}, [{"id": 1}])
    version = here.freeze(table_of(lake))
    people(lake, {"id": {"type": "string"}}, [{"id": "x"}, {"id": "1"}])
    done = revert(spark, table_of(lake), version.transaction)
    assert (done.put_back, done.deleted, done.unchanged, done.whole) == (1, None, 0, True)
    assert rows(table_of(lake)) == [{"id": 1}]
    assert here.freeze(table_of(lake)).record_fingerprint == version.record_fingerprint


def test_nothing_to_do_commits_nothing(spark: SparkSession, moved: Lake) -> None:
    head = table_of(moved).snapshot().number
    assert revert(spark, table_of(moved), head).transaction is None
    assert table_of(moved).snapshot().number == head


def test_only_the_schema_came_between(spark: SparkSession, lake: Lake) -> None:
    people(lake, OLD, [{"id": 1, "name": "a"}])
    people(lake, NEW, [])
    before = table_of(lake).snapshot()
    assert before.number == 2
    done = revert(spark, table_of(lake), 1)
    assert (done.put_back, done.deleted, done.unchanged) == (0, 0, 1)
    assert table_of(lake).snapshot().schema_hash != before.schema_hash


def test_what_is_gone_is_named_and_nothing_changed(spark: SparkSession, moved: Lake) -> None:
    table = table_of(moved)
    blocks = table.snapshot().blocks
    gone = {blocks[0].file, blocks[2].file}
    for file in gone:
        Path(moved.store.uri, table.name.data(file)).unlink()
    with pytest.raises(DamagedError) as caught:
        revert(spark, table, 2)
    assert all(file in str(caught.value) for file in gone)
    assert table.snapshot().number == 4
    with pytest.raises(NotFoundError, match="no transaction 9"):
        revert(spark, table, 9)


def test_a_commit_meanwhile_is_a_conflict_and_nothing_changes(
    spark: SparkSession, moved: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(moved)
    from singerlake.ops.rows_back import revert_plan as plans

    real = plans.commit_revert

    def late(*args: Any, **kwargs: Any) -> Any:
        # Past the lock, as a writer on a store without working locks would come.
        from singerlake.format.log import Operation
        from singerlake.log.commit import commit, draft_entry

        commit(
            table.store,
            table.snapshot(),
            lambda present: draft_entry(
                present.table, Operation.SYNC, schema_hash=present.schema_hash
            ),
        )
        return real(*args, **kwargs)

    monkeypatch.setattr(plans, "commit_revert", late)
    files = {item.key for item in table.store.list(table.name.folder) if "singer.gz" in item.key}
    before = rows(table)
    with pytest.raises(ConflictError, match="changed tap.people in the meantime"):
        revert(spark, table, 1)
    after = {item.key for item in table.store.list(table.name.folder) if "singer.gz" in item.key}
    assert after == files
    assert rows(table) == before
