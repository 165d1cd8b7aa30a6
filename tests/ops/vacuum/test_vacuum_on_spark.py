"""Queries, history and reverts by Spark behind vacuums on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.errors import NotFoundError
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.ops.vacuum import expire
from singerlake.ops.vacuum.plan import (
    DELETE,
    DROP_HISTORY,
    PARTS,
    Vacuumed,
    VacuumOptions,
)
from singerlake.sql.queries.query import query
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.frozen import revert_on_spark as revert
from tests.frozen import row_history_on_spark as row_history
from tests.frozen import vacuum_on_spark
from tests.histories import here
from tests.ops.vacuum.plain_table import events
from tests.ops.verify.verified import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = TableName("tap", "s")
ROW: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": ["null", "integer"]}}


def vacuum(spark: SparkSession, table: Table, *parts: str, **options: Any) -> Vacuumed:
    chosen = VacuumOptions(
        **{"retain_seconds": 0, "guard": False, "parts": parts or PARTS, **options}
    )
    return vacuum_on_spark(spark, table, chosen)


def problems(spark: SparkSession, lake: Lake) -> list[Any]:
    return verify(spark, lake.table(NAME)).problems


def read(table: Table, name: str | None = None) -> tuple[int, str]:
    found = here.content(table, table.snapshot_at(name))
    return found.rows, found.fingerprint


def data_files(lake: Lake) -> set[str]:
    assert isinstance(lake.store, LocalStore)
    return {p.name for p in lake.store.root.rglob("*.singer.gz")}


def test_a_day_in_a_table_s_life(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sync, freeze, sync, vacuum with all options: versions, references and rows hold."""
    monkeypatch.setattr(expire, "WRITE_BYTES", 1)  # each new block is a task of its own
    table = lake.table(NAME)
    for n in range(3):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": i, "n": n} for i in range(4)], 2)
    here.freeze(table, at=2, label="second")
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 0, "n": 9}, {"id": 1, "n": 9}])
    commit_rows(lake, "tap.s", ROW, ["id"], [{"id": 2, "_sdc_deleted_at": "2026-01-01"}])
    before = {name: read(table, name) for name in (None, "second", "@6")}
    # A row's reference is its key, and the block that it came in.
    sql = "select _row_id, _row_version from tap.s{} order by 1"
    references = {
        v: [*query(spark, lake, sql.format(v), row_metadata=True).rows()] for v in ("", ".1")
    }
    done = vacuum(spark, table)
    # All of transaction 1, ids 0, 1 and 2 of transaction 3: no state needs them.
    assert done.rows_dropped == 7
    assert done.files_deleted > 0
    assert {name: read(table, name) for name in before} == before
    for v, rows in references.items():
        assert [*query(spark, lake, sql.format(v), row_metadata=True).rows()] == rows
    assert data_files(lake) == {Path(b.file).name for b in table.snapshot().blocks}
    assert {e.position for e in events(table, table.snapshot())} == {
        *((3, 0), (3, 1), (4, 0), (4, 1)),
        *((6, 1), (7, 0), (7, 1), (8, 0)),
    }
    with pytest.raises(NotFoundError, match="is gone, because its history has expired"):
        table.snapshot_at("@1")
    assert vacuum(spark, table).transaction == 0
    assert problems(spark, lake) == []
    operations = [entry.operation for entry in table.entries()][6:]
    assert operations[0] == "vacuum-start"
    assert operations[-1] == "vacuum"
    assert DROP_HISTORY in operations


def test_history_reverts_and_more_vacuums_on_rewritten_blocks(
    spark: SparkSession, lake: Lake
) -> None:
    table = lake.table(NAME)
    for n in range(3):
        commit_rows(lake, "tap.s", ROW, ["id"], [{"id": i, "n": n} for i in range(3)])
    here.freeze(table, at=1)
    first = read(table, "1")
    vacuum(spark, table)
    commit_rows(lake, "tap.s", ROW, ["id"], [({"id": 1, "n": 7}, 7), {"id": 5, "n": 7}, {"id": 9}])
    past = row_history(spark, table, id="1")
    told = [(one.row_version, one.operation, one.values["n"]) for one in past]
    assert told == [(1, "insert", 0), (3, "update", 2), (4, "update", 7)]
    assert past[0].transaction == 1
    before_revert = table.snapshot().number
    second = read(table)
    assert revert(spark, table, 1).transaction == before_revert + 1
    assert read(table) == first
    assert vacuum(spark, table, DROP_HISTORY, DELETE).transaction > 0
    assert (read(table), read(table, "1")) == (first, first)
    with pytest.raises(NotFoundError, match="is gone"):
        table.snapshot_at(f"@{before_revert}")
    assert second != first
    assert here.problems(table) == []
    assert vacuum(spark, table, DROP_HISTORY, DELETE).transaction == 0
