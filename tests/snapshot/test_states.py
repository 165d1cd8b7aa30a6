"""States read in Python alone, held to a plain fold; what Spark makes of them: tests/histories."""

from __future__ import annotations

import datetime as dt
import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import singerlake
from singerlake import extras
from singerlake.engine import choice as engines
from singerlake.engine.work import Work
from singerlake.errors import (
    DamagedError,
    InvalidQueryError,
    NotFoundError,
    RuntimeMissingError,
    StoreError,
    UsageError,
)
from singerlake.log.lease import leases
from singerlake.ops import freeze
from singerlake.rows.batches.row_columns import file_schema
from singerlake.rows.state.parquet_parts import Part, PartReader, PartWriter
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import from_blocks as blocks_read
from singerlake.snapshot import index
from singerlake.storage.base import Staged
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.histories.model import MARKS, fold, messages_of

FLAT: dict[str, Any] = {
    "id": {"type": "integer"},
    "part": {"type": ["null", "string"]},
    "n": {"type": "integer"},
}
MISFITS: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": "integer"}}


@pytest.fixture
def lake(tmp_path: Path) -> singerlake.Lake:
    return singerlake.open(tmp_path / "lake", create=True)


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)


def frozen(table: singerlake.Table, label: str) -> None:
    """Freeze a head without Spark, which only counts its rows."""
    head = table.snapshot()
    plan = freeze.plan(head, at=None, label=label)
    freeze.commit_version(
        table.store, head, plan, rows=0, fingerprint="", record_fingerprint="", lanes={}
    )


@pytest.mark.usefixtures("many_cases")
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 1 << 30),
    keys=st.sampled_from([["id"], ["id", "part"], []]),
    count=st.integers(0, 300),
    block_rows=st.integers(1, 90),
)
def test_a_state_is_that_of_the_model(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    keys: list[str],
    count: int,
    block_rows: int,
) -> None:
    lake = singerlake.open(tmp_path_factory.mktemp("lake"), create=True)
    messages = messages_of(seed, keys, count + 2, MARKS, nulls=True)
    half = len(messages) // 2
    commit_rows(lake, "tap.s", FLAT, keys, messages[:half], block_rows=block_rows)
    commit_rows(lake, "tap.s", FLAT, keys, messages[half:], block_rows=block_rows)
    table = lake["tap.s"]
    for at, seen in ((1, messages[:half]), (2, messages)):
        expected = [{name: record.get(name) for name in FLAT} for record in fold(seen, keys)]
        state = table.at(transaction=at, engine="local")
        assert not state.indexed
        for _ in range(2):  # from the blocks, and by the index
            assert in_order(state.to_arrow().to_pylist()) == in_order(expected)
            assert state.indexed
        below = seed % 300
        some = state.to_arrow(["n", "id"], pc.field("n") < below)
        wanted = [{"n": row["n"], "id": row["id"]} for row in expected if row["n"] < below]
        assert some.column_names == ["n", "id"]
        assert in_order(some.to_pylist()) == in_order(wanted)


def test_a_state_is_named_in_many_ways(lake: singerlake.Lake) -> None:
    for number in (1, 2):
        commit_rows(lake, "tap-a.s", FLAT, ["id"], [{"id": number, "n": number}])
        frozen(lake["tap-a.s"], f"after {number}")
    table = lake["tap_a.s"]
    assert [one.operation for one in table.history()] == ["sync", "freeze", "sync", "freeze"]
    assert [one.label for one in table.versions()] == ["after 1", "after 2"]
    first = table.history()[0]
    time = dt.datetime.fromisoformat(first.time)
    for state in (
        table.at(1),
        table.at("1"),
        table.at("after 1"),
        table.at("@1"),
        table.at(transaction=1),
        table.at(time=first.time),
        table.at(time=time),
        table.at(time=time.astimezone(dt.timezone(dt.timedelta(hours=5)))),
        table.at(time=time.replace(tzinfo=None)),
    ):
        assert state.transaction == 1
    assert table.at(2).version == table.versions()[1]
    assert table.at(transaction=3).version is None
    assert table.at().transaction == 4
    assert str(table.at(2)).startswith(
        "Snapshot(tap-a.s at transaction 3, version 2 'after 2', 0 rows"
    )
    assert table.at("after 2").schema == pa.schema(
        {"id": pa.int64(), "part": pa.string(), "n": pa.int64()}
    )
    with pytest.raises(NotFoundError, match="no version 'after 3'"):
        table.at("after 3")
    with pytest.raises(NotFoundError, match="no transaction 9"):
        table.at(transaction=9)
    with pytest.raises(NotFoundError, match="no transaction by 2001"):
        table.at(time="2001-01-01")
    with pytest.raises(
        UsageError, match="specify one snapshot: a version and transaction= are given"
    ):
        table.at(1, transaction=1)
    with pytest.raises(UsageError, match="the engine 'duck' is not one of auto, local, spark"):
        table.at(engine="duck")
    with pytest.raises(TypeError):
        iter(lake)  # type: ignore[call-overload]


ODD = ["a", "A", "a.b", "", "p0", "c1", "_block", "_misfit", "_", "FieldPath(0)", "'q\"`"]


def test_columns_may_have_any_name(lake: singerlake.Lake) -> None:
    properties = {name: {"type": "integer"} for name in ODD}
    rows = [{name: 100 * n + i for i, name in enumerate(ODD)} for n in range(4)]
    commit_rows(lake, "tap.s", properties, ["a.b"], rows)
    state = lake["tap.s"].at(engine="local")
    assert in_order(state.to_arrow().to_pylist()) == in_order(rows)
    for i, name in enumerate(ODD):
        got = state.to_arrow([name], pc.field(name) > 100 + i)
        assert sorted(got.column(name).to_pylist()) == [200 + i, 300 + i], name
        other = state.to_arrow([ODD[i - 1]], pc.field(name) == i)
        assert len(other) == 1
    by_number = (pc.field(1) > 200) & (pc.field("a") < 300)
    assert state.to_arrow(["a"], by_number).to_pylist() == [{"a": 200}]


def test_what_cannot_be_asked(lake: singerlake.Lake) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1}])
    state = lake["tap.s"].at(engine="local")
    with pytest.raises(InvalidQueryError, match=r"tap.s has no column 'prat': did you mean part\?"):
        state.to_arrow(["prat"])
    with pytest.raises(InvalidQueryError, match=r"is not a list of names: write \['id'\]"):
        state.to_arrow("id")
    for row_filter in (pc.field("x") > 1, pc.field("id"), pc.field("id") == "a"):
        with pytest.raises(InvalidQueryError, match=r"the filter does not fit tap\.s"):
            state.to_arrow(filter=row_filter)
    for wrong in ("id > 1", [("id", ">", 1)], True):
        with pytest.raises(InvalidQueryError, match=r'write pyarrow.compute.field\("id"\) > 3'):
            state.to_arrow(filter=wrong)  # type: ignore[arg-type]
    assert leases(lake.store, lake["tap.s"].name) == []


@pytest.mark.parametrize("keys", [["id"], []])
def test_a_value_that_does_not_fit_harms_who_reads_it(
    lake: singerlake.Lake, keys: list[str]
) -> None:
    rows: list[Any] = [{"id": 1, "n": 1}, {"id": 2, "n": "two"}, {"id": 3, "n": 3}]
    commit_rows(lake, "tap.s", MISFITS, keys, rows)
    state = lake["tap.s"].at(engine="local")
    for _ in range(2):
        assert state.to_arrow(["id"]).num_rows == 3
        assert state.to_arrow(["n"], pc.field("id") != 2)["n"].to_pylist() == [1, 3]
        for columns, row_filter in ((None, None), (["id"], pc.field("n") > 1)):
            with pytest.raises(DamagedError, match='value "two"'):
                state.to_arrow(columns, row_filter)
    past = lake["tap.s"].at(engine="local", on_type_mismatch="null")
    assert past.to_arrow()["n"].to_pylist() == [1, None, 3]


def test_a_large_state_is_for_spark(lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": n} for n in range(50)])
    monkeypatch.setattr(engines, "SMALL", Work(2000, 1_000_000))
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(RuntimeMissingError, match="materializing tap.s at transaction 1"):
        lake["tap.s"].at().scanner()
    assert not list(lake.store.list(lake["tap.s"].name.indexes))
    assert lake["tap.s"].at(engine="local").to_arrow().num_rows == 50


class NoIndex(LocalStore):
    """A store in which nothing new can be written."""

    def stage(self) -> Staged:
        raise StoreError("read only")


def test_where_no_index_can_be_kept_rows_are_read_all_the_same(
    lake: singerlake.Lake, tmp_path: Path
) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1, "n": 1}, {"id": 2}, {"id": 1, "n": 11}])
    expected = in_order([{"id": 1, "part": None, "n": 11}, {"id": 2, "part": None, "n": None}])
    closed = singerlake.Lake(NoIndex(tmp_path / "lake"))
    state = closed["tap.s"].at(engine="local")
    assert in_order(state.to_arrow().to_pylist()) == expected
    assert state.to_arrow(["id"], pc.field("n") == 11).to_pylist() == [{"id": 1}]
    assert not state.indexed
    # Without log and manifest, the files are looked through.
    folder = tmp_path / "lake" / "raw" / "tap" / "s"
    for path in [*(folder / "transactions").iterdir(), *folder.glob("*.json")]:
        path.unlink()
    lost = lake["tap.s"].at(engine="local")
    assert in_order(lost.to_arrow().to_pylist()) == expected
    assert not lost.indexed


def test_a_damaged_index_is_made_again(lake: singerlake.Lake, tmp_path: Path) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": n} for n in range(50)])
    state = lake["tap.s"].at(engine="local")
    before = state.to_arrow()
    (part,) = (tmp_path / "lake" / "index").rglob("*.parquet")
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    assert not state.indexed
    assert state.to_arrow() == before
    assert state.indexed


def parts_of(lake: singerlake.Lake, count: int) -> None:
    """An index of several files of a row each, as Spark's tasks write them."""
    rows = [{"id": n, "n": n} for n in range(count)]
    commit_rows(lake, "tap.s", FLAT, ["id"], rows, block_rows=1)
    table = lake["tap.s"]
    snapshot = table.snapshot()
    shape = shape_of(snapshot)
    folder = table.name.index(snapshot.number)
    writer = PartWriter(table.store, folder, file_schema(shape.columns))
    written: list[Any] = []
    for batch in blocks_read.local_rows(table, snapshot):
        for row in range(batch.num_rows):
            written += next(writer(iter([batch.slice(row, 1)]))).to_pylist()
    index.finish(table, snapshot, shape, written)


def test_rows_come_file_by_file_under_a_lease(
    lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts_of(lake, 40)
    table = lake["tap.s"]
    read: list[str] = []
    select = PartReader.select

    def noted(self: PartReader, part: Part, *args: Any) -> Any:
        read.append(part.key)
        yield from select(self, part, *args)

    monkeypatch.setattr(PartReader, "select", noted)
    monkeypatch.setattr("singerlake.rows.blocks.block_reader.BATCH_ROWS", 10)
    reader = table.at().scanner(["id"])
    assert not read
    assert reader.read_next_batch().num_rows == 10
    assert len(read) == 10
    assert len(leases(lake.store, table.name)) == 1
    assert sum(batch.num_rows for batch in reader) == 30
    assert leases(lake.store, table.name) == []
    for begun in (False, True):
        reader = table.at().scanner()
        if begun:
            reader.read_next_batch()
        assert len(leases(lake.store, table.name)) == 1
        del reader
        gc.collect()
        assert leases(lake.store, table.name) == []


def test_rows_without_columns_are_counted(lake: singerlake.Lake) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": n} for n in range(5)], block_rows=2)
    state = lake["tap.s"].at()
    assert (state.scanner([]).read_all().num_rows, state.to_arrow([]).schema.names) == (5, [])
    assert state.to_arrow([], pc.field("id") > 2).num_rows == 2


EXACT: dict[str, Any] = {
    "id": {"type": "integer"},
    "big": {"type": ["null", "integer"]},
    "total": {"type": ["null", "number"], "multipleOf": 0.01},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "tags": {"type": "array", "items": {"type": "string"}},
}


def test_values_stay_what_they_are_in_every_form(lake: singerlake.Lake) -> None:
    rows = [
        '{"id": 1, "big": 9007199254740993, "total": 1.10, "tags": ["a", null],'
        ' "at": "2026-01-02T03:04:05.000006Z"}',
        '{"id": 2}',
    ]
    commit_rows(lake, "tap.s", EXACT, ["id"], [*rows])
    state = lake["tap.s"].at(engine="local")
    expected = state.to_arrow().to_pylist()
    assert str(expected[0]["total"]) == "1.10"
    assert expected[0]["big"] == (1 << 53) + 1
    frame = state.to_pandas()
    assert pa.Table.from_pandas(frame, preserve_index=False).to_pylist() == expected
    assert state.to_polars().to_arrow().to_pylist() == expected
    connection = state.to_duckdb("rows", columns=["id", "big", "total"], filter=pc.field("id") < 3)
    found = connection.sql("select id, big, total::varchar from rows order by id").fetchall()
    assert found == [(1, (1 << 53) + 1, "1.10"), (2, None, None)]
    assert state.to_duckdb("more", connection) is connection
    assert connection.sql("select count(*) from more join rows using (id)").fetchall() == [(2,)]


def test_what_is_not_installed_is_named_with_the_line_that_installs_it(
    lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1}])
    table = lake["tap.s"]
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    state = table.at(engine="spark")
    for call, extra in (
        (state.to_arrow, "spark"),
        (state.to_spark, "spark"),
        (state.to_pandas, "pandas"),
        (state.to_polars, "polars"),
        (lambda: state.to_duckdb("x"), "duckdb"),
        (lambda: lake.query("select 1"), "spark"),
    ):
        with pytest.raises(
            RuntimeMissingError, match=rf"pip install 'singerlake\[{extra}(,java)?\]'"
        ):
            call()  # type: ignore[operator]
    assert table.vacuum().transaction == 0, "there is nothing to do"
    assert table.verify().problems == []
    assert table.freeze("small").rows == 1
    monkeypatch.setattr(engines, "SMALL", Work())  # as of a large table
    with pytest.raises(RuntimeMissingError, match="verifying a table"):
        table.verify()
    with pytest.raises(RuntimeMissingError, match="freezing a version"):
        table.freeze(again=True)
    with pytest.raises(RuntimeMissingError, match="reverting a table"):
        table.revert(transaction=1)
    with pytest.raises(
        UsageError, match="specify the snapshot: one of a version, transaction=, time="
    ):
        table.revert()


@pytest.mark.usefixtures("processes")
def test_reading_starts_no_spark_and_imports_no_pandas(
    lake: singerlake.Lake, tmp_path: Path
) -> None:
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1}])
    assert lake["tap.s"].at(engine="local").to_arrow().num_rows == 1
    code = (
        "import sys, singerlake;"
        f"table = singerlake.open({str(tmp_path / 'lake')!r})['tap.s'];"
        "assert table.at().to_arrow(['id']).to_pylist() == [{'id': 1}];"
        "assert 'pandas' not in sys.modules, 'it takes longer to import than all else';"
        "assert table.at(engine='local').to_arrow().num_rows == 1;"
        "dear = {'pyspark', 'py4j', 'boto3', 'click', 'rich', 'singer_sdk'};"
        "assert not dear & set(sys.modules), dear & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.usefixtures("processes")
def test_a_state_with_an_index_is_read_soon(lake: singerlake.Lake) -> None:
    """As typed, in less than 0.6 s: it imports nothing that plans, writes or commits."""
    commit_rows(lake, "tap.s", FLAT, ["id"], [{"id": 1}])
    assert lake["tap.s"].freeze().rows == 1
    code = (
        "import singerlake, sys, time;"
        f"table = singerlake.open({lake.store.uri!r})['tap.s'];"
        "assert table.at(1).to_arrow().num_rows == 1;"
        "print(time.process_time(), *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True
    )
    seconds, *modules = done.stdout.split()
    own = {name for name in modules if name.startswith("singerlake")}
    planning = {"maintenance", "projections.graph", "rows_back", "spark", "transactions.commit"}
    assert not {name for name in own for room in planning if name.startswith(f"singerlake.{room}")}
    assert len(own) < 125, "it was 120"
    assert float(seconds) < 2, "0.5 where nobody else computes"
