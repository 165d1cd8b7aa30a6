"""A state of which only the rows in some blocks are read: what it comes down to."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from singerlake.engine.local import LocalEngine
from singerlake.format.log import Block
from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake.ops.vacuum.drop_history import plan_drop_history
from singerlake.ops.vacuum.kept_rows import Intervals, kept_rows
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.state import activations, moved_rows
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.fingerprint import FULL, Content, Sums
from singerlake.rows.state.moved_rows import (
    MovedContent,
    MovedSummer,
    MovedSums,
)
from singerlake.rows.state.newest_rows import KeyStep, NewestStep, gathered
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import from_blocks as blocks_read
from tests.build import commit_rows
from tests.rows.test_newest_rows import PARTS, each, numbers, shuffled

ROW: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": "integer"}}


@pytest.fixture
def table(lake: Lake) -> TableState:
    """Rows that replace others, rows that delete, and an activation in the middle of a block."""
    chance = random.Random(3)
    for n in range(4):
        rows: list[Any] = [({"id": chance.randrange(40), "n": n}, 7) for _ in range(25)]
        rows[chance.randrange(25)] = ({"id": chance.randrange(40), "_sdc_deleted_at": "2026"}, 7)
        commit_rows(lake, "tap.s", ROW, ["id"], [*rows, 7, *rows[:3]] if n == 1 else rows, 8)
    return lake.table("tap.s").snapshot()


def picked(lake: Lake, at: TableState) -> tuple[list[list[Block]], list[Any]]:
    """Where the newest rows lie, as the steps before give it; and the tasks."""
    shape = shape_of(at)
    tasks = block_tasks.split(activations.needed(at.blocks, shape.survival), 1, 1500)
    assert len(tasks) > 2
    keys = BlockReader.of(lake.store, at, tasks, shape.key_columns, shape.key_names)
    by_part = shuffled(each(KeyStep(keys, PARTS), numbers(len(tasks))), "part")
    newest = each(NewestStep([task[-1].number for task in tasks], apart=True), by_part)
    return tasks, shuffled(newest, "task")


def with_task(batch: pa.RecordBatch, given: list[bytes]) -> pa.RecordBatch:
    """One more row, in which nothing is picked but the task is sent what it must know."""
    (number,) = set(batch.column("task").to_pylist())
    rows = [{**row, block_tasks.SENT: None} for row in batch.to_pylist()]
    schema = batch.schema.append(pa.field(block_tasks.SENT, pa.binary()))
    own = {"task": number, "picked": None, block_tasks.SENT: given[number]}
    return pa.RecordBatch.from_pylist([*rows, own], schema=schema)


def content(lake: Lake, at: TableState, staying: set[int]) -> MovedContent:
    shape = shape_of(at)
    tasks, found = picked(lake, at)
    names = shape.key_names
    reader = BlockReader.of(lake.store, at, tasks, shape.columns, names, digests=True)
    given = [moved_rows.task(block_tasks.encode(task), task, staying) for task in tasks]
    found = [with_task(batch, given) for batch in found]  # as an engine's exchange does
    step = MovedSummer(reader, shape.survival, shape.columns)
    sums = (row for batch in each(step, found) for row in batch.to_pylist())
    return MovedSums(sums).content


def whole(lake: Lake, at: TableState) -> Content:
    sums = Sums(FULL)
    for rows in blocks_read.local_rows(lake.table("tap.s"), at, digests=True):
        sums.take(rows, shape_of(at).columns)
    return sums.content()


def test_all_rows_are_read_or_none(lake: Lake, table: TableState) -> None:
    everything = content(lake, table, set())
    assert everything.moved == whole(lake, table)
    assert (everything.staying, everything.moved.rows > 20) == (0, True)
    nothing = content(lake, table, {block.number for block in table.blocks})
    assert nothing.moved == Sums(FULL).content()
    assert nothing.staying >= everything.moved.rows, "those that delete are counted as well"
    assert nothing.places != everything.places


def test_every_row_is_on_one_side(lake: Lake, table: TableState) -> None:
    numbers_ = [block.number for block in table.blocks]
    one, other = (content(lake, table, set(numbers_[start::2])) for start in (0, 1))
    sums = Sums(FULL)
    for part in (one, other):
        for proof, hashed in part.moved.hashes.items():
            sums.hashes[proof] += hashed
        sums.rows += part.moved.rows
    assert sums.content() == whole(lake, table)
    assert one.places != other.places


def test_the_places_tell_which_rows_they_are(lake: Lake, table: TableState) -> None:
    """One row of a key instead of another of it, in blocks that stay."""
    every = {block.number for block in table.blocks}
    before = content(lake, table, every)
    text = lake.table("tap.s").read_block(table.blocks[-1])
    key = text.rpartition(b'"id": ')[2].partition(b",")[0]
    after = commit_rows(lake, "tap.s", ROW, ["id"], [({"id": int(key), "n": 9}, 7)])
    assert after.blocks[:-1] == table.blocks
    later = content(lake, after, every | {after.blocks[-1].number})
    assert later.staying == before.staying
    assert later.places != before.places


def test_as_many_rows_stay_as_are_the_newest_of_their_keys(lake: Lake, table: TableState) -> None:
    plan = plan_drop_history(table, float("inf"))
    assert plan is not None
    with kept_rows(LocalEngine(), lake.table("tap.s"), table, plan) as kept:
        assert kept.found is not None
        counts = kept.counts(table)
    newest = content(lake, table, {block.number for block in table.blocks})
    assert sum(counts.values()) == newest.staying
    assert counts.keys() <= {block.number for block in table.blocks}


def test_what_is_gone_whatever_its_version_is_left_out(lake: Lake) -> None:
    commit_rows(lake, "tap.s", ROW, ["id"], [({"id": n, "n": 1}, 1) for n in range(60)], 9)
    rows = [({"id": 90}, 1), 1, {"id": 3, "n": 2}, {"id": 4, "n": 2}, 2, ({"id": 5}, 2)]
    commit_rows(lake, "tap.s", ROW, ["id"], rows)
    commit_rows(lake, "tap.s", ROW, ["id"], [({"id": n, "n": 3}, 2) for n in range(20, 60)], 9)
    at = lake.table("tap.s").snapshot()
    survival = shape_of(at).survival
    assert survival.different is not None
    assert survival != Survival()
    _, found = picked(lake, at)
    codes = np.concatenate([*gathered(iter(found))[0].values()])
    left = Intervals([at.last_block], [survival]).left(codes)
    assert positions.blocks_of(left).min() >= survival.first_block
    assert len(left) < len(codes)
    assert content(lake, at, set()).moved == whole(lake, at)
