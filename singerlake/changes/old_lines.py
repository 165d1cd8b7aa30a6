"""The lines that are there, of rows that a change writes again, block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.changes.changed_blocks import Target
from singerlake.format import block as format_block
from singerlake.format.laid import BlockColumns
from singerlake.format.log import Block
from singerlake.records.blocks import positions
from singerlake.records.blocks.decoding import BlockSpec
from singerlake.records.blocks.defaults import ColumnDefault
from singerlake.records.lines.line_writer import lines_by_position
from singerlake.records.lines.respelling import Members, Respelling, older
from singerlake.transactions.blocks import read_block


class OldLines:
    """The lines of blocks, by position: rows come in order, so a block is read once.

    Args:
        target: Where lines will go.
        blocks: Those that lines come from, in order of number.
        sources: What each schema that rows may be written under has of the table's columns.
        shown: What rows have in columns that people added, by name.
    """

    def __init__(
        self,
        target: Target,
        blocks: Sequence[Block],
        sources: Mapping[str, BlockColumns],
        shown: Mapping[str, ColumnDefault],
    ) -> None:
        self._target = target
        self._sources = sources
        self._shown = shown
        self._texts = target.texts(hidden=True)
        self._text = b""
        self._block: Block | None = None
        self._differs = False
        self._lines: dict[tuple[int, int], bytes] = {}
        self._places: dict[tuple[int, int], int] = {}
        self._respelling: Respelling | None = None
        self.blocks = blocks
        self.under = ""
        self.schema_line = b""
        self.new_schema_line = target.schema_line

    def runs(self, numbers: NDArray[np.int64]) -> list[tuple[Block, int, int]]:
        """Return the blocks that rows lie in, each with its first row and the one behind its last.

        Args:
            numbers: The block that each row came in, rising.
        """
        holding = np.searchsorted([block.number for block in self.blocks], numbers)
        starts = np.flatnonzero(np.diff(holding, prepend=-1))
        stops = np.append(starts[1:], len(numbers))
        found = zip(holding[starts].tolist(), starts.tolist(), stops.tolist(), strict=True)
        return [(self.blocks[index], start, stop) for index, start, stop in found]

    def array(self, block: Block, codes: NDArray[np.int64]) -> pa.Array | None:
        """Return lines as one array, with their newlines; None where they must be looked up.

        Args:
            block: The block.
            codes: The positions of the rows, as ``positions.codes`` gives them.
        """
        self._open(block)
        data = np.frombuffer(self._text, np.uint8)
        ends = np.flatnonzero(data == ord("\n")).astype(np.int64) + 1
        if self._differs or block.activations or len(ends) != block.rows + 1:
            return None
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(self._text)]
        lines = pa.LargeBinaryArray.from_buffers(pa.large_binary(), block.rows, buffers)
        known = positions.of_block(self._text, block)
        rows = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return lines.take(pa.array(rows)) if (known[rows] == codes).all() else None

    def line(self, block: Block, position: tuple[int, int]) -> bytes:
        """Return the line at a position, without its newline.

        Args:
            block: The block that it lies in.
            position: The block that it came in, and its ordinal there.
        """
        self._open(block)
        if not self._lines:
            self._lines = lines_by_position(self._text, block)
        return self._lines[position]

    def _open(self, block: Block) -> None:
        if self._block is None or block.number != self._block.number:
            self._text = read_block(self._target.store, self._target.table, block)
            self._block = block
            self._lines, self._places = {}, {}
            self.schema_line = format_block.lines(self._text)[0]
            self.under = block.schema_hash
            other = self.under != self._target.schema_hash
            self._differs = other or older(block, self._shown)

    def respelled(self, line: bytes, position: tuple[int, int]) -> Members:
        """Spell what the new schema holds otherwise than the line that was just read."""
        target, block = self._target, self._block
        if block is None or not self._differs:
            return {}
        if not self._places:
            own = self._sources[self.under]
            spec = BlockSpec(
                where=f"block {block.number} of {target.table}",
                block=block,
                source=own.columns,
                target=self._texts.columns,
                members=own.members,
                defaults=self._shown,
            )
            self._respelling = Respelling.of_block(self._text, spec, self._texts)
            self._places = {place: number for number, place in enumerate(self._lines)}
        if self._respelling is None:
            return {}
        return self._respelling.members(self._places[position], line)
