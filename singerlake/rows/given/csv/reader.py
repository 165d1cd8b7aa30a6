"""The records of a range of a CSV file, as texts: the fast way where it will do."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from singerlake.format.type_list import names_text
from singerlake.rows.batches.problems import MOST, Problem, Problems, kept
from singerlake.rows.given.csv import fast as csv_fast
from singerlake.rows.given.csv import safe_cells
from singerlake.rows.given.csv.dialect import UTF_8
from singerlake.rows.given.csv.exact import Record, records
from singerlake.rows.given.csv.fast import TextRows
from singerlake.rows.given.csv.file import CsvFile
from singerlake.rows.given.csv.ranges import Block, Cutter, Range

_SMALL = 32 << 10
"""Bytes of a block that is not cut any further to find those of its records that need the exact
way, which is thirty times as slow."""
_PARTS = 16
_AT_ONCE = 10_000
"""Records that are read at once in the exact way."""


@dataclass
class CsvReader:
    """Reads the records that begin in a range of a file.

    Attributes:
        file: The file.
        place: The range, placed.
        most: Problems to keep; further ones are counted.
        problems: What was found wrong so far. Such records are left out. Where a quote is out of
            place, the ranges behind this one may begin elsewhere than they seem to.
    """

    file: CsvFile
    place: Range
    most: int = MOST
    problems: Problems = field(default_factory=Problems)

    def __iter__(self) -> Iterator[TextRows]:
        """Read the records, in order."""
        for rows in self._read():
            cells = [self._safe(index, rows) for index in range(len(rows.cells))]
            yield TextRows(cells, rows.lines)

    def _safe(self, index: int, rows: TextRows) -> pa.Array:
        cells, undecided = safe_cells.read(rows.cells[index], self.file.dialect)
        for row in undecided:
            name, value = self.file.names[index], kept(cells[row].as_py())
            line = int(rows.lines[row])
            problem = Problem(self.file.source.name, line, name, value, safe_cells.UNDECIDED)
            self.problems.add(problem, self.most)
        return cells

    def _read(self) -> Iterator[TextRows]:
        file, place = self.file, self.place
        cutter = Cutter(place, file.text(place.start, place.stop))
        for whole in cutter.blocks():
            waiting = deque([whole])
            while waiting:
                block = waiting.popleft()
                rows = None
                if not block.too_long:
                    rows = csv_fast.read(block.data, block.line, len(file.names), file.dialect)
                if rows is not None:
                    yield rows
                elif len(parts := _cut(block)) > 1:
                    waiting.extendleft(reversed(parts))
                elif not self._is_misquoted(block):
                    yield from self._exactly(block, iter(()))
                else:
                    self._note_misquoted()
                    rest = (one.data for one in waiting)
                    yield from self._exactly(block, chain(rest, cutter.rest()))
                    return

    def _note_misquoted(self) -> None:
        source, stop = self.file.source, self.place.stop
        self.problems.misquoted.append(source.name)
        if stop is not None and stop < source.size:
            self.problems.unchecked.append(source.name)

    def _is_misquoted(self, block: Block) -> bool:
        """Whether a quote is out of place in a block, so that others than its own may follow."""
        found = records(iter((block.data,)), block.line, self.file.dialect)
        return block.too_long or any(f.misquoted for record in found for f in record.faults)

    def _exactly(self, block: Block, rest: Iterator[bytes]) -> Iterator[TextRows]:
        """Read all records from a block to the range's end, whatever its quotes said of it."""
        stop = self.place.stop
        found = records(chain((block.data,), rest), block.line, self.file.dialect)
        while some := list(islice(found, _AT_ONCE)):
            within = [r for r in some if stop is None or block.start + r.start < stop]
            rows = self._texts(within)
            if len(rows):
                yield rows
            if len(within) < len(some):
                return

    def _texts(self, found: list[Record]) -> TextRows:
        dialect = self.file.dialect
        codec = dialect.codec if dialect.splittable else UTF_8
        null = dialect.null.encode(codec)
        rows: list[list[str | None]] = []
        lines: list[int] = []
        for record in found:
            if self._is_whole(record, codec):
                rows.append(
                    [
                        None if bare and cell == null else cell.decode(codec)
                        for cell, bare in zip(record.cells, record.bare, strict=True)
                    ]
                )
                lines.append(record.line)
        columns = zip(*rows, strict=True) if rows else ((),) * len(self.file.names)
        cells = [pa.array(column, pa.string()) for column in columns]
        return TextRows(cells, np.array(lines, np.int64))

    def _is_whole(self, record: Record, codec: str) -> bool:
        """Whether nothing is wrong with a record; else it is noted."""
        before = self.problems.total
        for fault in record.faults:
            self._note(
                record, fault.cell, fault.value.decode(codec, "backslashreplace"), fault.reason
            )
        count, width = len(record.cells), len(self.file.names)
        if not record.faults and count != width:
            where = "--columns names" if self.file.dialect.names else "the header has"
            blank = record.cells == [b""] and record.bare == [True]
            found = "is blank" if blank else f"has {count:,} cell{'s' * (count != 1)}"
            # On the first line only: where it is so, it is so on all.
            is_first = record.line == self.file.line
            hint = self._of_one_more(record) if is_first and count == width + 1 else ""
            self._note(record, None, None, f"{found}, where {where} {width:,}{hint}")
        for index, cell in enumerate(record.cells):
            try:
                cell.decode(codec)
            except UnicodeDecodeError:
                value = cell.decode(codec, "backslashreplace")
                self._note(
                    record,
                    index,
                    value,
                    f"is not in {self.file.dialect.encoding}: set its encoding with --encoding",
                )
        return self.problems.total == before

    def _of_one_more(self, record: Record) -> str:
        """Say what a record of one cell more than there are names may be."""
        if record.cells[-1] == b"":
            return ": the line ends in a delimiter, and then in an empty cell"
        if self.file.dialect.names is not None:
            return ""
        names = shlex.quote(names_text(["row", *self.file.names]))
        skip = 1 + self.file.dialect.skip
        return (
            ": if the first is a row name, as in a file of R's write.table, name all columns with "
            f"--skip {skip} --columns {names}, or write the file with row.names=FALSE"
        )

    def _note(self, record: Record, index: int | None, value: str | None, reason: str) -> None:
        names = self.file.names
        column = names[index] if index is not None and index < len(names) else None
        problem = Problem(
            self.file.source.name,
            record.line,
            column,
            None if value is None else kept(value),
            reason,
        )
        self.problems.add(problem, self.most)


def _cut(block: Block) -> list[Block]:
    """Cut a block into smaller ones, as far as its records allow."""
    if block.too_long or len(block.data) <= _SMALL:
        return [block]
    size = max(_SMALL, -(-len(block.data) // _PARTS))
    data = (block.data[at : at + size] for at in range(0, len(block.data), size))
    return list(Cutter(Range(0, block.start, None, line=block.line), data).blocks())
