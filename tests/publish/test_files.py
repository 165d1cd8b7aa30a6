"""Files of rows in each format: what is in them, and that it is read back."""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import InvalidQueryError, UsageError
from singerlake.publish.bounds import Bounds
from singerlake.publish.files import Layout, file_format
from singerlake.publish.files.output import PIECE, StagedOutput
from singerlake.publish.files.parquet import COLUMNS, GROUP_ROWS
from singerlake.publish.files.source import open_file
from singerlake.publish.projection import Format, OrderKey
from singerlake.rows.input.csv.dialect import Dialect
from singerlake.storage.local.store import LocalStore
from tests.rows.csv_cases import opened, read_in

UTC = timezone.utc
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("f", pa.float64()),
        ("f4", pa.float32()),
        ("d", pa.decimal128(38, 2)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("n", pa.struct([("a", pa.int64()), ("t", pa.list_(pa.string()))])),
        ("l", pa.list_(pa.struct([("x", pa.decimal128(10, 1))]))),
    ]
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "small": -3,
        "f": 1e300,
        "f4": 0.5,
        "d": Decimal("12345678901234567890123456789012345.60"),
        "s": 'a "quoted", text\r\nof\ttwo lines\\',
        "b": True,
        "day": date(1500, 2, 28),
        "at": datetime(2026, 1, 2, 3, 4, 5, 678900, UTC),
        "n": {"a": None, "t": ["x", None, '"']},
        "l": [{"x": Decimal("1.5")}, None],
    },
    dict.fromkeys(SCHEMA.names),
    {
        "id": -(2**63),
        "small": 0,
        "f": -0.0,
        "f4": None,
        "d": Decimal("-0.10"),
        "s": "",
        "b": False,
        "day": date(9999, 12, 31),
        "at": datetime(1, 1, 1, tzinfo=UTC),
        "n": {"a": 7, "t": []},
        "l": [],
    },
]
EVERY = [
    (form, compression)
    for form in (Format.PARQUET, Format.CSV, Format.TSV, Format.JSONL, Format.AVRO)
    for compression in file_format(form).compressions
]


def written(
    form: Format, batches: Iterator[pa.RecordBatch], schema: pa.Schema, **said: Any
) -> tuple[bytes, Any]:
    kind, out = file_format(form), io.BytesIO()
    kind.check(schema)
    said = {"compression": kind.compressions[0], **said}
    writer = kind.writer(out, schema, Layout(**said))
    for batch in batches:
        writer.write(batch)
    facts = writer.close()
    return out.getvalue(), facts


def rows_in(form: Format, **said: Any) -> bytes:
    batch = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)
    return written(form, iter([batch.slice(0, 1), batch.slice(1)]), SCHEMA, **said)[0]


@pytest.mark.parametrize(("form", "compression"), EVERY)
def test_every_compression_is_one(form: Format, compression: str) -> None:
    kind = file_format(form)
    data = rows_in(form, compression=compression)
    suffix = kind.suffix(compression)
    assert suffix.startswith(f".{form}")
    if kind.reads_back:
        found = [row for batch in kind.read(io.BytesIO(data), SCHEMA) for row in batch.to_pylist()]
        assert found == ROWS
    else:
        plain = rows_in(form)
        ends = {"gzip": (".gz", gzip.decompress), "none": ("", bytes)}
        if compression in ends:
            end, unpacked = ends[compression]
            assert suffix.endswith(end)
            assert unpacked(data) == plain
        else:
            with pa.input_stream(pa.BufferReader(data), compression="zstd") as stream:
                assert stream.read() == plain


def test_json_lines_have_every_column() -> None:
    first, second, third = rows_in(Format.JSONL).decode().splitlines()
    assert json.loads(second) == dict.fromkeys(SCHEMA.names)
    said = json.loads(first, parse_float=Decimal)
    assert list(said) == SCHEMA.names
    assert said["d"] == Decimal("12345678901234567890123456789012345.6")
    assert (said["s"], said["at"]) == (ROWS[0]["s"], "2026-01-02T03:04:05.678900Z")
    assert json.loads(third)["n"] == {"a": 7, "t": []}


@pytest.mark.parametrize(("form", "delimiter"), [(Format.CSV, ","), (Format.TSV, "\t")])
def test_the_lakes_own_reader_takes_cells_apart(form: Format, delimiter: str) -> None:
    found, problems = read_in(opened(rows_in(form), Dialect(delimiter)), [])
    assert not problems
    cells = [dict(zip(SCHEMA.names, row, strict=True)) for _, row in found]
    assert cells[1] == dict.fromkeys(SCHEMA.names)
    assert cells[0] == {
        "id": "1",
        "small": "-3",
        "f": "1" + "0" * 300,
        "f4": "0.5",
        "d": "12345678901234567890123456789012345.6",
        "s": ROWS[0]["s"],
        "b": "true",
        "day": "1500-02-28",
        "at": "2026-01-02T03:04:05.678900Z",
        "n": '{"t":["x",null,"\\""]}',
        "l": '[{"x":1.5},null]',
    }
    assert (cells[2]["s"], cells[2]["f"], cells[2]["d"]) == ("", "0", "-0.1")


@given(
    st.lists(st.none() | st.text('a,"\r\n\t\ufeffé😀\\ ', max_size=5), max_size=6), st.booleans()
)
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_back_from_csv(texts: list[str | None], alone: bool) -> None:
    schema = pa.schema([(name, pa.string()) for name in ("s", *([] if alone else ["t"]))])
    rows = [dict.fromkeys(schema.names, text) for text in texts]
    data, _ = written(Format.CSV, iter([pa.RecordBatch.from_pylist(rows, schema=schema)]), schema)
    found, problems = read_in(opened(data), [])
    assert not problems
    assert [cells for _, cells in found] == [[text] * len(schema) for text in texts]


def test_parquet_prunes() -> None:
    count = 2 * GROUP_ROWS + 5
    table = pa.table(
        {
            "n": pa.array([{"x": 1, "y": 2}] * count),
            "at": pa.array(range(count)),
            "id": pa.array([n * 7919 % count for n in range(count)]),
            "long": pa.array(["long " * 40] * count),
        }
    )
    order = (OrderKey("at", descending=True), OrderKey("id"))
    data, facts = written(
        Format.PARQUET,
        iter(table.to_batches(10_000)),
        table.schema,
        order_by=order,
        key=("id", "at"),
    )
    about = pq.read_metadata(io.BytesIO(data))
    assert [about.row_group(n).num_rows for n in range(3)] == [GROUP_ROWS, GROUP_ROWS, 5]
    group = about.row_group(1)
    places = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    at, key = places["at"], places["id"]
    assert (at.statistics.min, at.statistics.max) == (GROUP_ROWS, 2 * GROUP_ROWS - 1)
    assert at.has_column_index and at.has_offset_index
    assert at.compression == "ZSTD"
    # Where rows lie in the order of a key, its statistics are enough.
    assert at.to_dict().get("bloom_filter_length") is None
    assert key.to_dict()["bloom_filter_length"] > 0
    assert [
        (one.column_index, one.descending, one.nulls_first) for one in group.sorting_columns
    ] == [
        (2, True, False),
        (3, False, False),
    ]
    known = facts[COLUMNS]
    assert known["at"] == Bounds(0, count - 1, 0)
    assert known["n"] == Bounds(None, None, 0)
    assert known["long"].low == ("long " * 40)[:64]
    assert known["long"].high > "long " * 40


@pytest.mark.parametrize("value", ["k", 5])
def test_a_member_is_no_column_of_the_same_path(value: str | int) -> None:
    table = pa.table({"a.b": pa.array([value]), "a": pa.array([{"b": "z"}])})
    data, _ = written(Format.PARQUET, iter(table.to_batches()), table.schema, key=("a.b",))
    (piece,) = file_format(Format.PARQUET).pieces(io.BytesIO(data))
    assert piece.bounds == {"a.b": (value, value)}
    assert pa.Table.from_batches(piece.read(table.schema)).equals(table)


def test_avro_says_its_types() -> None:
    reader = fastavro.reader(io.BytesIO(rows_in(Format.AVRO)))
    said = {field["name"]: field["type"][1] for field in reader.writer_schema["fields"]}  # type: ignore[index]
    assert said["at"] == {"type": "long", "logicalType": "timestamp-micros"}
    assert said["d"] == {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    assert said["day"] == {"type": "int", "logicalType": "date"}
    assert list(reader) == ROWS


def test_numbers_that_text_cannot_say_are_refused() -> None:
    for value in (math.nan, math.inf):
        for column in (pa.array([value]), pa.array([[value]]), pa.array([{"x": value}])):
            batch = pa.RecordBatch.from_arrays([column], names=["v"])
            for form in (Format.CSV, Format.JSONL):
                with pytest.raises(
                    InvalidQueryError, match=f"'v' holds NaN or Infinity, which {form}"
                ):
                    written(form, iter([batch]), batch.schema)


@pytest.mark.parametrize(
    ("form", "type_", "advice"),
    [
        (Format.PARQUET, pa.null(), "always null: cast it"),
        (Format.PARQUET, pa.duration("us"), "number of seconds"),
        (Format.PARQUET, pa.list_(pa.null()), "always null"),
        (Format.CSV, pa.binary(), "base64"),
        (Format.JSONL, pa.map_(pa.string(), pa.string()), "to_json"),
        (Format.JSONL, pa.struct([("x", pa.timestamp("us"))]), "cast it to timestamp"),
        (Format.AVRO, pa.uint64(), "bigint"),
        (Format.AVRO, pa.map_(pa.string(), pa.string()), "to_json"),
    ],
)
def test_types_that_a_format_has_not(form: Format, type_: pa.DataType, advice: str) -> None:
    with pytest.raises(UsageError, match=f"{form} has no type for column 'x'.*{advice}"):
        file_format(form).check(pa.schema([("x", type_)]))


def test_names_that_a_format_has_not() -> None:
    with pytest.raises(UsageError, match="Avro has no column 'a b'"):
        file_format(Format.AVRO).check(pa.schema([("x", pa.struct([("a b", pa.int64())]))]))
    with pytest.raises(UsageError, match="two columns are named 'x'"):
        file_format(Format.CSV).check(pa.schema([("x", pa.int64()), ("x", pa.int64())]))


def test_a_file_is_read_in_ranges(tmp_path: Any) -> None:
    store = LocalStore(tmp_path / "s")
    data = bytes(range(256)) * (PIECE // 200)
    staged = store.stage()
    out = StagedOutput(staged)
    for start in range(0, len(data), 1000):
        out.write(data[start : start + 1000])
    out.flush()
    assert out.tell() == len(data) == staged.size
    staged.publish("one")
    with open_file(store, "one", len(data)) as file:
        assert file.read(10) == data[:10]
        file.seek(-5, io.SEEK_END)
        assert file.read() == data[-5:]
        file.seek(777)
        assert file.read(300) == data[777:1077]
        assert file.tell() == 1077


def test_output_that_is_given_up_writes_nothing_more(tmp_path: Path) -> None:
    """From Python 3.13 on, what fails as garbage is collected shows on the terminal."""
    staged = LocalStore(tmp_path / "s").stage()
    out = StagedOutput(staged)
    out.write(b"rest")
    del out
    assert staged.size == 0


def test_a_batch_is_as_good_as_many() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    table = pa.table({"at": [begin + timedelta(hours=n) for n in range(1000)], "s": ["x"] * 1000})
    for form in (Format.CSV, Format.JSONL):
        one, _ = written(form, iter(table.to_batches()), table.schema)
        many, _ = written(form, iter(table.to_batches(7)), table.schema)
        assert one == many
