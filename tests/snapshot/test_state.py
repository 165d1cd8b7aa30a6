from __future__ import annotations

import copy
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from singerlake.engine.spark import engine as spark_engine
from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import DamagedError
from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake.rows.blocks import block_tasks
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import building as candidates
from singerlake.snapshot.from_blocks import planned
from singerlake.sql.state import index_build
from singerlake.sql.state.from_blocks import state
from tests.build import commit_rows
from tests.frozen import row_history_on_spark as row_history
from tests.histories.model import fold as folded
from tests.histories.model import messages_of
from tests.histories.stores import WatchedStore
from tests.sql.index_frames import read_index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLAT: dict[str, Any] = {
    "id": {"type": "integer"},
    "part": {"type": ["null", "string"]},
    "n": {"type": "integer"},
}


def rows_of(
    spark: SparkSession, lake: Lake, name: str = "tap.s", at: TableState | None = None
) -> list[dict[str, Any]]:
    table = lake.find(name)[0]
    frame = state(spark, table, at or table.snapshot())
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


WAYS = ["one task", "one task, sent", "many tasks", "many tasks, sent"]
KEYS = {"keyed": ["id"], "compound": ["id", "part"], "keyless": []}
TAKEN = {
    ("one task", "compound"),
    ("one task, sent", "keyed"),
    ("many tasks", "keyless"),
    ("many tasks, sent", "compound"),
    ("many tasks, sent", "keyless"),
}
"""Each way and each kind of key; what is sent is so whatever the key. The others are variants."""


@pytest.fixture(params=WAYS)
def tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are read in one task; the others must not wait for large tests."""
    if "many tasks" in request.param:
        monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)
    if "sent" in request.param:
        monkeypatch.setattr(spark_engine, "CARRIED_BYTES", 0)


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize(
    ("tasks", "kind"),
    [
        pytest.param(way, kind, marks=() if (way, kind) in TAKEN else pytest.mark.variant)
        for way in WAYS
        for kind in KEYS
    ],
    indirect=["tasks"],
)
def test_the_state_is_that_of_the_model(spark: SparkSession, lake: Lake, kind: str) -> None:
    """By Spark's shuffle; by the steps alone, and many more of them, in tests/rows."""
    keys = KEYS[kind]
    messages = messages_of(3, keys, 600, nulls=True)
    half = len(messages) // 2
    commit_rows(lake, "tap.s", FLAT, keys, messages[:half], block_rows=70)
    commit_rows(lake, "tap.s", FLAT, keys, messages[half:], block_rows=50)
    table = lake.find("tap.s")[0]
    for at, seen in ((1, messages[:half]), (2, messages)):
        expected = [{name: record.get(name) for name in FLAT} for record in folded(seen, keys)]
        got = rows_of(spark, lake, at=table.snapshot().at(at))
        assert in_order(got) == in_order(expected)
        # What the last writer brought goes by way of candidates, of which some fall.
        built = index_build.ensure(spark, table, table.snapshot().at(at), fresh=True)
        assert in_order(read_index(spark, built).toArrow().to_pylist()) == in_order(expected)
        kept = {f"{table.name.index(at)}{file.path}" for file in built.marker.files}
        parts = [item.key for item in lake.store.list(table.name.index(at))]
        assert set(parts) == kept | {f"{table.name.index(at)}_index.json"}


def test_a_table_whose_rows_came_once_is_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)
    store = WatchedStore(tmp_path / "lake", tmp_path / "notes")
    lake = Lake(store)
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": n, "n": n} for n in range(80)], block_rows=10)
    table = lake.find("tap.s")[0]
    assert index_build.ensure(spark, table, table.snapshot()).marker.rows == 80
    assert len(store.taken()) == 4, "once for each task"
    # One row is there twice: the run that holds the older one is read again, no other.
    commit_rows(lake, "tap.t", FLAT, ["id"], [{"id": n % 79} for n in range(80)], block_rows=20)
    table = lake.find("tap.t")[0]
    assert index_build.ensure(spark, table, table.snapshot()).marker.rows == 79
    assert len(store.taken()) == 5


def test_of_runs_that_send_all_rows_the_last_is_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)
    store = WatchedStore(tmp_path / "lake", tmp_path / "notes")
    lake = Lake(store)
    wide = FLAT | {"more": {"type": ["null", "string"]}}
    older = [{"id": n, "n": n, "part": "old"} for n in range(80)]
    newer = [{"id": n, "n": -n, "more": "x" * 20} for n in range(79)]
    newer[7]["_sdc_deleted_at"] = "2026-01-01T00:00:00Z"
    commit_rows(lake, "tap.s", FLAT, ["id"], older, block_rows=10)
    commit_rows(lake, "tap.s", wide, ["id"], newer, block_rows=10)
    table = lake.find("tap.s")[0]
    plan = planned(SparkEngine(spark), table, table.snapshot())
    tasks = [[block.number for block in task] for task in plan.tasks]
    once = candidates.likely_candidates(table.snapshot(), plan)
    assert [tasks[number][0] > 8 for number in range(len(tasks))] == [n in once for n in range(4)]
    assert 0 < len(once) < 4, tasks
    store.taken()
    built = index_build.ensure(spark, table, table.snapshot())
    assert len(store.taken()) == 5, "once for each task, and the old row that no other replaced"
    state_now = in_order(rows_of(spark, lake))
    assert in_order(read_index(spark, built).toArrow().to_pylist()) == state_now
    ids = sorted(json.loads(row)["id"] for row in state_now)
    assert ids == [n for n in range(80) if n != 7]


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize("tasks", ["one task", "many tasks, sent"], indirect=True)
def test_a_row_that_does_not_fit_and_is_replaced_in_another_block_harms_nobody(
    spark: SparkSession, lake: Lake
) -> None:
    rows: list[Any] = [{"id": n, "n": n} for n in range(40)]
    rows[5]["n"] = "none"
    commit_rows(lake, "tap.s", FLAT, ["id"], [*rows, {"id": 5, "n": 55}], block_rows=10)
    table = lake.find("tap.s")[0]
    built = index_build.ensure(spark, table, table.snapshot())
    assert {row["id"]: row["n"] for row in read_index(spark, built).collect()}[5] == 55
    rows[5]["n"] = "none"
    commit_rows(lake, "tap.t", FLAT, ["id"], rows, block_rows=10)
    table = lake.find("tap.t")[0]
    built = index_build.ensure(spark, table, table.snapshot())
    with (
        pytest.raises(DamagedError, match="row 5 of block 1.*sync these rows again"),
        plain_errors(),
    ):
        read_index(spark, built).collect()


def test_blocks_before_an_activation_are_not_read(spark: SparkSession, lake: Lake) -> None:
    for version in (1, 2, 3):
        rows: list[Any] = [({"id": n, "n": version}, version) for n in range(20)]
        commit_rows(lake, "tap.s", FLAT, ["id"], [*rows, version])
    table = lake.find("tap.s")[0]
    shape = shape_of(table.snapshot())
    assert shape.survival.first_block == 2
    data = Path(lake.store.uri, table.name.data(table.snapshot().blocks[0].file))
    data.unlink()
    assert {row["n"] for row in rows_of(spark, lake)} == {3}


def test_the_schema_may_change(spark: SparkSession, lake: Lake) -> None:
    old = {"id": {"type": "integer"}, "a": {"type": "integer"}, "gone": {"type": "string"}}
    new = {"id": {"type": "string"}, "a": {"type": "number"}, "more": {"type": "boolean"}}
    commit_rows(lake, "tap.s", old, ["id"], [{"id": n, "a": n, "gone": "x"} for n in (1, 2, 3)])
    commit_rows(
        lake, "tap.s", new, ["id"],
        [{"id": "2", "a": 2.5, "more": True}, {"id": "3", "_sdc_deleted_at": "2026-01-01"},
         {"id": "b"}],
    )  # fmt: skip
    assert in_order(rows_of(spark, lake)) == in_order(
        [
            {"id": "1", "a": 1.0, "more": None},
            {"id": "2", "a": 2.5, "more": True},
            {"id": "b", "a": None, "more": None},
        ]
    )
    first = lake.find("tap.s")[0].snapshot().at(1)
    assert {"id": 3, "a": 3, "gone": "x"} in rows_of(spark, lake, at=first)


def test_the_key_may_change(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1, "part": "a", "n": 1}])
    commit_rows(
        lake, "tap.s", FLAT, ["id", "part"], [{"id": 1, "part": "b", "n": 2}, {"id": 1, "n": 3}]
    )
    assert sorted(row["n"] for row in rows_of(spark, lake)) == [1, 2, 3]
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 2, "n": 4}])
    assert sorted(row["n"] for row in rows_of(spark, lake)) == [3, 4]


def test_every_type_reaches_spark(spark: SparkSession, lake: Lake) -> None:
    odd = {
        'we.ird `name` "x"': {"type": "string"},
        "ünï 🙂": {"type": "number", "multipleOf": 0.01},
        "Case": {"type": "boolean"},
        "case": {"type": "string", "format": "date"},
        "": {"type": "string", "format": "date-time"},
        "_block": {"type": "integer"},
        "p0": {"type": "integer", "maximum": 2**64},
        "c0": {
            "type": "array",
            "items": {"type": "object", "properties": {"a.b": {"type": "number"}}},
        },
        "obj": {
            "type": "object",
            "properties": {"t": {"type": "string", "format": "date-time"}, "j": {}},
        },
        "any": {},
    }
    record = {
        "we.ird `name` \"x\"": "é\0", "ünï 🙂": 1.1, "Case": True, "case": "1582-10-04",
        "": "0001-01-01T00:00:00+00:00", "_block": -(2**63), "p0": 2**64 - 1,
        "c0": [{"a.b": 0.1}, None], "obj": {"t": "2020-01-01T01:00:00+01:00", "j": [1]},
        "any": {"x": 1},
    }  # fmt: skip
    commit_rows(lake, "tap.s", odd, ["_block"], [record, {"_block": 1}])
    rows = rows_of(spark, lake)
    (row,) = (row for row in rows if row["Case"])
    assert list(row) == list(odd)
    assert row == {
        **record,
        "ünï 🙂": Decimal("1.10"),
        "case": dt.date(1582, 10, 4),
        "": dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc),
        "p0": Decimal(2**64 - 1),
        "c0": [{"a.b": 0.1}, None],
        "obj": {"t": dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc), "j": "[1]"},
        "any": '{"x": 1}',
    }
    assert {"_block": 1, **{name: None for name in odd if name != "_block"}} in rows


def test_a_table_without_rows_has_no_rows(spark: SparkSession, lake: Lake) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [])
    assert rows_of(spark, lake) == []
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1, "_sdc_deleted_at": "2026-01-01"}])
    assert rows_of(spark, lake) == []


def test_a_bad_value_is_a_plain_error(spark: SparkSession, lake: Lake) -> None:
    from singerlake.engine.spark.jvm.failures import plain_errors

    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1}, {"id": "no number"}])
    said = "row 1 of block 1 of tap.s.*\"no number\".*'id'"
    with pytest.raises(DamagedError, match=said), plain_errors():
        rows_of(spark, lake)


@pytest.mark.parametrize("by_index", [False, True])
def test_what_does_not_fit_harms_nobody_once_it_is_replaced(
    spark: SparkSession, lake: Lake, by_index: bool
) -> None:
    """A column's type changes to one that old values cannot take, and all rows come again."""
    text, number = {"type": "string"}, {"type": "integer"}
    key = {"id": {"type": "integer"}}
    old = [{"id": n, "v": f"no. {n}"} for n in range(1, 5)]
    commit_rows(lake, "tap.s", {**key, "v": text}, ["id"], [*old])
    again: list[Any] = [{"id": n, "v": n} for n in (1, 2, 3)]
    gone = {"id": 4, "v": 4, "_sdc_deleted_at": "2026-01-01T00:00:00Z"}
    last = commit_rows(lake, "tap.s", {**key, "v": number}, ["id"], [*again, {"id": 5, "v": "x"}])
    table = lake.find("tap.s")[0]

    def rows(snapshot: TableState) -> list[tuple[Any, ...]]:
        if by_index:
            built = index_build.ensure(spark, table, snapshot)
            return sorted(tuple(row) for row in read_index(spark, built).collect())
        return sorted(tuple(row) for row in state(spark, table, snapshot).collect())

    assert rows(last.at(1)) == [(n, f"no. {n}") for n in range(1, 5)]
    with pytest.raises(DamagedError, match=r"row (3 of block 1|3 of block 2).*'v'"), plain_errors():
        rows(last)  # rows 4 and 5 are still there, and neither value is a number
    last = commit_rows(lake, "tap.s", {**key, "v": number}, ["id"], [gone, {"id": 5, "v": 5}])
    assert rows(last) == [(1, 1), (2, 2), (3, 3), (5, 5)]
    with plain_errors():
        assert index_build.ensure(spark, table, last).marker.rows == 4
    first, *_ = row_history(spark, table, id="1")
    assert first.values == {"id": 1, "v": None}
    assert "'v' was written as string" in first.misfits["v"]


def test_a_misfit_is_an_error_for_who_reads_it_and_for_nobody_else(
    spark: SparkSession, lake: Lake
) -> None:
    commit_rows(
        lake, "tap.s", {"id": {"type": "integer"}, "v": {"type": "string"}}, [], [{"v": "x"}]
    )
    new = {"id": {"type": "integer"}, "v": {"type": "integer"}}
    last = commit_rows(lake, "tap.s", new, [], [{"id": 1, "v": 5}])
    table = lake.find("tap.s")[0]
    with pytest.raises(DamagedError, match="cannot become int64"), plain_errors():
        state(spark, table, last).select("v").collect()
    with pytest.raises(DamagedError, match="cannot become int64"), plain_errors():
        state(spark, table, last).where("v > 7").collect()
    assert [row["id"] for row in state(spark, table, last).select("id").collect()] == [None, 1]
    assert state(spark, table, last).count() == 2
    assert state(spark, table, last).where("id = 1").select("v").collect() == [(5,)]


def test_duckdb_agrees(spark: SparkSession, lake: Lake) -> None:
    """An engine that shares no code with us, on the same files."""
    duckdb = pytest.importorskip("duckdb")
    records: list[Any] = [
        copy.copy({"id": n % 97, "part": f"p{n % 5}", "n": n}) for n in range(2000)
    ]
    commit_rows(lake, "tap.s", FLAT, ["id"], records, block_rows=300)
    snapshot = lake.find("tap.s")[0].snapshot()
    files = sorted(
        {str(Path(lake.store.uri, snapshot.table.data(b.file))) for b in snapshot.blocks}
    )
    theirs = duckdb.sql(
        f"""
        SELECT record.id, record.part, record.n
        FROM (SELECT *, row_number() OVER () AS place FROM read_json({files!r},
              format = 'newline_delimited', columns = {{'type': 'VARCHAR',
              'record': 'STRUCT(id BIGINT, part VARCHAR, n BIGINT)'}}))
        WHERE type = 'RECORD'
        QUALIFY row_number() OVER (PARTITION BY record.id ORDER BY place DESC) = 1
        """
    ).fetchall()
    ours = [tuple(row.values()) for row in rows_of(spark, lake)]
    assert sorted(ours) == sorted(theirs)
