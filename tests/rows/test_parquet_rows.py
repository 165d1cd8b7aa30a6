"""Parquet files as rows: whole columns where nothing changes by it, value by value elsewhere."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singerlake.errors import DamagedError, InputError, UsageError
from singerlake.format.types import Columns, type_of
from singerlake.rows.batches.problems import Problem, decode
from singerlake.rows.given.arrow.cells import cells_of
from singerlake.rows.given.arrow.parquet_rows import ParquetRows, ParquetSource
from singerlake.rows.given.arrow.schemas import check_fits, spec_of
from singerlake.rows.given.rows import PROBLEMS
from tests.rows.test_line_ranges import Bytes

INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}
DECIMAL = {"type": "number", "format": "singer.decimal", "scale": 2}
DATE = {"type": "string", "format": "date"}
TIME = {"type": "string", "format": "date-time"}
UTC = dt.timezone.utc
DAY = dt.date(2026, 1, 2)


def written(table: pa.Table, **more: Any) -> Bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **more)
    return Bytes("rows.parquet", out.getvalue())


def rows_of(
    sources: list[Bytes], columns: Columns, indexes: list[int]
) -> tuple[list[dict[str, Any]], list[Problem]]:
    groups = [g for n, source in enumerate(sources) for g in ParquetSource(source).groups(n)]
    step = ParquetRows(sources, groups, columns, indexes)
    rows: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for number in range(len(groups)):
        task: Iterator[pa.RecordBatch] = iter([pa.RecordBatch.from_pydict({"id": [number]})])
        for batch in step(task):
            for row in batch.to_pylist():
                told = row.pop(PROBLEMS)
                rows += [] if told is not None else [row]
                problems += [] if told is None else decode(told).first
    return rows, problems


def micros(value: int, zone: str | None = None) -> pa.Array:
    return pa.array([value], pa.timestamp("us", zone))


@pytest.mark.parametrize(
    ("array", "spec", "wanted"),
    [
        (pa.array([1, None], pa.int8()), INTEGER, [1, None]),
        (pa.array([2**64 - 1], pa.uint64()), {**DECIMAL, "scale": 0}, [Decimal(2**64 - 1)]),
        (pa.array([1.0, None]), INTEGER, [1, None]),
        (pa.array([1.5, 0.1]), DECIMAL, [Decimal("1.50"), Decimal("0.10")]),
        (pa.array([Decimal("2.00")]), INTEGER, [2]),
        (pa.array([Decimal("2.50")]), NUMBER, [2.5]),
        (pa.array([7]), DECIMAL, [Decimal("7.00")]),
        (pa.array([7]), {}, ["7"]),
        (pa.array([True, None]), {"type": "boolean"}, [True, None]),
        (pa.array(["a", None]).dictionary_encode(), {"type": "string"}, ["a", None]),
        (pa.array(["a"], pa.large_string()), {}, ["a"]),
        (pa.array(["1.10"]), DECIMAL, [Decimal("1.10")]),
        (pa.array(["2026-01-02"]), DATE, [DAY]),
        (pa.array([DAY]), TIME, [dt.datetime(2026, 1, 2, tzinfo=UTC)]),
        (pa.array([dt.datetime(2026, 1, 2)]), DATE, [DAY]),
        (micros(1), TIME, [dt.datetime(1970, 1, 1, 0, 0, 0, 1, UTC)]),
        (micros(1, "Asia/Tokyo"), TIME, [dt.datetime(1970, 1, 1, 0, 0, 0, 1, UTC)]),
        (pa.array([1000], pa.timestamp("ns")), TIME, [dt.datetime(1970, 1, 1, 0, 0, 0, 1, UTC)]),
        (micros(-62135596800000000), TIME, [dt.datetime(1, 1, 1, tzinfo=UTC)]),
        (pa.nulls(2), TIME, [None, None]),
        (pa.array([[1, None], None]), {"type": "array", "items": INTEGER}, [[1, None], None]),
        (pa.array([[DAY]]), {"type": "array", "items": {}}, ['["2026-01-02"]']),
        (pa.array([[1.5, None]]), {}, ["[1.5,null]"]),
        (
            pa.array([{"b": Decimal("1.10"), "a": None}, None]),
            {"type": "object", "properties": {"a": INTEGER, "b": DECIMAL, "c": TIME}},
            [{"a": None, "b": Decimal("1.10"), "c": None}, None],
        ),
        (pa.array([{"b": "ä"}]), {"type": "object"}, ['{"b":"ä"}']),
    ],
)
def test_values_become_those_of_the_column(
    array: pa.Array, spec: dict[str, Any], wanted: list[Any]
) -> None:
    check_fits(array.type, type_of(spec), "x")
    cells, misfits = cells_of(array, type_of(spec))
    assert misfits == []
    assert cells.to_pylist() == wanted


@pytest.mark.parametrize(
    ("array", "spec", "value", "reason"),
    [
        (pa.array([1.5]), INTEGER, "1.5", "is not a valid integer"),
        (
            pa.array([2**64 - 1], pa.uint64()),
            INTEGER,
            str(2**64 - 1),
            "is not a valid 64-bit integer",
        ),
        (pa.array([float("nan")]), NUMBER, "nan", "is not a valid JSON number"),
        (pa.array([float("inf")]), {}, "inf", "is not a valid JSON number"),
        (
            pa.array([1.005]),
            DECIMAL,
            "1.005",
            "is not a valid decimal of at most 2 digits after the point",
        ),
        (
            pa.array([Decimal("1.005")]),
            DECIMAL,
            "1.005",
            "is not a valid decimal of at most 2 digits after the point",
        ),
        (pa.array([1], pa.timestamp("ns")), TIME, "1970-01-01 00:00:00.000000001", "six digits"),
        (
            pa.array([10**12], pa.timestamp("s")),
            TIME,
            "1,000,000,000,000 s since 1970",
            "1 to 9999",
        ),
        (micros(1), DATE, '"1970-01-01T00:00:00.000001Z"', "is not a valid date"),
        (pa.array(["x"]), DATE, '"x"', "is not a valid date"),
    ],
)
def test_a_value_that_would_change_is_a_problem(
    array: pa.Array, spec: dict[str, Any], value: str, reason: str
) -> None:
    cells, misfits = cells_of(array, type_of(spec))
    assert cells.to_pylist() == [None]
    ((row, shown, why),) = misfits
    assert (row, shown) == (0, value)
    assert reason in why


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (pa.binary(), "is of the type binary, which a lake cannot store: write it as text"),
        (pa.map_(pa.string(), pa.int64()), "a lake cannot store: turn it into a struct"),
        (pa.time64("us"), "a lake cannot store: write it as text"),
        (pa.duration("s"), "a lake cannot store: write it as a number of seconds"),
        (pa.list_(pa.struct([("a", pa.binary())])), "column 'x[].a'"),
        (pa.decimal256(50, 2), "decimals of up to 38 digits"),
        (pa.struct([]), "cannot store"),
    ],
)
def test_a_type_with_no_place(type_: pa.DataType, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        spec_of(type_, "x")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("type_", "spec"),
    [
        (pa.string(), INTEGER),
        (pa.int64(), {"type": "string"}),
        (pa.bool_(), INTEGER),
        (pa.list_(pa.string()), {"type": "array", "items": INTEGER}),
        (pa.struct([("a", pa.int64())]), {"type": "array", "items": INTEGER}),
    ],
)
def test_a_type_that_the_column_cannot_take(type_: pa.DataType, spec: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"in the file, and .* in the table: cast it before"):
        check_fits(type_, type_of(spec), "x")


def test_rows_of_every_row_group_under_their_numbers() -> None:
    columns: Columns = (("id", type_of(INTEGER)), ("a", type_of(NUMBER)), ("b", type_of({})))
    one = written(pa.table({"b": ["x", "y", "z"], "id": [1, 2, 3]}), row_group_size=2)
    other = written(pa.table({"id": [4.0, 4.5], "_delete": [True, None], "_row_version": [7, 8]}))
    rows, problems = rows_of([one, other], columns, [0, 2])
    found = [(r["source"], r["line"], r["c0"], r["c2"], r["deleted"]) for r in rows]
    assert found == [
        (0, 1, 1, "x", None),
        (0, 2, 2, "y", None),
        (0, 3, 3, "z", None),
        (1, 1, 4, None, True),
        (1, 2, None, None, False),
    ]
    assert [row["omitted"] for row in rows] == [None, None, None, [2], [2]]
    assert [row["row_version"] for row in rows] == [None, None, None, 7, 8]
    assert list(map(str, problems)) == [
        "rows.parquet, line 2, column 'id': '4.5' is not a valid integer"
    ]


def test_columns_are_checked_before_rows_are_read() -> None:
    columns: Columns = (("id", type_of(INTEGER)), ("name", type_of({"type": "string"})))
    for table, words in (
        (pa.table({"id": [1], "nmae": ["x"]}), "which the table does not have: did you mean name?"),
        (pa.table({"name": ["x"]}), "lacks the column 'id', which is part of the table's key"),
        (pa.table({"id": ["x"]}), "rows.parquet: column 'id' is of the type string in the file"),
        (pa.table([[1], [2]], names=["id", "id"]), "has the column 'id' twice"),
        (pa.table({"": [1]}), "column 1 has no name"),
    ):
        with pytest.raises(InputError) as caught:
            ParquetSource(written(table)).check(columns, ["id"])
        assert words in str(caught.value)


@pytest.mark.parametrize("data", [b"id,name\n", b"PAR1", b"PAR1" + b"\0" * 20 + b"PAR1"])
def test_what_is_no_parquet_file(data: bytes) -> None:
    with pytest.raises(DamagedError, match=r"^rows.parquet is not a complete Parquet file"):
        ParquetSource(Bytes("rows.parquet", data))


def test_a_page_that_is_damaged_names_the_file() -> None:
    data = bytearray(written(pa.table({"id": list(range(5000))}), use_dictionary=False).data)
    data[40:80] = b"\xff" * 40
    with pytest.raises(DamagedError, match=r"^rows.parquet cannot be read as Parquet"):
        rows_of([Bytes("rows.parquet", bytes(data))], (("id", type_of(INTEGER)),), [0])
