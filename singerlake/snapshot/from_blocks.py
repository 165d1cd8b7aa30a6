"""The rows of a state from its blocks, in three steps.

The keys of all rows are read, and shared out by their hash; of each key the newest row is
found; and those rows, and no others, are read (``rows/state/newest_rows.py``). Only keys and
positions are exchanged, as whole Arrow columns, so that this does not cost more the wider a row
is, and of a table that holds five versions of each row only a fifth is read in full. A small
table takes all steps in one task; a table without keys needs only the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from singerlake.engine.base import Engine, R, Schema
from singerlake.engine.local import LocalEngine
from singerlake.engine.work import Work
from singerlake.format.log import Block
from singerlake.format.types import identity
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.steps import Batches, Step
from singerlake.rows.blocks import block_tasks
from singerlake.rows.blocks.asked_keys import NEVER, WORTHWHILE, AskedKeys
from singerlake.rows.blocks.block_reader import BlockReader, combined
from singerlake.rows.blocks.defaults import wanted_defaults
from singerlake.rows.state import activations, key_filter
from singerlake.rows.state.newest_rows import (
    PICKED,
    SPLIT_KEYS,
    KeyStep,
    NewestStep,
    PlaceStep,
    RowStep,
    SingleTaskStep,
)
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.storage.opening import is_remote

PART_ROWS = 4_000_000
"""Rows whose keys are compared in one task, about."""


@dataclass(frozen=True)
class Plan:
    """The assignment of a state's blocks to tasks.

    Attributes:
        tasks: Blocks that can hold a row of the state, by task.
        sent: The tasks' blocks, encoded.
        after: The last block whose rows do not count, of a layer; None for a whole state.
    """

    shape: Shape
    tasks: list[list[Block]]
    parts: int
    sent: list[bytes]
    reader: BlockReader
    key_reader: BlockReader
    after: int | None = None

    @property
    def ends(self) -> list[int]:
        """The number of each task's last block."""
        return [task[-1].number for task in self.tasks]


def needed_blocks(snapshot: TableState) -> Sequence[Block]:
    """Return the blocks that can hold a row of a state."""
    return activations.needed(snapshot.blocks, activations.survival(snapshot.blocks))


def reading(state: TableState) -> Work:
    """Estimate how much it is to read a state from its blocks."""
    return Work.of(needed_blocks(state), len(state.columns))


def planned(
    engine: Engine[Any],
    table: Table,
    snapshot: TableState,
    *,
    digests: bool = False,
    shape: Shape | None = None,
    reads_as: TableState | None = None,
    shown: bool = False,
    blocks: Sequence[Block] | None = None,
    after: int | None = None,
) -> Plan:
    """Share a state's blocks out, to be read with or without their records' digests.

    Args:
        digests: Whether the records' digests are wanted.
        shape: The columns and the key to read it with, if not all of them and its own.
        reads_as: The state that these columns and this key are of, if it is another.
        shown: Whether the rows are only shown, and not found by the columns of their key: then one
            that its column would have to round is a misfit, and no error.
        blocks: Those to read, in order; all of the state by default.
        after: Of a layer, the last block of the state below it: it holds the newest of the rows
            that came later, and deletions too.
    """
    shape = shape or shape_of(snapshot)
    needed = activations.needed(snapshot.blocks if blocks is None else blocks, shape.survival)
    shared = block_tasks.split(needed, engine.parts, block_tasks.TASK_BYTES)
    store, keys, by = table.store, shape.key_names, reads_as or snapshot
    reader = BlockReader.of(store, by, shared, shape.columns, keys, digests=digests)
    sent, reader.tasks = reader.tasks, []
    reader.lenient = shown
    key = identity(shape.key_columns) if shown else shape.key_columns
    defaults = wanted_defaults(by, key)
    return Plan(
        shape=shape,
        tasks=shared,
        parts=max(engine.parts, sum(block.rows for block in needed) // PART_ROWS),
        sent=sent,
        reader=reader,
        key_reader=replace(reader, target=key, digests=False, defaults=defaults),
        after=after,
    )


def through(
    engine: Engine[R],
    plan: Plan,
    consumer: Step,
    schema: Schema,
    *,
    asked: Sequence[bytes] | None = None,
) -> R:
    """Give a state's rows to a step, and return what it makes of them.

    Args:
        plan: How its blocks are shared out.
        consumer: Called once for each part, with rows and their provenance.
        schema: Of what it gives.
        asked: Keys, as a ``KeyFilter`` takes them: rows of others may be left out, and blocks that
            have none of them are.
    """
    step = RowStep(plan.reader, plan.shape.survival, consumer, plan.after)
    source = engine.source(plan.sent)
    if not plan.shape.keys:
        return engine.map(source, step, schema)
    if len(plan.tasks) <= 1:
        key_reader = plan.key_reader if asked is None else _of_keys(plan.key_reader, asked)
        keys = KeyStep(key_reader, 1, asked, plan.after)
        return engine.map(source, SingleTaskStep(keys, step), schema)
    newest = picked(engine, plan, asked=asked)
    asked_for = engine.exchange(newest, len(plan.tasks), "task", plan.sent)
    return engine.map(asked_for, step, schema)


def at_places(
    engine: Engine[R],
    plan: Plan,
    places: Callable[[Step, Schema], R],
    consumer: Step,
    schema: Schema,
) -> R:
    """Give some of a state's rows to a step, by their positions, and return what it makes of them.

    Args:
        plan: How the state's blocks are shared out.
        places: Gives the positions to a step, as ``positions.each_code`` does.
        consumer: Called once for each part, with rows and their provenance.
        schema: Of what it gives.
    """
    if not plan.tasks:
        return engine.map(engine.source([]), consumer, schema)
    asked = engine.exchange(
        places(PlaceStep(plan.ends), PICKED), len(plan.tasks), "task", plan.sent
    )
    return engine.map(asked, RowStep(plan.reader, plan.shape.survival, consumer), schema)


def picked(engine: Engine[R], plan: Plan, *, asked: Sequence[bytes] | None = None) -> R:
    """Find where the newest row of each key lies, whether it is one of the state or removes one.

    Args:
        plan: How the state's blocks are shared out; it has a key.
        asked: As for :func:`through`.
    """
    reader = plan.key_reader if asked is None else _of_keys(plan.key_reader, asked)
    step = KeyStep(reader, plan.parts, asked, plan.after)
    keys = engine.map(engine.source(plan.sent), step, SPLIT_KEYS)
    shared = engine.exchange(keys, plan.parts, "part")
    return engine.map(shared, NewestStep(plan.ends, plan.shape.apart), PICKED)


def local_rows(table: Table, snapshot: TableState, *, digests: bool = False) -> Batches:
    """Read a state's rows in this process, with provenance, misfits as null."""
    engine = LocalEngine()
    plan = planned(engine, table, snapshot, digests=digests, shown=True)
    return engine.batches(through(engine, plan, combined, ""))


def stage_words(plan: Plan) -> tuple[str, ...]:
    """Say what an engine's stages do for :func:`through`."""
    last = "writing rows"
    if not plan.shape.keys or len(plan.tasks) <= 1:
        return (last,)
    return ("reading keys", "finding newest rows", last)


def _of_keys(reader: BlockReader, asked: Sequence[bytes]) -> BlockReader:
    """Let a reader of keys pass over the blocks that hold none of some."""
    values = key_filter.columns_of(asked)
    if not values:
        return reader
    # Over a network a run of blocks is one request, and to look at each would be one for each.
    least = NEVER if is_remote(reader.store.uri) else WORTHWHILE
    return replace(reader, asked=AskedKeys.of(reader.target, values, least))
