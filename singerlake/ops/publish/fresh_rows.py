"""Rows of a rowwise answer that may have changed, by the blocks that came since alone.

Nothing of the earlier state is read: whoever has its rows looks them up by their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.engine.base import Engine
from singerlake.lake import Table
from singerlake.log.schema_difference import Comparison
from singerlake.publish.keys import Keys
from singerlake.publish.lookup import can_look_up
from singerlake.rows.batches.packing import pack, unpack
from singerlake.rows.batches.row_columns import DELETED, alias
from singerlake.rows.batches.steps import Batches, Pipeline
from singerlake.rows.blocks import block_tasks
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.state.misfit_steps import MisfitCheck
from singerlake.rows.state.newest_of_blocks import NewestOfBlocks
from singerlake.rows.state.shape import Shape
from singerlake.snapshot import building

MOST_BYTES = block_tasks.TASK_BYTES
"""Inflated bytes of blocks up to which their rows are brought to the driver."""
FOUND = "keys binary, rows binary"
"""What :class:`Side` gives."""


@dataclass(frozen=True)
class FreshRows:
    """Rows of a table that came since a state, and what a rowwise query makes of them.

    Attributes:
        keys: Their keys, each once, called as in the answer; no column where the table has no key.
        rows: The answer's rows that have one of these keys now.
    """

    keys: pa.Table
    rows: pa.Table

    @cached_property
    def of_key(self) -> NDArray[np.int64]:
        """The place of each key's row; -1 if the answer has none now."""
        found = np.full(len(self.keys), -1)
        if self.keys.num_columns:
            placed = Keys(self.keys).find(self.rows)
            found[placed.keys] = placed.rows
        return found

    def to_upsert(self, delete: str) -> pa.Table:
        """Return the rows as an upsert has them: those of which only the key is left are to go.

        Args:
            delete: What the column is called that says so.
        """
        gone = self.keys.filter(pa.array(self.of_key < 0))
        columns = [
            gone.column(one.name)
            if one.name in gone.column_names
            else pa.nulls(len(gone), one.type)
            for one in self.rows.schema
        ]
        every = pa.concat_tables([self.rows, pa.table(columns, schema=self.rows.schema)])
        goes = np.arange(len(every)) >= len(self.rows)
        return every.append_column(delete, pa.array(goes)).combine_chunks()


@dataclass(frozen=True)
class RowwiseAnswer:
    """The answer of a query that takes one row of a table to at most one of its own.

    Attributes:
        schema: Its columns; times are of UTC.
        key: Those that are the table's key, in its order.
        columns: The indexes of the table's columns that they are, if it takes all rows as they
            are; None if SQL computes it.
        asked: Asks SQL of the rows that a step reads; gives ``keys`` and ``rows`` as
            :class:`Side` packs them.
    """

    schema: pa.Schema
    key: tuple[str, ...]
    columns: Sequence[int] | None
    asked: Callable[[NewestOfBlocks], Sequence[Mapping[str, Any]]] | None = None

    @property
    def keys(self) -> pa.Schema:
        """The columns of the key."""
        return pa.schema([self.schema.field(name) for name in self.key])


def fresh_rows(
    engine: Engine[Any], table: Table, compared: Comparison, shape: Shape, answer: RowwiseAnswer
) -> FreshRows | None:
    """Read what came between two states that have the same columns.

    Args:
        shape: The later one's shape.

    Returns:
        None where more than the new blocks has to be read, or they are too many: rows may have
        gone that no block names, or keys are not found by what they are.

    Raises:
        DamagedError: A block cannot be read, or a value that is asked for does not fit.
    """
    earlier, later = compared.before.snapshot, compared.after.snapshot
    if later.number < earlier.number:
        return None
    since = later.blocks_after(earlier.number)
    if any(block.activations for block in since):
        return None
    if not all(can_look_up(answer.schema.field(name).type) for name in answer.key):
        return None
    size, rows = sum(block.bytes for block in since), sum(block.rows for block in since)
    if size > MOST_BYTES or rows > building.MOST_ROWS:
        return None
    blocks = [block for block in since if block.rows]
    keys = answer.keys
    if not blocks:
        return FreshRows(keys.empty_table(), answer.schema.empty_table())
    reader = BlockReader.of(table.store, later, [blocks], shape.columns, shape.key_names)
    newest = NewestOfBlocks(reader, shape.keys, earlier.last_block)
    found = _found_of(engine, newest, shape, answer)
    return FreshRows(
        _put_together((row["keys"] for row in found), keys),
        _put_together((row["rows"] for row in found), answer.schema),
    )


def _found_of(
    engine: Engine[Any], newest: NewestOfBlocks, shape: Shape, answer: RowwiseAnswer
) -> Sequence[Mapping[str, Any]]:
    if answer.columns is None:
        assert answer.asked is not None  # noqa: S101  # what is no column SQL computes
        return answer.asked(newest)
    name = newest.reader.table
    columns = frozenset(answer.columns)
    check = MisfitCheck(name, shape.names, keyed=bool(shape.keys), columns=columns)
    packer = _Packer(shape.keys, answer.keys, answer.columns, answer.schema, check)
    tasks = engine.source(newest.reader.tasks)
    return engine.collect(engine.map(tasks, Pipeline((newest, packer)), FOUND))


def _put_together(packed: Iterator[bytes | None], schema: pa.Schema) -> pa.Table:
    tables = [unpack(bytes(data)) for data in packed if data is not None]
    return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()


def _found(keys: pa.Table | None, rows: pa.Table | None) -> pa.RecordBatch:
    arrays = [pa.array([None if one is None else pack(one)], pa.binary()) for one in (keys, rows)]
    return pa.RecordBatch.from_arrays(arrays, names=["keys", "rows"])


def _as(rows: pa.RecordBatch, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    columns = [
        rows.column(name).cast(field.type) for name, field in zip(names, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


@dataclass
class _Packer:
    """Packs the keys of rows, and some columns of those that are not deleted.

    Attributes:
        key: Indexes of the key's columns.
        keys: What they are called, and their types.
        columns: Indexes of the columns wanted.
        schema: What these are called, and their types.
        check: Fails at a value that does not fit.
    """

    key: Sequence[int]
    keys: pa.Schema
    columns: Sequence[int]
    schema: pa.Schema
    check: MisfitCheck

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            keys = _as(batch, [alias(index) for index in self.key], self.keys)
            stays = batch.filter(pc.invert(batch.column(DELETED)))
            for rows in self.check(iter([stays])):
                names = [alias(index) for index in self.columns]
                yield _found(keys, _as(rows, names, self.schema))


@dataclass
class Side:
    """Packs whole batches.

    Attributes:
        name: ``keys`` or ``rows``.
    """

    name: str
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Take rows with the schema's columns."""
        for batch in batches:
            table = _as(batch, self.schema.names, self.schema)
            yield _found(table, None) if self.name == "keys" else _found(None, table)
