"""Rows that somebody gives, on their way from a file to a table: batches that readers put out.

Cells come first, under the ``row_columns.alias`` of their column in the table; then where the row
stands, and what it says of itself. A row whose :data:`PROBLEMS` is not null holds nothing else: a
reader says so what it has found wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from singerlake.format.types import Columns
from singerlake.rows.batches.problems import Problems
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.columns.arrow_types import arrow_type

SOURCE, LINE = "source", "line"
OMITTED = "omitted"
ROW_ID, ROW_VERSION, DELETED = "row_id", "row_version", "deleted"
PROBLEMS = "problems"
TYPES = {
    SOURCE: pa.int32(),
    LINE: pa.int64(),
    OMITTED: pa.list_(pa.int32()),
    ROW_ID: pa.string(),
    ROW_VERSION: pa.int64(),
    DELETED: pa.bool_(),
    PROBLEMS: pa.binary(),
}
"""The columns behind the cells: the index of the row's file and its line there, from 1; indexes of
the columns that it does not mention; what ``_row_id``, ``_row_version`` and ``_delete`` say; and
encoded problems."""
_TRUE = frozenset({"true", "t", "yes", "y", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "0", ""})
DELETE_WORDS = (
    "is not a valid boolean: use true, t, yes, y or 1 to delete a row, nothing to keep it"
)
"""What is said of another value of ``_delete``."""


class SpecialNames(NamedTuple):
    """What columns of a file are called that say something of the row itself.

    Attributes:
        row_id: The row that is meant.
        row_version: Its version, as it was when somebody read it.
        transaction: What brought it; of no use here.
        delete: Whether the row is to be deleted.
    """

    row_id: str
    row_version: str
    transaction: str
    delete: str


def special_names(columns: Iterable[str]) -> SpecialNames:
    """Name them for a table: as ``query --row-metadata`` does, with more underscores where needed.

    Args:
        columns: The table's own columns.
    """
    taken = {name.casefold() for name in columns}
    front = "_"
    while {f"{front}{name}" for name in ("row_id", "row_version", "transaction")} & taken:
        front += "_"
    delete = "_delete"
    while delete in taken:
        delete = f"_{delete}"
    return SpecialNames(f"{front}row_id", f"{front}row_version", f"{front}transaction", delete)


def read_delete(text: str) -> bool | None:
    """Read a value of ``_delete``; None where it is neither true nor false."""
    word = text.casefold()
    return word in _TRUE if word in _TRUE | _FALSE else None


def given_schema(columns: Columns, indexes: Sequence[int]) -> pa.Schema:
    """Return the schema of batches that name some of a table's columns.

    Args:
        columns: All of the table's.
        indexes: Of those that are named, rising.
    """
    cells = [pa.field(alias(index), arrow_type(columns[index][1])) for index in indexes]
    return pa.schema([*cells, *(pa.field(name, type_) for name, type_ in TYPES.items())])


def given_batch(
    schema: pa.Schema, cells: Sequence[pa.Array], known: Mapping[str, pa.Array]
) -> pa.RecordBatch:
    """Make a batch of rows.

    Args:
        schema: From :func:`given_schema`.
        cells: Those of the named columns, in order.
        known: Of the columns of :data:`TYPES` those that are not null altogether.
    """
    count = len(known[LINE])
    behind = [known.get(name, pa.nulls(count, type_)) for name, type_ in TYPES.items()]
    return pa.RecordBatch.from_arrays([*cells, *behind], schema=schema)


def problems_batch(schema: pa.Schema, problems: Problems) -> pa.RecordBatch:
    """Make the one row that says what a reader has found wrong."""
    arrays = [
        pa.array([problems.encode()], field.type)
        if field.name == PROBLEMS
        else pa.nulls(1, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
