"""Reads Parquet files on the executors, row group by row group, as rows of a table."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from singerlake.errors import DamagedError, InputError, UsageError
from singerlake.format.types import BOOLEAN, INTEGER, STRING, TEXT, Columns, Type
from singerlake.rows.batches.problems import Problem, Problems, kept
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.given.arrow.cells import cells_of
from singerlake.rows.given.arrow.schemas import check_fits, spec_of
from singerlake.rows.given.byte_sources import ByteSource
from singerlake.rows.given.names import check_distinct, check_named
from singerlake.rows.given.rows import (
    DELETE_WORDS,
    DELETED,
    LINE,
    ROW_ID,
    ROW_VERSION,
    SOURCE,
    TYPES,
    SpecialNames,
    given_batch,
    given_schema,
    problems_batch,
    read_delete,
    special_names,
)
from singerlake.rows.given.values.inference import Spec

BATCH_ROWS = 25_000
MAGIC = b"PAR1"


@dataclass(frozen=True)
class RowGroup:
    """Part of a Parquet file.

    Attributes:
        source: The index of the file among those that are read.
        number: The row group, from 0.
        first: The number of its first row in the file, from 1.
    """

    source: int
    number: int
    first: int


class ParquetSource:
    """A Parquet file, of which the footer was read.

    Args:
        source: Its bytes.

    Raises:
        DamagedError: It is no Parquet file, or is cut off.
    """

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        try:
            self.file = pq.ParquetFile(pa.PythonFile(_Seekable(source), "r"))
        except (pa.ArrowException, OSError) as error:
            first = str(error).partition("\n")[0]
            raise DamagedError(f"{source.name} is not a complete Parquet file: {first}") from error
        self.schema: pa.Schema = self.file.schema_arrow

    @property
    def names(self) -> list[str]:
        """Its columns."""
        return list(self.schema.names)

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return int(self.file.metadata.num_rows)

    @property
    def inflated(self) -> int:
        """How many bytes its rows have when they are not compressed."""
        metadata = self.file.metadata
        return sum(metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))

    def groups(self, index: int) -> list[RowGroup]:
        """Return its row groups that have rows, as those of the file of an index."""
        metadata = self.file.metadata
        counts = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        firsts = [0, *accumulate(counts)]
        return [
            RowGroup(index, number, firsts[number] + 1)
            for number, count in enumerate(counts)
            if count
        ]

    def specs(self) -> dict[str, Spec]:
        """Return the JSON Schema of each column, null not among its values.

        Raises:
            InputError: A column has no place in a lake, or two have one name.
        """
        check_distinct(self.source.name, self.names)
        try:
            return {field.name: spec_of(field.type, field.name) for field in self.schema}
        except UsageError as error:
            raise InputError(f"{self.source.name}: {error}") from error

    def check(self, columns: Columns, keys: Sequence[str]) -> None:
        """Make sure that a table can take the file's columns at all.

        Args:
            columns: The table's.
            keys: Names of those that are its key.

        Raises:
            InputError: It cannot.
        """
        types = dict(columns)
        check_named(self.source.name, self.names, list(types), keys)
        for field in self.schema:
            if field.name in types:
                try:
                    check_fits(field.type, types[field.name], field.name)
                except UsageError as error:
                    raise InputError(f"{self.source.name}: {error}") from error


@dataclass
class ParquetRows:
    """Reads rows into the columns of a table: batches of ``given.rows.given_schema``.

    Attributes:
        sources: The files; ``ParquetSource.check`` has found them right.
        groups: The row group of each task.
        columns: The table's columns.
        indexes: Of those that some file has, rising; a file that lacks one omits it.
    """

    sources: Sequence[ByteSource]
    groups: Sequence[RowGroup]
    columns: Columns
    indexes: Sequence[int]

    def __call__(self, numbers: Batches) -> Batches:
        """Read the row groups whose numbers come in."""
        schema = given_schema(self.columns, self.indexes)
        for number in block_tasks.numbers(numbers):
            group = self.groups[number]
            problems = Problems()
            yield from self._batches(group, schema, problems)
            if problems.total:
                yield problems_batch(schema, problems)

    def _batches(
        self, group: RowGroup, schema: pa.Schema, problems: Problems
    ) -> Iterator[pa.RecordBatch]:
        source = ParquetSource(self.sources[group.source])
        names = special_names(name for name, _ in self.columns)
        line = group.first
        batches = source.file.iter_batches(BATCH_ROWS, [group.number], use_threads=False)
        for batch in _checked(batches, source.source.name):
            reader = _Reader(batch, source.source.name, line, problems)
            cells = [reader.cells(*self.columns[index]) for index in self.indexes]
            known = {
                SOURCE: pa.array([group.source] * batch.num_rows, TYPES[SOURCE]),
                LINE: pa.array(range(line, line + batch.num_rows), TYPES[LINE]),
                **reader.special(names),
            }
            if omitted := self._omitted(source.names):
                known["omitted"] = pa.array([omitted] * batch.num_rows, TYPES["omitted"])
            yield given_batch(schema, cells, known)
            line += batch.num_rows

    def _omitted(self, names: Sequence[str]) -> list[int]:
        return [index for index in self.indexes if self.columns[index][0] not in names]


def _checked(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except (pa.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0]
        raise DamagedError(f"{name} cannot be read as Parquet: {first}") from error


class _Reader:
    """Reads one batch of a file; what is wrong with it is added to the problems."""

    def __init__(self, batch: pa.RecordBatch, source: str, line: int, problems: Problems) -> None:
        self._batch = batch
        self._source = source
        self._line = line
        self._problems = problems

    def cells(self, name: str, type_: Type) -> pa.Array:
        if name not in self._batch.schema.names:
            return pa.nulls(self._batch.num_rows, arrow_type(type_))
        cells, misfits = cells_of(self._batch.column(name), type_)
        for row, value, reason in misfits:
            self._add(row, name, value, reason)
        return cells

    def special(self, names: SpecialNames) -> dict[str, pa.Array]:
        """The columns that say something of the row itself, as far as there are any."""
        found: dict[str, pa.Array] = {}
        present = self._batch.schema.names
        if names.row_id in present:
            found[ROW_ID] = self.cells(names.row_id, STRING)
        if names.row_version in present:
            found[ROW_VERSION] = self.cells(names.row_version, INTEGER)
        if names.delete in present:
            column = self._batch.column(names.delete)
            if pa.types.is_boolean(column.type):
                found[DELETED] = pc.fill_null(self.cells(names.delete, BOOLEAN), False)
            else:
                found[DELETED] = self._deletes(names.delete)
        return found

    def _deletes(self, name: str) -> pa.Array:
        flags = []
        for row, text in enumerate(self.cells(name, TEXT).to_pylist()):
            flag = read_delete(text or "")
            if flag is None:
                self._add(row, name, text, DELETE_WORDS)
            flags.append(bool(flag))
        return pa.array(flags, TYPES[DELETED])

    def _add(self, row: int, column: str, value: str, reason: str) -> None:
        self._problems.add(Problem(self._source, self._line + row, column, kept(value), reason))


def seekable(source: ByteSource) -> io.RawIOBase:
    """Make a file of a source, that is read from any place, as Parquet's are."""
    return _Seekable(source)


class _Seekable(io.RawIOBase):
    """A source as a file that is read from any place."""

    def __init__(self, source: ByteSource) -> None:
        super().__init__()
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        self._at = begin + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        length = self._source.size - self._at if size < 0 else size
        data = self._source.read(self._at, length) if length else b""
        self._at += len(data)
        return data
