"""Rows: one row as it was, in all the versions of it that the lake still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import NotFoundError, UsageError
from singerlake.format.types import Kind
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches import packing
from singerlake.rows.batches.row_columns import (
    BLOCK,
    DELETED,
    MISFITS,
    ORDINAL,
    VERSION,
    aliases,
)
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.given.values import cells
from singerlake.rows.state import activations, keys
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.key_filter import KeyFilter
from singerlake.rows.state.keys import AT
from singerlake.rows.state.row_key import check_key
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import from_blocks

WHAT = "reading a row's history"


@dataclass(frozen=True)
class RowsOptions:
    """Which row.

    Attributes:
        key: The value of each column of the key, as text.
        version: The frozen version up to which to read, by number or label; None for the head.
    """

    key: Mapping[str, str]
    version: str | None = None


@dataclass(frozen=True)
class RowVersion:
    """A row as one block has it.

    Attributes:
        row_version: The block's number, by which versions of a row are told apart; it is not
            the transaction's.
        transaction: The transaction that added it.
        time: When that was committed.
        operation: ``insert``, ``update`` or ``delete``, by what was there before it; or
            ``remove`` where an ACTIVATE_VERSION took it away.
        values: The columns; of a deletion, what the deletion said; of a removal, none.
        misfits: By column, what is said of a value that does not fit it, and reads as null.
    """

    row_version: int
    transaction: int
    time: str
    operation: str
    values: dict[str, Any]
    misfits: dict[str, str] = field(default_factory=dict)


def plan(head: TableState, options: RowsOptions) -> TableState:
    """Check what can be checked before a block is read; raises as :func:`row_history` does.

    Args:
        head: The table.
        options: Which row.

    Returns:
        The table up to which to read.
    """
    snapshot = head if options.version is None else head.named(options.version)[1]
    _cells(snapshot, options.key)
    return snapshot


def row_history(
    table: Table,
    options: RowsOptions,
    choice: EngineChoice | None = None,
    *,
    head: TableState | None = None,
) -> list[RowVersion]:
    """List all versions of one row, oldest first.

    Args:
        table: The table; it must have a key.
        options: Which row.
        choice: What may read the blocks.
        head: The table as a caller has just read it.

    Raises:
        UsageError: The table has no key, the names are not its key's, or a value is of no use.
        NotFoundError: There is no such version, or no such row was ever there.
        DamagedError: A block cannot be read.
        RuntimeMissingError: Spark is needed, and it or Java is not installed.
    """
    choice = choice or EngineChoice()
    # Java starts before a lease is asked for, and not for what is refused.
    engine = _engine_for(choice, plan(head or table.snapshot(), options))
    with table.lease() as lease:
        snapshot = plan(lease.snapshot, options)
        # Another time: the table may have grown since it was looked at.
        engine = _engine_for(choice, snapshot, engine)
        rows = _rows(engine, table, snapshot, _cells(snapshot, options.key))
    if not rows:
        words = ", ".join(f"{name}={value}" for name, value in options.key.items())
        raise NotFoundError(f"{snapshot.table} never had a row {words}")
    return _versions(snapshot, shape_of(snapshot), rows)


def _engine_for(
    choice: EngineChoice, snapshot: TableState, started: Engine[Any] | None = None
) -> Engine[Any]:
    work = Work.of(snapshot.blocks, len(snapshot.columns))
    return choice.engine_for(work, WHAT, started=started)


def _cells(snapshot: TableState, key: Mapping[str, str]) -> pa.Table:
    """Read a key's values, as the cells of a file are read; gives them fit to be compared.

    Raises:
        UsageError: They are not values of the key's columns.
    """
    check_key(snapshot, key)
    columns = shape_of(snapshot).key_columns
    found = []
    for name, type_ in columns:
        text = key[name] if type_.kind in (Kind.STRING, Kind.TEXT) else key[name].strip()
        cell, wrong = cells.read(pa.array([text]), type_)
        if wrong or cell.null_count:
            raise UsageError(
                f"the key column {name!r} of {snapshot.table} is {type_}, which {key[name]!r} is "
                f"not: use --key {name}=…"
            )
        found.append(cell)
    return pa.table(keys.compared(found, columns), aliases(columns))


def _rows(
    engine: Engine[Any], table: Table, snapshot: TableState, key: pa.Table
) -> list[dict[str, Any]]:
    """Find the rows of a key in the order in which they came."""
    # Rows that an activation removed are part of a row's history: nothing is left out.
    shape = replace(shape_of(snapshot), survival=Survival())
    plan = from_blocks.planned(engine, table, snapshot, shape=shape)
    step = _OneKey(plan.reader, plan.key_reader, packing.pack(key))
    with engine.stages("searching the blocks"):
        found = engine.collect(engine.map(engine.source(plan.sent), step, "rows binary"))
    rows = [row for packed in found for row in packing.unpack(packed["rows"]).to_pylist()]
    return sorted(rows, key=lambda row: (row[BLOCK], row[ORDINAL]))


@dataclass
class _OneKey:
    """Reads the rows of one key.

    Attributes:
        reader: Reads all columns.
        key_reader: Reads those of the key.
        key: The key, packed.
    """

    reader: BlockReader
    key_reader: BlockReader
    key: bytes

    def __call__(self, numbers: Batches) -> Batches:
        """Look through the blocks of the tasks that come in."""
        wanted = KeyFilter([self.key])
        for _, blocks in self.reader.given(numbers):
            for read in self.reader.texts(blocks):
                spec = self.key_reader.spec(read.block, proved=read.proved)
                rows = keys.read(read.text, spec).drop_columns([AT])
                at = np.flatnonzero(wanted.mask(rows))
                if len(at):
                    own = packing.packed_cell(self.reader.some_rows(read, at))
                    yield pa.RecordBatch.from_arrays([own], ["rows"])


def _versions(snapshot: TableState, shape: Shape, rows: list[dict[str, Any]]) -> list[RowVersion]:
    every_activation = activations.all_of(snapshot.blocks)
    positions = [(row[BLOCK], row[ORDINAL]) for row in rows]
    versions: list[RowVersion] = []
    present = False
    for row, position, until in zip(
        rows, positions, [*positions[1:], (snapshot.last_block + 1, 0)], strict=True
    ):
        operation = "delete" if row[DELETED] else "update" if present else "insert"
        present = not row[DELETED]
        values = {name: row[key] for name, key in zip(shape.names, shape.aliases, strict=True)}
        misfits = {shape.names[i]: text for i, text in sorted(row[MISFITS] or ())}
        version = _version(snapshot, position[0], operation, values)
        versions.append(replace(version, misfits=misfits))
        removal = activations.first_removal(every_activation, position, until, row[VERSION])
        if present and removal is not None:
            versions.append(_version(snapshot, removal.block, "remove", {}))
            present = False
    return versions


def _version(
    snapshot: TableState, block: int, operation: str, values: dict[str, Any]
) -> RowVersion:
    transaction = snapshot.transaction_of_block(block)
    time = snapshot.summary(transaction).time
    return RowVersion(block, transaction, time, operation, values)
