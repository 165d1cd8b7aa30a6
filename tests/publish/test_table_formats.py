"""Iceberg and Delta tables as destinations: commits, versions, conflicts, sweeps, removal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from singerlake.errors import ConflictError, RuntimeMissingError, UsageError
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.projection import Format, OrderKey
from singerlake.publish.published import Commit
from tests.publish.table_place import (
    FIRST,
    SECOND,
    Place,
    files_of,
    position,
    projection,
    publish,
    rows,
    write,
)

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")

NOTHING = timedelta(0)


@pytest.fixture(params=[Format.ICEBERG, Format.DELTA])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(str(tmp_path / "a place"), request.param)


# --- one commit for each refresh


def test_a_table_grows_is_replaced_and_says_where_it_is(place: Place) -> None:
    assert place.open().published() is None
    first = publish(place.open(), FIRST, 1)
    assert place.read() == rows(FIRST)
    assert first == place.open().published()
    assert (first.position, first.schema, first.rows) == (position(1), FIRST.schema, 3)
    assert [(one.low, one.high, one.nulls) for one in first.files] == [(1, 3, False)]

    second = publish(place.open(), SECOND, 2, keep=True)
    assert place.read() == rows(FIRST, SECOND)
    assert sorted((one.low, one.high) for one in second.files) == [(1, 3), (4, 5)]

    third = publish(place.open(), SECOND, 3)
    assert place.read() == rows(SECOND)
    assert (third.position, third.rows) == (position(3), 2)
    # Where a source moved and no row did, only the position is new.
    fourth = publish(place.open(), None, 4, keep=True)
    assert (fourth.position, fourth.files) == (position(4), third.files)
    assert place.read() == rows(SECOND)


def test_nothing_new_makes_no_commit(place: Place) -> None:
    base = publish(place.open(), FIRST, 1)
    before = files_of(place.root)
    again = place.open().commit(base, Commit(base.position, base.schema, base.files, ()))
    assert again == base
    assert files_of(place.root) == before


def test_no_rows_at_all(place: Place) -> None:
    place.open().commit(None, Commit(position(1), FIRST.schema, (), ()))
    published = place.open().published()
    assert published is not None and not published.files
    assert place.read() == []


def test_nested_columns_that_are_null_throughout(place: Place) -> None:
    nested = [("o", pa.struct({"x": pa.int64()})), ("a", pa.list_(pa.int64()))]
    schema = pa.schema([("id", pa.int64()), *nested, ("text", pa.string())])
    none = pa.Table.from_pylist([{"id": 1}], schema=schema)
    publish(place.open(), none, 1)
    some = pa.Table.from_pylist([{"id": 2, "o": {"x": 1}, "a": [2], "text": "t"}], schema)
    publish(place.open(), some, 2, keep=True)
    assert place.read() == rows(pa.concat_tables([none, some]))
    early = publish(place.open(), none, 1, version=1)
    assert early.versions


def test_columns_come_go_and_change_their_type(place: Place) -> None:
    publish(place.open(), FIRST, 1)
    other = pa.table({"total": [1.5, None], "id": [1, 2], "name": [7, 8]})
    changed = publish(place.open(), other, 2)
    assert changed.schema == other.schema
    assert [list(row) for row in place.read()] == [["total", "id", "name"]] * 2
    assert place.read() == rows(other)
    publish(place.open(), other, 3, keep=True)
    assert len(place.read()) == 4


def test_a_column_of_a_type_that_needs_more_of_the_format(place: Place) -> None:
    publish(place.open(), FIRST, 1)
    local = pa.array([0, None], pa.timestamp("us"))
    publish(place.open(), pa.table({"id": [1, 2], "at": local}), 2)
    assert place.read()[1]["at"] is None


# --- conflicts, other writers


def test_who_is_second_is_refused_and_changes_nothing(place: Place) -> None:
    base = publish(place.open(), FIRST, 1)
    slow = place.open()
    mine = write(slow, SECOND, slow.file_schema(SECOND.schema, base))
    publish(place.open(), SECOND, 2, keep=True)
    with pytest.raises(ConflictError, match="run it again"):
        slow.commit(base, Commit(position(2), FIRST.schema, base.files, [mine]))
    assert place.read() == rows(FIRST, SECOND)


def test_two_first_runs(place: Place) -> None:
    slow = place.open()
    mine = write(slow, SECOND, slow.file_schema(SECOND.schema, None))
    publish(place.open(), FIRST, 1)
    with pytest.raises(ConflictError, match="run it again"):
        slow.commit(None, Commit(position(1), SECOND.schema, (), [mine]))
    assert place.read() == rows(FIRST)


def test_a_place_that_holds_something_else(place: Place) -> None:
    Path(place.root).mkdir()
    Path(place.root, "report.xlsx").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"something else \(report.xlsx\)"):
        place.open().published()
    with pytest.raises(UsageError, match="something else"):
        place.open().folder()


def test_another_projections_place(place: Place) -> None:
    publish(place.open(), FIRST, 1)
    other = projection(place.root, place.format, name="customers")
    with pytest.raises(UsageError, match="contains the projection 'orders', not 'customers'"):
        place.open(other).published()


def test_somebody_else_committed_to_the_table(tmp_path: Path) -> None:
    delta = Place(str(tmp_path / "delta"), Format.DELTA)
    publish(delta.open(), FIRST, 1)
    from deltalake import write_deltalake

    write_deltalake(delta.root, SECOND, mode="append")
    with pytest.raises(UsageError, match="version 1 was not written by Singerlake"):
        delta.open().published()

    iceberg = Place(str(tmp_path / "iceberg"), Format.ICEBERG)
    publish(iceberg.open(), FIRST, 1)
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("default", uri=f"sqlite:///{iceberg.root}/catalog.db")
    catalog.load_table("singerlake.orders").append(SECOND)
    catalog.engine.dispose()
    with pytest.raises(UsageError, match="was not written by Singerlake"):
        iceberg.open().published()


# --- versions


def test_versions_are_read_beside_the_rest(place: Place) -> None:
    publish(place.open(), FIRST, 1)
    named = publish(place.open(), None, 1, keep=True, version=1)
    assert set(named.versions) == {1}
    publish(place.open(), SECOND, 3, keep=True)
    # Version 2 was never what the table showed, and has a column that is no more.
    old = pa.table({"id": [7], "name": ["g"], "gone": [True]})
    both = publish(place.open(), old, 2, version=2)
    assert (both.position, set(both.versions)) == (position(3), {1, 2})
    assert both.schema == FIRST.schema
    assert place.read() == rows(FIRST, SECOND)
    assert place.read(both.versions[1]) == rows(FIRST)
    assert place.read(both.versions[2]) == rows(old)
    publish(place.open(), pa.table({"id": [9], "x": [1]}), 4)
    place.open().sweep(NOTHING)
    assert place.read() == [{"id": 9, "x": 1}]
    assert place.read(both.versions[1]) == rows(FIRST)
    assert place.read(both.versions[2]) == rows(old)
    # Once more is nothing new.
    before = files_of(place.root)
    assert set(publish(place.open(), None, 1, keep=True, version=1).versions) == {1, 2}
    assert files_of(place.root) == before


# --- sweeping and removal


def test_a_sweep_takes_what_was_replaced_and_what_dead_runs_left(place: Place) -> None:
    publish(place.open(), FIRST, 1)
    (replaced,) = publish(place.open(), FIRST, 2).files
    (live,) = publish(place.open(), SECOND, 3).files
    young = write(place.open(), SECOND, place.open().file_schema(SECOND.schema, None)).path
    dead = write(place.open(), SECOND, place.open().file_schema(SECOND.schema, None)).path
    long_ago = time.time() - 90_000
    os.utime(Path(place.root, dead), (long_ago, long_ago))
    assert place.open().sweep(timedelta(days=1)) == 1
    assert {replaced.path, live.path, young} <= files_of(place.root)
    assert place.open().sweep(NOTHING) >= 2
    assert not {replaced.path, dead} & files_of(place.root)
    assert {live.path, young} <= files_of(place.root)
    assert place.read() == rows(SECOND)
    assert place.open().sweep(NOTHING) == 0
    published = publish(place.open(), FIRST, 4, keep=True)
    assert (place.read(), published.rows) == (rows(FIRST, SECOND), 5)


def test_removal_leaves_nothing_and_begins_anew(place: Place) -> None:
    publish(place.open(), FIRST, 1)
    publish(place.open(), None, 1, keep=True, version=1)
    place.open().remove()
    assert files_of(place.root) == set()
    place.open().remove()
    assert place.open().published() is None
    publish(place.open(), SECOND, 1)
    assert place.read() == rows(SECOND)


# --- types that a format has not


@pytest.mark.parametrize(
    ("type_", "cast"),
    [
        (pa.null(), "null in every row.*AS STRING"),
        (pa.uint64(), r"uint64.*AS DECIMAL\(20,0\)"),
        (pa.uint8(), "uint8.*AS BIGINT"),
        (pa.timestamp("ns", "UTC"), "AS TIMESTAMP"),
        (pa.timestamp("ns"), "AS TIMESTAMP_NTZ"),
        (pa.decimal256(50, 2), r"AS DECIMAL\(38,2\)"),
        (pa.duration("us"), "AS STRING"),
        (pa.list_(pa.struct({"deep": pa.uint32()})), "uint32.*AS BIGINT"),
    ],
    ids=str,
)
def test_types_that_need_a_cast(place: Place, type_: pa.DataType, cast: str) -> None:
    schema = pa.schema({"id": pa.int64(), "odd": type_})
    with pytest.raises(UsageError, match=f"column 'odd' .*{cast}"):
        place.open().file_schema(schema, None)
    assert files_of(place.root) == set()


def test_what_delta_cannot_name(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "t"), Format.DELTA).open()
    with pytest.raises(UsageError, match="ignores case"):
        place.file_schema(pa.schema({"Id": pa.int64(), "id": pa.int64()}), None)
    with pytest.raises(UsageError, match="no column names with ' '"):
        place.file_schema(pa.schema({"a b": pa.int64()}), None)
    with pytest.raises(UsageError, match="time64.*Delta cannot represent"):
        place.file_schema(pa.schema({"at": pa.time64("us")}), None)


# --- bounds, for who looks for the file of a row


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.string(), ["", "é" * 70]),
        (pa.float64(), [float("-inf"), float("nan")]),
        (pa.decimal128(38, 2), ["-12345678901234567890.12", "12345678901234567890.12"]),
        (pa.date32(), [-170_000, 20_000]),
        (pa.timestamp("us", "UTC"), [-14_831_769_600_000_001, 1_600_000_000_123_456]),
        (pa.timestamp("us"), [-1, 1]),
        (pa.bool_(), [True, True]),
    ],
    ids=str,
)
def test_bounds_hold(
    tmp_path: Path, type_: pa.DataType, values: list[Any], make: Callable[[Any, pa.DataType], Any]
) -> None:
    from singerlake.publish.bounds import rank

    for format_ in (Format.ICEBERG, Format.DELTA):
        place = Place(str(tmp_path / format_), format_, order_by=(OrderKey("by"),))
        by = make([*values, None], type_)
        publish(place.open(), pa.table({"id": [1, 2, 3], "by": by}), 1)
        published = place.open().published()
        assert published is not None
        (file,) = published.files
        low, high = (by[i].as_py() for i in range(2))
        assert rank(file.low) <= rank(low) and rank(file.high) >= rank(high), file
        assert type(file.low) is type(low) and file.nulls


@pytest.fixture
def make() -> Callable[[Any, pa.DataType], Any]:
    def made(values: list[Any], type_: pa.DataType) -> pa.Array:
        if pa.types.is_decimal(type_):
            return pa.array(values).cast(type_)
        return pa.array(values, type_)

    return made


def test_one_place_holds_no_two_forms(place: Place, tmp_path: Path) -> None:
    publish(place.open(), FIRST, 1)
    other = Format.DELTA if place.format is Format.ICEBERG else Format.ICEBERG
    for format_ in (other, Format.PARQUET):
        again = open_destination(projection(place.root, format_))
        with pytest.raises(UsageError, match=f"(?i)holds orders as {place.format}, not as"):
            again.published()


def test_columns_that_iceberg_takes_for_one(tmp_path: Path) -> None:
    place = Place(str(tmp_path / "t"), Format.ICEBERG).open()
    schema = pa.schema({"a.b": pa.int64(), "a": pa.struct({"b": pa.int64()})})
    with pytest.raises(UsageError, match="ignores case.*a.b"):
        place.file_schema(schema, None)
    odd = pa.schema({"a.b": pa.int64(), 'é `"': pa.int64(), "": pa.int64(), "ID": pa.int64()})
    assert place.file_schema(odd, None).names == odd.names


@pytest.mark.parametrize(
    ("format_", "library"), [(Format.ICEBERG, "pyiceberg"), (Format.DELTA, "deltalake")]
)
def test_without_its_extra(
    tmp_path: Path, format_: Format, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singerlake.extras.find_spec", lambda name: None)
    with pytest.raises(RuntimeMissingError, match=rf"{library}.*singerlake\[{format_}\]"):
        open_destination(projection(str(tmp_path), format_))
