"""Finds the lines of rows that are named by their ids, on any engine.

In a table with a key, a row goes with every line of its key, deletions and what an activation
removed among them. Without one, single lines go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.errors import UsageError
from singerlake.format.log import Block
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops import suppression as blocking
from singerlake.ops.erase.lines import (
    BY_BLOCK,
    Codes,
    ErasedLines,
    FoundRows,
    by_block,
    pack,
    unpack,
)
from singerlake.rows.batches import packing
from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.batches.steps import Batches, Step
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.blocks.asked_keys import AskedKeys
from singerlake.rows.blocks.block_reader import BlockReader, BlockText
from singerlake.rows.changes import row_ids
from singerlake.rows.state import activations, keys
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.key_filter import KeyFilter
from singerlake.rows.state.keys import AT
from singerlake.rows.state.shape import shape_of

_FOUND = f"{BY_BLOCK}, keys binary"
"""As ``BY_BLOCK``; and a row for each task, without a block, with a bit for each key it has."""


@dataclass(frozen=True)
class ByIds:
    """Finds lines.

    Attributes:
        ids: The rows' ids, as ``_row_id`` shows them.
    """

    engine: Engine[Any]
    table: Table
    ids: Sequence[str]

    def find(self, state: TableState, most_keys: int, most_ids: int) -> FoundRows:
        """Find all lines of the rows.

        Args:
            state: The table: rows are told apart by its key.
            most_keys: As many keys are wanted at most.
            most_ids: Of no more rows the ids are wanted.

        Raises:
            UsageError: An id can be none of a row of this table.
            DamagedError: A block cannot be read, or a key's column would have to round some.
        """
        columns = shape_of(state).key_columns
        if not columns:
            lines = self._at_places(state, state.blocks)
            ids = None if lines.count > most_ids else sorted(lines.ids())
            nothing = pa.table({})
            return FoundRows(lines, lines.count, nothing, nothing, ids)
        asked, compared = self._asked(state, columns)
        lines, there = self._of_keys(state, state.blocks, asked, compared)
        found = asked.filter(pa.array(there))
        ids = None
        if len(found) <= most_ids:
            rows = found.to_pylist()
            ids = sorted(row_ids.id_text([*row.values()], columns) for row in rows)
        return FoundRows(lines, len(found), found.slice(0, most_keys), asked, ids)

    def any_in(self, state: TableState, blocks: Sequence[Block]) -> bool:
        """Tell whether some blocks have lines of the rows.

        Args:
            state: The table that they are of.
            blocks: In order.
        """
        columns = shape_of(state).key_columns
        if not columns:
            return self._at_places(state, blocks).count > 0
        return self._of_keys(state, blocks, *self._asked(state, columns))[0].count > 0

    def of_keys(self, state: TableState, blocks: Sequence[Block], asked: pa.Table) -> ErasedLines:
        """Find all lines of some keys.

        Args:
            asked: The keys, each once, as their columns have them.
        """
        columns = shape_of(state).key_columns
        values = [packing.one_array(column) for column in asked.columns]
        fit = pa.table(keys.compared(values, columns), aliases(columns))
        return self._of_keys(state, blocks, asked, fit)[0]

    def _asked(self, state: TableState, columns: Columns) -> tuple[pa.Table, pa.Table]:
        """The keys, each once: as their columns have them, and fit to be compared."""
        values = row_ids.key_values(pa.array(self.ids, pa.string()), columns)
        for one in values:
            self._check(state, one)
        fit = pa.table(keys.compared(values, columns), aliases(columns))
        _, first = np.unique(keys.numbered(fit), return_index=True)
        named = pa.table(values, aliases(columns))
        return named.take(pa.array(first)), fit.take(pa.array(first))

    def _of_keys(
        self, state: TableState, blocks: Sequence[Block], asked: pa.Table, compared: pa.Table
    ) -> tuple[ErasedLines, np.ndarray]:
        columns = shape_of(state).key_columns
        values = [packing.one_array(column) for column in asked.columns]
        reader, tasks = self._reader(state, blocks, columns, AskedKeys.of(columns, values))
        found = self._collected(tasks, _KeysStep(reader, packing.pack(compared)))
        there = np.zeros(len(asked), dtype=bool)
        for row in found:
            if row["keys"] is not None:
                bits = np.frombuffer(row["keys"], np.uint8)
                there |= np.unpackbits(bits, count=len(asked)).astype(bool)
        return ErasedLines.of(row for row in found if row["keys"] is None), there

    def _at_places(self, state: TableState, blocks: Sequence[Block]) -> ErasedLines:
        numbers, ordinals = row_ids.positions(pa.array(self.ids, pa.string()))
        self._check(state, numbers)
        ends = np.array([block.number for block in blocks], dtype=np.int64)
        # The number of a block that there is not may be too large for a code.
        known = numbers.to_numpy() <= ends.max(initial=0)
        codes = np.unique(positions.codes(numbers.to_numpy()[known], ordinals.to_numpy()[known]))
        owners = np.unique(np.searchsorted(ends, positions.blocks_of(codes)))
        holding = [blocks[owner] for owner in owners.tolist() if owner < len(blocks)]
        reader, tasks = self._reader(state, holding, (), None)
        return ErasedLines.of(self._collected(tasks, _PlacesStep(reader, pack(codes))))

    def _reader(
        self, state: TableState, blocks: Sequence[Block], columns: Columns, asked: AskedKeys | None
    ) -> tuple[BlockReader, list[bytes]]:
        needed = activations.needed(blocks, Survival())
        tasks = block_tasks.split(needed, self.engine.parts, block_tasks.TASK_BYTES)
        names = [name for name, _ in columns]
        reader = BlockReader.of(self.table.store, state, tasks, columns, names)
        sent, reader.tasks, reader.asked = reader.tasks, [], asked
        return reader, sent

    def _collected(self, tasks: list[bytes], step: Step) -> list[dict[str, Any]]:
        # At most eight bytes for each line that goes, and never rows.
        return self.engine.collect(self.engine.map(self.engine.source(tasks), step, _FOUND))

    def _check(self, state: TableState, values: pa.Array) -> None:
        if values.null_count:
            # Which one is not said: what is printed is kept for longer than the rows may be.
            at = values.is_null().to_pylist().index(True) + 1
            raise UsageError(
                f"id {at} cannot belong to a row of {self.table.name}: pass the values of _row_id"
                + blocking.rounding_words(state)
            )


@dataclass
class _KeysStep:
    """Finds the lines of some keys in blocks.

    Attributes:
        reader: Reads the key's columns of blocks.
        asked: The keys, each once, fit to be compared; packed.
    """

    reader: BlockReader
    asked: bytes

    def __call__(self, tasks: Batches) -> Batches:
        """Read the tasks that come in."""
        asked, maybe = packing.unpack(self.asked), KeyFilter([self.asked])
        for _, blocks in self.reader.given(tasks):
            there = np.zeros(len(asked), dtype=bool)
            for read in self.reader.texts(blocks):
                codes, own = self._of_block(read, asked, maybe)
                there[own] = True
                yield _row(read.block, codes)
            bits = np.packbits(there).tobytes()
            yield pa.RecordBatch.from_pydict(
                {"block": [0], "lines": [0], "packed": [b""], "keys": [bits]}
            )

    def _of_block(self, read: BlockText, asked: pa.Table, maybe: KeyFilter) -> tuple[Codes, Codes]:
        """The positions of a block's lines with one of the keys; and which keys these are."""
        rows = keys.read(read.text, self.reader.spec(read.block, proved=read.proved))
        rows = rows.filter(pa.array(maybe.mask(rows.drop_columns([AT]))))
        some = rows.drop_columns([AT])
        numbers = keys.numbered(pa.concat_tables([asked, some.cast(asked.schema)]))
        own = np.full(int(numbers.max()) + 1, -1, dtype=np.int64)
        own[numbers[: len(asked)]] = np.arange(len(asked))
        found = own[numbers[len(asked) :]]
        codes = packing.one_array(rows.column(AT)).to_numpy()
        return codes[found >= 0], found[found >= 0]


@dataclass
class _PlacesStep:
    """Finds lines by their positions, in blocks.

    Attributes:
        codes: The positions, packed.
    """

    reader: BlockReader
    codes: bytes

    def __call__(self, tasks: Batches) -> Batches:
        """Read the tasks that come in."""
        wanted = unpack(self.codes)
        for _, blocks in self.reader.given(tasks):
            for read in self.reader.texts(blocks):
                there = positions.of_block(read.text, read.block)
                yield _row(read.block, there[np.isin(there, wanted)])


def _row(block: Block, codes: Codes) -> pa.RecordBatch:
    found = by_block(codes, np.array([block.number]))
    return found.append_column("keys", pa.nulls(len(found), pa.binary()))
