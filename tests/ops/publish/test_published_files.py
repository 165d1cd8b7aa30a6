"""Rows written in order by executors, and changes brought into the files that hold them."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import DamagedError, UsageError
from singerlake.ops.publish.publish_changes import planned_changes
from singerlake.ops.publish.write import ordered_files
from singerlake.ops.publish.write.changed_rows import AFTER, BEFORE, Changes
from singerlake.ops.publish.write.increments import Increment, Publication
from singerlake.ops.publish.write.ordered_files import write_ordered
from singerlake.ops.publish.write.row_sources import ComputedRows
from singerlake.publish import partitions, ranges
from singerlake.publish.destinations.base import Destination
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.files import file_format
from singerlake.publish.overlap import overlap
from singerlake.publish.projection import (
    Format,
    OrderKey,
    PartitionKey,
    Projection,
    Target,
    Transform,
)
from singerlake.publish.published import Commit, DataFile, Position, Published
from singerlake.rows.batches.packing import Unpacked, pack
from singerlake.rows.blocks.block_tasks import SENT

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("country", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
    ]
)
NAMES = SCHEMA.names
ROUNDS = int(os.environ.get("SINGERLAKE_PUBLISH_ROUNDS", "1"))
"""Histories of the property test for each way to lay rows out."""
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
Row = tuple[int, str | None, datetime | None, str | None]
State = dict[int, Row]


@dataclass
class Place:
    """A destination, and what it was last told to show."""

    engine: Engine[Any]
    projection: Projection
    destination: Destination
    keyed: bool = True
    base: Published | None = None
    shown: State = field(default_factory=dict)
    schema: pa.Schema = SCHEMA

    def table(self, state: State) -> pa.Table:
        columns = zip(*state.values(), strict=True) if state else [[]] * len(SCHEMA)
        arrays = [pa.array(one, f.type) for one, f in zip(columns, SCHEMA, strict=True)]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    def given(self, table: pa.Table) -> Any:
        """Rows on the engine, in two parts."""
        half = len(table) // 2
        tasks = [pack(some.combine_chunks()) for some in (table.slice(0, half), table.slice(half))]
        return self.engine.map(self.engine.source(tasks), Unpacked(column=SENT), table.schema)

    def source(self, state: State) -> ComputedRows[Any]:
        return ComputedRows(self.engine, self.given(self.table(state)), SCHEMA)

    def build(self, state: State) -> Published:
        files_schema = self.destination.file_schema(SCHEMA, self.base)
        files = write_ordered(self.source(state), self.projection, self.destination, files_schema)
        return self._commit(state, files_schema, (), files)

    def changes(self, state: State) -> Changes[Any]:
        numbers = [n for n in {**self.shown, **state} if self.shown.get(n) != state.get(n)]
        sides = [(self.shown.get(n), state.get(n)) for n in numbers]
        if not self.keyed:
            sides = [one for b, a in sides for one in ((b, None), (None, a)) if any(one)]
        cells = [
            [None if row is None else dict(zip(NAMES, row, strict=True)) for row in side]
            for side in (zip(*sides, strict=True) if sides else ([], []))
        ]
        kind = pa.struct(list(SCHEMA))
        pairs = pa.table([pa.array(side, kind) for side in cells], names=[BEFORE, AFTER])
        return Changes(self.engine, self.given(pairs), SCHEMA, ("id",) if self.keyed else ())

    def refresh(self, state: State) -> Increment:
        assert self.base is not None
        files_schema = self.destination.file_schema(SCHEMA, self.base)
        publication = Publication(self.projection, self.destination, self.base, files_schema)
        everything = lambda: self.source(state)  # noqa: E731
        with planned_changes(self.changes(state), everything, publication) as planned:
            done = planned.write()
        if not (done.is_empty or done.full_build):
            self._commit(state, files_schema, done.kept, done.added, done.removed)
        return done

    def _commit(
        self,
        state: State,
        schema: pa.Schema,
        kept: Sequence[DataFile],
        added: Sequence[DataFile],
        removed: Sequence[DataFile] = (),
    ) -> Published:
        said = Position(self.projection.name, self.projection.definition, "a lake", ())
        commit = Commit(said, schema, kept, added, removed)
        self.base = self.destination.commit(self.base, commit)
        self.shown = dict(state)
        return self.base

    def rows(self) -> list[Row]:
        """All rows, as a reader of folders finds them, in the order of the files' names."""
        pointer = json.loads(self.destination.store.get("_latest.json").data)
        found: list[Row] = []
        for one in self.destination.store.list(pointer["folder"]):
            found += self.rows_of(one.key)
        return found

    def rows_of(self, path: str) -> list[Row]:
        assert self.projection.target is not None
        written = self.destination.file_schema(self.schema, None)
        data = self.destination.store.get(path).data
        if self.projection.target.format is Format.CSV:
            options = pa_csv.ConvertOptions(
                column_types=written, strings_can_be_null=True, quoted_strings_can_be_null=False
            )
            table = pa_csv.read_csv(pa.BufferReader(data), convert_options=options)
        else:
            form = file_format(self.projection.target.format)
            batches = list(form.read(pa.BufferReader(data), written))
            table = pa.Table.from_batches(batches, written)
        folders = dict(part.split("=", 1) for part in path.split("/") if "=" in part)
        for name in self.schema.names:
            if name not in table.column_names:
                type_ = self.schema.field(name).type
                folder = f"{name}={folders[name]}"
                table = table.append_column(name, partitions.column_of(folder, type_, len(table)))
        return [tuple(row.values()) for row in table.select(self.schema.names).to_pylist()]  # type: ignore[misc]


@pytest.fixture
def opened(engine: EngineChoice, tmp_path: Path) -> Callable[..., Place]:
    def opening(
        format_: Format = Format.PARQUET,
        *,
        keyed: bool = True,
        file_bytes: int = 1 << 20,
        **said: Any,
    ) -> Place:
        target = Target(str(tmp_path / "out"), format_, file_bytes=file_bytes)
        said = {"key": ("id",), **said}
        projection = Projection("people", "select * from a.people", target=target, **said)
        here = engine.engine_for(Work(), "publishing")
        return Place(here, projection, open_destination(projection), keyed)

    return opening


def row(number: int, chance: random.Random, spread: int = 1000) -> Row:
    country = chance.choice(["DE", "FR", "a/b=ü", "", None])
    at = None if chance.random() < 0.1 else BEGIN + timedelta(hours=chance.randrange(spread))
    return (number, country, at, chance.choice(["x", 'q"', None, "", f"n{number}"]))


def state_of(count: int, seed: int = 1) -> State:
    chance = random.Random(seed)
    return {number: row(number, chance) for number in range(count)}


def changed(state: State, chance: random.Random) -> State:
    """Some rows go, some become others, some move, some are new."""
    after = dict(state)
    for number in chance.sample(sorted(state), min(len(state), chance.randrange(8))):
        if chance.random() < 0.3:
            del after[number]
        else:
            after[number] = row(number, chance)
    first = max(state, default=0) + 1
    for number in range(first, first + chance.randrange(12)):
        after[number] = row(number, chance, spread=chance.choice([1000, 3000]))
    return after


LAYOUTS: dict[str, dict[str, Any]] = {
    "ordered": {"order_by": (OrderKey("at"),), "file_bytes": 1500},
    "descending": {"order_by": (OrderKey("name", descending=True),), "file_bytes": 1500},
    "partitioned": {
        "order_by": (OrderKey("at"),),
        "partition_by": (PartitionKey("country"), PartitionKey("at", Transform.MONTH)),
    },
    "avro": {"format_": Format.AVRO, "partition_by": (PartitionKey("id", Transform.BUCKET, 3),)},
    "csv": {
        "format_": Format.CSV,
        "order_by": (OrderKey("at"),),
        "partition_by": (PartitionKey("country"),),
        "file_bytes": 1500,
    },
}


@pytest.mark.parametrize(
    "layout",
    [
        # Ordered and cut into files as "csv" and "descending" are, by the column of "partitioned".
        pytest.param("ordered", marks=pytest.mark.variant),
        *(layout for layout in LAYOUTS if layout != "ordered"),
    ],
)
def test_increments_come_to_what_a_full_build_is(opened: Callable[..., Place], layout: str) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(f"{layout} {seed}")
        place = opened(**LAYOUTS[layout])
        place.destination.remove()
        state = state_of(150, seed)
        built = place.build(state)
        assert overlap(built.files) == 0
        check(place, state)
        # An increment upon an increment is the same for every layout.
        for _ in range(2 if layout == "partitioned" or ROUNDS > 1 else 1):
            state = changed(state, chance)
            done = place.refresh(state)
            assert not done.full_build
            check(place, state)
            assert done.overlap == overlap(place.base.files) <= 0.5  # type: ignore[union-attr]


@pytest.mark.parametrize("layout", ["descending", "partitioned"])
def test_ranges_follow_each_other(
    opened: Callable[..., Place], layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a large table is written: shared out to ranges, of which a task writes several."""
    monkeypatch.setattr(ordered_files, "SHARED_BYTES", 0)
    monkeypatch.setattr(ordered_files, "RANGE_BYTES", 2000)
    monkeypatch.setattr(ordered_files, "FILES", 3)
    place = opened(**{**LAYOUTS[layout], "file_bytes": 1 << 20})
    state = state_of(400)
    built = place.build(state)
    tasks = {file.path.rpartition("part-")[2][:5] for file in built.files}
    assert len(tasks) > 2
    assert overlap(built.files) == 0
    check(place, state)


def check(place: Place, state: State) -> None:
    """The rows are there once each, in files whose bounds and folders hold them."""
    assert place.base is not None
    assert sorted(place.rows(), key=lambda one: one[0]) == [state[n] for n in sorted(state)]
    by, names = place.projection.partition_by, NAMES
    first = (place.projection.order_by or (OrderKey("id"),))[0]
    for file in place.base.files:
        rows = place.rows_of(file.path)
        batch = pa.RecordBatch.from_pylist(
            [dict(zip(names, row, strict=True)) for row in rows], schema=place.schema
        )
        assert file.rows == len(rows)
        for partition, some in ranges.parted(batch, by):
            assert partition == file.partition
            assert some.num_rows == len(rows)
        values = [one for one in batch.column(first.column).to_pylist() if one is not None]
        assert file.nulls == (len(values) < len(rows))
        if values:
            assert file.low <= min(values)
            assert max(values) <= file.high
        assert values == sorted(values, reverse=first.descending)


def test_what_did_not_change_is_not_committed(opened: Callable[..., Place]) -> None:
    place = opened(order_by=(OrderKey("at"),))
    state = state_of(20)
    built = place.build(state)
    done = place.refresh(state)
    assert done.is_empty
    assert list(done.kept) == list(built.files)


def days(*numbers: int, spread: int = 1) -> State:
    """One row an hour of some days, numbered by them."""
    return {
        24 * day + hour: (24 * day + hour, "DE", BEGIN + timedelta(days=day, hours=hour), None)
        for day in numbers
        for hour in range(0, 24, spread)
    }


def test_only_files_that_hold_what_changed_are_written(opened: Callable[..., Place]) -> None:
    place = opened(order_by=(OrderKey("at"),), partition_by=(PartitionKey("at", Transform.DAY),))
    state = days(*range(6))
    place.build(state)
    # A row that goes, one that is another, one that moves to another day, and a day that is new.
    after = {**state, **days(9)}
    del after[1]
    after[30] = (30, "FR", state[30][2], "new")
    after[60] = (60, "DE", BEGIN + timedelta(days=4, minutes=7), None)
    done = place.refresh(after)
    folders = {file.partition[0][-2:] for file in done.removed}
    assert folders == {"01", "02", "03", "05"}
    assert {file.partition[0][-2:] for file in done.added} == {*folders, "10"}
    assert [file.partition[0][-2:] for file in done.kept] == ["04", "06"]
    assert done.changed == 3 + 24
    check(place, after)


def test_a_file_without_rows_is_dropped(opened: Callable[..., Place]) -> None:
    place = opened(partition_by=(PartitionKey("at", Transform.DAY),))
    place.build(days(1, 2))
    done = place.refresh(days(2))
    assert [file.partition for file in done.removed] == [("at_day=2026-01-02",)]
    assert not done.added
    check(place, days(2))


def test_a_table_without_rows_has_a_file_with_columns(opened: Callable[..., Place]) -> None:
    place = opened(order_by=(OrderKey("at"),))
    (file,) = place.build({}).files
    assert (file.rows, file.low) == (0, None)
    place.refresh(days(1))
    check(place, days(1))
    assert len(place.base.files) == 1  # type: ignore[union-attr]
    place.refresh({})
    assert [file.rows for file in place.base.files] == [0]  # type: ignore[union-attr]
    assert place.rows() == []


def test_rows_at_the_end_make_a_small_last_file_larger(opened: Callable[..., Place]) -> None:
    place = opened(order_by=(OrderKey("at"),))
    place.build(days(1))
    for day in (2, 3):
        done = place.refresh(days(*range(1, day + 1)))
        assert [(len(done.kept), len(done.added))] == [(0, 1)]
    large = opened(order_by=(OrderKey("at"),), file_bytes=3000)
    large.destination.remove()
    large.build(days(1))
    done = large.refresh(days(1, 2))
    assert (len(done.kept), len(done.added), done.overlap) == (1, 1, 0.0)
    check(large, days(1, 2))


def test_ranges_that_overlap_too_much_are_sorted_anew(opened: Callable[..., Place]) -> None:
    place = opened(order_by=(OrderKey("at"),), file_bytes=1000)
    state = days(*range(0, 200, 4))
    place.build(state)
    assert place.base is not None
    assert len(place.base.files) >= 8
    # Few late rows, within one file's range: a file of their own.
    state |= days(9, spread=8)
    done = place.refresh(state)
    assert not done.removed
    assert 0 < done.overlap < ranges.OVERLAP
    check(place, state)
    state |= days(*range(1, 180, 8), spread=8)  # late rows everywhere
    done = place.refresh(state)
    assert done.resorted
    assert done.overlap == 0
    check(place, state)


def test_a_key_that_is_larger_than_a_file_is_split(opened: Callable[..., Place]) -> None:
    place = opened(order_by=(OrderKey("country"),), key=(), file_bytes=20_000)
    noise = random.Random(1)
    state: State = {
        n: (n, "DE", BEGIN, "".join(noise.choices("abcdefghijklmnop", k=40))) for n in range(3000)
    }
    built = place.build(state)
    assert len(built.files) >= 3
    assert {(file.low, file.high) for file in built.files} == {("DE", "DE")}
    assert max(file.bytes for file in built.files) < 60_000
    assert overlap(built.files) == 0


def test_rows_without_a_key_are_added_or_all_is_built(opened: Callable[..., Place]) -> None:
    place = opened(key=(), keyed=False)
    state = days(1)
    place.build(state)
    state |= days(2)
    assert not place.refresh(state).full_build
    assert sorted(place.rows()) == sorted(state.values())
    del state[24]
    assert place.refresh(state).full_build == "rows without a key were deleted"


def test_other_columns_are_a_full_build(opened: Callable[..., Place]) -> None:
    place = opened()
    place.build(days(1))
    assert place.base is not None
    place.base = replace(place.base, schema=place.base.schema.append(pa.field("x", pa.int64())))
    assert place.refresh(days(1, 2)).full_build == "its columns have changed"


def test_files_that_hold_other_rows_than_they_should_are_built_anew(
    opened: Callable[..., Place],
) -> None:
    place = opened()
    place.build(days(1))
    place.shown = days(1, 2)  # somebody took files away, or put others there
    assert "not contain the expected rows" in place.refresh(days(1)).full_build


def test_a_damaged_file_is_named(opened: Callable[..., Place]) -> None:
    place = opened()
    (whole,) = place.build(days(1)).files
    data = place.destination.store.get(whole.path).data
    for damage in ("cut", "replaced", "gone"):
        path = damaged(place, damage)
        with pytest.raises(DamagedError, match=rf"{path} is .*: publish with --full-refresh"):
            place.refresh(days(1, 2))
        place.destination.store.replace(path, data, None)


def damaged(place: Place, damage: str) -> str:
    """Damage the first published file; return its name."""
    assert place.base is not None
    path = place.base.files[0].path
    file = place.destination.store.local_path(path)
    assert file is not None
    if damage == "gone":
        file.unlink()
        return path
    data = file.read_bytes()
    file.unlink()  # it may have a second name
    if damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    else:
        pq.write_table(pa.table({"id": ["a"]}), file)
    return path


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"order_by": (OrderKey("countri"),)}, "'countri'.*did you mean country"),
        ({"key": ("ids",)}, "'ids', which is not a column"),
        ({"partition_by": (PartitionKey("x"),)}, "'x', which is not a column"),
        ({"partition_by": (PartitionKey("name", Transform.DAY),)}, r"day\(name\).*is string"),
    ],
)
def test_columns_that_are_not_there(
    opened: Callable[..., Place], said: dict[str, Any], message: str
) -> None:
    place = opened(**said)
    with pytest.raises(UsageError, match=message):
        place.build(days(1))
    assert place.destination.published() is None
    assert place.destination.store.first_key() is None
