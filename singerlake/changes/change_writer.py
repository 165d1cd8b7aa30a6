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

from singerlake.changes.changed_blocks import Out, Places, Target
from singerlake.changes.old_lines import OldLines
from singerlake.format import messages
from singerlake.format.laid import BlockColumns
from singerlake.format.log import Block
from singerlake.records.blocks import positions
from singerlake.records.blocks.defaults import ColumnDefault
from singerlake.records.changes.merge_terms import DELETED
from singerlake.records.columns import text_bytes
from singerlake.records.lines.members import patched
from singerlake.records.lines.patched_lines import NewValues, patched_lines
from singerlake.records.lines.record_texts import Changes
from singerlake.records.lines.respelling import Members
from singerlake.records.lines.written_defaults import DefaultsWritten
from singerlake.records.rows.steps import Batches


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
        """Which of them are changed, and not deleted."""
        deleted = pc.fill_null(pc.equal(self.batch.column("status"), DELETED), False)
        is_changed = pc.and_not(self.batch.column("changed").is_valid(), deleted)
        return is_changed.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    @cached_property
    def actions(self) -> list[_Action]:
        """What becomes of each."""
        columns = [self.batch.column(name).to_pylist() for name in ("block", "row", "status")]
        columns.append(self.batch.column("changed").is_valid().to_pylist())
        return [
            _Action(block, row, status == DELETED, changed)
            for block, row, status, changed in zip(*columns, strict=True)
        ]

    @cached_property
    def members(self) -> list[Members]:
        """What each sets, as ``members.patched`` takes it."""
        return self.changes.members

    def position(self, row: int) -> tuple[int, int]:
        """Return a row's position."""
        return int(self.blocks[row]), self.batch.column("row")[row].as_py()


class _Action(NamedTuple):
    """What becomes of a row that is there."""

    block: int
    row: int
    deleted: bool
    changed: bool

    @property
    def keeps_record(self) -> bool:
        """Whether its record stays as it is, but for the mark of a deletion."""
        return self.deleted or not self.changed
