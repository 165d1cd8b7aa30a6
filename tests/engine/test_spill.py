"""What this process holds for an exchange: in memory up to a limit, and beyond it in a file."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from singerlake.engine import spill
from singerlake.engine.local import LocalEngine
from singerlake.engine.ordering import by_columns, in_order
from singerlake.engine.spill import SpilledParts, SpillFile
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks.block_tasks import sent

NAN = float("nan")
NUMBERED = pa.schema({"n": pa.int64(), "s": pa.string()})


@pytest.fixture(params=["in memory", "in a file"])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "in memory":
        monkeypatch.setattr(spill, "HELD_BYTES", 200)
        monkeypatch.setattr(spill, "SEGMENT_BYTES", 100)


def batches(count: int, *, rows: int = 7) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        values = range(number * rows, (number + 1) * rows)
        yield pa.RecordBatch.from_pydict(
            {
                "part": pa.array([value % 3 for value in values], pa.int32()),
                "text": [f"row {value}" for value in values],
            }
        )


@pytest.mark.usefixtures("limit")
def test_parts_give_their_rows_in_order_as_often_as_wanted() -> None:
    parts = SpilledParts(3)
    for batch in batches(10):
        parts.add(0, batch)
        parts.add(2, batch)
    expected = pa.Table.from_batches(batches(10)).to_pylist()
    for number, rows in ((0, expected), (1, []), (2, expected), (0, expected)):
        assert [row for batch in parts.read(number) for row in batch.to_pylist()] == rows


@pytest.mark.usefixtures("limit")
def test_columns_may_come_in_several_orders() -> None:
    parts = SpilledParts(1)
    for batch in batches(10):
        parts.add(0, batch)
        parts.add(0, batch.select(["text", "part"]))
    expected = [row for batch in batches(10) for row in 2 * batch.to_pylist()]
    found = [row for batch in parts.read(0) for row in batch.to_pylist()]
    assert sorted(map(str, map(sorted, map(dict.items, found)))) == sorted(
        map(str, map(sorted, map(dict.items, expected)))
    )


def test_a_file_is_written_beyond_the_limit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[pa.Table] = []
    monkeypatch.setattr(SpillFile, "write", lambda _, rows: written.append(rows))
    parts = SpilledParts(1)
    for batch in batches(3):
        parts.add(0, batch)
    assert not written
    monkeypatch.setattr(spill, "HELD_BYTES", 0)
    parts.add(0, next(batches(1)))
    assert sum(map(len, written)) == 28


@pytest.mark.usefixtures("limit")
def test_exchange_tells_a_part_its_task_before_its_rows() -> None:
    engine = LocalEngine()
    rows = engine.exchange([lambda: batches(10)], 3, "part", [b"a", b"b", b"c"])
    for number, part in enumerate(rows):
        first, *others = part()
        assert sent(first) == [b"abc"[number : number + 1]]
        assert {n for batch in others for n in batch.column("part").to_pylist()} == {number}
    assert engine.collect(engine.exchange([], 2, "part", [b"a", b"b"])) == []


@pytest.mark.usefixtures("limit")
def test_rows_come_in_order_however_many_runs_there_are() -> None:
    chance = random.Random(5)
    values = [[chance.choice([None, *range(50)]), f"{n:04}"] for n in range(500)]

    def given() -> Batches:
        for start in range(0, 500, 30):
            some = values[start : start + 30]
            yield pa.RecordBatch.from_pydict(
                {"n": pa.array([one[0] for one in some], pa.int64()), "s": [s for _, s in some]}
            )
            yield pa.RecordBatch.from_pydict(
                {"n": pa.array([], pa.int64()), "s": pa.array([], pa.string())}
            )

    pieces = in_order(given(), lambda rows: by_columns(rows.columns))
    found = [[row["n"], row["s"]] for piece in pieces for row in piece.to_pylist()]
    assert found == sorted(values, key=lambda one: (one[0] is not None, one[0] or 0, one[1]))
    assert [*in_order(iter(()), lambda rows: by_columns(rows.columns))] == []


@pytest.mark.parametrize(
    "values",
    [
        [None, -1.5, -0.0, 2.5, float("inf"), NAN],
        [None, "", "B", "a", "ä", "\U0001f600"],
        [None, False, True],
        [None, {"x": None, "y": "b"}, {"x": 1, "y": None}, {"x": 1, "y": "a"}, {"x": 2, "y": ""}],
        [None, [], [None], [1], [1, 2], [2]],
    ],
    ids=["numbers", "texts", "booleans", "objects", "lists"],
)
def test_order_is_that_of_spark(values: list[Any]) -> None:
    """Each list is in the order that Spark's ORDER BY gives."""
    mixed = [*range(len(values))]
    random.Random(1).shuffle(mixed)
    column = pa.chunked_array([pa.array([values[place] for place in mixed])])
    assert [mixed[place] for place in by_columns([column]).tolist()] == [*range(len(values))]
