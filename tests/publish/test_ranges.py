"""Where rows lie among files, partitions and bounds; against a plain reckoning of the same."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import UsageError
from singerlake.publish import bounds, partitions, ranges
from singerlake.publish.bounds import Bounds
from singerlake.publish.overlap import overlap
from singerlake.publish.projection import PartitionKey, Transform
from singerlake.publish.published import DataFile
from singerlake.publish.ranges import Found, Places

UTC = timezone.utc
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    (pa.float64(), [-math.inf, -0.5, 1e300, math.inf]),
    (pa.decimal128(38, 2), [Decimal("-1.25"), Decimal("12345678901234567890123456789012345.67")]),
    (pa.string(), ["", "a/b=ü", "007", partitions.NULL, "%5F", "x y"]),
    (pa.bool_(), [False, True]),
    (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    (
        pa.timestamp("us", "UTC"),
        [datetime(1500, 3, 1, tzinfo=UTC), datetime(2026, 1, 2, 3, 4, 5, 6, UTC)],
    ),
    (pa.timestamp("us"), [datetime(1969, 12, 31, 23), datetime(2026, 1, 2, 3, 4, 5, 6)]),
]


@pytest.mark.parametrize(("type_", "values"), VALUES)
def test_bounds_and_folders_are_read_back(type_: pa.DataType, values: list[Any]) -> None:
    found = bounds.bounds_of(pa.array([*values, None], type_))
    assert found == Bounds(min(values), max(values), 1)
    for value in (*values, None):
        assert bounds.from_json(bounds.to_json(value), type_) == value
        if not pa.types.is_floating(type_):
            name = partitions.folder(PartitionKey("c"), value)
            assert "/" not in name
            assert partitions.column_of(name, type_, 2).to_pylist() == [value, value]


def test_a_value_too_long_for_a_folder_is_refused() -> None:
    assert partitions.folder(PartitionKey("c"), "x" * 253) == "c=" + "x" * 253
    for value in ("x" * 254, "ü" * 127, ":" * 85):
        with pytest.raises(UsageError, match=r"'c'.* too long .*bucket\(16, c\)"):
            partitions.folder(PartitionKey("c"), value)


def test_nan_is_greater_than_all() -> None:
    found = bounds.bounds_of(pa.array([1.0, math.nan, None]))
    assert found.low == 1.0
    assert math.isnan(found.high)
    assert math.isnan(bounds.from_json(bounds.to_json(found.high), pa.float64()))
    assert math.isnan(found.with_more(Bounds(0.0, math.inf, 0)).high)
    places = Places([DataFile("f", 1, 1, (), 1.0, math.nan)], (), "x")
    at = places.find(pa.RecordBatch.from_pydict({"x": [0.5, 2.0, math.nan]}))
    assert (at.inside.tolist(), at.behind.tolist()) == ([2], [1])


@given(st.text(max_size=80), st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_a_shortened_bound_holds(one: str, two: str) -> None:
    low, high, _ = bounds.shortened(Bounds(min(one, two), max(one, two), 0))
    assert low <= min(one, two)
    assert high >= max(one, two)
    assert len(low) <= bounds.MOST


def of_buckets(values: list[Any], type_: pa.DataType) -> list[int]:
    return [int(one) for one in partitions.murmur3(pa.array(values, type_))]


def test_buckets_are_icebergs() -> None:
    """The values of appendix B of the specification."""
    assert of_buckets([34], pa.int64()) == of_buckets([34], pa.int32()) == [2017239379]
    assert of_buckets([Decimal("14.20")], pa.decimal128(38, 2)) == [(-500754589) % 2**32]
    assert of_buckets([date(2017, 11, 16)], pa.date32()) == [(-653330422) % 2**32]
    at = datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC)
    assert of_buckets([at], pa.timestamp("us", "UTC")) == [(-2047944441) % 2**32]
    assert of_buckets(["iceberg"], pa.string()) == [1210000089]


@given(st.lists(st.none() | st.text(max_size=12) | st.just("é" * 30), max_size=20))
@settings(max_examples=100, deadline=None)
def test_texts_are_hashed_as_one_by_one(texts: list[str | None]) -> None:
    together = partitions.values(
        pa.array(texts, pa.string()), PartitionKey("c", Transform.BUCKET, 7)
    )
    alone = [_murmur3((text or "").encode()) & 0x7FFFFFFF for text in texts]
    expected = [None if text is None else one % 7 for text, one in zip(texts, alone, strict=True)]
    assert together.to_pylist() == expected


def _murmur3(data: bytes) -> int:
    """As its author wrote it."""

    def rotated(x: int, r: int) -> int:
        return ((x << r) | (x >> (32 - r))) & 0xFFFFFFFF

    def scrambled(k: int) -> int:
        return rotated(k * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF

    h, whole = 0, len(data) // 4 * 4
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        h = (rotated(h ^ scrambled(k), 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= scrambled(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    h = (h ^ (h >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ (h >> 16)


def test_times_are_counted_as_iceberg_does() -> None:
    at = pa.array([datetime(2026, 7, 4, tzinfo=UTC), datetime(1969, 12, 31, 23, tzinfo=UTC), None])
    found = {
        transform: [
            partitions.folder(PartitionKey("at", transform), one)
            for one in partitions.values(at, PartitionKey("at", transform)).to_pylist()
        ]
        for transform in (Transform.YEAR, Transform.MONTH, Transform.DAY)
    }
    null = partitions.NULL
    assert found == {
        Transform.YEAR: ["at_year=2026", "at_year=1969", f"at_year={null}"],
        Transform.MONTH: ["at_month=2026-07", "at_month=1969-12", f"at_month={null}"],
        Transform.DAY: ["at_day=2026-07-04", "at_day=1969-12-31", f"at_day={null}"],
    }


def test_columns_that_are_no_partition() -> None:
    schema = pa.schema([("f", pa.float64()), ("s", pa.string())])
    for key in (
        PartitionKey("f"),
        PartitionKey("f", Transform.BUCKET, 2),
        PartitionKey("s", Transform.DAY),
    ):
        with pytest.raises(UsageError, match=r"cannot be partitioned by .*cast it to"):
            partitions.check([key], schema)


def test_a_file_of_unknown_bounds_may_hold_anything() -> None:
    rows = pa.RecordBatch.from_pydict({"x": [1, None]})
    unknown, empty, of_null = (
        DataFile("f", 1, n, nulls=nulls) for n, nulls in ((3, False), (0, False), (3, True))
    )
    assert Places([unknown, empty, of_null], (), "x").find(rows).inside.tolist() == [2, 0, 1]


RANGE = st.tuples(st.integers(0, 20), st.integers(0, 5), st.booleans(), st.sampled_from(["a", "b"]))


def file_of(low: int, more: int, nulls: bool, partition: str) -> DataFile:
    return DataFile("f", 100, 10, (f"p={partition}",), low, low + more, nulls)


ROW = st.tuples(st.none() | st.integers(-3, 30), st.sampled_from(["a", "b", "c"]))


@given(st.lists(RANGE, max_size=6), st.lists(ROW, max_size=12))
@settings(max_examples=300, deadline=None)
def test_rows_are_found_in_the_files_that_cover_them(
    files: list[tuple[int, int, bool, str]], rows: list[tuple[int | None, str]]
) -> None:
    places = Places([file_of(*one) for one in files], [PartitionKey("p")], "x")
    batch = batch_of(rows)
    found = places.find(batch)
    covering = [[n for n, file in enumerate(places.files) if covers(file, *row)] for row in rows]
    assert found.inside.tolist() == [sum(n in some for some in covering) for n in range(len(files))]
    known = {file.partition[0] for file in places.files}
    assert found.alone == sum(f"p={p}" not in known for _, p in rows)
    assert found.behind.sum() == sum(not some for some in covering) - found.alone
    among = set(range(0, len(files), 2))
    assert places.touched(batch, among).tolist() == [bool(among & set(some)) for some in covering]


def batch_of(rows: list[tuple[int | None, str]]) -> pa.RecordBatch:
    x, p = (
        pa.array([row[0] for row in rows], pa.int64()),
        pa.array([row[1] for row in rows], pa.string()),
    )
    return pa.RecordBatch.from_arrays([x, p], names=["x", "p"])


def covers(file: DataFile, value: int | None, partition: str) -> bool:
    if file.partition != (f"p={partition}",):
        return False
    return file.nulls if value is None else bool(file.low <= value <= file.high)


@given(
    st.lists(RANGE, max_size=6), st.lists(ROW, max_size=8), st.lists(ROW, max_size=8), st.booleans()
)
@settings(max_examples=300, deadline=None)
def test_a_plan_writes_what_changed_and_lets_no_file_lie_between(
    files: list[tuple[int, int, bool, str]],
    gone: list[tuple[int | None, str]],
    come: list[tuple[int | None, str]],
    whole: bool,
) -> None:
    places = Places([file_of(*one) for one in files], [PartitionKey("p")], "x")
    plan = ranges.plan(
        places,
        places.find(batch_of(gone)),
        places.find(batch_of(come)),
        small=0,
        whole_ranges=whole,
    )
    for number, file in enumerate(places.files):
        if any(covers(file, *row) for row in gone):
            assert number in plan.touched
    kept = [file for number, file in enumerate(places.files) if number not in plan.touched]
    written = [places.files[number] for number in plan.touched]
    if whole:  # no value is in a file that stays and in one whose range is computed
        for one in kept:
            for other in (file for file in written if file.partition == one.partition):
                assert not (one.low <= other.high and other.low <= one.high)
                assert not (one.nulls and other.nulls)
    clean = [one for one in kept if not any(covers(one, *row) for row in come)]
    slots = plan.slots(batch_of(come)).to_pylist()
    for row, slot in zip(come, slots, strict=True):
        for other, its in zip(come, slots, strict=True):
            if slot == its and row[1] == other[1] and row[0] is not None and other[0] is not None:
                between = [
                    one
                    for one in clean
                    if one.partition == (f"p={row[1]}",) and row[0] < one.low <= one.high < other[0]
                ]
                assert not between


def test_a_large_share_of_overlap_is_sorted_anew() -> None:
    files = [DataFile(f"{n}", 100, 10, (), n * 10, n * 10 + 9) for n in range(20)]
    places = Places(files, (), "x")
    none = Found(np.zeros(20, np.int64), np.zeros(20, np.int64))
    few = places.find(pa.RecordBatch.from_pydict({"x": [5, 15, 25, 35]}))
    assert not ranges.plan(places, none, few, small=0, whole_ranges=False).touched
    many = places.find(pa.RecordBatch.from_pydict({"x": [5, 15, 25, 35, 45]}))
    plan = ranges.plan(places, none, many, small=0, whole_ranges=False)
    assert plan.resorted
    assert plan.touched == {0, 1, 2, 3, 4}
    assert overlap(files) == 0
