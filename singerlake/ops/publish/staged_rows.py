"""The rows of an answer, as a change of its staging table takes them.

Messages name rows by their key. Rows without a key get line numbers, which only tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.engine.base import Engine
from singerlake.format.types import Columns
from singerlake.log.table_state import TableState
from singerlake.ops.change.row_set import MANY_TASKS, GivenRows, RowSet, sent, unpacked
from singerlake.ops.create.answer import PART
from singerlake.ops.publish.fresh_rows import FreshRows
from singerlake.ops.publish.write.changed_rows import AFTER, BEFORE, Changes
from singerlake.ops.publish.write.published_files import conformed
from singerlake.rows.batches.steps import Batches, Pipeline, Step
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.input.arrow.rows import ArrowRows, aliased
from singerlake.rows.input.rows import LINE, TYPES, special_names
from singerlake.rows.state.shape import shape_of

_PART_LINES = 1 << 33
"""Lines of a part: more than it has rows."""


@dataclass
class AnswerRows(GivenRows):
    """Rows of an answer.

    Attributes:
        schema: What their columns are called, and their types.
        rows: Gives an engine's rows that the step reads.
        step: Gives batches of the schema, under any names, and lines.
        tasks: Into how many tasks the rows are split, about.
    """

    schema: pa.Schema
    rows: Callable[[Engine[Any]], Any]
    step: Step
    tasks: int = 1

    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        """Read them; see :meth:`GivenRows.row_set`."""
        reader = ArrowRows(shape_of(present).columns, self.schema.names, source)
        reader.check(self.schema.types)
        step = Pipeline((self.step, reader))
        return RowSet(self.rows(engine), reader.indexes, (source,), step, self.tasks)


def all_rows(rows: Any, columns: Columns, *, keyed: bool, tasks: int) -> AnswerRows:
    """Take all rows of an answer.

    Args:
        rows: As :meth:`QueryAnswer.rows` gives them.
        columns: The answer's columns, in a table's types.
        keyed: Whether they have a key.
        tasks: Into how many tasks the rows are split, about.
    """
    return AnswerRows(_schema(columns), lambda _: rows, _unlined if keyed else _lined, tasks)


def new_rows(fresh: FreshRows, columns: Columns) -> AnswerRows:
    """Take rows that came, and the keys of those that are gone.

    Args:
        columns: The answer's columns, in a table's types.
    """
    schema = _upserts(columns)
    given = fresh.to_upsert(schema.names[-1])
    batches = [_without_lines(conformed(one, schema)) for one in given.to_batches()]
    table = pa.Table.from_batches(batches, aliased(schema.types))
    return AnswerRows(schema, lambda engine: sent(engine, table), unpacked)


def changed_rows(changes: Changes[Any], columns: Columns, key: Sequence[str]) -> AnswerRows:
    """Take rows that differ, as they are, and the keys of those that are gone.

    Args:
        columns: The answer's columns, in a table's types.
        key: Those that are its key.
    """
    schema = _upserts(columns)
    return AnswerRows(schema, lambda _: changes.pairs, _Upserts(schema, key), MANY_TASKS)


def _schema(columns: Columns) -> pa.Schema:
    return pa.schema([(name, arrow_type(type_)) for name, type_ in columns])


def _upserts(columns: Columns) -> pa.Schema:
    """Columns of an answer, and whether a row is to go."""
    delete = special_names(name for name, _ in columns).delete
    return _schema(columns).append(pa.field(delete, pa.bool_()))


def _unlined(batches: Batches) -> Batches:
    for batch in batches:
        yield _without_lines(batch.drop_columns([PART]))


def _lined(batches: Batches) -> Batches:
    before = 1
    for batch in batches:
        numbers = np.arange(before, before + batch.num_rows)
        before += batch.num_rows
        parts = batch.column(PART).to_numpy().astype(np.int64)
        yield _with_lines(batch.columns[:-1], pa.array(parts * _PART_LINES + numbers))


def _without_lines(batch: pa.RecordBatch) -> pa.RecordBatch:
    return _with_lines(batch.columns, pa.nulls(batch.num_rows, TYPES[LINE]))


def _with_lines(cells: Sequence[pa.Array], lines: pa.Array) -> pa.RecordBatch:
    schema = aliased([cell.type for cell in cells])
    return pa.RecordBatch.from_arrays([*cells, lines], schema=schema)


@dataclass
class _Upserts:
    """Makes an upsert of pairs.

    Attributes:
        schema: The answer's columns, and whether a row is to go.
        key: The answer's columns that are its key.
    """

    schema: pa.Schema
    key: Sequence[str]

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            before, after = (_cells(batch.column(name)) for name in (BEFORE, AFTER))
            names = self.schema.names[:-1]
            now = [
                pc.coalesce(after[name], before[name]) if name in self.key else after[name]
                for name in names
            ]
            cells = [*now, batch.column(AFTER).is_null()]
            rows = pa.RecordBatch.from_arrays(cells, names=self.schema.names)
            yield _without_lines(conformed(rows, self.schema))


def _cells(side: pa.StructArray) -> dict[str, pa.Array]:
    """The cells of one side, by the names of their columns; null where there is no row."""
    names = (field.name for field in side.type)
    return dict(zip(names, side.flatten(), strict=True))
