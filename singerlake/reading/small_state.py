"""A small state from its blocks, in this process: the steps that Spark's tasks run, without Spark.

The whole table is one task, as Spark makes it of a table of that size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from singerlake.errors import UsageError
from singerlake.format.log import Block
from singerlake.format.types import identity
from singerlake.lake import Table
from singerlake.quantities import size
from singerlake.reading import index
from singerlake.reading.index import Index
from singerlake.records.blocks import block_tasks
from singerlake.records.blocks.block_reader import BlockReader, combined
from singerlake.records.rows.row_columns import file_schema
from singerlake.records.rows.steps import Batches, Step
from singerlake.records.state import activations
from singerlake.records.state.newest_rows import RowStep, SingleTaskStep
from singerlake.records.state.parquet_parts import PartWriter
from singerlake.records.state.shape import Shape, shape_of
from singerlake.transactions.snapshot import Snapshot

LIMIT_BYTES = block_tasks.TASK_BYTES
"""The most that the blocks of a state may hold, inflated: they are in memory at once."""


def build(table: Table, snapshot: Snapshot) -> Index:
    """Make the index of a state, as Spark would.

    Args:
        table: The table.
        snapshot: The earliest with the state's rows, read from its log.

    Raises:
        UsageError: The state is too large.
        DamagedError: A block that is needed cannot be read.
        StoreError: The store refused.
    """
    shape = shape_of(snapshot)
    written = _through(table, snapshot, shape, _writer(table, snapshot, shape), digests=True)
    return _finished(table, snapshot, shape, written)


def write(table: Table, snapshot: Snapshot, rows: Iterable[pa.RecordBatch]) -> Index:
    """Make the index of a state whose rows were read already, with their digests.

    Raises:
        StoreError: The store refused.
    """
    shape = shape_of(snapshot)
    written = _writer(table, snapshot, shape)(iter(rows))
    return _finished(table, snapshot, shape, written)


def blocks_of(snapshot: Snapshot) -> Sequence[Block]:
    """Return the blocks that a state is made of."""
    return activations.needed(snapshot.blocks, activations.survival(snapshot.blocks))


def _writer(table: Table, snapshot: Snapshot, shape: Shape) -> PartWriter:
    return PartWriter(table.store, index.folder_of(table, snapshot), file_schema(shape.columns))


def _finished(table: Table, snapshot: Snapshot, shape: Shape, written: Batches) -> Index:
    files: list[dict[str, Any]] = []
    for batch in written:
        files += batch.to_pylist()
    return index.finish(table, snapshot, shape, files)


def rows(table: Table, snapshot: Snapshot, *, digests: bool = False) -> Batches:
    """Read the rows of a state from its blocks, with provenance.

    Args:
        table: The table.
        snapshot: It at the state.
        digests: Whether the records' digests are wanted, too.

    Raises:
        UsageError: The state is too large.
        DamagedError: A block that is needed cannot be read.
    """
    return _through(table, snapshot, shape_of(snapshot), combined, digests=digests)


def _through(
    table: Table, snapshot: Snapshot, shape: Shape, consumer: Step, *, digests: bool = False
) -> Batches:
    blocks = activations.needed(snapshot.blocks, shape.survival)
    total = sum(block.bytes for block in blocks)
    if total > LIMIT_BYTES:
        raise UsageError(
            f"the state of {table.name} at transaction {snapshot.number} is made of {size(total)} "
            f"of messages, and {size(LIMIT_BYTES)} is the most for engine='arrow': have Spark make "
            "its index once (engine='spark', which is the default), and it is read without Spark"
        )
    if not blocks:
        return iter(())
    store, keys = table.store, shape.key_names
    reader = BlockReader.of(store, snapshot, [blocks], shape.columns, keys, digests=digests)
    reader.lenient = True
    row_step = RowStep(reader, shape.survival, consumer)
    step: Step = row_step
    if shape.keys:
        key_reader = BlockReader.of(store, snapshot, [blocks], identity(shape.key_columns), keys)
        step = SingleTaskStep(key_reader, row_step)
    return step(iter([pa.record_batch({"id": [0]})]))
