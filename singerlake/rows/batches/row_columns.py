"""Names of the columns of rows on their way: by index, and then the row's origin.

A property may have any name: with dots, in two cases, or equal to one of ours. So batches and
frames call the table's columns ``c0``, ``c1``, … and ours ``p0``, ``p1``, …; the table's own
names come back at the very end. The files of an index hold the table's names, and ours as
:data:`FILE_NAMES` spells them.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from singerlake.format.types import Columns
from singerlake.rows.columns.arrow_types import arrow_type

BLOCK, ORDINAL, VERSION, DIGEST, MISFITS, DELETED = "p0", "p1", "p2", "p3", "p4", "p5"
PROVENANCE = (BLOCK, ORDINAL, VERSION, DIGEST, MISFITS)
"""The block a row came in and its ordinal there, which are its position; its Singer version; its
record's digest, null where nobody asked for it; and what does not fit, by column index."""
TYPES = {
    BLOCK: pa.int64(),
    ORDINAL: pa.int32(),
    VERSION: pa.int64(),
    DIGEST: pa.binary(),
    MISFITS: pa.map_(pa.int32(), pa.string()),
    DELETED: pa.bool_(),
}
FILE_NAMES = {
    BLOCK: "_block",
    ORDINAL: "_ordinal",
    VERSION: "_singer_version",
    DIGEST: "_digest",
    MISFITS: "_misfit",
    DELETED: "_deleted",
}


def alias(index: int) -> str:
    """Return what the column of an index is called inside."""
    return f"c{index}"


def aliases(columns: Columns | range | int) -> list[str]:
    """Return what some columns are called inside, from the first of the table on."""
    count = columns if isinstance(columns, int) else len(columns)
    return [alias(index) for index in range(count)]


def row_schema(columns: Columns, extra: Iterable[str] = (*PROVENANCE, DELETED)) -> pa.Schema:
    """Return the schema of rows inside."""
    own = [pa.field(alias(i), arrow_type(type_)) for i, (_, type_) in enumerate(columns)]
    return pa.schema([*own, *(pa.field(name, TYPES[name]) for name in extra)])


def file_schema(columns: Columns, *, layer: bool = False) -> pa.Schema:
    """Return the schema of an index's files.

    Our names get more underscores in front where the table has such a column itself, in any case.

    Args:
        layer: Whether the files are a layer's, which says of each row whether it is deleted.
    """
    taken = {name.casefold() for name, _ in columns}
    fields = [pa.field(name, arrow_type(type_)) for name, type_ in columns]
    for column in (*PROVENANCE, DELETED) if layer else PROVENANCE:
        name = FILE_NAMES[column]
        while name in taken:
            name = f"_{name}"
        fields.append(pa.field(name, TYPES[column]))
    return pa.schema(fields)
