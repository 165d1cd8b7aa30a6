"""Turning a small table back in this process, in less time than Java takes to start.

The old rows come from their index, and those since from their blocks, by the steps that Spark's
tasks run; and the lines are written by the writer that these have.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from singerlake import freezing
from singerlake.errors import ConflictError
from singerlake.lake import Table
from singerlake.maintenance.revert import RevertPlan
from singerlake.reading import index, small_state
from singerlake.reading.index import Index
from singerlake.reading.state_reader import StateReader
from singerlake.records.blocks import positions
from singerlake.records.rows.row_columns import BLOCK, ORDINAL
from singerlake.records.state import activations
from singerlake.rows_back import keyed_rows
from singerlake.rows_back import revert as reverts
from singerlake.rows_back.keyed_rows import KeyedRows, Mask, Numbers
from singerlake.rows_back.lines_again import Actions, ActionsHere
from singerlake.rows_back.revert import Engine, Outcome, Reverted
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import WriteOptions


def is_small(wanted: RevertPlan) -> bool:
    """Tell whether a table is turned back here.

    It is small, and nothing has to be asked of the old rows: no SQL, and not whether they fit a
    key or types that people have given the table since.
    """
    after = wanted.after
    if after.overlay.constraints or wanted.retyped:
        return False
    if after.key and after.key_reading != wanted.to.key_reading:
        return False
    since = wanted.head.blocks_after(wanted.to.number)
    known = {block.number for block in since}
    blocks = [*since, *(b for b in small_state.blocks_of(wanted.to) if b.number not in known)]
    return freezing.are_small(blocks, len(wanted.to.columns))


def revert_small(
    table: Table,
    to: int,
    *,
    dry_run: bool = False,
    options: WriteOptions | None = None,
    etag: int | None = None,
) -> Reverted:
    """Turn a table back that :func:`is_small`, without Spark; else as ``revert.reverted``."""
    return reverts.reverted(
        table,
        to,
        lambda wanted: _Here(table, wanted),
        dry_run=dry_run,
        options=options,
        etag=etag,
    )


def revert_if_small(
    table: Table,
    head: Snapshot,
    to: int,
    *,
    dry_run: bool = False,
    options: WriteOptions | None = None,
    etag: int | None = None,
) -> Reverted | None:
    """Turn a table back here; None where Spark is to do it. Arguments as :func:`revert_small`."""
    if not is_small(RevertPlan(head, head.at(to))):
        return None
    return revert_small(table, to, dry_run=dry_run, options=options, etag=etag)


class _Here(Engine):
    def __init__(self, table: Table, wanted: RevertPlan) -> None:
        if not is_small(wanted):
            raise ConflictError(
                f"{table.name} grew, or got constraints or other types, while it was about to be "
                "turned back: revert it again"
            )
        self._table = table
        self._wanted = wanted
        state = wanted.to.earliest_equal()
        self._old = (index.sound(table, state) or small_state.build(table, state)).with_keys()

    def rows(self) -> int:
        known = self._old.marker.rows
        return len(self._positions) if known is None else known

    def check(self) -> Outcome:
        return Outcome()  # there is nothing to ask, or it is not small

    def everything(self) -> Actions:
        return ActionsHere(self._positions, np.zeros(len(self._positions), dtype=bool))

    def difference(self) -> Actions:
        wanted = self._wanted
        old = keyed_rows.of_index(self._old)
        columns = self._old.shape.key_columns
        survival = activations.survival(wanted.head.blocks)
        since = activations.needed(wanted.head.blocks_after(wanted.to.number), survival)
        later = keyed_rows.of_blocks(self._table, wanted.head, since, columns)
        rows = KeyedRows(pa.concat_tables([old, later]), len(columns))
        now = rows.there(rows.newest(), survival)
        before = np.full(rows.count, -1, dtype=np.int64)
        before[rows.keys[: len(old)]] = np.arange(len(old))
        there = (before >= 0) | (now >= 0)
        before, now = before[there], now[there]
        changed = ~self._same(rows, before, now)
        before, now = before[changed], now[changed]
        chosen = np.where(before >= 0, before, now)
        return ActionsHere(rows.at[chosen], before < 0, [nulls[chosen] for nulls in rows.lacking])

    def _same(self, rows: KeyedRows, before: Numbers, now: Numbers) -> Mask:
        """Whether keys have the row that they had, or another of the same bytes that reads alike.

        By the bytes of the record: two values may look alike as columns, or be in none. A row that
        came under another schema would read otherwise once that schema is back, and beyond a change
        of defaults it shows another one.
        """
        same_record = rows.records[before] == rows.records[now]
        for first, last in reverts.under_other_schemas(self._wanted):
            same_record &= ~_between(rows.blocks[now], first, last)
        for side in (before, now):
            same_record &= _between(rows.blocks[side], *self._wanted.default_span)
        same: Mask = (before >= 0) & (now >= 0)
        same &= (rows.at[before] == rows.at[now]) | same_record
        return same

    @cached_property
    def _positions(self) -> Numbers:
        found = [positions.codes_in(rows) for rows in _rows(self._old, BLOCK, ORDINAL)]
        return np.concatenate([np.empty(0, dtype=np.int64), *found])


def _rows(built: Index, *columns: str) -> list[pa.RecordBatch]:
    return [*StateReader.of(built).rows(columns)]


def _between(numbers: Numbers, first: int, last: int) -> Mask:
    return (first <= numbers) & (numbers <= last)
