"""Row sets from dictionaries, as the readers of files make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from singerlake.records.columns.arrow_types import arrow_type
from singerlake.records.given.rows import given_schema
from singerlake.records.rows.row_columns import alias
from singerlake.records.state.shape import shape_of
from singerlake.spark.jobs.row_sets.row_set import PROBLEMS, RowSet
from singerlake.transactions.snapshot import Snapshot


def row_set(
    spark: SparkSession,
    snapshot: Snapshot,
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
    frame = spark.createDataFrame(table)
    assert PROBLEMS not in frame.columns
    return RowSet(frame, indexes, (source,))
