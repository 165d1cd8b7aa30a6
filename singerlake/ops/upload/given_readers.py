"""Readers of given files: which tasks read them, what their columns hold, and their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from singerlake.engine.base import Engine
from singerlake.engine.work import Work
from singerlake.errors import InputError, UsageError
from singerlake.format.types import Columns
from singerlake.log.capabilities import open_for_writing
from singerlake.log.table_state import TableState
from singerlake.nearest import offer
from singerlake.ops.change.row_set import GivenRows, RowSet
from singerlake.ops.upload.csv_files import CsvFiles
from singerlake.rows.batches.problems import Problems, decode, rejected
from singerlake.rows.batches.steps import Step
from singerlake.rows.blocks.exact_decoding import DELETED_AT
from singerlake.rows.given.arrow.parquet_rows import ParquetRows, ParquetSource
from singerlake.rows.given.csv.decimals import as_written, comma_advice
from singerlake.rows.given.csv.dialect import Dialect
from singerlake.rows.given.csv.guess import GuessedRows, Summed
from singerlake.rows.given.files import JSONL, PARQUET, GivenFile, within_reach
from singerlake.rows.given.json.line_ranges import Range, check_encoding, first_lines, ranges_of
from singerlake.rows.given.json.lines import SUMMARIES, EndCounter, JsonLines, JsonSummarizer
from singerlake.rows.given.rows import special_names
from singerlake.rows.given.values.cell_summary import is_no_value
from singerlake.rows.given.values.inference import (
    MOST_MEMBERS,
    Spec,
    Summary,
    cell_spec,
    in_order,
    json_spec,
    merge_all,
    why_text,
)
from singerlake.rows.state.shape import shape_of
from singerlake.storage.base import Store

ENDS = "part int, ends long"
_SUMMARY = msgspec.msgpack.Decoder(Summary)


@dataclass(frozen=True)
class Inferred:
    """What files hold.

    Attributes:
        specs: The JSON Schema of each column, null not among its values, in order.
        nulls: How many rows have no value, by column, where that is known.
        rows: How many rows there are.
        empty: How many rows have an empty text, by column, of CSV.
        texts: Why a column is text whose cells are numbers, by its name.
    """

    specs: Mapping[str, Spec]
    nulls: Mapping[str, int]
    rows: int
    empty: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


class GivenReader(ABC):
    """Reads files of one format."""

    def __init__(self, files: Sequence[GivenFile]) -> None:
        self.files = files
        self.sources = [file.source for file in files]

    @property
    def names(self) -> tuple[str, ...]:
        """What messages call the files."""
        return tuple(file.name for file in self.files)

    @property
    def work(self) -> Work:
        """What it takes to read them."""
        return Work(sum(source.size for source in self.sources))

    @abstractmethod
    def infer(self, engine: Engine[Any]) -> Inferred:
        """Find out what all rows of the files hold.

        Raises:
            RejectedRowsError: Some are no rows.
        """

    @abstractmethod
    def indexes(self, columns: Columns) -> Sequence[int]:
        """Return the indexes of the table's columns that the files may name, rising."""

    @abstractmethod
    def step(self, engine: Engine[Any], columns: Columns) -> tuple[Step, int]:
        """Return what reads the rows, and into how many tasks that is split.

        Args:
            engine: Reads the files.
            columns: The table's.
        """


class JsonReader(GivenReader):
    """Reads JSON lines.

    Raises:
        InputError: A file is in another encoding than UTF-8.
    """

    _ends: Sequence[int] | None = None

    def __init__(self, files: Sequence[GivenFile]) -> None:
        super().__init__(files)
        for source in self.sources:
            check_encoding(source)

    @cached_property
    def parts(self) -> list[Range]:
        """The range of each task."""
        return ranges_of(self.sources)

    def infer(self, engine: Engine[Any]) -> Inferred:
        """Read them once; see :class:`GivenReader`."""
        summarizer = JsonSummarizer(self.sources, self.parts)
        source = engine.source([b""] * len(self.parts))
        rows = engine.collect(engine.map(source, summarizer, SUMMARIES))
        rows.sort(key=lambda row: row["part"])
        self._ends = [row["ends"] for row in rows]
        problems = Problems()
        for first, row in zip(first_lines(self.parts, self._ends), rows, strict=True):
            found = decode(row["problems"])
            moved = [msgspec.structs.replace(p, line=(p.line or 0) + first) for p in found.first]
            problems.merge(Problems(found.total, moved))
        if problems.total:
            raise rejected(problems)
        parts = (_SUMMARY.decode(row["summary"]) for row in rows)
        whole = merge_all(parts)
        if whole.crowded:
            raise UsageError(
                f"{self.names[0]} has more than {MOST_MEMBERS:,} different names in its objects: "
                "put names that are values into one member"
            )
        count = sum(row["rows"] for row in rows)
        members = {name: whole.members[name].summary for name in in_order(whole.members)}
        return Inferred(
            {name: json_spec(member) for name, member in members.items()},
            {name: count - member.values for name, member in members.items()},
            count,
        )

    def indexes(self, columns: Columns) -> Sequence[int]:
        """Return indexes; see :class:`GivenReader`."""
        return range(len(columns))

    def step(self, engine: Engine[Any], columns: Columns) -> tuple[Step, int]:
        """Return the step; see :class:`GivenReader`."""
        if self._ends is None:
            counter = EndCounter(self.sources, self.parts)
            source = engine.source([b""] * len(self.parts))
            rows = engine.collect(engine.map(source, counter, ENDS))
            self._ends = [row["ends"] for row in sorted(rows, key=lambda row: row["part"])]
        firsts = first_lines(self.parts, self._ends)
        return JsonLines(self.sources, self.parts, firsts, columns), len(self.parts)


class ParquetReader(GivenReader):
    """Reads Parquet files."""

    @cached_property
    def opened(self) -> list[ParquetSource]:
        """The files, with their footers."""
        return [ParquetSource(source) for source in self.sources]

    @property
    def work(self) -> Work:
        """What it takes to read them, inflated; see :class:`GivenReader`."""
        cells = sum(file.rows * len(file.names) for file in self.opened)
        return Work(sum(file.inflated for file in self.opened), cells)

    def infer(self, engine: Engine[Any]) -> Inferred:
        """Read them once; see :class:`GivenReader`."""
        del engine  # the files say it themselves
        specs = self.opened[0].specs()
        for file in self.opened[1:]:
            other = file.specs()
            if other != specs:
                name = next(n for n in [*specs, *other] if specs.get(n) != other.get(n))
                raise UsageError(
                    f"{self.names[0]} and {file.source.name} differ in column {name!r}: upload "
                    "them one after the other"
                )
        return Inferred(specs, {}, sum(file.rows for file in self.opened))

    def indexes(self, columns: Columns) -> Sequence[int]:
        """Return indexes; see :class:`GivenReader`."""
        present = {name for file in self.opened for name in file.names}
        return [index for index, (name, _) in enumerate(columns) if name in present]

    def step(self, engine: Engine[Any], columns: Columns) -> tuple[Step, int]:
        """Return the step; see :class:`GivenReader`."""
        del engine
        groups = [group for n, file in enumerate(self.opened) for group in file.groups(n)]
        return ParquetRows(self.sources, groups, columns, self.indexes(columns)), len(groups)


class CsvReader(GivenReader):
    """Reads CSV and TSV."""

    def __init__(self, files: Sequence[GivenFile], dialect: Dialect) -> None:
        super().__init__(files)
        self._dialect = dialect
        self._opened = CsvFiles(self.sources, dialect)

    def infer(self, engine: Engine[Any]) -> Inferred:
        """Read them once; see :class:`GivenReader`."""
        self._opened.check_names()
        return self.inferred(*self._opened.summaries(engine))

    def inferred(self, summaries: Mapping[str, Summary], rows: int) -> Inferred:
        """Say what columns hold of which there are such summaries, and how many rows."""
        return Inferred(
            {name: cell_spec(summary) for name, summary in summaries.items()},
            {name: summary.nulls for name, summary in summaries.items()},
            rows,
            {name: summary.empty for name, summary in summaries.items()},
            {name: why for name, one in summaries.items() if (why := self._why(one)) is not None},
        )

    def _why(self, summary: Summary) -> str | None:
        """Say why a column is text that holds something else, and what to do about it."""
        why, odd = why_text(summary), summary.odd
        if why is None or odd is None:
            return why
        written = as_written(odd, self._dialect)
        why = why.replace(repr(odd), repr(written), 1)
        if (advice := comma_advice(written, self._dialect.decimal)) is not None:
            return f"{why}: {advice}"
        return f"{why}: add --null {written} if it means null" if is_no_value(written) else why

    def guess(self, engine: Engine[Any]) -> dict[str, Summary] | None:
        """Sum up what some rows hold; None where they cannot be read."""
        self._opened.check_names()
        found = self._opened.guess(engine)
        return None if found is None else self._opened.merged([found])

    def guessed_step(
        self,
        engine: Engine[Any],
        columns: Columns,
        guess: Mapping[str, Summary],
        keys: Sequence[str],
    ) -> tuple[GuessedRows, int]:
        """Return what reads the rows, and sums them up, if they are what was guessed."""
        return self._opened.guessed_step(engine, columns, list(guess.values()), keys)

    def merged(self, parts: Sequence[Summed]) -> Inferred:
        """Say what the files hold of which the parts were summed up."""
        summaries = self._opened.merged([part.summaries for part in parts])
        return self.inferred(summaries, sum(part.rows for part in parts))

    def indexes(self, columns: Columns) -> Sequence[int]:
        """Return indexes; see :class:`GivenReader`."""
        return self._opened.indexes(columns)

    def step(self, engine: Engine[Any], columns: Columns) -> tuple[Step, int]:
        """Return the step; see :class:`GivenReader`."""
        return self._opened.step(engine, columns)


def reader_of(files: Sequence[GivenFile], dialect: Dialect) -> GivenReader:
    """Return the reader of some files of one format.

    Args:
        files: The files.
        dialect: How they are written, if they are CSV.

    Raises:
        SingerlakeError: One cannot be read.
    """
    if files[0].format == JSONL:
        return JsonReader(files)
    return ParquetReader(files) if files[0].format == PARQUET else CsvReader(files, dialect)


class FileRows(GivenRows):
    """The rows of files of one format; to be used as a context.

    Args:
        files: The files.
        dialect: How they are written, if they are CSV.
        store: Where they are put within reach of a cluster.

    Raises:
        SingerlakeError: One cannot be read.
    """

    def __init__(self, files: Sequence[GivenFile], dialect: Dialect, store: Store) -> None:
        self._dialect = dialect
        self._store = store
        self._stack = ExitStack()
        self._reached = False
        self._reader = reader_of(files, dialect)

    @property
    def work(self) -> Work:
        """What it takes to read them; see :attr:`GivenRows.work`."""
        return self._reader.work

    def described(self) -> list[dict[str, Any]]:
        """Return what a log entry keeps of them."""
        return [file.described() for file in self._reader.files]

    def reader(self, engine: Engine[Any]) -> GivenReader:
        """Return what reads the files by an engine's tasks."""
        if not (engine.here or self._reached):
            open_for_writing(self._store)
            files = self._stack.enter_context(within_reach(self._reader.files, self._store))
            self._reader, self._reached = reader_of(files, self._dialect), True
        return self._reader

    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        """Read them; see :meth:`GivenRows.row_set`. Each file is a source of its own."""
        del source
        reader, columns = self.reader(engine), shape_of(present).columns
        step, tasks = reader.step(engine, columns)
        rows, indexes = engine.source([b""] * tasks), tuple(reader.indexes(columns))
        return RowSet(rows, indexes, reader.names, step, tasks)

    def __enter__(self) -> FileRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def typed(
    inferred: Inferred, types: Mapping[str, Spec], keys: Sequence[str], file: str
) -> dict[str, Spec]:
    """Return what the columns of a new table are: as inferred, or as somebody says.

    Args:
        inferred: What the files hold.
        types: What somebody says of columns, null not among their values.
        keys: Names of those that are the key.
        file: What messages call the files.

    Raises:
        InputError: They hold no column.
        UsageError: There is no such column, or one means something else.
    """
    if not inferred.specs:
        raise InputError(f"{file} has no columns: there is nothing to create a table from")
    for name in special_names(()):
        if name in inferred.specs:
            raise UsageError(
                f"{file} has the column {name!r}, which refers to rows of an existing table, and "
                "this table does not exist: check the table's name, or leave out the column"
            )
    if DELETED_AT in inferred.specs:
        raise UsageError(
            f"{file} has the column {DELETED_AT!r}, which marks rows that a source deleted, so "
            "that the table would not show them: rename the column, or leave it out"
        )
    for what, names in (("--types", types), ("--key", keys)):
        for name in names:
            if name not in inferred.specs:
                raise UsageError(
                    f"{what} names the column {name!r}, which {file} does not have: "
                    f"{offer(name, list(inferred.specs))}"
                )
    return {**inferred.specs, **types}
