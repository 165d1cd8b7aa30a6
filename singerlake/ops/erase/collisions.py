"""Finds versions in which an erasure would let other rows come back, before anything is written.

A version keeps the key, and the rules of types, that it was frozen with. Where these make one row
of lines that have different keys today, the newest of them hides the others; without it, another
one would show in a version that never had it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.format.log import FrozenVersion
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.log import versions
from singerlake.log.table_state import TableState
from singerlake.ops.erase.lines import BY_BLOCK, ErasedLines, by_block
from singerlake.ops.erase.obstacles import Obstacle
from singerlake.ops.rows_back.keyed_rows import SHARED, KeyedRows, Share
from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.batches.steps import Batches, Pipeline
from singerlake.rows.blocks import positions
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.changes import row_ids
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import from_blocks
from singerlake.snapshot.from_blocks import Plan

SHOWN = 10
"""Keys that a message names."""
_NO_ID = "rows with a null in their key"
_KEYS = "id string"


@dataclass(frozen=True)
class Collisions:
    """Looks for rows of old versions that others hide.

    Attributes:
        engine: Reads and compares them.
        table: The table.
        head: Its head: rows go by its key.
        gone: The lines that go.
    """

    engine: Engine[Any]
    table: Table
    head: TableState
    gone: ErasedLines

    def obstacles(self) -> Iterator[Obstacle]:
        """Yield each version that would show other rows, with the keys of these."""
        first = min(self.gone.packed)
        for version in versions.protecting(self.head, self.head.floor):
            at = self.head.frozen_as(version).earliest_equal()
            if at.last_block < first or not at.key or at.key_reading == self.head.key_reading:
                continue
            back = self._appearing(at)
            if back.count:
                yield self._obstacle(version, self._keys_at(back))

    def _appearing(self, at: TableState) -> ErasedLines:
        """The lines that would come back in a state, at most one for each row that goes."""
        state = shape_of(at)
        plan = self._planned(at)
        columns = plan.shape.columns
        share = Pipeline((plan.reader, Share(columns, plan.parts)))
        read = self.engine.map(self.engine.source(plan.sent), share, SHARED)
        shared = self.engine.exchange(read, plan.parts, "part")
        numbers = np.array([block.number for block in self.head.blocks], dtype=np.int64)
        step = _Appearing(len(columns), state.survival, state.apart, self.gone, numbers)
        return ErasedLines.of(self.engine.collect(self.engine.map(shared, step, BY_BLOCK)))

    def _keys_at(self, places: ErasedLines) -> list[str]:
        """The first keys, as the head has them, of the lines in some places."""
        blocks = [block for block in self.head.blocks if block.number in places.packed]
        plan = self._planned(self.head, blocks)
        step = _KeysAt(plan.reader, plan.shape.columns, places)
        found = self.engine.collect(self.engine.map(self.engine.source(plan.sent), step, _KEYS))
        return sorted({row["id"] for row in found})[: SHOWN + 1]

    def _planned(self, at: TableState, blocks: Sequence[Any] | None = None) -> Plan:
        """Plan to read the key of all lines, whatever an activation has removed."""
        columns = shape_of(at).key_columns
        shape = Shape(columns, tuple(range(len(columns))), Survival())
        return from_blocks.planned(self.engine, self.table, at, shape=shape, blocks=blocks)

    def _obstacle(self, version: FrozenVersion, found: list[str]) -> Obstacle:
        listed = ", ".join(found[:SHOWN]) + (", …" if len(found) > SHOWN else "")
        name = self.table.name
        vacuum = f"singerlake vacuum {name} --expire-history --retain 0s --no-retention-guard"
        if version.deleted is None:
            what = "delete the version first, and the history that it keeps"
            vacuum = f"singerlake versions {name} --delete {version.number} --reason WHY; {vacuum}"
        else:  # until its history is dropped, whoever reads it gets its rows
            what = "expire its history first, because it was deleted"
        return Obstacle(
            f"version {version.number} was frozen under a key by which more rows were the same, "
            f"and would show other rows instead of these: {listed}",
            f"either erase those rows as well, or {what}: {vacuum}",
        )


@dataclass
class _Appearing:
    """Finds the lines that show in a state only once others are gone.

    Attributes:
        width: How many columns the key has.
        survival: What the activations leave of the state.
        apart: Whether a row with a null in its key is a row of its own.
        gone: The lines that go.
        numbers: The numbers of all blocks, rising.
    """

    width: int
    survival: Survival
    apart: bool
    gone: ErasedLines
    numbers: np.ndarray

    def __call__(self, parts: Batches) -> Batches:
        """Compare all lines of a part's keys."""
        rows = KeyedRows.of(parts, self.width, apart=self.apart)
        if rows is None:
            return
        goes = self.gone.mask(rows.at)
        hidden = rows.there(rows.newest(~goes), self.survival)
        back = hidden[(hidden >= 0) & goes[rows.newest()]]
        yield by_block(rows.at[back], self.numbers)


@dataclass
class _KeysAt:
    """Spells the keys of some lines.

    Attributes:
        reader: Reads the key's columns.
        columns: Those.
        places: The lines.
    """

    reader: BlockReader
    columns: Columns
    places: ErasedLines

    def __call__(self, tasks: Batches) -> Batches:
        """Read the tasks that come in; the first few keys of each are enough."""
        names = aliases(self.columns)
        for _, blocks in self.reader.given(tasks):
            found: set[str] = set()
            for batch in self.reader.rows(blocks):
                some = batch.filter(pa.array(self.places.mask(positions.codes_in(batch))))
                for row in some.select(names).to_pylist():
                    whole = None not in row.values()
                    id_ = row_ids.id_text([*row.values()], self.columns) if whole else _NO_ID
                    found.add(id_)
                found = {*sorted(found)[: SHOWN + 1]}
            yield pa.RecordBatch.from_pydict({"id": pa.array(sorted(found), pa.string())})
