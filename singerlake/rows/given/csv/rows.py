"""The rows of CSV files for a table: which column is which, and each cell as its column's type."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from singerlake.errors import UsageError
from singerlake.format.type_list import names_text
from singerlake.format.types import BOOLEAN, INTEGER, STRING, Columns, Type
from singerlake.nearest import offer
from singerlake.rows.batches.problems import MOST, Problem, Problems, kept, rejected
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks
from singerlake.rows.given.csv import ranges as csv_ranges
from singerlake.rows.given.csv.decimals import pointed, pointed_as
from singerlake.rows.given.csv.fast import TextRows
from singerlake.rows.given.csv.file import CsvFile, wrong_delimiter
from singerlake.rows.given.csv.ranges import Range
from singerlake.rows.given.csv.reader import CsvReader
from singerlake.rows.given.rows import (
    DELETE_WORDS,
    DELETED,
    LINE,
    ROW_ID,
    ROW_VERSION,
    SOURCE,
    TYPES,
    given_batch,
    given_schema,
    problems_batch,
    read_delete,
    special_names,
)
from singerlake.rows.given.values import cell_summary, cells
from singerlake.rows.given.values.inference import Summary

COUNTS = "part int, quotes long, newlines long, line_start boolean"
"""What :class:`CsvCounter` puts out for each part."""
SUMMARIES = "part int, rows long, summaries binary, problems binary"
"""What :class:`CsvSummarizer` puts out for each part: a summary for each column of the file."""
_SPECIAL: dict[str, Type] = {ROW_ID: STRING, ROW_VERSION: INTEGER, DELETED: BOOLEAN}
_SUMMARIES = msgspec.msgpack.Decoder(list[Summary])


@dataclass(frozen=True)
class Layout:
    """Which of a file's columns are which of a table's.

    Attributes:
        cells: By the index of a table's column, rising, that of the file's.
        special: By the name of a column of ``given.rows.TYPES``, likewise.
    """

    cells: dict[int, int]
    special: dict[str, int]


def layouts(
    files: Sequence[CsvFile], columns: Columns, keys: Sequence[str] = (), *, is_new: bool = False
) -> list[Layout]:
    """Find out which columns of some files are which of a table's.

    Args:
        files: They are to name the same columns, in any order.
        columns: The table's.
        keys: Names of those that rows are found by; ``_row_id`` does as well.
        is_new: Whether the table is made of the files, and has whatever columns they name.

    Raises:
        RejectedRowsError: A header names a column twice, or one that is not there, or no key.
        UsageError: The files name different columns, or ``Dialect.names`` is no better.
    """
    found = [_layout(file, columns, keys, is_new=is_new) for file in files]
    for file, layout in zip(files[1:], found[1:], strict=True):
        differ = layout.cells.keys() ^ found[0].cells.keys()
        if differ:
            name = columns[min(differ)][0]
            raise UsageError(
                f"{files[0].source.name} and {file.source.name} do not have the same columns: "
                f"{name!r} is in one of them only; upload them one after the other"
            )
    return found


def check_names(files: Sequence[CsvFile]) -> None:
    """Make sure that files name each column once, and all the same ones: of a table to be made.

    Raises:
        RejectedRowsError: A header names a column twice, or one without a name.
        UsageError: The files name different columns, or ``Dialect.names`` is no better.
    """
    columns = tuple((name, STRING) for name in dict.fromkeys(files[0].names) if name)
    layouts(files, columns, is_new=True)


def _layout(file: CsvFile, columns: Columns, keys: Sequence[str], *, is_new: bool) -> Layout:
    special = special_names(name for name, _ in columns)
    meant = {special.row_id: ROW_ID, special.row_version: ROW_VERSION, special.delete: DELETED}
    own = {name: index for index, (name, _) in enumerate(columns)}
    problems = Problems()
    layout = Layout({}, {})
    for cell, name in enumerate(file.names):
        hint = "" if problems.total else _naming(file, is_new=is_new)
        if not name:
            _refuse(problems, file, None, f"column {cell + 1:,} has no name{hint}")
        elif name in file.names[:cell]:
            _refuse(problems, file, name, f"is there twice{hint}")
        elif name in own:
            layout.cells[own[name]] = cell
        elif name in meant:
            layout.special[meant[name]] = cell
        elif name != special.transaction:
            _refuse(problems, file, name, _unknown(file, name, own))
    lacking = [key for key in keys if key in own and own[key] not in layout.cells]
    if lacking and not problems.total and ROW_ID not in layout.special:
        _refuse(problems, file, lacking[0], "is part of the table's key, and must exist")
    if problems.total and file.dialect.names is not None:
        raise UsageError("; ".join(f"{p.column!r} {p.reason}" for p in problems.first))
    if problems.total:
        raise rejected(problems)
    return Layout(dict(sorted(layout.cells.items())), layout.special)


def _unknown(file: CsvFile, name: str, own: dict[str, int]) -> str:
    delimiter = wrong_delimiter(file.names, file.dialect.delimiter)
    if delimiter is not None:
        return (
            f"is not a column of the table: specify --delimiter {delimiter!r} if that separates "
            "the columns"
        )
    whole = file.dialect.delimiter.join(file.names)
    if not file.dialect.told and whole in own:
        return f"is not a column of the table, and {whole!r} is one: specify --delimiter ,"
    return f"is not a column of the table: {offer(name, list(own))}"


def _naming(file: CsvFile, *, is_new: bool) -> str:
    """How to name all columns of a file whose header does not, as words that follow."""
    if file.dialect.names is not None:
        return ""
    if not is_new and not file.names[0] and "" not in file.names[1:]:
        # The table has no column for it, whatever it is called.
        return (
            " (pandas and R write row names so), and the table has no such column: write the file "
            "without it, with index=False in pandas and row.names=FALSE in R"
        )
    named: list[str] = []
    for number, name in enumerate(file.names[:_MOST_NAMED], 1):
        plain = name or f"column_{number}"
        named.append(plain if plain not in named else f"{plain}_{number}")
    names = "A,B,…" if len(file.names) > _MOST_NAMED else shlex.quote(names_text(named))
    pandas = "" if file.names[0] else " (pandas and R write row names so)"
    return (
        f"{pandas}: name all columns with --skip {1 + file.dialect.skip} --columns {names}; if the "
        "header has several lines, skip them all"
    )


_MOST_NAMED = 30


def _refuse(problems: Problems, file: CsvFile, name: str | None, reason: str) -> None:
    problems.add(Problem(file.source.name, 1 + file.dialect.skip, name, None, reason))


@dataclass
class CsvCounter:
    """Counts what places the ranges of files; see :data:`COUNTS`.

    Attributes:
        files: The files.
        parts: The range of each task, not placed yet.
    """

    files: Sequence[CsvFile]
    parts: Sequence[Range]

    def __call__(self, numbers: Batches) -> Batches:
        """Count in the ranges whose numbers come in."""
        for number in block_tasks.numbers(numbers):
            part = self.parts[number]
            counts = csv_ranges.count(_within(self.files[part.source], part))
            yield pa.RecordBatch.from_pydict(
                {
                    "part": pa.array([number], pa.int32()),
                    "quotes": pa.array([counts.quotes], pa.int64()),
                    "newlines": pa.array([counts.newlines], pa.int64()),
                    "line_start": pa.array([counts.line_start]),
                }
            )


def _within(file: CsvFile, part: Range) -> Iterator[bytes]:
    at = part.start
    for chunk in file.text(at, part.stop):
        yield chunk if part.stop is None else chunk[: part.stop - at]
        at += len(chunk)
        if part.stop is not None and at >= part.stop:
            return


@dataclass
class CsvSummarizer:
    """Sums up what the columns of files hold; see :data:`SUMMARIES`.

    Attributes:
        files: The files; all have the columns of the first, in any order.
        parts: The range of each task.
        most: Problems that a task sends.
    """

    files: Sequence[CsvFile]
    parts: Sequence[Range]
    most: int = MOST

    def __call__(self, numbers: Batches) -> Batches:
        """Sum up the ranges whose numbers come in."""
        for number in block_tasks.numbers(numbers):
            part = self.parts[number]
            file = self.files[part.source]
            reader = CsvReader(file, part, self.most)
            summaries = [Summary() for _ in file.names]
            count = 0
            for rows in reader:
                count += len(rows)
                for summary, texts in zip(summaries, rows.cells, strict=True):
                    cell_summary.add_cells(summary, pointed(texts, file.dialect))
            by_name = dict(zip(file.names, summaries, strict=True))
            ordered = [by_name[name] for name in self.files[0].names]
            yield pa.RecordBatch.from_pydict(
                {
                    "part": pa.array([number], pa.int32()),
                    "rows": pa.array([count], pa.int64()),
                    "summaries": pa.array([msgspec.msgpack.encode(ordered)], pa.binary()),
                    "problems": pa.array([reader.problems.encode()], pa.binary()),
                }
            )


def decode_summaries(data: bytes) -> list[Summary]:
    """Decode the summaries that a part of :class:`CsvSummarizer` sent."""
    return _SUMMARIES.decode(data)


@dataclass
class CsvRows:
    """Reads rows into the columns of a table: batches of ``given.rows.given_schema``.

    Attributes:
        files: The files.
        layouts: Which of their columns are which of the table's.
        parts: The range of each task.
        columns: The table's columns.
        most: Problems that a task sends.
    """

    files: Sequence[CsvFile]
    layouts: Sequence[Layout]
    parts: Sequence[Range]
    columns: Columns
    most: int = MOST

    def __call__(self, numbers: Batches) -> Batches:
        """Read the ranges whose numbers come in."""
        schema = given_schema(self.columns, list(self.layouts[0].cells))
        for number in block_tasks.numbers(numbers):
            part = self.parts[number]
            reader = CsvReader(self.files[part.source], part, self.most)
            problems = Problems()
            for rows in self.rows(reader, part.source):
                yield self._batch(rows, part.source, schema, problems)
            if reader.problems.total or problems.total:
                yield problems_batch(schema, _together(reader.problems, problems, self.most))

    def rows(self, reader: CsvReader, source: int) -> Iterator[TextRows]:
        """Give the rows of a range of one of the files."""
        del source
        yield from reader

    def column(self, index: int, texts: pa.Array) -> tuple[dict[str, pa.Array], cells.Reasons]:
        """Turn texts into what a batch has of a column, by name; and what is wrong with them."""
        array, reasons = cells.read(texts, self.columns[index][1])
        return {alias(index): array}, reasons

    def _batch(
        self, rows: TextRows, source: int, schema: pa.Schema, problems: Problems
    ) -> pa.RecordBatch:
        file, layout = self.files[source], self.layouts[source]

        def noted(cell: int, reasons: cells.Reasons) -> None:
            for row, reason in reasons.items():
                value = kept(rows.cells[cell][row].as_py())
                line = int(rows.lines[row])
                name = file.names[cell]
                problems.add(Problem(file.source.name, line, name, value, reason), self.most)

        named: dict[str, pa.Array] = {}
        for index, cell in layout.cells.items():
            texts = pointed_as(rows.cells[cell], self.columns[index][1], file.dialect)
            arrays, reasons = self.column(index, texts)
            noted(cell, reasons)
            named |= arrays
        known = {
            SOURCE: pa.repeat(pa.scalar(source, pa.int32()), len(rows)),
            LINE: pa.array(rows.lines),
        }
        for name, cell in layout.special.items():
            read = _deletions if name == DELETED else cells.read
            known[name], reasons = read(rows.cells[cell], _SPECIAL[name])
            noted(cell, reasons)
        fields = [pa.field(name, array.type) for name, array in named.items()]
        own = pa.schema([*fields, *(schema.field(name) for name in TYPES)])
        return given_batch(own, list(named.values()), known)


def _deletions(texts: pa.Array, type_: Type) -> tuple[pa.Array, cells.Reasons]:
    """As :func:`cells.read` of a boolean, with words that say what one is for."""
    del type_
    distinct = texts.dictionary_encode()
    words = [read_delete(word) for word in distinct.dictionary.to_pylist()]
    found = pa.array(words, pa.bool_()).take(distinct.indices)
    wrong = found.is_null().to_numpy(zero_copy_only=False) & texts.is_valid().to_numpy(
        zero_copy_only=False
    )
    return found, dict.fromkeys(wrong.nonzero()[0].tolist(), DELETE_WORDS)


def _together(written: Problems, typed: Problems, most: int) -> Problems:
    """Problems of one range, in the order of lines."""
    first = sorted([*written.first, *typed.first], key=lambda problem: problem.line or 0)
    total = written.total + typed.total
    return Problems(total, first[:most], written.misquoted, written.unchecked)
