"""The contents of files, as binary columns beside those that name the files."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T  # noqa: N812  # as everybody names it
from pyspark.sql.pandas.functions import arrow_udf

from singerlake.errors import UsageError
from singerlake.files.content_column import LARGEST_BYTES, ContentColumn
from singerlake.format import content
from singerlake.format.content import Place
from singerlake.format.types import Kind, Type
from singerlake.lake import Table
from singerlake.log import file_lists
from singerlake.log.table_state import TableState

REFERENCE, BINARY = FILES = ("reference", "binary")
"""What a frame has of files: what rows say of them, or that and their content."""
_FOUND_BY = frozenset({"path", "checksum"})


def check_choice(files: str, most: int) -> None:
    """Refuse an unknown name, and a limit that cannot be kept.

    Raises:
        UsageError: It is one.
    """
    if files not in FILES:
        raise UsageError(f"files={files!r} is neither {REFERENCE!r} nor {BINARY!r}")
    if not 0 < most <= LARGEST_BYTES:
        raise UsageError(f"file_bytes={most} is not from 1 to {LARGEST_BYTES:,}")


def with_contents(frame: DataFrame, table: Table, snapshot: TableState, most: int) -> DataFrame:
    """Append a column of bytes for each column that names files.

    Only who asks for such a column has files read, by tasks, and only those of rows that are left
    once other columns have been filtered.

    Args:
        frame: The rows, columns named as the schema's properties.
        table: The table, under a lease.
        most: The most that a file may have.

    Raises:
        UsageError: No column names files by which they could be found.
    """
    place = content.place_in(snapshot.schema.schema)
    types = dict(snapshot.columns)
    lists = tuple(file_lists.lists_of(snapshot.blocks))
    taken = {name.casefold() for name in frame.columns}
    added: dict[str, ContentColumn] = {}
    for name, inner in place.members.items() if place is not None else ():
        wanted = _wanted(inner, types[name]) if name in types else None
        if wanted is not None:
            _check_found(table, name, types[name])
            added[name] = ContentColumn(table.store, table.name, wanted, lists, most)
    if not added:
        raise UsageError(
            f"files={BINARY!r}: no column of {table.name} is of format {content.FORMAT}, or a list "
            "of such: read it without"
        )
    for name, column in added.items():
        beside = f"{name}_content"
        while beside.casefold() in taken:
            beside += "_"
        taken.add(beside.casefold())
        frame = frame.withColumn(beside, _read(frame[_quoted(name)], column))
    return frame


def _wanted(place: Place, type_: Type) -> Place | None:
    """Return where a column has files that can be a column of bytes, or lists; None for nowhere."""
    if place.is_file and type_.kind in (Kind.TEXT, Kind.STRUCT):
        return Place(is_file=True)
    if place.items is not None and place.items.is_file and type_.kind in (Kind.TEXT, Kind.LIST):
        return Place(items=Place(is_file=True))
    return None


def _check_found(table: Table, name: str, type_: Type) -> None:
    """Refuse a column that shows nothing by which its files can be found."""
    shown = type_.item if type_.kind is Kind.LIST and type_.item is not None else type_
    if shown.kind is Kind.STRUCT and _FOUND_BY.isdisjoint(member for member, _ in shown.fields):
        raise UsageError(
            f"column {name!r} of {table.name} shows of its files neither path nor checksum, by "
            "which they would be found: have the tap's schema list one of the two"
        )


def _read(named: Column, column: ContentColumn) -> Column:
    type_ = T.ArrayType(T.BinaryType()) if column.in_lists else T.BinaryType()

    def contents(values: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return column(values)

    # By these, Spark knows what it is; as texts, which this module has, it cannot read them.
    contents.__annotations__ = {"values": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return arrow_udf(contents, type_)(named)  # type: ignore[call-overload,no-any-return]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
