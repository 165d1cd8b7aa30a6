"""The difference between an old state and now, found key by key on an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from singerlake.engine.base import Engine
from singerlake.format.log import joined
from singerlake.lake import Table
from singerlake.ops.rows_back import keyed_rows
from singerlake.ops.rows_back.actions import FOUND, Actions, Found
from singerlake.ops.rows_back.keyed_rows import SHARED, KeyedRows, Mask, Numbers, Share
from singerlake.ops.rows_back.revert_plan import RevertPlan
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL
from singerlake.rows.batches.steps import Batches, Pipeline
from singerlake.rows.blocks import positions
from singerlake.rows.state import activations
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.shape import Shape
from singerlake.snapshot import content, from_blocks
from singerlake.snapshot.index import Index

MOST_RANGES = 200
"""Ranges of versions that each task compares with; of more, more rows are written than need be."""


def every_row(engine: Engine[Any], old: Index) -> Actions:
    """Return all rows of a state, none of them to be deleted."""
    rows = content.of_index(engine, old, (BLOCK, ORDINAL), _every, FOUND)
    return Actions(engine, rows)


def difference(engine: Engine[Any], table: Table, wanted: RevertPlan, old: Index) -> Actions:
    """Find the rows to put back and those to delete, by their keys."""
    columns = old.shape.key_columns
    head, last = wanted.head, wanted.to.last_block
    survival = activations.survival(head.blocks)
    shape = Shape(columns, tuple(range(len(columns))), survival)
    since = head.blocks_after(wanted.to.number)
    plan = from_blocks.planned(engine, table, head, digests=True, shape=shape, blocks=since)
    files = [*old.marker.files, *(old.below.marker.files if old.below is not None else [])]
    rows = sum(file.rows for file in files) + sum(block.rows for block in since)
    parts = max(engine.parts, rows // from_blocks.PART_ROWS)
    before = content.of_index(
        engine,
        old,
        (*old.shape.key_aliases, *keyed_rows.PROVENANCE),
        Share(columns, parts),
        SHARED,
    )
    read = Pipeline((plan.reader, Share(columns, parts, last)))
    later = engine.map(engine.source(plan.sent), read, SHARED)
    shared = engine.exchange(engine.union(before, later), parts, "part")
    others = under_other_schemas(wanted)
    compare = _Compare(len(columns), last, survival, others, wanted.default_span)
    return Actions(engine, engine.map(shared, compare, FOUND))


def under_other_schemas(wanted: RevertPlan) -> list[tuple[int, int]]:
    """Ranges of row versions since the old state that came under another schema."""
    since = wanted.head.blocks_after(wanted.to.number)
    ranges = joined(
        (block.lowest_version, block.number)
        for block in since
        if block.schema_hash != wanted.to.schema_hash
    )
    return ranges if len(ranges) <= MOST_RANGES else [(ranges[0][0], ranges[-1][1])]


def _every(batches: Batches) -> Batches:
    for rows in batches:
        codes = positions.codes_in(rows)
        yield Found.put_back(codes).batch()


@dataclass
class _Compare:
    """Compares the rows of a part's keys: those that there were, and those that there are.

    Attributes:
        last: The last block of the old state.
        others: Ranges of row versions that came under another schema.
        span: The row versions whose defaults are those of the old state.
    """

    width: int
    last: int
    survival: Survival
    others: Sequence[tuple[int, int]]
    span: tuple[int, int]

    def __call__(self, batches: Batches) -> Batches:
        """Give the positions of rows to put back, and of those to delete."""
        rows = KeyedRows.of(batches, self.width)
        if rows is None:
            return
        now = rows.there(rows.newest(), self.survival)
        before = rows.newest(rows.blocks <= self.last)
        there = (before >= 0) | (now >= 0)
        before, now = before[there], now[there]
        changed = ~self._same(rows, before, now)
        before, now = before[changed], now[changed]
        chosen = np.where(before >= 0, before, now)
        yield Found(rows.at[chosen], before < 0, rows.lacking[chosen]).batch()

    def _same(self, rows: KeyedRows, before: Numbers, now: Numbers) -> Mask:
        """Tell whether keys have the row that they had, or one of the same bytes that reads alike.

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
