"""The result of a query: rows in plain Python values, fetched part by part."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timezone
from decimal import Context, Decimal, Inexact
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812  # as everybody names it

from singerlake.engine.spark.jvm import many_columns
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.log.lease import ReaderLease
from singerlake.rows.batches.row_columns import aliases
from singerlake.rows.columns.weights import GLIMPSE_BYTES, GLIMPSE_CHARACTERS
from singerlake.sql import row_weight, rowwise
from singerlake.sql.column_lineage import Origins
from singerlake.sql.tables import Source

_EXACT = Context(prec=38, traps=[Inexact])
"""As many digits as Spark's decimals have; a value that would lose one is an error."""


@dataclass(frozen=True)
class QueryResult:
    """The result of a query, not yet computed.

    Attributes:
        sources: The tables that were read, each once.
        leases: Keep vacuums off its files, until :meth:`close` or until the result is
            garbage.
        origins: The origins of its columns; None if they are unknown.
    """

    frame: DataFrame
    sources: list[Source]
    leases: list[ReaderLease] = field(default_factory=list)
    origins: Origins | None = None

    def __post_init__(self) -> None:
        weakref.finalize(self, _release, self.leases)

    def __enter__(self) -> QueryResult:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the leases up: nothing more is read. May be called again."""
        _release(self.leases)

    @property
    def unrepeatable(self) -> str | None:
        """What of the query may give other rows when it is run again; None if nothing is known."""
        return rowwise.unrepeatable(self.frame._jdf.queryExecution().analyzed())

    @property
    def columns(self) -> list[str]:
        """The columns' names; two may be equal."""
        return list(self.frame.columns)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Fetch the rows, part by part: the whole need not fit into memory.

        Values are those of Python: ``int``, ``float``, ``Decimal``, ``str``, ``bool``,
        ``date``, ``datetime`` in UTC, ``list``, and ``dict`` for a struct.

        Raises:
            SingerlakeError: As the executors raise it.
        """
        yield from plain_rows(self.frame)

    def first(self, count: int) -> list[tuple[Any, ...]]:
        """Fetch the first rows, or all where there are fewer, computing no more than they need."""
        return list(plain_rows(self.frame, count))

    def glimpse(self, count: int) -> list[tuple[Any, ...]]:
        """Fetch the first rows for people, all at once: long texts are cut.

        A value of another type that is long is the text that its JSON begins with.
        """
        cut = row_weight.shortened(self.frame, GLIMPSE_CHARACTERS, GLIMPSE_BYTES)
        return [cut.row(row) for row in plain_rows(cut.frame, count)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Fetch the rows as Arrow batches, part by part; at least one, which may be empty.

        Raises:
            SingerlakeError: As the executors raise it.
        """
        schema = self.frame.limit(0).toArrow().schema
        yield _empty(schema)
        renamed = many_columns.named(self.frame, aliases(len(schema)))
        with plain_errors():
            for row in renamed.mapInArrow(_packed, "batch binary").toLocalIterator():
                for batch in pa.ipc.open_stream(row["batch"]):
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def to_arrow(self) -> pa.Table:
        """Fetch the rows as an Arrow table.

        Raises:
            SingerlakeError: As the executors raise it.
        """
        return pa.Table.from_batches(self.batches())


def _release(leases: list[ReaderLease]) -> None:
    for lease in leases:
        lease.release()


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack each batch as bytes in one row, which the driver can take bit by bit."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"batch": [sink.getvalue().to_pybytes()]})


def plain_rows(frame: DataFrame, count: int | None = None) -> Iterator[tuple[Any, ...]]:
    """Return a frame's rows in the values that :meth:`QueryResult.rows` names.

    Args:
        frame: The rows.
        count: Only so many of them, fetched at once; None fetches all, part by part.
    """
    types = [field.dataType for field in frame.schema.fields]
    writers = [_plain(type_) for type_ in types]
    zoneless = [_zoneless(type_) for type_ in types]
    if zoneless != types:
        names = aliases(len(types))
        cast = (
            name if type_ == shown else f"cast({name} as {many_columns.ddl(shown)}) as {name}"
            for name, type_, shown in zip(names, types, zoneless, strict=True)
        )
        frame = many_columns.selected(many_columns.named(frame, names), cast)
    with plain_errors():
        for row in frame.toLocalIterator() if count is None else frame.take(count):
            yield tuple(
                None if value is None else write(value)
                for write, value in zip(writers, row, strict=True)
            )


def _zoneless(type_: T.DataType) -> T.DataType:
    """Return a type whose timestamps are what a clock in UTC shows.

    pyspark would turn an instant into the driver's local time, and has none for the year 1.
    """
    if isinstance(type_, T.TimestampType):
        return T.TimestampNTZType()
    if isinstance(type_, T.ArrayType):
        return T.ArrayType(_zoneless(type_.elementType), type_.containsNull)
    if isinstance(type_, T.MapType):
        key, value = _zoneless(type_.keyType), _zoneless(type_.valueType)
        return T.MapType(key, value, type_.valueContainsNull)
    if isinstance(type_, T.StructType):
        return T.StructType(
            [T.StructField(f.name, _zoneless(f.dataType), f.nullable) for f in type_.fields]
        )
    return type_


def _plain(type_: T.DataType) -> Callable[[Any], Any]:
    if isinstance(type_, T.TimestampType):
        return lambda value: value.replace(tzinfo=timezone.utc)
    if isinstance(type_, T.DecimalType):
        # Java writes small values as 1.00E-10, of which Python makes two digits too many.
        unit = Decimal(1).scaleb(-type_.scale)
        return lambda value: _EXACT.quantize(value, unit)
    if isinstance(type_, T.ArrayType):
        item = _plain(type_.elementType)
        return lambda value: [None if one is None else item(one) for one in value]
    if isinstance(type_, T.MapType):
        key, inner = _plain(type_.keyType), _plain(type_.valueType)
        return lambda value: {
            key(name): None if one is None else inner(one) for name, one in value.items()
        }
    if isinstance(type_, T.StructType):
        names = type_.names
        members = [_plain(field.dataType) for field in type_.fields]
        return lambda value: {
            name: None if one is None else member(one)
            for name, member, one in zip(names, members, value, strict=True)
        }
    return lambda value: value
