"""Snapshots as Arrow streams and lazy tables, each tool compared with ``to_arrow()``."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import singerlake
from singerlake.errors import DamagedError, InvalidQueryError
from singerlake.log.lease import leases
from singerlake.rows.batches.row_columns import PROVENANCE, TYPES, file_schema, row_schema
from singerlake.rows.state import parquet_parts
from singerlake.rows.state.parquet_parts import PartReader, PartWriter
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import building, index
from singerlake.storage.local.store import LocalStore
from tests.apart import NotInstalledError
from tests.build import commit_rows
from tests.snapshot import tools_apart

COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "total": {"type": ["null", "number"], "multipleOf": 0.01},
    "weight": {"type": ["null", "number"]},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "day": {"type": ["null", "string"], "format": "date"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "place": {"type": "object", "properties": {"city": {"type": "string"}}},
    "paid": {"type": ["null", "boolean"]},
}


def record(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "total": number / 4 if number % 5 else None,
        "weight": number * 1.5 or -0.0,
        "at": f"2026-01-02T03:04:{number % 60:02}.000006Z" if number % 3 else None,
        "day": f"2026-01-{number % 28 + 1:02}",
        "tags": ["a", str(number)],
        "place": {"city": f"c{number % 4}"},
        "paid": number % 2 == 0,
    }


@pytest.fixture
def lake(tmp_path: Path) -> singerlake.Lake:
    return singerlake.open(tmp_path / "lake", create=True)


def filled(lake: singerlake.Lake, count: int = 60) -> singerlake.Snapshot:
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [record(n) for n in range(count)])
    return lake["tap.s"].at(engine="local")


def layered(lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch) -> singerlake.Snapshot:
    """A snapshot that is a layer on another: a row is changed, one deleted and one added."""
    monkeypatch.setattr(building, "LEAST_ROWS", 20)
    assert len(filled(lake).to_arrow()) == 60
    changed = {**record(3), "weight": 1000.5}
    deleted = {"id": 4, "_sdc_deleted_at": "2026-01-01"}
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [changed, deleted, record(900)])
    state = lake["tap.s"].at(engine="local")
    assert len(state.to_arrow()) == 60
    found = index.load(state.table, state.table.snapshot())
    assert found is not None
    assert found.below is not None
    return state


def held(state: singerlake.Snapshot) -> int:
    """How many readers hold a lease on a table."""
    gc.collect()
    return len(leases(state.table.store, state.table.name))


def arro3_rows(state: Any) -> pa.Table:
    core = pytest.importorskip("arro3.core")
    return pa.table(core.Table.from_arrow(state))


def duckdb_rows(state: Any) -> pa.Table:
    found = duckdb.sql("from state").arrow()
    return found.read_all() if isinstance(found, pa.RecordBatchReader) else found


def view_rows(state: Any) -> pa.Table:
    connection = state.to_duckdb("x")
    found = connection.sql("from x").arrow()
    return found.read_all() if isinstance(found, pa.RecordBatchReader) else found


TOOLS: dict[str, Callable[[Any], pa.Table]] = {
    "pyarrow": pa.table,
    "reader": lambda state: pa.RecordBatchReader.from_stream(state).read_all(),
    "polars": lambda state: pl.DataFrame(state).to_arrow(),
    "scan_polars": lambda state: state.scan_polars().collect().to_arrow(),
    "duckdb": duckdb_rows,
    "to_duckdb": view_rows,
    "arro3": arro3_rows,
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("kind", ["whole", "layered"])
def test_snapshot_has_the_same_rows_in_each_tool(
    lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch, tool: str, kind: str
) -> None:
    state = filled(lake) if kind == "whole" else layered(lake, monkeypatch)
    rows = TOOLS[tool](state)
    expected = state.to_arrow().sort_by("id")
    assert rows.column_names == expected.column_names
    assert rows.sort_by("id").to_pylist() == expected.to_pylist()
    assert held(state) == 0, "the lease ends with the stream"


@pytest.fixture(scope="module")
def apart(environments: None) -> Path:
    try:
        return tools_apart.installed()
    except NotInstalledError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("tool", tools_apart.TOOLS)
@pytest.mark.parametrize("kind", ["whole", "layered"])
def test_snapshot_has_the_same_rows_in_tools_of_another_environment(
    apart: Path,
    lake: singerlake.Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    kind: str,
) -> None:
    if tool == "pandas" and sys.version_info < (3, 11):
        pytest.skip("pandas 3 needs Python 3.11")
    if kind == "whole":
        filled(lake)
    else:
        layered(lake, monkeypatch)
    found = tools_apart.compared(apart, tmp_path / "lake", tool)
    assert found == {"rows": 60, "names": True, "values": True, "leases": 0}


def test_stream_gives_batches_and_holds_a_lease_until_it_is_given_up(
    lake: singerlake.Lake,
) -> None:
    state = filled(lake)
    reader = pa.RecordBatchReader.from_stream(state)
    assert held(state) == 1
    assert reader.read_next_batch().num_rows == 60
    assert held(state) == 1
    del reader
    assert held(state) == 0
    frame = state.scan_polars()
    connection = state.to_duckdb("x")
    assert held(state) == 0, "neither a lazy frame nor a view holds anything between queries"
    assert connection.sql("select count(*) from x").fetchall() == [(60,)]
    assert len(frame.head(3).collect()) == 3
    assert held(state) == 0


def test_duckdb_opens_the_stream_of_a_query_once(
    lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = filled(lake)  # noqa: F841  # DuckDB finds it by its name
    opened = 0
    scanner = singerlake.Snapshot.scanner

    def counted(self: singerlake.Snapshot, *args: Any) -> Any:
        nonlocal opened
        opened += 1
        return scanner(self, *args)

    monkeypatch.setattr(singerlake.Snapshot, "scanner", counted)
    assert duckdb.sql("select count(*) from state where id >= 50").fetchall() == [(10,)]
    assert opened == 1


CONDITIONS: list[tuple[str, pl.Expr, pc.Expression]] = [
    ("id = 3", pl.col("id") == 3, pc.field("id") == 3),
    ("id in (4, 900, 7)", pl.col("id").is_in([4, 900, 7]), pc.field("id").isin([4, 900, 7])),
    ("weight > 60.25", pl.col("weight") > 60.25, pc.field("weight") > 60.25),
    ("weight = 0", pl.col("weight") == 0, pc.field("weight") == 0),
    ("weight <> 4.5", pl.col("weight") != 4.5, pc.field("weight") != 4.5),
    ("total is null", pl.col("total").is_null(), pc.field("total").is_null()),
    (
        "paid and id < 20",
        pl.col("paid") & (pl.col("id") < 20),
        pc.field("paid") & (pc.field("id") < 20),
    ),
    (
        "id between 5 and 9",
        pl.col("id").is_between(5, 9),
        (pc.field("id") >= 5) & (pc.field("id") <= 9),
    ),
    ("id > 5000", pl.col("id") > 5000, pc.field("id") > 5000),
]


@pytest.mark.parametrize(
    ("sql", "expression", "row_filter"), CONDITIONS, ids=[c[0] for c in CONDITIONS]
)
@pytest.mark.parametrize("kind", ["whole", "layered"])
def test_filter_keeps_the_same_rows_in_each_tool(
    lake: singerlake.Lake,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    sql: str,
    expression: pl.Expr,
    row_filter: pc.Expression,
) -> None:
    monkeypatch.setattr(parquet_parts, "ROW_GROUP", 7)  # so that some are left out
    state = filled(lake) if kind == "whole" else layered(lake, monkeypatch)
    every = state.to_arrow()
    expected = sorted(every.filter(row_filter)["id"].to_pylist())
    assert sorted(state.to_arrow(["id"], row_filter)["id"].to_pylist()) == expected
    scanned = state.scan_polars().filter(expression).select("id").collect()
    assert sorted(scanned["id"].to_list()) == expected
    view = state.to_duckdb("x").sql(f"select id from x where {sql} order by id")
    assert [row[0] for row in view.fetchall()] == expected
    part = state.to_duckdb(
        "x", columns=["id", "weight", "paid", "total"], filter=pc.field("id") < 30
    )
    some = part.sql(f"select id from x where {sql} order by id").fetchall()
    assert [row[0] for row in some] == [number for number in expected if number < 30]


def test_filter_reads_only_row_groups_and_columns_that_it_needs(
    lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_parts, "ROW_GROUP", 10)
    state = filled(lake)
    assert len(state.to_arrow()) == 60
    read: list[tuple[int, list[str]]] = []
    batches = pq.ParquetFile.iter_batches

    def noted(self: pq.ParquetFile, size: int, groups: Any, columns: list[str]) -> Iterator[Any]:
        read.append((len(range(self.num_row_groups) if groups is None else groups), columns))
        yield from batches(self, size, groups, columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    assert len(state.to_arrow(["id"])) == 60
    assert read.pop() == (6, ["id", "_block"])
    assert len(state.to_arrow(["day"], pc.field("id") == 33)) == 1
    assert read.pop() == (1, ["id", "day", "_block"])
    assert state.to_duckdb("x").sql("select day from x where id = 33").fetchall()
    assert read.pop() == (1, ["id", "day", "_block"])
    assert len(state.to_arrow(filter=pc.field("id") > 1000)) == 0
    assert read.pop()[0] == 0


class Remote(LocalStore):
    """A store whose files no other library can open."""

    def local_path(self, key: str) -> None:  # type: ignore[override]
        return None


def test_rows_of_a_remote_store_are_read_through_it(
    lake: singerlake.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_parts, "ROW_GROUP", 7)
    expected = filled(lake).to_arrow()
    remote = singerlake.Lake(Remote(tmp_path / "lake"))["tap.s"].at(engine="local")
    assert remote.indexed
    assert remote.to_arrow() == expected
    assert remote.to_arrow(["id"], pc.field("id") == 33)["id"].to_pylist() == [33]
    frame = remote.scan_polars()
    assert frame.collect().to_arrow().to_pylist() == expected.to_pylist()
    assert frame.filter(pl.col("id") > 57).select("id").collect()["id"].to_list() == [58, 59]
    connection = remote.to_duckdb("x")
    assert connection.sql("select id from x where id = 33").fetchall() == [(33,)]


def test_limits_of_polars_are_those_of_the_rows(
    lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state in (filled(lake), layered(lake, monkeypatch)):
        rows = state.to_arrow()
        frame = state.scan_polars()
        first = frame.head(5).collect()["id"].to_list()
        assert first == rows["id"].to_pylist()[:5]
        late = frame.filter(pl.col("id") > 20).head(5).collect()["id"].to_list()
        assert late == rows.filter(pc.field("id") > 20)["id"].to_pylist()[:5]
        early = frame.head(30).filter(pl.col("id") > 20).collect()["id"].to_list()
        assert early == rows.slice(0, 30).filter(pc.field("id") > 20)["id"].to_pylist()
        assert frame.select(pl.len()).collect().item() == rows.num_rows


@pytest.mark.parametrize("keys", [["id"], []])
def test_type_mismatch_is_an_error_only_where_it_is_read(
    lake: singerlake.Lake, keys: list[str]
) -> None:
    columns = {"id": {"type": "integer"}, "n": {"type": "integer"}}
    rows: list[Any] = [{"id": 1, "n": 1}, {"id": 2, "n": "two"}, {"id": 3, "n": 3}]
    commit_rows(lake, "tap.s", columns, keys, rows)
    state = lake["tap.s"].at(engine="local")
    for _ in range(2):
        frame, connection = state.scan_polars(), state.to_duckdb("x")
        assert frame.select("id").collect()["id"].to_list() == [1, 2, 3]
        assert frame.filter(pl.col("id") != 2).collect()["n"].to_list() == [1, 3]
        assert connection.sql("select n from x where id <> 2").fetchall() == [(1,), (3,)]
        for query in (frame, frame.filter(pl.col("n") > 1).select("id")):
            with pytest.raises(DamagedError, match='value "two"'):
                query.collect()
        for text in ("from x", "select id from x where n > 1"):
            with pytest.raises(duckdb.Error, match='value "two"'):
                connection.sql(text).fetchall()
        with pytest.raises(Exception, match='value "two"'):
            pl.DataFrame(state)
    past = lake["tap.s"].at(engine="local", on_type_mismatch="null")
    assert past.scan_polars().collect()["n"].to_list() == [1, None, 3]
    assert past.to_duckdb("x").sql("select n from x where n > 1").fetchall() == [(3,)]
    assert held(state) == 0


def test_empty_snapshot_keeps_its_columns(lake: singerlake.Lake) -> None:
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [{"id": 1, "_sdc_deleted_at": "2026-01-01"}])
    state = lake["tap.s"].at(engine="local")
    assert len(state) == 0
    assert state, "there is a snapshot, even if it has no rows"
    assert pa.table(state).schema == state.schema
    assert state.scan_polars().collect().columns == list(COLUMNS)
    assert state.to_duckdb("x").sql("from x").columns == list(COLUMNS)
    assert state.to_duckdb("x").sql("from x").fetchall() == []


def test_length_is_the_number_of_rows(
    lake: singerlake.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = filled(lake)
    assert len(state) == 60
    with monkeypatch.context() as patched:
        patched.setattr(PartReader, "select", None)  # so no row is read any more
        assert len(state) == 60
    assert len(layered(lake, monkeypatch)) == 60


def test_duckdb_copies_rows_where_asked_or_where_names_differ_by_case(
    lake: singerlake.Lake,
) -> None:
    state = filled(lake)
    connection = state.to_duckdb("copied", copy=True)
    state.to_duckdb("viewed", connection)
    kinds = "select table_name, table_type from information_schema.tables order by 1"
    assert connection.sql(kinds).fetchall() == [("copied", "BASE TABLE"), ("viewed", "VIEW")]
    alike = {"a": {"type": "integer"}, "A": {"type": "integer"}, "": {"type": "integer"}}
    commit_rows(lake, "tap.t", alike, ["a"], [{"a": 1, "A": 2, "": 3}])
    odd = lake["tap.t"].at(engine="local")
    assert odd.to_duckdb("x").sql(kinds).fetchall() == [("x", "BASE TABLE")]
    assert odd.scan_polars().filter(pl.col("") > 2).collect().rows() == [(1, 2, 3)]
    with pytest.raises(InvalidQueryError, match="no column 'b'"):
        odd.to_duckdb("x", columns=["b"])


def test_view_is_read_after_its_files_were_deleted_and_made_again(
    lake: singerlake.Lake,
) -> None:
    state = filled(lake)
    frame, connection = state.scan_polars(), state.to_duckdb("x")
    index.drop(state.table, state.table.snapshot())
    assert len(frame.collect()) == 60
    index.drop(state.table, state.table.snapshot())
    assert connection.sql("select count(*) from x").fetchall() == [(60,)]


def test_file_that_is_damaged_after_it_was_checked_is_an_error(
    lake: singerlake.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = filled(lake, 5000)
    assert len(state.to_arrow()) == 5000
    (part,) = (tmp_path / "lake" / "index").rglob("*.parquet")
    data = bytearray(part.read_bytes())
    data[pq.read_metadata(part).row_group(0).column(0).data_page_offset + 200] ^= 1
    part.write_bytes(data)
    monkeypatch.setattr(index, "is_sound", lambda *_: True)
    with pytest.raises(DamagedError, match="not as it was written"):
        state.to_arrow()


ROWS = 4_000_000
PEAK = """
import sys, re, pathlib
import duckdb, polars as pl, pyarrow as pa, pyarrow.compute as pc, singerlake
import pyarrow.dataset

def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])

state = singerlake.open(sys.argv[1])["tap.s"].at()
small = singerlake.open(sys.argv[1])["tap.small"].at()

def run(state):
    if sys.argv[2] == "polars":
        return len(state.scan_polars().filter(pl.col("n") % 1000 == 3).select("id").collect())
    if sys.argv[2] == "stream":
        reader = pa.RecordBatchReader.from_stream(state)
        return sum(batch.filter(pc.field("n") < 4).num_rows for batch in reader)
    if sys.argv[2] == "duckdb":
        ((found,),) = duckdb.sql("select count(*) from state where n < 4").fetchall()
        return found
    connection = state.to_duckdb("x")
    ((found,),) = connection.sql("select count(*) from x where n < 4").fetchall()
    return found

run(small)  # libraries are loaded, and threads begun
before = peak()
found = run(state)
print()  # behind a bar of DuckDB's
print(found, (peak() - before) >> 10)
"""


def materialized(lake: singerlake.Lake, name: str, rows: int, files: int) -> None:
    """Make the files of a snapshot of many rows, without the messages."""
    columns = {"id": {"type": "integer"}, "n": {"type": "integer"}, "t": {"type": "string"}}
    commit_rows(lake, name, columns, ["id"], [{"id": 1}])
    table = lake[name]
    snapshot = table.snapshot()
    shape = shape_of(snapshot)
    folder = index.folder_of(table, snapshot)
    writer = PartWriter(table.store, folder, file_schema(shape.columns))
    schema = row_schema(shape.columns, PROVENANCE)
    written: list[Any] = []
    for number in range(files):
        ids = pa.array(np.arange(number * rows // files, (number + 1) * rows // files))
        ours = [pa.nulls(len(ids), TYPES[column]) for column in PROVENANCE]
        text = pc.binary_join_element_wise("a text of row", ids.cast(pa.string()), " ")
        n = pa.array(ids.to_numpy() % 1000)
        batch = pa.record_batch([ids, n, text, *ours], schema=schema)
        written += next(writer(iter([batch]))).to_pylist()
    index.finish(table, snapshot, shape, written)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("large") / "lake"
    lake = singerlake.open(place, create=True)
    materialized(lake, "tap.small", 1000, 1)
    materialized(lake, "tap.s", ROWS, 8)
    return place


@pytest.mark.usefixtures("processes", "many_cases")
@pytest.mark.parametrize("way", ["polars", "stream", "duckdb", "view"])
def test_filter_of_four_million_rows_peaks_below_200_mib(large: Path, way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(large), way],
        check=True,
        timeout=300,
        capture_output=True,
        text=True,
    )
    found, mebibytes = map(int, done.stdout.splitlines()[-1].split())
    assert found == ROWS // 1000 * (1 if way == "polars" else 4)
    assert mebibytes < 200
