"""Rows that a change is asked for, from dictionaries, as the readers of files make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from singerlake.engine.base import Engine
from singerlake.engine.spark.engine import SparkEngine
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.change.change import present_rows
from singerlake.ops.change.job import Changed, change_rows
from singerlake.ops.change.plan import ChangeOptions, Mode
from singerlake.ops.change.row_set import Part, RowSet, sent, unpacked
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.input.rows import given_schema
from singerlake.rows.state.shape import shape_of


def engine_of(on: SparkSession | Engine[Any]) -> Engine[Any]:
    return on if isinstance(on, Engine) else SparkEngine(on)


def change(
    on: SparkSession | Engine[Any],
    table: Table,
    rows: Callable[[TableState], Sequence[RowSet]],
    mode: Mode,
    *,
    options: ChangeOptions | None = None,
) -> Changed:
    """Change rows on an engine, or on that of a session."""
    return change_parts(on, table, lambda now: [Part(tuple(rows(now)), mode)], options=options)


def change_parts(
    on: SparkSession | Engine[Any],
    table: Table,
    parts: Callable[[TableState], Sequence[Part]],
    *,
    options: ChangeOptions | None = None,
) -> Changed:
    engine = engine_of(on)
    return change_rows(
        table,
        lambda _, now: parts(now),
        options or ChangeOptions(),
        lambda _: engine,
        present_rows,
    )


def row_set(
    on: SparkSession | Engine[Any],
    snapshot: TableState,
    rows: Sequence[Mapping[str, Any]],
    source: str = "rows.csv",
    names: Sequence[str] | None = None,
) -> RowSet:
    """Rows by the names of columns; ``_row_id``, ``_row_version`` and ``_delete`` say the rest.

    A column that only some rows have is omitted in the others.
    """
    columns = shape_of(snapshot).columns
    named = {name for row in rows for name in row} if names is None else {*names}
    indexes = tuple(i for i, (name, _) in enumerate(columns) if name in named)
    omitted = [[i for i in indexes if columns[i][0] not in row] or None for row in rows]
    schema = given_schema(columns, indexes)
    known = {
        "source": [0] * len(rows),
        "line": range(2, len(rows) + 2),
        "omitted": omitted,
        "row_id": [row.get("_row_id") for row in rows],
        "row_version": [row.get("_row_version") for row in rows],
        "deleted": [row.get("_delete") for row in rows],
    }
    arrays = {
        alias(i): pa.array([row.get(columns[i][0]) for row in rows], arrow_type(columns[i][1]))
        for i in indexes
    }
    arrays |= {name: pa.array(list(v), schema.field(name).type) for name, v in known.items()}
    table = pa.table(arrays)
    return RowSet(sent(engine_of(on), table), indexes, (source,), unpacked)
