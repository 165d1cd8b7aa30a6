"""Finds the lines of rows that a condition of the set names, in this process.

``erased_lines.py`` does the same on Spark. A row is meant if the condition held for any of its
lines; then it goes with all of them, as one that is named by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from singerlake.engine.local import LocalEngine
from singerlake.errors import UsageError
from singerlake.format.log import Block
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.erase.by_ids import ByIds
from singerlake.ops.erase.lines import Codes, ErasedLines, FoundRows, by_block
from singerlake.rows.batches.packing import one_array
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, aliases
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.changes import row_ids
from singerlake.rows.state import activations, keys
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.sql.local.condition import constraint_of
from singerlake.sql.local.constraints import ConstraintChecks
from singerlake.sql.local.outside import OutsideError


@dataclass(frozen=True)
class ByConditionHere:
    """Finds lines, as ``ByIds`` does.

    Attributes:
        where: The condition, which DuckDB answers as Spark does.
    """

    engine: LocalEngine
    table: Table
    where: str

    def find(self, state: TableState, most_keys: int, most_ids: int) -> FoundRows:
        """Find all lines of the rows; see ``ByIds.find``.

        Raises:
            UsageError: DuckDB does not answer the condition as Spark does.
            DamagedError: A block cannot be read, or a key's column would have to round some.
        """
        columns = shape_of(state).key_columns
        asked, lone = self._matching(state, state.blocks)
        codes = self._codes(state, state.blocks, asked, lone)
        numbers = np.array([block.number for block in state.blocks], dtype=np.int64)
        lines = ErasedLines.of(by_block(codes, numbers).to_pylist())
        count = len(asked) + len(lone)
        ids = None
        if count <= most_ids:
            named = asked.to_pylist() if columns else _places(lone)
            ids = sorted(row_ids.id_text([*row.values()], columns) for row in named)
        found = asked.slice(0, most_keys) if columns else pa.table({})
        return FoundRows(lines, count, found, found, ids)

    def any_in(self, state: TableState, blocks: Sequence[Block]) -> bool:
        """Tell whether some blocks have lines of the rows.

        Args:
            state: The table that they are of.
            blocks: In order.
        """
        # The condition may not hold for the new line of a row that is to go.
        asked, _ = self._matching(state, state.blocks)
        _, lone = self._matching(state, blocks)
        return bool(len(self._codes(state, blocks, asked, lone)))

    def _matching(self, state: TableState, blocks: Sequence[Block]) -> tuple[pa.Table, Codes]:
        """Find the keys of rows, each once, and the positions of rows that have no key."""
        shape = replace(shape_of(state), survival=Survival())
        columns, names = shape.key_columns, aliases(shape.key_columns)
        try:
            one = constraint_of(shape.names, self.where)
            checks = ConstraintChecks(shape, {self.where: one})
            rows = checks.meeting(self.where, lambda _: self._rows(state, blocks, shape))
        except OutsideError as error:
            raise UsageError(
                f"a condition with {error.construct} needs Spark: use the engine spark"
            ) from None
        codes = positions.codes(rows.column(0).to_numpy(), rows.column(1).to_numpy())
        if not columns:
            return pa.table({}), codes
        values = [one_array(column) for column in rows.columns[2:]]
        lone = np.zeros(len(codes), dtype=bool)
        for value in values:
            lone |= value.is_null().to_numpy(zero_copy_only=False)
        keyed = pa.table(values, names).filter(pa.array(~lone))
        if len(keyed):
            fit = [one_array(column) for column in keyed.columns]
            compared = pa.table(keys.compared(fit, columns), names)
            _, first = np.unique(keys.numbered(compared), return_index=True)
            keyed = keyed.take(pa.array(np.sort(first)))
        return keyed, codes[lone]

    def _codes(
        self, state: TableState, blocks: Sequence[Block], asked: pa.Table, lone: Codes
    ) -> Codes:
        """Find the positions of all lines of some keys, and add those of rows without one."""
        if not len(asked):
            return lone
        lines = ByIds(self.engine, self.table, ()).of_keys(state, blocks, asked)
        return np.union1d(lines.codes(), lone)

    def _rows(self, state: TableState, blocks: Sequence[Block], shape: Shape) -> Batches:
        """Give all lines of blocks as rows, deletions too."""
        needed = activations.needed(blocks, shape.survival)
        tasks = block_tasks.split(needed, self.engine.parts, block_tasks.TASK_BYTES)
        reader = BlockReader.of(self.table.store, state, tasks, shape.columns, shape.key_names)
        sent, reader.tasks = reader.tasks, []
        source = self.engine.source(sent)
        yield from self.engine.batches(self.engine.map(source, reader, ""))


def _places(codes: Codes) -> list[dict[str, int]]:
    blocks, ordinals = positions.blocks_of(codes).tolist(), positions.ordinals_of(codes).tolist()
    return [{BLOCK: b, ORDINAL: o} for b, o in zip(blocks, ordinals, strict=True)]
