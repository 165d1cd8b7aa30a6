"""A row set: rows that a change is asked for, whatever they were read from, as a Spark frame.

The readers of files and of frames make one; ``change.py`` holds it against a table's state. A row
names the cells that it sets and, where it was read from that state before, which row it was and
in which version.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from singerlake.records.given.rows import (
    DELETED,
    LINE,
    OMITTED,
    PROBLEMS,
    ROW_ID,
    ROW_VERSION,
    SOURCE,
)
from singerlake.records.rows.steps import Step

__all__ = [
    "DELETED",
    "LINE",
    "OMITTED",
    "PROBLEMS",
    "ROW_ID",
    "ROW_VERSION",
    "SOURCE",
    "TYPES",
    "RowSet",
]
TYPES = {
    SOURCE: "int",
    LINE: "bigint",
    OMITTED: "array<int>",
    ROW_ID: "string",
    ROW_VERSION: "bigint",
    DELETED: "boolean",
}
"""The columns that follow a row set's cells, with their Spark types, in this order."""


@dataclass(frozen=True)
class RowSet:
    """Rows that a table is to have, or that are to go.

    Attributes:
        frame: For each column that is named its cells under ``row_columns.alias`` of its index in
            the table, in the Spark type of the table's column; then the columns of :data:`TYPES`,
            as ``records/given/rows.py`` explains them; and ``PROBLEMS``, if a reader may find
            some. Rows that are the table's own have no ``LINE``: messages name them by their ids.
        columns: The named columns, as indexes in the table's columns, rising.
        sources: What messages call the places that rows come from, such as a file's name.
        step: What reads the rows out of ``frame``, which may then hold anything, and gives batches
            of ``given.rows.given_schema``; None where ``frame`` has the rows.
        tasks: Into how many tasks the rows are split, about.
    """

    frame: DataFrame
    columns: tuple[int, ...]
    sources: tuple[str, ...]
    step: Step | None = None
    tasks: int = 1
