"""Rows that a change inserts, changes or deletes, as lines of new blocks, on the executors.

The line of a changed row is the one that was there, with other members in its record: what
nobody asked to change keeps its bytes. Every record that is new, in whole or in part, is held
against the schema it is written under before a task publishes anything, and a dry run goes the
same way without writing, so that it finds the same problems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.format import block as format_block
from singerlake.format import messages
from singerlake.format.log import Block
from singerlake.format.overlaid import BlockColumns
from singerlake.log.blocks import read_block
from singerlake.ops.change.changed_blocks import Out, Places, Target
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import positions
from singerlake.rows.blocks.decoding import BlockSpec
from singerlake.rows.blocks.defaults import ColumnDefault
from singerlake.rows.changes.merge_terms import DELETED
from singerlake.rows.columns import text_bytes
from singerlake.rows.lines.line_writer import lines_by_position
from singerlake.rows.lines.members import patched
from singerlake.rows.lines.patched_lines import NewValues, patched_lines
from singerlake.rows.lines.record_texts import Changes
from singerlake.rows.lines.respelling import Members, Respelling, older
from singerlake.rows.lines.written_defaults import DefaultsWritten


@dataclass
class InsertWriter:
    """Writes rows as new records. Sent to the executors by value: the store goes with it.

    A partition has the cells, ``changed`` (those that are set), ``source``, ``line`` and
    ``row_id`` (null where there is a line).
    """

    target: Target

    def __call__(self, rows: Batches) -> Batches:
        """Write a partition's rows; its files are durable when the descriptions come out."""
        target = self.target
        texts = target.texts()
        before, after = messages.around_record(
            target.table.stream, target.stamp, target.new_version
        )
        out = Out(target)
        try:
            for batch in rows:
                records, problems = texts.records(batch, target.cells, batch.column("changed"))
                wrong = out.note(problems, Places(batch))
                good = [row for row in range(len(records)) if row not in wrong]
                sound = [records[row] for row in good] if wrong else records
                out.check(sound, Places(batch, good))
                out.add_new([before + record + after for record in sound])
            yield from out.finish()
        finally:
            out.discard()


@dataclass
class ChangeWriter:
    """Writes rows that are there again: changed, as deletions, or as they are.

    Rows come in the order of their positions, with ``status``, ``changed`` (null for a row that
    stays as it is), the cells, ``source``, ``line`` and ``row_id``.

    Attributes:
        target: Where lines go.
        blocks: The blocks that rows come from, in order of number.
        deletions: By the hash of a row's schema, the hash and the SCHEMA line to delete the row
            under, where these are not its own.
        sources: What each schema that rows may be written under has of the table's columns, those
            too that nobody sees.
        shown: What rows have in columns that people added, by name.
        defaults: How rows that stay as they are are written again, by the hash of their schema.
    """

    target: Target
    blocks: Sequence[Block]
    deletions: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    sources: Mapping[str, BlockColumns] = field(default_factory=dict)
    shown: Mapping[str, ColumnDefault] = field(default_factory=dict)
    defaults: Mapping[str, DefaultsWritten] = field(default_factory=dict)

    def __call__(self, actions: Batches) -> Batches:
        """Write a partition's rows; its files are durable when the descriptions come out."""
        out = Out(self.target)
        try:
            self._write(actions, out)
            yield from out.finish()
        finally:
            out.discard()

    def _write(self, actions: Batches, out: Out) -> None:
        target = self.target
        texts, keys = target.texts(), target.under.shown.key_properties
        named = [i for i in target.cells if target.columns[i][0] not in keys]
        reader = OldLines(target, self.blocks, self.sources, self.shown)
        for batch in actions:
            changed = batch.column("changed")
            nothing = pa.scalar([], changed.type)
            changes = texts.changes(batch, named, changed.fill_null(nothing))
            wrong = out.note(changes.problems, Places(batch))
            self._write_rows(_Rows(batch, changes, wrong), reader, out)

    def _write_rows(self, rows: _Rows, reader: OldLines, out: Out) -> None:
        """Write rows block by block: those that can be at once, then the others."""
        records: list[bytes] = []
        numbers: list[int] = []
        for block, start, stop in reader.runs(rows.blocks):
            left = np.arange(start, stop)
            if self.target.version is None:
                left = np.setdiff1d(left, self._at_once(rows, left, block, reader, out))
            for row in left.tolist():
                if row in rows.wrong:
                    continue
                new = rows.members[row]
                record = self._line(rows.actions[row], new, block, reader, out)
                if record is not None:
                    records.append(record)
                    numbers.append(row)
        out.check(records, Places(rows.batch, numbers))

    def _at_once(
        self, rows: _Rows, run: NDArray[np.int64], block: Block, reader: OldLines, out: Out
    ) -> NDArray[np.int64]:
        """Write changed rows of a block, as far as that is certain; gives their numbers."""
        chosen = run[rows.changed[run]]
        nobody = chosen[:0]
        if len(chosen) < _FEW or rows.wrong:
            return nobody
        codes = rows.codes[chosen]
        lines = reader.array(block, codes)
        if lines is None:
            return nobody
        indexes = pa.array(chosen)
        new = [
            NewValues(one.name, one.is_set[chosen], one.texts.take(indexes))
            for one in rows.changes.columns
        ]
        found = patched_lines(lines, new, self.target.stamp)
        done = chosen[found.rows]
        if not out.allows_all(text_bytes.written(found.records).tobytes()):
            records = [record[:-1] for record in found.records.to_pylist()]
            out.check(records, Places(rows.batch, done.tolist()))
        out.add_new(found.lines.to_pylist(), lambda row: rows.position(int(done[row])))
        return done

    def _line(
        self, action: _Action, new: Members, block: Block, reader: OldLines, out: Out
    ) -> bytes | None:
        """Write one row; gives its record where that is a new one."""
        target = self.target
        if target.dry_run and action.keeps_record:
            return None
        position = (action.block, action.row)
        line = reader.line(block, position)
        under, head = reader.under, reader.schema_line
        record = None
        if action.deleted:
            under, head = self.deletions.get(under, (under, head))
            line = messages.as_deletion(line, target.stamp)
        elif action.changed:
            line = patched(line, {**reader.respelled(line, position), **new}, target.stamp)
            under, head = target.schema_hash, reader.new_schema_line
            record = messages.record_of(line)
        elif (written := self.defaults.get(under)) and (said := written.members(action.block)):
            line, under, head = patched(line, said), written.hash, written.schema_line
        if target.version is not None:
            line = messages.with_version(line, target.version)
        out.add(under, head, line, position)
        return record


_FEW = 16
"""Rows of a block that are not worth being looked at together."""


@dataclass
class _Rows:
    """Rows of one batch.

    Attributes:
        batch: The batch.
        changes: What they set.
        wrong: Those that cannot be taken, by their indexes.
    """

    batch: pa.RecordBatch
    changes: Changes
    wrong: set[int]

    @cached_property
    def blocks(self) -> NDArray[np.int64]:
        """The block that each came in."""
        return self.batch.column("block").to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """Their positions, as ``positions.codes`` has them."""
        return positions.codes(self.blocks, self.batch.column("row").to_numpy())

    @cached_property
    def changed(self) -> NDArray[np.bool_]:
        """A mask of those that are changed, and not deleted."""
        deleted = pc.fill_null(pc.equal(self.batch.column("status"), DELETED), False)
        is_changed = pc.and_not(self.batch.column("changed").is_valid(), deleted)
        return is_changed.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    @cached_property
    def actions(self) -> list[_Action]:
        """The action on each."""
        columns = [self.batch.column(name).to_pylist() for name in ("block", "row", "status")]
        columns.append(self.batch.column("changed").is_valid().to_pylist())
        return [
            _Action(block, row, status == DELETED, changed)
            for block, row, status, changed in zip(*columns, strict=True)
        ]

    @cached_property
    def members(self) -> list[Members]:
        """The members that each sets, as ``members.patched`` takes them."""
        return self.changes.members

    def position(self, row: int) -> tuple[int, int]:
        """Return a row's position."""
        return int(self.blocks[row]), self.batch.column("row")[row].as_py()


class _Action(NamedTuple):
    """The action on a row that is there."""

    block: int
    row: int
    deleted: bool
    changed: bool

    @property
    def keeps_record(self) -> bool:
        """Whether its record stays as it is, but for the mark of a deletion."""
        return self.deleted or not self.changed


# The lines that are there, of rows that a change writes again, block by block.


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
