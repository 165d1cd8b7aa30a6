"""The lines that a change writes: their target, and their problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from singerlake.format import messages
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.format.types import Columns
from singerlake.format.written import WrittenUnder
from singerlake.log.staging import StagedTable
from singerlake.rows.batches.problems import Problems, RowProblem
from singerlake.rows.batches.steps import Batches
from singerlake.rows.lines.block_builder import BlockBuilder
from singerlake.rows.lines.record_texts import RecordTexts
from singerlake.rows.validation.schema_check import SchemaCheck
from singerlake.storage.base import Store

WRITTEN = "first_block long, first_row int, rows long, block binary, problems binary"
"""A row a block, as ``line_writer.WRITTEN`` has it; and one with encoded problems, if there are."""


@dataclass
class Target:
    """The target of lines, and the rules for them.

    Attributes:
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


class Places:
    """The origin of rows that are asked for; their ids, if that is the table itself.

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


class Out:
    """The output of one task, and the problems in it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._staged = StagedTable(target.store, target.table, target.file_bytes)
        self._piles: dict[str, BlockBuilder] = {}
        self._origins: list[tuple[int, int]] = []
        self._check = SchemaCheck(target.under.check)
        self._schema_line = target.schema_line
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
            pile = self._piles[under] = BlockBuilder(schema_line, origin=origin)
        pile.add(line)
        if pile.full(self._target.block_rows):
            self._close(under)

    def add_new(
        self, lines: Sequence[bytes], origin: Callable[[int], tuple[int, int]] = lambda _: (0, 0)
    ) -> None:
        """Add the lines of records that are new, with their newlines.

        Args:
            origin: Tells the position of a line's row, before it was changed.
        """
        target, at = self._target, 0
        under = target.schema_hash
        while at < len(lines) and not (target.dry_run or self.problems.total):
            pile = self._piles.get(under)
            if pile is not None and pile.schema_line != self._schema_line:
                self._close(under)
                pile = None
            if pile is None:
                pile = self._piles[under] = BlockBuilder(self._schema_line, origin=origin(at))
            at += pile.extend(lines[at : at + target.block_rows - len(pile.lines)])
            if pile.full(target.block_rows):
                self._close(under)

    def allows_all(self, records: bytes) -> bool:
        """Tell whether it is seen at a glance that records, a line each, are as the schema says."""
        return self._check.allows_all(records)

    def check(self, records: Sequence[bytes], places: Places) -> None:
        """Hold records against the schema."""
        found = self._check.problems(records)
        self.note([one._replace(column=self._shown(one.column)) for one in found], places)

    def _shown(self, member: str | None) -> str | None:
        """Return the name that people see of a member."""
        return None if member is None else self._names.get(member, member)

    def note(self, found: Sequence[RowProblem], places: Places) -> set[int]:
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
