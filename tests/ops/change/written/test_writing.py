"""Rows reach the tasks of their blocks in order, with all others if these are written too."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from singerlake.engine.base import Engine
from singerlake.format.log import Block
from singerlake.ops.change.output import ROUTED, Route, written
from singerlake.rows.batches import packing
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.changes.merge_terms import DELETED, UPDATED

SCHEMA = pa.schema({"status": pa.string(), "block": pa.int64(), "row": pa.int32()})
TASKS = [[Block(n, "h/f", 0, 1, 1, 1) for n in range(at, at + 3)] for at in (2, 5, 20)]
PLACES = [(block.number, row) for task in TASKS for block in task for row in range(3)]


@dataclass
class Told:
    """Writes nothing, and tells what it was given."""

    blocks: tuple[Any, ...] = ()

    def __call__(self, actions: Batches) -> Batches:
        for batch in actions:
            texts = [repr((*row.values(),)) for row in batch.to_pylist()]
            own = str([block.number for block in self.blocks])
            count = len(batch)
            yield pa.RecordBatch.from_pydict(
                {
                    "first_block": batch.column("block"),
                    "first_row": batch.column("row"),
                    "rows": pa.array([1] * count, pa.int64()),
                    "block": pa.array([text.encode() for text in texts], pa.binary()),
                    "problems": pa.array([own.encode()] * count, pa.binary()),
                }
            )


@dataclass
class Sent:
    """Gives what tasks are sent, in a column."""

    column: str

    def __call__(self, batches: Batches) -> Batches:
        for _, data in block_tasks.given(batches):
            if self.column == "there":
                yield pa.RecordBatch.from_pydict({"there": pa.array([data], pa.binary())})
            else:
                yield pa.RecordBatch.from_pydict({"codes": np.frombuffer(data or b"", np.int64)})


def packed(rows: list[tuple[str, int, int]]) -> bytes:
    columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return packing.pack(pa.table(columns, schema=SCHEMA))


def told(engine: Engine[Any], routed: Any) -> list[tuple[str, str]]:
    rows = engine.collect(written(engine, routed, TASKS, Told(), SCHEMA))  # type: ignore[arg-type]
    return [(row["block"].decode(), row["problems"].decode()) for row in rows]


def task_of(block: int) -> str:
    return next(str([b.number for b in t]) for t in TASKS if block in [b.number for b in t])


@pytest.mark.parametrize("seed", range(3))
def test_rows_come_to_their_tasks_in_order(engine: Engine[Any], seed: int) -> None:
    chance = random.Random(seed)
    rows = [(UPDATED, *place) for place in PLACES]
    chance.shuffle(rows)
    pieces = [packed(rows[at : at + 5]) for at in range(0, len(rows), 5)]
    there = engine.map(engine.source(pieces), Sent("there"), "there binary")
    found = told(engine, engine.map(there, Route.to(TASKS), ROUTED))
    expected = {task_of(block): [] for block, _ in PLACES}
    for block, row in PLACES:
        expected[task_of(block)].append(repr((UPDATED, block, row)))
    assert {own: [text for text, mine in found if mine == own] for own in expected} == expected


def test_rows_that_stay_come_between_those_that_change(engine: Engine[Any]) -> None:
    changes = {(2, 0): UPDATED, (3, 1): DELETED, (20, 2): UPDATED, (21, 0): DELETED}
    rows = [packed([(status, *place)]) for place, status in reversed(changes.items())]
    there = engine.map(engine.source(rows), Sent("there"), "there binary")
    codes = [positions.code(*place) for place in PLACES]
    pieces = [np.array(codes[n::2]).tobytes() for n in range(2)]
    every = engine.map(engine.source(pieces), Sent("codes"), "codes long")
    route = Route.to(TASKS)
    both = engine.union(engine.map(there, route, ROUTED), engine.map(every, route, ROUTED))
    found = told(engine, both)
    expected = [
        (repr((changes.get(place), *place)), task_of(place[0]))
        for place in PLACES
        if changes.get(place) != DELETED
    ]
    assert sorted(found) == sorted(expected)
    for own in {own for _, own in expected}:
        mine = [text for text, its in found if its == own]
        assert mine == [text for text, its in expected if its == own]
