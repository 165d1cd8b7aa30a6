"""Columns written as a whole say what their values say one by one."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.format import block as format_block
from singerlake.format.log import SchemaEntry, decode_block
from singerlake.format.names import TableName
from singerlake.format.types import BOOLEAN, INTEGER, STRING, Kind, Type, columns_of
from singerlake.log.blocks import read_block
from singerlake.ops.create.record_writer import RecordWriter
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.columns import canonical_text, text_bytes
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.storage.local.store import LocalStore

MOMENTS = st.datetimes(timezones=st.just(dt.timezone.utc))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-999, 999).map(float)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    INTEGER: st.integers(-(2**63), 2**63 - 1),
    BOOLEAN: st.booleans(),
    STRING: st.text(st.sampled_from('a"\\\n\t\0\x01\x1fé/\x7f')) | st.text(),
    Type(Kind.NUMBER): NUMBERS,
    Type(Kind.DATE): st.dates(),
    Type(Kind.TIMESTAMP): MOMENTS,
    Type(Kind.DECIMAL, scale=0): st.integers(-(10**20), 10**20).map(Decimal),
    Type(Kind.DECIMAL, scale=3): st.decimals(-(10**9), 10**9, places=3),
    Type(Kind.DECIMAL, scale=12): st.decimals(-(10**9), 10**9, places=12),
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
@settings(deadline=None)
@given(data=st.data())
def test_a_column_is_written_as_its_values_are(type_: Type, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[type_] | st.none(), max_size=8))
    start = data.draw(st.integers(0, 3))
    column = pa.array(values, arrow_type(type_)).slice(start)
    expected = [None if v is None else canonical_text.value_text(v, type_) for v in values[start:]]
    assert canonical_text.texts(column, type_).to_pylist() == expected


def test_times_outside_the_calendar_are_written_too() -> None:
    times = pa.array([0, 2**58, None], pa.int64()).cast(pa.timestamp("us", "UTC"))
    first, beyond, null = canonical_text.texts(times, Type(Kind.TIMESTAMP)).to_pylist()
    assert (first, null) == ('"1970-01-01T00:00:00.000000Z"', None)
    assert beyond.startswith('"11103-')


@settings(deadline=None)
@given(
    st.lists(st.tuples(*[st.none() | st.integers(0, 9)] * 3), max_size=4),
    st.sampled_from([("", ""), ("<", ">\n")]),
)
@example([(1, None, 2), (None, None, None)], ("", ""))
def test_objects_have_the_members_that_are_there(
    rows: list[tuple[int | None, ...]], around: tuple[str, str]
) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * 3
    members = [
        (name, pa.array([None if v is None else str(v) for v in values], pa.large_string()))
        for name, values in zip('a"c', columns, strict=True)
    ]
    written = canonical_text.object_texts(members, len(rows), around).to_pylist()
    for line, row in zip(written, rows, strict=True):
        assert line.startswith(around[0])
        assert line.endswith(around[1])
        text = line[len(around[0]) : len(line) - len(around[1])]
        there = [pair for pair in zip('a"c', row, strict=True) if pair[1] is not None]
        assert json.loads(text, object_pairs_hook=list) == there
    assert canonical_text.object_texts([], 2, around)[1].as_py() == f"{around[0]}{{}}{around[1]}"


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_the_bytes_of_texts_are_found_where_they_lie(type_: pa.DataType) -> None:
    texts = pa.array(["ab", "", None, "c", "de"], type_)
    middle = texts.slice(1, 3)
    assert np.diff(text_bytes.ends(middle)).tolist() == [0, 0, 1]
    assert text_bytes.written(middle).tobytes() == b"c"
    assert (text_bytes.least(texts), text_bytes.most(texts)) == (ord("a"), ord("e"))
    empty = texts.slice(5)
    assert (text_bytes.least(empty), text_bytes.most(empty)) == (0xFF, 0)
    assert len(text_bytes.written(pa.nulls(2, type_))) == 0


@pytest.mark.parametrize(
    ("rows", "size", "sizes"),
    [(4, 10**6, [4, 4, 2]), (100, 250, [3, 3, 3, 1]), (2, 250, [2] * 5), (100, 1, [1] * 10)],
)
def test_blocks_are_closed_at_the_row_that_fills_them(
    rows: int, size: int, sizes: list[int], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format_block, "BLOCK_BYTES", size)
    store, table = LocalStore(tmp_path), TableName("t", "s")
    entry = SchemaEntry({"type": "object", "properties": {"n": {"type": "integer"}}}, [])
    writer = RecordWriter(store, table, columns_of(entry), entry, "N" * 7, 0, rows, 1 << 20)

    def batches() -> Iterator[pa.RecordBatch]:
        for some in ([0, 1], [], [2, 3, 4, 5, 6, 7], [8], [9]):
            yield pa.RecordBatch.from_pydict({alias(0): pa.array(some, pa.int64())}).slice(0)

    (written,) = writer.write(batches(), 0)
    blocks = [decode_block(data) for data in written.column("block").to_pylist()]
    assert [block.rows for block in blocks] == sizes
    texts = [read_block(store, table, block).splitlines() for block in blocks]
    assert [len(lines) - 1 for lines in texts] == sizes
    numbers = [json.loads(line)["record"]["n"] for lines in texts for line in lines[1:]]
    assert numbers == list(range(10))
