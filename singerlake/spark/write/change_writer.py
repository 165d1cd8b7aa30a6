"""Rows that a change inserts, changes or deletes, as lines of new blocks, on the executors.

The line of a changed row is the one that was there, with other members in its record: what
nobody asked to change keeps its bytes. Every record that is new, in whole or in part, is held
against the schema it is written under before a task publishes anything, and a dry run goes the
same way without writing, so that it finds the same problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import pyarrow as pa

from singerlake.format import block as format_block
from singerlake.format import messages
from singerlake.format.laid import BlockColumns
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.format.types import Columns
from singerlake.format.written import WrittenUnder
from singerlake.records import block_tasks
from singerlake.records.decoding import BlockSpec
from singerlake.records.defaults import ColumnDefault
from singerlake.records.members import patched
from singerlake.records.merge_terms import DELETED
from singerlake.records.positions import block_holding
from singerlake.records.problems import Problems, RowProblem
from singerlake.records.record_texts import RecordTexts
from singerlake.records.respelling import Members, Respelling, older
from singerlake.records.schema_check import SchemaCheck
from singerlake.records.steps import Batches
from singerlake.records.written_defaults import DefaultsWritten
from singerlake.spark.write.line_writer import lines_by_position
from singerlake.spark.write.pile import Pile
from singerlake.spark.write.routing import MARK
from singerlake.storage.base import Store
from singerlake.transactions.blocks import read_block
from singerlake.transactions.staging import StagedTable

WRITTEN = "first_block long, first_row int, rows long, block binary, problems binary"
"""A row a block, as ``line_writer.WRITTEN`` has it; and one with encoded problems, if there are."""


@dataclass
class Target:
    """Where lines go, and what they must be.

    Attributes:
        store: The lake's store.
        table: The table.
        under: The schema that records are written under, and what is asked of them.
        schema_hash: That schema's hash.
        columns: The table's columns.
        cells: Indexes of those whose cells come.
        version: The Singer version that the lines of rows which are there get; None where they
            keep theirs.
        new_version: That of new records: the one that is active, so that the tap's next
            activation of it leaves them.
        stamp: The ``time_extracted`` of all lines.
        sources: What messages call the places that rows come from.
        block_rows: Rows in a block.
        file_bytes: Compressed size of a file.
        dry_run: Whether nothing is written.
    """

    store: Store
    table: TableName
    under: WrittenUnder
    schema_hash: str
    columns: Columns
    cells: tuple[int, ...]
    version: int | None
    new_version: int | None
    stamp: str
    sources: tuple[str, ...]
    block_rows: int
    file_bytes: int
    dry_run: bool

    @property
    def schema_line(self) -> bytes:
        """The SCHEMA line of its blocks."""
        return messages.schema_line(self.table.stream, self.under.entry)

    def texts(self, *, hidden: bool = False) -> RecordTexts:
        """Make what writes cells as members; of columns too that nobody sees, if asked."""
        columns = (*self.columns, *self.under.hidden) if hidden else self.columns
        return RecordTexts(columns, self.under.shown, members=self.under.members)


class _Places:
    """Where rows come from that are asked for; their ids, where that is the table itself.

    Few are ever asked for, so that they are looked up one by one.

    Args:
        batch: Has them.
        rows: Those that count, by their indexes in it; None for all.
    """

    def __init__(self, batch: pa.RecordBatch, rows: Sequence[int] | None = None) -> None:
        self._columns = [batch.column(name) for name in ("source", "line", "row_id")]
        self._rows = rows

    def __getitem__(self, number: int) -> tuple[int, int | None, str | None]:
        row = number if self._rows is None else self._rows[number]
        source, line, row_id = (column[row].as_py() for column in self._columns)
        return source, line, row_id


class _Out:
    """What one task writes, and what is wrong with it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._staged = StagedTable(target.store, target.table, target.file_bytes)
        self._piles: dict[str, Pile] = {}
        self._origins: list[tuple[int, int]] = []
        self._check = SchemaCheck(target.under.check)
        self._names = {member: name for name, member in target.under.members.items()}
        self.problems = Problems()

    def add(
        self, under: str, schema_line: bytes, line: bytes, origin: tuple[int, int] = (0, 0)
    ) -> None:
        """Add a line to what is written under a schema."""
        if self._target.dry_run or self.problems.total:
            return  # nothing is published, so nothing need be compressed
        pile = self._piles.get(under)
        if pile is not None and pile.schema_line != schema_line:
            self._close(under)
            pile = None
        if pile is None:
            pile = self._piles[under] = Pile(schema_line, origin=origin)
        pile.add(line)
        if pile.full(self._target.block_rows):
            self._close(under)

    def add_new(self, lines: Sequence[bytes]) -> None:
        """Add the lines of new records, with their newlines."""
        under, at = self._target.schema_hash, 0
        while at < len(lines) and not (self._target.dry_run or self.problems.total):
            pile = self._piles.get(under)
            if pile is None:
                pile = self._piles[under] = Pile(self._target.schema_line)
            at += pile.extend(lines[at : at + self._target.block_rows - len(pile.lines)])
            if pile.full(self._target.block_rows):
                self._close(under)

    def check(self, records: Sequence[bytes], places: _Places) -> None:
        """Hold records against the schema."""
        found = self._check.problems(records)
        self.note([one._replace(column=self._shown(one.column)) for one in found], places)

    def _shown(self, member: str | None) -> str | None:
        """What people call a member."""
        return None if member is None else self._names.get(member, member)

    def note(self, found: Sequence[RowProblem], places: _Places) -> set[int]:
        """Note what is wrong with rows, by where they come from; gives the rows."""
        for one in found:
            source, line, row_id = places[one.row]
            self.problems.add(one.at(self._target.sources[source], line, row_id))
        return {one.row for one in found}

    def finish(self) -> Batches:
        """Publish what was written, unless something is wrong; and say which."""
        try:
            blocks: list[Block] = []
            if not self.problems.total:
                for under in list(self._piles):
                    self._close(under)
                self._staged.publish()
                blocks = self._staged.numbered(0)
        finally:
            self._staged.discard()
        rows: list[tuple[int, int, int, bytes | None, bytes | None]] = [
            (*origin, block.rows, msgspec.json.encode(block), None)
            for origin, block in zip(self._origins, blocks, strict=False)
        ]
        if self.problems.total:
            rows.append((0, 0, 0, None, self.problems.encode()))
        if rows:
            columns = zip(*rows, strict=True)
            arrays = [pa.array(c, t) for c, t in zip(columns, _TYPES, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=_NAMES)

    def _close(self, under: str) -> None:
        pile = self._piles.pop(under)
        self._staged.add(under, *pile.block())
        self._origins.append(pile.origin)

    def discard(self) -> None:
        """Drop what is staged."""
        self._staged.discard()


_NAMES = ["first_block", "first_row", "rows", "block", "problems"]
_TYPES = [pa.int64(), pa.int32(), pa.int64(), pa.binary(), pa.binary()]


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
        out = _Out(target)
        try:
            for batch in rows:
                records, problems = texts.records(batch, target.cells, batch.column("changed"))
                wrong = out.note(problems, _Places(batch))
                good = [row for row in range(len(records)) if row not in wrong]
                sound = [records[row] for row in good] if wrong else records
                out.check(sound, _Places(batch, good))
                out.add_new([before + record + after for record in sound])
            yield from out.finish()
        finally:
            out.discard()


@dataclass
class ChangeWriter:
    """Writes rows that are there again: changed, as deletions, or as they are.

    A partition holds what ``routing.by_blocks`` brings: positions, ``status``, ``changed`` (null
    for a row that stays as it is), the cells, ``source``, ``line`` and ``row_id``.

    Attributes:
        target: Where lines go.
        blocks: The blocks that rows come from, where they do not come with the task's mark.
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
        out = _Out(self.target)
        try:
            self._write(actions, out)
            yield from out.finish()
        finally:
            out.discard()

    def _write(self, actions: Batches, out: _Out) -> None:
        target = self.target
        texts, keys = target.texts(), target.under.shown.key_properties
        named = [i for i in target.cells if target.columns[i][0] not in keys]
        reader = _Lines(self)
        for batch in actions:
            changed = batch.column("changed")
            nothing = pa.scalar([], changed.type)
            members, problems = texts.changes(batch, named, changed.fill_null(nothing))
            wrong = out.note(problems, _Places(batch))
            records: list[bytes] = []
            rows: list[int] = []
            asked = zip(_actions(batch), members, strict=True)
            for row, (action, new) in enumerate(asked):
                if action.row == MARK:
                    reader.blocks = block_tasks.decode(action.work)
                elif (
                    row not in wrong
                    and (record := self._line(action, new, reader, out)) is not None
                ):
                    records.append(record)
                    rows.append(row)
            out.check(records, _Places(batch, rows))

    def _line(
        self, action: _Action, new: dict[str, bytes | None], reader: _Lines, out: _Out
    ) -> bytes | None:
        """Write one row; gives its record where that is a new one."""
        target = self.target
        if target.dry_run and action.keeps_record:
            return None
        position = (action.block, action.row)
        line = reader.line(*position)
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


class _Action(NamedTuple):
    """What becomes of a row that is there."""

    block: int
    row: int
    deleted: bool
    changed: bool
    work: bytes

    @property
    def keeps_record(self) -> bool:
        """Whether its record stays as it is, but for the mark of a deletion."""
        return self.deleted or not self.changed


class _Lines:
    """The lines of blocks, by position: rows come in order, so a block is read once."""

    def __init__(self, writer: ChangeWriter) -> None:
        self._writer = writer
        self._texts = writer.target.texts(hidden=True)
        self._number = 0
        self._text = b""
        self._block: Block | None = None
        self._lines: dict[tuple[int, int], bytes] = {}
        self._places: dict[tuple[int, int], int] = {}
        self._respelling: Respelling | None = None
        self._older = False
        self.blocks = writer.blocks
        self.under = ""
        self.schema_line = b""
        self.new_schema_line = writer.target.schema_line

    def line(self, version: int, ordinal: int) -> bytes:
        """Return the line at a position, without its newline."""
        if version == self._number:  # the next row of the same block, nearly always
            return self._lines[version, ordinal]
        block = block_holding(self.blocks, version)
        if block.number != self._number:
            target = self._writer.target
            self._text = read_block(target.store, target.table, block)
            self._number, self._block = block.number, block
            self._older = older(block, self._writer.shown)
            self._lines = lines_by_position(self._text, block)
            self._places.clear()
            self.schema_line = format_block.lines(self._text)[0]
            self.under = block.schema_hash
        return self._lines[version, ordinal]

    def respelled(self, line: bytes, position: tuple[int, int]) -> Members:
        """Spell what the new schema holds otherwise than the line that was just read."""
        target, block = self._writer.target, self._block
        if block is None:
            return {}
        if self.under == target.schema_hash and not self._older:
            return {}
        if not self._places:
            own = self._writer.sources[self.under]
            spec = BlockSpec(
                where=f"block {block.number} of {target.table}",
                block=block,
                source=own.columns,
                target=self._texts.columns,
                members=own.members,
                defaults=self._writer.shown,
            )
            self._respelling = Respelling.of_block(self._text, spec, self._texts)
            self._places = {place: number for number, place in enumerate(self._lines)}
        if self._respelling is None:
            return {}
        return self._respelling.members(self._places[position], line)


def _actions(batch: pa.RecordBatch) -> Iterator[_Action]:
    columns = [batch.column(name).to_pylist() for name in ("block", "row", "status", "work")]
    columns.append(batch.column("changed").is_valid().to_pylist())
    for block, row, status, work, changed in zip(*columns, strict=True):
        yield _Action(block, row, status == DELETED, changed, work)
