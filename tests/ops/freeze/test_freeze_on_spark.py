from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.errors import ConflictError, DamagedError, NotFoundError, UsageError
from singerlake.format.log import Operation
from singerlake.lake import Lake
from singerlake.log.checkpoint import write_checkpoint
from singerlake.log.commit import commit, draft_entry
from singerlake.log.table_state import TableState
from singerlake.ops import freeze as plans
from singerlake.snapshot import building, index
from tests.build import commit_rows
from tests.frozen import freeze_here as freeze_small
from tests.frozen import freeze_on_spark as freeze
from tests.snapshot.test_state import FLAT
from tests.sql.index_frames import state_content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def head(lake: Lake) -> TableState:
    return commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1}, {"id": 2}])


def commit_plan(lake: Lake, head: TableState, **wanted: Any) -> Any:
    return plans.commit_version(
        lake.store, head, plans.plan(head, **wanted), rows=2, fingerprint="0" * 32
    )


def test_versions_are_numbered_and_stay(spark: SparkSession, lake: Lake, head: TableState) -> None:
    table = lake.find("tap.s")[0]
    first = freeze(spark, table, label="before the move", comment="by hand")
    assert (first.number, first.transaction, first.rows) == (1, 1, 2)
    assert (first.label, first.comment) == ("before the move", "by hand")
    assert first.time
    assert first.by
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 2, "_sdc_deleted_at": "2026-01-01"}])
    second = freeze(spark, table)
    assert (second.number, second.transaction, second.rows) == (2, 3, 1)
    old = freeze(spark, table, at=1)
    assert (old.number, old.transaction, old.fingerprint) == (3, 1, first.fingerprint)
    # What the log, the checkpoint and a later reader say is the same.
    assert table.snapshot().frozen == [first, second, old]
    write_checkpoint(lake.store, table.snapshot())
    assert table.snapshot().frozen == [first, second, old]
    for version in (first, second):
        found = state_content(spark, table, table.snapshot_at(str(version.number)))
        assert (found.rows, found.fingerprint) == (version.rows, version.fingerprint)
    assert table.snapshot_at("before the move").number == 1


@pytest.mark.usefixtures("each_operation")
@pytest.mark.parametrize("keys", [["id"], ["at", "id"], []])
def test_a_small_table_is_frozen_without_spark_as_with_it(
    spark: SparkSession, lake: Lake, keys: list[str]
) -> None:
    properties: dict[str, Any] = {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "amount": {"type": "number", "multipleOf": 0.01},
        "inner": {"type": "object", "properties": {"x": {"type": ["null", "number"]}}},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    at = "2026-01-01T00:00:00+01:00"
    rows: list[Any] = [
        {"id": n % 7, "at": at, "amount": n / 4, "inner": {"x": n / 3}, "tags": ["a", f'"{n}"']}
        for n in range(20)
    ]
    rows[13] = {"id": 3, "at": at, "note": "no column", "_sdc_deleted_at": at if keys else None}
    commit_rows(lake, "tap.s", properties, keys, [(row, 1) for row in rows[:15]], block_rows=4)
    commit_rows(lake, "tap.s", properties, keys, [1, *((row, 1) for row in rows[15:])])
    table = lake.find("tap.s")[0]
    for number in (1, 2):
        here = freeze_small(table, at=number)
        index.drop(table, table.snapshot().at(number))
        there = freeze(spark, table, at=number)
        names = ("rows", "fingerprint", "record_fingerprint", "schema_hash", "types")
        assert [getattr(here, n) for n in names] == [getattr(there, n) for n in names]
        assert here.rows
    mine, theirs = [one.lanes for one in table.entries() if one.version][2:]
    assert mine == theirs


def test_a_damaged_row_freezes_nothing(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], ['{"id": "x"}'])
    table = lake.find("tap.s")[0]
    with pytest.raises(DamagedError, match="row 0 of block 1 of tap.s"):
        freeze(spark, table)
    assert table.snapshot().number == 1


def test_labels(lake: Lake, head: TableState) -> None:
    commit_plan(lake, head, label="one")
    for label in ("", " x", "12", "@1", "a\nb", "x" * 101):
        with pytest.raises(UsageError, match="label"):
            plans.plan(head, label=label)
    later = lake.find("tap.s")[0].snapshot()
    with pytest.raises(UsageError, match="version 1 of tap.s has the label 'one' already"):
        plans.plan(later, label="one")
    assert plans.plan(head, label="one").label == "one", "a snapshot does not move"
    assert commit_plan(lake, head, label="1a").number == 2


def test_a_transaction_that_is_not_there(head: TableState) -> None:
    with pytest.raises(NotFoundError, match="no transaction 9"):
        plans.plan(head, at=9)


def test_numbers_and_labels_are_given_by_the_log(lake: Lake, head: TableState) -> None:
    table = lake.find("tap.s")[0]
    ours = plans.plan(head, label="same")
    stale, later = table.snapshot(), table.snapshot()
    commit_plan(lake, table.snapshot())
    assert commit_plan(lake, stale, label="same").number == 2
    with pytest.raises(ConflictError, match="label 'same' already"):
        plans.commit_version(lake.store, later, ours, rows=2, fingerprint="0" * 32)
    assert [version.number for version in table.snapshot().frozen] == [1, 2]


def test_a_vacuum_in_between_is_a_conflict(lake: Lake, head: TableState) -> None:
    """Only one that gave up what was read: not one that combined files, or deleted."""
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1}])
    table = lake.find("tap.s")[0]

    def vacuum(operation: Operation, floor: int = 0) -> None:
        commit(
            lake.store,
            table.snapshot(),
            lambda present: draft_entry(present.table, operation, floor=floor),
        )

    first, stale = plans.plan(table.snapshot(), at=1), table.snapshot()
    vacuum(Operation.VACUUM)
    plans.commit_version(lake.store, stale, first, rows=2, fingerprint="0" * 32)
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1}])
    second, stale = plans.plan(table.snapshot(), at=2), table.snapshot()
    vacuum(Operation.DROP_HISTORY, floor=5)
    with pytest.raises(ConflictError, match="has expired while it was read: nothing was frozen"):
        plans.commit_version(lake.store, stale, second, rows=2, fingerprint="0" * 32)
    assert len(table.snapshot().frozen) == 1


def test_a_table_without_a_log_is_refused(lake: Lake, head: TableState) -> None:
    lake.store.delete(head.table.manifest)
    lake.store.delete(head.table.transaction(1))
    scanned = lake.find("tap.s")[0].snapshot()
    with pytest.raises(UsageError, match="singerlake rebuild tap.s"):
        plans.plan(scanned)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_row_that_does_not_fit_is_met_once(
    spark: SparkSession,
    lake: Lake,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    indexed: bool,
) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1}])
    table = lake.find("tap.s")[0]
    if indexed:
        freeze(spark, table)
    commit_rows(lake, "tap.s", FLAT, ["id"], ['{"id": "x"}'])
    ensure, asked = building.ensure, []
    monkeypatch.setattr(building, "ensure", lambda *a, **k: asked.append(k) or ensure(*a, **k))
    with pytest.raises(DamagedError, match="row 0 of block 2 of tap.s"):
        freeze(spark, table)
    assert asked == [{"fresh": False, "shown": True}]
    assert "once more" not in caplog.text


def test_damaged_blocks_without_an_index_are_read_once(
    spark: SparkSession, lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    block = commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1}]).blocks[0]
    table = lake.find("tap.s")[0]
    path = Path(lake.store.uri, table.name.data(block.file))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-9] + b"123456789")
    with pytest.raises(DamagedError, match="block 1 of tap.s"):
        freeze(spark, table)
    assert "once more" not in caplog.text
