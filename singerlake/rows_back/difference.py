"""What differs between an old state and now, found key by key on an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.format.log import joined
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.maintenance.revert import RevertPlan
from singerlake.reading.index import Index
from singerlake.reading.state_reader import StateReader
from singerlake.records.blocks import block_tasks, positions
from singerlake.records.blocks.block_reader import BlockReader
from singerlake.records.rows import packing
from singerlake.records.rows.row_columns import BLOCK, DIGEST, ORDINAL, VERSION, aliases
from singerlake.records.rows.steps import Batches
from singerlake.records.state import activations, keys
from singerlake.records.state.activations import Survival
from singerlake.records.state.shape import Shape
from singerlake.rows_back import keyed_rows
from singerlake.rows_back.actions import FOUND, EngineActions, Found
from singerlake.rows_back.keyed_rows import KeyedRows, Mask, Numbers
from singerlake.snapshot import from_blocks

_PACKED = "part int, old boolean, rows binary"
MOST_RANGES = 200
"""Ranges of versions that each task compares with; of more, more rows are written than need be."""


def every_row(engine: Engine[Any], old: Index) -> EngineActions:
    """Return all rows of a state, none of them to be deleted."""
    reader = StateReader.of(old)
    step = _Positions(reader)
    return EngineActions(engine, engine.map(engine.source([b""] * reader.parts), step, FOUND))


def difference(engine: Engine[Any], table: Table, wanted: RevertPlan, old: Index) -> EngineActions:
    """Find the rows to put back and those to delete, by their keys.

    Args:
        engine: Reads and compares them.
        table: The table.
        wanted: What to go back to.
        old: The index of the old state.
    """
    columns = old.shape.key_columns
    head = wanted.head
    survival = activations.survival(head.blocks)
    shape = Shape(columns, tuple(range(len(columns))), survival)
    since = head.blocks_after(wanted.to.number)
    plan = from_blocks.planned(engine, table, head, digests=True, shape=shape, blocks=since)
    files = [*old.marker.files, *(old.below.marker.files if old.below is not None else [])]
    rows = sum(file.rows for file in files) + sum(block.rows for block in since)
    parts = max(engine.parts, rows // from_blocks.PART_ROWS)
    reader = StateReader.of(old)
    before = engine.map(
        engine.source([b""] * reader.parts), _OldKeys(reader, columns, parts), _PACKED
    )
    later = engine.map(engine.source(plan.sent), _LaterKeys(plan.reader, columns, parts), _PACKED)
    shared = engine.exchange(engine.union(before, later), parts, "part")
    compare = _Compare(len(columns), survival, under_other_schemas(wanted), wanted.default_span)
    return EngineActions(engine, engine.map(shared, compare, FOUND))


def under_other_schemas(wanted: RevertPlan) -> list[tuple[int, int]]:
    """Ranges of row versions since the old state that came under another schema."""
    since = wanted.head.blocks_after(wanted.to.number)
    ranges = joined(
        (block.first_version or block.number, block.number)
        for block in since
        if block.schema_hash != wanted.to.schema_hash
    )
    return ranges if len(ranges) <= MOST_RANGES else [(ranges[0][0], ranges[-1][1])]


@dataclass
class _Positions:
    """Gives the positions of a state's rows, file by file.

    Attributes:
        reader: Reads the files.
    """

    reader: StateReader

    def __call__(self, numbers: Batches) -> Batches:
        """Read the files whose numbers come in."""
        for number in block_tasks.numbers(numbers):
            for rows in self.reader.part(number, (BLOCK, ORDINAL)):
                codes = positions.codes_in(rows)
                count = len(codes)
                none = np.full(count, -1, dtype=np.int16)
                yield Found(codes, np.zeros(count, dtype=bool), none).batch()


@dataclass
class _OldKeys:
    """Reads the keys of a state's rows, and what :class:`KeyedRows` needs beside them, by part.

    Attributes:
        reader: Reads the state's files.
        columns: Those of the key.
        parts: How many parts there are.
    """

    reader: StateReader
    columns: Columns
    parts: int

    def __call__(self, numbers: Batches) -> Batches:
        """Read the files whose numbers come in."""
        wanted = [*self.reader.shape.key_aliases, BLOCK, ORDINAL, VERSION, DIGEST]
        for number in block_tasks.numbers(numbers):
            rows = self.reader.part(number, wanted)
            yield from _split(
                keyed_rows.whole(rows, self.columns), self.columns, self.parts, old=True
            )


@dataclass
class _LaterKeys:
    """Reads the same of blocks, deletions too.

    Attributes:
        reader: Reads the key's columns of blocks.
        columns: As in :class:`_OldKeys`.
        parts: As there.
    """

    reader: BlockReader
    columns: Columns
    parts: int

    def __call__(self, numbers: Batches) -> Batches:
        """Read the blocks of the tasks that come in."""
        for _, blocks in self.reader.given(numbers):
            rows = keyed_rows.whole(self.reader.rows(blocks), self.columns)
            yield from _split(rows, self.columns, self.parts, old=False)


def _split(rows: pa.Table, columns: Columns, parts: int, *, old: bool) -> Batches:
    part = keys.parts_of(rows.select(aliases(len(columns))), parts)
    for number, some in packing.split(rows, part, parts):
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int32()), pa.array([old]), packing.packed_cell(some)],
            ["part", "old", "rows"],
        )


@dataclass
class _Compare:
    """Compares the rows of a part's keys: those that there were, and those that there are.

    Attributes:
        width: How many columns the key has.
        survival: What the activations leave of the rows that there are.
        others: Ranges of row versions that came under another schema.
        span: The row versions whose defaults are those of the old state.
    """

    width: int
    survival: Survival
    others: Sequence[tuple[int, int]]
    span: tuple[int, int]

    def __call__(self, batches: Batches) -> Batches:
        """Give the positions of rows to put back, and of those to delete."""
        tables: dict[bool, list[pa.Table]] = {True: [], False: []}
        for batch in batches:
            for old, data in zip(
                batch.column("old").to_pylist(), batch.column("rows").to_pylist(), strict=True
            ):
                tables[old].append(packing.unpack(data))
        both = [*tables[True], *tables[False]]
        if not both:
            return
        count = sum(map(len, tables[True]))
        rows = KeyedRows(pa.concat_tables(both), self.width)
        now = rows.there(rows.newest(), self.survival)
        before = np.full(rows.count, -1, dtype=np.int64)
        before[rows.keys[:count]] = np.arange(count)
        there = (before >= 0) | (now >= 0)
        before, now = before[there], now[there]
        changed = ~self._same(rows, before, now)
        before, now = before[changed], now[changed]
        chosen = np.where(before >= 0, before, now)
        yield Found(rows.at[chosen], before < 0, rows.lacking[chosen]).batch()

    def _same(self, rows: KeyedRows, before: Numbers, now: Numbers) -> Mask:
        """Whether keys have the row that they had, or another of the same bytes that reads alike.

        By the bytes of the record: two values may look alike as columns, or be in none. A row that
        came under another schema would read otherwise once that schema is back, and beyond a change
        of defaults it shows another one.
        """
        same_record = rows.records[before] == rows.records[now]
        for first, last in self.others:
            same_record &= ~_between(rows.blocks[now], first, last)
        for side in (before, now):
            same_record &= _between(rows.blocks[side], *self.span)
        same: Mask = (before >= 0) & (now >= 0)
        same &= (rows.at[before] == rows.at[now]) | same_record
        return same


def _between(numbers: Numbers, first: int, last: int) -> Mask:
    found: Mask = (numbers >= first) & (numbers <= last)
    return found
