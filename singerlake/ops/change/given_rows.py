"""Rows that a program hands over, as row sets: dictionaries, and frames in its own memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from singerlake.engine.base import Engine
from singerlake.engine.work import Work
from singerlake.errors import UsageError
from singerlake.format.types import BOOLEAN, INTEGER, STRING, Columns, Type
from singerlake.log.table_state import TableState
from singerlake.nearest import offer
from singerlake.ops.change.row_set import GivenRows, RowSet, sent, unpacked
from singerlake.rows.batches.problems import Problem, Problems, kept, rejected
from singerlake.rows.batches.steps import Pipeline
from singerlake.rows.given.arrow.cells import value_cells
from singerlake.rows.given.arrow.rows import ArrowRows, aliased
from singerlake.rows.given.rows import (
    DELETED,
    LINE,
    OMITTED,
    ROW_ID,
    ROW_VERSION,
    SOURCE,
    TYPES,
    given_batch,
    given_schema,
    special_names,
)
from singerlake.rows.state.shape import Shape, shape_of


def captured(rows: Any) -> GivenRows:
    """Take rows of any kind that this process has in memory.

    Raises:
        UsageError: They are of no kind that is known.
    """
    if isinstance(rows, pa.Table):
        return _ArrowTable(rows)
    if isinstance(rows, pa.RecordBatch):
        return _ArrowTable(pa.Table.from_batches([rows]))
    if type(rows).__module__.partition(".")[0] == "pandas":
        return _PandasFrame(pa.Table.from_pandas(rows, preserve_index=False), _index_of(rows))
    if hasattr(rows, "__arrow_c_stream__"):
        return _ArrowTable(pa.RecordBatchReader.from_stream(rows).read_all())
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise UsageError(
            f"a {type(rows).__name__} is not a set of rows: pass a list of dictionaries, or a "
            "frame of pyarrow, pandas, polars or Spark"
        )
    return _Dictionaries([*rows])


@dataclass
class _ArrowTable(GivenRows):
    table: pa.Table

    @property
    def work(self) -> Work:
        return Work(self.table.nbytes, len(self.table) * self.table.num_columns)

    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        shape = shape_of(present)
        names, types = self.table.column_names, self.table.schema.types
        reader = ArrowRows(shape.columns, names, source)
        reader.check(types)
        lined = self.table.append_column(LINE, pa.array(range(1, len(self.table) + 1), pa.int64()))
        rows = sent(engine, lined.rename_columns(aliased(types).names))
        return RowSet(rows, reader.indexes, (source,), Pipeline((unpacked, reader)))


@dataclass
class _PandasFrame(GivenRows):
    """A frame of pandas, and the levels of its index, which may be the table's key."""

    table: pa.Table
    index: pa.Table

    @property
    def work(self) -> Work:
        return _ArrowTable(self.table).work

    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        columns = dict(zip(self.table.column_names, self.table.columns, strict=True))
        for name in shape_of(present).key_names:
            if name in self.index.column_names:
                columns.setdefault(name, self.index[name])
        return _ArrowTable(pa.table(columns)).row_set(engine, present, source)


def _index_of(frame: Any) -> pa.Table:
    """The levels of a pandas frame's index that have a name."""
    names = list(getattr(getattr(frame, "index", None), "names", []))
    levels = {name: pa.array(frame.index.get_level_values(name)) for name in names if name}
    return pa.table(levels)


@dataclass
class _Dictionaries(GivenRows):
    rows: list[Any]

    @property
    def work(self) -> Work:
        columns = max((len(row) for row in self.rows if isinstance(row, Mapping)), default=1)
        return Work(0, len(self.rows) * columns)

    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        shape = shape_of(present)
        reader = _DictionaryReader(shape, source)
        batch, indexes = reader.read([_by_name(row, shape) for row in self.rows])
        rows = sent(engine, pa.Table.from_batches([batch]))
        return RowSet(rows, indexes, (source,), unpacked)


def _by_name(row: Any, shape: Shape) -> Mapping[str, Any]:
    """A row by the names of its columns; what is no dictionary is a key alone."""
    if isinstance(row, Mapping):
        return row
    parts = row if isinstance(row, (tuple, list)) else (row,)
    if len(parts) != len(shape.keys):
        wanted = ", ".join(shape.key_names) or "no key: give dictionaries with _row_id"
        raise UsageError(f"{row!r} is not a key of the table, which has {wanted}")
    return dict(zip(shape.key_names, parts, strict=True))


class _DictionaryReader:
    """Reads dictionaries as rows of a table."""

    def __init__(self, shape: Shape, source: str) -> None:
        self._columns: Columns = shape.columns
        self._special = special_names(shape.names)
        self._source = source
        self._problems = Problems()

    def read(self, rows: Sequence[Mapping[str, Any]]) -> tuple[pa.RecordBatch, tuple[int, ...]]:
        named = {name for row in rows for name in row}
        own = [name for name, _ in self._columns]
        if unknown := sorted(named.difference(own, self._special)):
            offered = offer(unknown[0], own, "it has none", besides=self._special)
            raise UsageError(
                f"{self._source} has a column {unknown[0]!r}, and the table has none: {offered}"
            )
        indexes = tuple(i for i, name in enumerate(own) if name in named)
        known = {
            SOURCE: pa.array([0] * len(rows), TYPES[SOURCE]),
            LINE: pa.array(range(1, len(rows) + 1), TYPES[LINE]),
            OMITTED: self._omitted(rows, indexes),
            ROW_ID: self._cells(rows, self._special.row_id, STRING).cast(TYPES[ROW_ID]),
            ROW_VERSION: self._cells(rows, self._special.row_version, INTEGER),
            DELETED: self._cells(rows, self._special.delete, BOOLEAN),
        }
        cells = [self._cells(rows, *self._columns[index]) for index in indexes]
        if self._problems.total:
            raise rejected(self._problems)
        return given_batch(given_schema(self._columns, indexes), cells, known), indexes

    def _omitted(self, rows: Sequence[Mapping[str, Any]], indexes: Sequence[int]) -> pa.Array:
        lists = ([i for i in indexes if self._columns[i][0] not in row] for row in rows)
        return pa.array([omitted or None for omitted in lists], TYPES[OMITTED])

    def _cells(self, rows: Sequence[Mapping[str, Any]], name: str, type_: Type) -> pa.Array:
        cells, misfits = value_cells((row.get(name) for row in rows), type_)
        for row, value, reason in misfits:
            self._problems.add(Problem(self._source, row + 1, name, kept(value), reason))
        return cells
