"""``mode: rows``: the rows of a version, each once, by its index and without Java."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3

from singerlake.errors import DamagedError, NotFoundError, UsageError
from singerlake.format import metadata, names, rewritten
from singerlake.format.metadata import INDEX_FORMAT, IndexFile, IndexMarker
from singerlake.format.names import TableName
from singerlake.lake import Lake
from tap_singerlake import state_rows
from tap_singerlake.state_rows import StateRows
from tests.build import commit_rows
from tests.tap.run import freeze, run

TABLE = TableName("tap-a", "orders")
PROPERTIES = {
    "id": {"type": ["null", "integer"]},
    "sub": {"type": ["null", "string"]},
    "v": {"type": "string"},
    "_sdc_deleted_at": {"type": ["null", "string"]},
}
Row = dict[str, Any]


def write_index(lake: Lake, rows: list[tuple[Row, int, int, bool]], base: int = 0) -> int:
    """An index of the head, as a freeze makes one: rows with block, ordinal, and deletion."""
    table = lake.table(TABLE)
    snapshot = table.snapshot().earliest_equal()
    columns: dict[str, Any] = {
        name: pa.array(
            [row.get(name) for row, *_ in rows],
            pa.int64() if "integer" in spec["type"] else pa.string(),
        )
        for name, spec in PROPERTIES.items()
    }
    columns |= {
        "_block": pa.array([block for _, block, _, _ in rows], pa.int64()),
        "_ordinal": pa.array([ordinal for _, _, ordinal, _ in rows], pa.int32()),
        "_singer_version": pa.nulls(len(rows), pa.int64()),
        "_digest": pa.nulls(len(rows), pa.binary()),
        "_misfit": pa.nulls(len(rows), pa.map_(pa.int32(), pa.string())),
    }
    if base:
        columns["_deleted"] = pa.array([gone for *_, gone in rows])
    data = io.BytesIO()
    pq.write_table(pa.table(columns), data)
    folder = TABLE.index(snapshot.number)
    path = names.index_part("0" * 32)
    lake.store.put_if_absent(folder + path, data.getvalue())
    file = IndexFile(path, len(rows), len(data.getvalue()), blake3(data.getvalue()).hexdigest())
    marker = IndexMarker(
        format=INDEX_FORMAT,
        transaction=snapshot.number,
        commit=snapshot.commit,
        schema_hash=snapshot.schema_hash,
        rows=None if base else len(rows),
        files=[file],
        base=base,
        types=snapshot.rules,
    )
    lake.store.put_if_absent(folder + names.INDEX_MARKER, metadata.encode(marker))
    return snapshot.number


def rows_of(*rows: tuple[int | None, str, str]) -> list[Row]:
    return [{"id": id_, "sub": sub, "v": v} for id_, sub, v in rows]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Version 1 of three rows: one replaced, one deleted, one with a null in its key."""
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    first = rows_of((1, "a", "old"), (1, "b", "same"), (2, "a", "goes"), (None, "a", "null"))
    gone = {"id": 2, "sub": "a", "v": "x", "_sdc_deleted_at": "2026-01-01T00:00:00Z"}
    commit_rows(lake, str(TABLE), PROPERTIES, ["id", "sub"], [*first])
    commit_rows(lake, str(TABLE), PROPERTIES, ["id", "sub"], [*rows_of((1, "a", "new")), gone])
    kept = [(first[1], 1, 1, False), (first[3], 1, 3, False), ({"id": 1, "sub": "a"}, 2, 0, False)]
    write_index(lake, kept)
    freeze(lake, str(TABLE), rows=3)
    return lake


def values(records: list[Row]) -> list[str]:
    return [record["v"] for record in records]


def test_each_row_of_the_state_comes_once_as_its_own_bytes(lake: Lake) -> None:
    whole = run(lake)
    out = run(lake, mode="rows", table_version="1")
    assert values(out.records()) == ["same", "null", "new"]
    assert set(out.raw_records()) < set(whole.raw_records())
    assert out.kinds == ["SCHEMA", "RECORD", "RECORD", "RECORD", "STATE"]
    assert out.state == {"bookmarks": {"orders": {"transaction": 2, "commit": _commit(lake, 2)}}}


def _commit(lake: Lake, number: int) -> str:
    return lake.table(TABLE).snapshot().summary(number).commit


def test_it_goes_on_from_the_state_in_either_mode(lake: Lake) -> None:
    state = run(lake, mode="rows", table_version="1").state
    assert run(lake, state, mode="rows", table_version="1").records() == []
    commit_rows(lake, str(TABLE), PROPERTIES, ["id", "sub"], rows_of((3, "c", "later")))
    assert values(run(lake, state).records()) == ["later"]
    kept = [({"id": 1, "sub": "b"}, 1, 1, False), ({"id": None, "sub": "a"}, 1, 3, False)]
    kept += [({"id": 1, "sub": "a"}, 2, 0, False), ({"id": 3, "sub": "c"}, 3, 0, False)]
    write_index(lake, kept)
    freeze(lake, str(TABLE), rows=4)
    assert values(run(lake, state, mode="rows", table_version="2").records()) == ["later"]
    everything = run(lake, mode="rows", table_version="2").records()
    assert values(everything) == ["same", "null", "new", "later"]


def test_an_index_that_is_a_layer_hides_what_lies_below(lake: Lake) -> None:
    base = 2
    gone = {"id": 1, "sub": "a", "v": "x", "_sdc_deleted_at": "2026-01-02T00:00:00Z"}
    later = [*rows_of((1, "b", "replaced"), (2, "b", "added")), gone]
    commit_rows(lake, str(TABLE), PROPERTIES, ["id", "sub"], later)
    layer = [(row, 3, n, row is gone) for n, row in enumerate(later)]
    write_index(lake, layer, base=base)
    freeze(lake, str(TABLE), rows=3)
    out = run(lake, mode="rows", table_version="2")
    assert values(out.records()) == ["null", "replaced", "added"]


def test_maps_and_selection_apply(lake: Lake) -> None:
    out = run(lake, mode="rows", table_version="1", stream_maps={"orders": {"v": "v.upper()"}})
    assert values(out.records()) == ["SAME", "NULL", "NEW"]


def test_without_a_version_or_an_index_the_next_step_is_named(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"singerlake freeze tap-a\.orders"):
        run(lake, mode="rows")
    lake.store.delete(TABLE.index(2) + names.INDEX_MARKER)
    monkeypatch.setattr(state_rows, "TASK_BYTES", 0)
    with pytest.raises(NotFoundError, match=r"`tap-a`\.`orders`\.1"):
        run(lake, mode="rows", table_version="1")


def test_small_table_without_an_index_is_read_by_its_blocks(lake: Lake) -> None:
    whole = run(lake, mode="rows", table_version="1").out
    lake.store.delete(TABLE.index(2) + names.INDEX_MARKER)
    assert run(lake, mode="rows", table_version="1").out == whole


def test_an_index_whose_file_vanishes_is_as_none(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_rows, "TASK_BYTES", 0)
    lake.store.delete(TABLE.index(2) + names.index_part("0" * 32))
    with pytest.raises(NotFoundError, match=r"singerlake query .*`tap-a`\.`orders`\.1"):
        run(lake, mode="rows", table_version="1")


@pytest.mark.parametrize("position", [(1, 0), (1, 4), (9, 0)])
def test_an_index_of_other_rows_than_the_version_is_refused(
    lake: Lake, position: tuple[int, int]
) -> None:
    commit_rows(lake, str(TABLE), PROPERTIES, ["id", "sub"], rows_of((3, "c", "later")))
    write_index(lake, [({}, 1, 0, False), ({}, *position, False)])
    freeze(lake, str(TABLE), rows=2)
    with pytest.raises(DamagedError, match="only a cache"):
        run(lake, mode="rows", table_version="2")


def test_neither_java_nor_another_mode_is_needed(lake: Lake) -> None:
    def gateway() -> Any:
        pyspark = sys.modules.get("pyspark")
        return None if pyspark is None else pyspark.SparkContext._gateway

    before = gateway()  # another test's, where it ran in this process
    run(lake, mode="rows", table_version="1")
    assert gateway() is before
    with pytest.raises(Exception, match="validation"):
        run(lake, mode="table")


def test_rows_that_a_rewritten_block_lacks_are_missed(lake: Lake) -> None:
    positioned = [
        rewritten.with_position(b'{"type": "RECORD", "stream": "orders", "record": {}}', 1, at)
        for at in (0, 2)
    ]
    text = b"\n".join([b'{"type": "SCHEMA"}', *positioned, b""])
    table = lake.table(TABLE)
    block = msgspec.structs.replace(
        table.snapshot().blocks[0], first_version=1, rows=2, activations=()
    )
    for noted, lost in (([0, 2], False), ([0, 1], True)):
        rows = StateRows([block])
        rows.add(np.array([1, 1]), np.array(noted))
        assert rows.count() == 2
        if lost:
            with pytest.raises(DamagedError, match="block 1 lacks rows"):
                rows.lines(block, text, 0)
        else:
            assert rows.lines(block, text, 0)[1] == 2
