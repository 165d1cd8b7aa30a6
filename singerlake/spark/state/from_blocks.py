"""The rows of a state from its blocks, in three steps on the executors.

The keys of all rows are read, and shared out by their hash; of each key the newest row is
found; and those rows, and no others, are read (``records/state/newest_rows.py``). Only keys and
positions cross the shuffle, as whole Arrow columns, so that its cost does not grow with the
width of a row, and of a table that holds five versions of each row only a fifth is read in
full. A small table takes all steps in one task; a table without keys needs only the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from singerlake.format.log import Block
from singerlake.format.types import identity
from singerlake.lake import Table
from singerlake.records.blocks import block_tasks
from singerlake.records.blocks.asked_keys import NEVER, WORTHWHILE, AskedKeys
from singerlake.records.blocks.block_reader import BlockReader, combined
from singerlake.records.blocks.defaults import wanted_defaults
from singerlake.records.blocks.misfits import FAIL
from singerlake.records.rows.steps import Step
from singerlake.records.state import activations, key_filter
from singerlake.records.state.newest_rows import (
    PICKED,
    SPLIT_KEYS,
    KeyStep,
    NewestStep,
    RowStep,
    SingleTaskStep,
)
from singerlake.records.state.shape import Shape, shape_of
from singerlake.spark.jvm.session import cores
from singerlake.spark.state import frames, parcels
from singerlake.storage.opening import is_remote
from singerlake.transactions.snapshot import Snapshot

PART_ROWS = 4_000_000
"""Rows whose keys are compared in one task, about."""


def state(spark: SparkSession, table: Table, snapshot: Snapshot) -> DataFrame:
    """Read a table's rows at a transaction, without an index.

    Columns are named exactly as the schema's properties; the session should be case
    sensitive, for two may differ only in case.

    Args:
        spark: The session.
        table: The table.
        snapshot: The table at the transaction.
    """
    return frames.renamed(state_rows(spark, table, snapshot), shape_of(snapshot))


def state_rows(
    spark: SparkSession, table: Table, snapshot: Snapshot, misfits: str = FAIL
) -> DataFrame:
    """Do as :func:`state`, with provenance, and columns as they are called inside.

    Args:
        spark: The session.
        table: The table.
        snapshot: The table at the transaction.
        misfits: What becomes of a value that does not fit, where it is read.
    """
    plan = planned(spark, table, snapshot, shown=True)
    rows = through(spark, plan, combined, frames.frame_schema(plan.shape.columns))
    every = range(len(plan.shape.columns))
    return frames.guarded(rows, plan.shape, table.name, every, misfits)


def through(
    spark: SparkSession,
    plan: Plan,
    consumer: Step,
    schema: StructType | str,
    *,
    asked: Sequence[bytes] | None = None,
) -> DataFrame:
    """Give a state's rows to a step, and return what it makes of them.

    Args:
        spark: The session.
        plan: How its blocks are shared out.
        consumer: Called on the executors, once for each part, with rows and their provenance;
            they never pass through Java.
        schema: Of what it gives.
        asked: Keys, as a ``KeyFilter`` takes them: rows of others may be left out, and blocks that
            have none of them are.
    """
    step = RowStep(plan.reader, plan.shape.survival, consumer)
    numbered = parcels.numbered(spark, plan.sent)
    if not plan.shape.keys:
        return numbered.mapInArrow(step, schema)
    if len(plan.tasks) <= 1:
        key_reader = plan.key_reader if asked is None else _of_keys(plan.key_reader, asked)
        return numbered.mapInArrow(SingleTaskStep(key_reader, step, asked), schema)
    newest = picked(spark, plan, asked=asked)
    asked_for = parcels.joined(spark, newest, plan.sent)
    return asked_for.repartitionById(len(plan.tasks), "task").mapInArrow(step, schema)


def picked(spark: SparkSession, plan: Plan, *, asked: Sequence[bytes] | None = None) -> DataFrame:
    """Find where the newest row of each key lies, whether it is one of the state or removes one.

    Args:
        spark: The session.
        plan: How the state's blocks are shared out; it has a key.
        asked: As for :func:`through`.
    """
    reader = plan.key_reader if asked is None else _of_keys(plan.key_reader, asked)
    numbered = parcels.numbered(spark, plan.sent)
    keys = numbered.mapInArrow(KeyStep(reader, plan.parts, asked), SPLIT_KEYS)
    return keys.repartitionById(plan.parts, "part").mapInArrow(
        NewestStep(plan.ends, plan.shape.apart), PICKED
    )


def _of_keys(reader: BlockReader, asked: Sequence[bytes]) -> BlockReader:
    """Let a reader of keys pass over the blocks that hold none of some."""
    values = key_filter.columns_of(asked)
    if not values:
        return reader
    # Over a network a run of blocks is one request, and to look at each would be one for each.
    least = NEVER if is_remote(reader.store.uri) else WORTHWHILE
    return replace(reader, asked=AskedKeys.of(reader.target, values, least))


def stage_words(plan: Plan) -> tuple[str, ...]:
    """Say what Spark's stages do for :func:`through`."""
    last = "writing rows"
    if not plan.shape.keys or len(plan.tasks) <= 1:
        return (last,)
    return ("reading keys", "finding newest rows", last)


@dataclass(frozen=True)
class Plan:
    """How a state's blocks are shared out.

    Attributes:
        shape: The table's.
        tasks: Blocks that can hold a row of the state, by task.
        parts: Tasks that compare keys.
        sent: The same, encoded.
        reader: Reads the tasks' rows.
        key_reader: Reads their keys.
    """

    shape: Shape
    tasks: list[list[Block]]
    parts: int
    sent: list[bytes]
    reader: BlockReader
    key_reader: BlockReader

    @property
    def ends(self) -> list[int]:
        """The number of each task's last block."""
        return [task[-1].number for task in self.tasks]


def planned(
    spark: SparkSession,
    table: Table,
    snapshot: Snapshot,
    *,
    digests: bool = False,
    shape: Shape | None = None,
    reads_as: Snapshot | None = None,
    shown: bool = False,
) -> Plan:
    """Share a state's blocks out, to be read with or without their records' digests.

    Args:
        spark: The session.
        table: The table.
        snapshot: The table at the transaction.
        digests: Whether the records' digests are wanted.
        shape: The columns and the key to read it with, if not all of them and its own.
        reads_as: The state that these columns and this key are of, if it is another.
        shown: Whether the rows are only shown, and not found by the columns of their key: then one
            that its column would have to round is a misfit, and no error.
    """
    shape = shape or shape_of(snapshot)
    blocks = activations.needed(snapshot.blocks, shape.survival)
    shared = block_tasks.split(blocks, 2 * cores(spark), block_tasks.TASK_BYTES)
    store, keys, by = table.store, shape.key_names, reads_as or snapshot
    reader = BlockReader.of(store, by, shared, shape.columns, keys, digests=digests)
    sent, reader.tasks = reader.tasks, parcels.carried(reader.tasks)
    reader.lenient = shown
    key = identity(shape.key_columns) if shown else shape.key_columns
    defaults = wanted_defaults(by, key)
    return Plan(
        shape=shape,
        tasks=shared,
        parts=max(2 * cores(spark), sum(block.rows for block in blocks) // PART_ROWS),
        sent=sent,
        reader=reader,
        key_reader=replace(reader, target=key, digests=False, defaults=defaults),
    )
