"""The steps that find a state's rows, held to a plain fold; the shuffles are done here."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake.rows.batches import packing
from singerlake.rows.batches.row_columns import PROVENANCE
from singerlake.rows.batches.steps import Batches, Step
from singerlake.rows.blocks import block_tasks
from singerlake.rows.blocks.asked_keys import NEVER, AskedKeys
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.state import activations
from singerlake.rows.state.newest_rows import KeyStep, NewestStep, RowStep, SingleTaskStep
from singerlake.rows.state.shape import shape_of
from tests.build import commit_rows
from tests.histories.model import MARKS, fold, messages_of

FLAT: dict[str, Any] = {
    "id": {"type": "integer"},
    "part": {"type": ["null", "string"]},
    "n": {"type": "integer"},
}
PARTS = 3


def numbers(count: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"id": [number]}) for number in range(count)]


def shuffled(batches: Batches, by: str) -> list[pa.RecordBatch]:
    """The rows of each value together, in one batch, and the values in no order."""
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    schema = None
    for batch in batches:
        schema = batch.schema
        for row in batch.to_pylist():
            rows[row[by]].append(row)
    found = [pa.RecordBatch.from_pylist(some, schema=schema) for some in rows.values()]
    random.Random(1).shuffle(found)
    return found


def each(step: Step, batches: list[pa.RecordBatch]) -> Batches:
    """A step on partitions of one batch each."""
    for batch in batches:
        yield from step(iter([batch]))


def state_by_steps(lake: Lake, snapshot: TableState, task_bytes: int) -> list[dict[str, Any]]:
    shape = shape_of(snapshot)
    needed = activations.needed(snapshot.blocks, shape.survival)
    tasks = block_tasks.split(needed, 1, task_bytes)
    reader = BlockReader.of(lake.store, snapshot, tasks, shape.columns, shape.key_names)
    keys = BlockReader.of(lake.store, snapshot, tasks, shape.key_columns, shape.key_names)
    row_step = RowStep(reader, shape.survival, lambda rows: rows)
    if not shape.keys:
        out = each(row_step, numbers(len(tasks)))
    elif len(tasks) <= 1:
        out = each(SingleTaskStep(KeyStep(keys, 1), row_step), numbers(len(tasks)))
    else:
        by_part = shuffled(each(KeyStep(keys, PARTS), numbers(len(tasks))), "part")
        newest = NewestStep([task[-1].number for task in tasks], apart=True)
        out = each(row_step, shuffled(each(newest, by_part), "task"))
    rows: list[dict[str, Any]] = []
    for batch in out:
        assert batch.schema.names == [*shape.aliases, *PROVENANCE]
        for row in batch.to_pylist():
            rows.append(dict(zip(shape.names, row.values(), strict=False)))
    return rows


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("keys", [["id"], ["id", "part"], []], ids=["keyed", "compound", "keyless"])
@pytest.mark.parametrize("seed", range(1, 9))
def test_the_state_is_that_of_the_model(lake: Lake, keys: list[str], seed: int) -> None:
    messages = messages_of(seed, keys, 600, MARKS, nulls=True)
    half = len(messages) // 2
    commit_rows(lake, "tap.s", FLAT, keys, messages[:half], block_rows=70)
    commit_rows(lake, "tap.s", FLAT, keys, messages[half:], block_rows=50)
    head = lake.find("tap.s")[0].snapshot()
    for at, seen in ((1, messages[:half]), (2, messages)):
        rows = [{name: record.get(name) for name in FLAT} for record in fold(seen, keys)]
        for task_bytes in (1, 10_000, 1 << 30):
            assert in_order(state_by_steps(lake, head.at(at), task_bytes)) == in_order(rows)


@pytest.mark.parametrize("task_bytes", [1, 1 << 30])
def test_blocks_without_a_key_that_is_asked_for_are_not_read(lake: Lake, task_bytes: int) -> None:
    rows: list[Any] = [{"id": number, "part": "a", "n": number} for number in range(40)]
    head = commit_rows(lake, "tap.s", FLAT, ["id"], rows, block_rows=10)
    for ids, blocks in (([25], [3]), ([8, 31], [1, 4]), ([-1, 99], [])):
        values = pa.array(ids, pa.int64())
        asked = [packing.pack(pa.table({"c0": values}))]
        shape = shape_of(head)
        tasks = block_tasks.split([*head.blocks], 1, task_bytes)
        reader = BlockReader.of(lake.store, head, tasks, shape.columns, shape.key_names)
        key_reader = BlockReader.of(lake.store, head, tasks, shape.key_columns, shape.key_names)
        key_reader.asked = AskedKeys.of(shape.key_columns, [values], NEVER)
        read = [b.number for task in tasks for b, *_ in key_reader.texts(task)]
        assert read == blocks
        row_step = RowStep(reader, shape.survival, lambda rows: rows)
        if len(tasks) == 1:
            out = each(SingleTaskStep(KeyStep(key_reader, 1, asked), row_step), numbers(1))
        else:
            split = each(KeyStep(key_reader, PARTS, asked), numbers(len(tasks)))
            newest = NewestStep([task[-1].number for task in tasks], apart=True)
            found = shuffled(each(newest, shuffled(split, "part")), "task")
            out = each(row_step, found)
        left = [row["c0"] for batch in out for row in batch.to_pylist()]
        assert sorted(left) == [one for one in ids if one in range(40)]
