"""From the columns of a query to a JSON Schema, and from its rows to RECORD lines.

A row's record is its canonical text (``canonical.py``): the text that the fingerprint hashes,
so that what is written and what is proved later are the same bytes. Values that a lake cannot
hold (NaN, a year past 9999, text that is no UTF-8) are refused by name, never turned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import types as T  # noqa: N812  # as everybody names it

from singerlake.errors import InvalidQueryError
from singerlake.format import block as format_block
from singerlake.format import times
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.names import TableName
from singerlake.spark import canonical
from singerlake.spark.columns import Columns, Kind, Type, columns_of
from singerlake.spark.exact import DELETED
from singerlake.spark.fingerprint import SUMMED, Proof, Sums
from singerlake.spark.lines import BLOCK_BYTES
from singerlake.storage.base import Store
from singerlake.transactions.staging import StagedTable

WRITTEN = "part int, block binary"
LOOKED_AT = f"{SUMMED}, bytes long, nulls array<long>"
_DAYS = (-719162, 2932896)
"""The years 1 to 9999: what a lake's reader and Python's dates can hold."""
_MICROS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)

_SIMPLE: dict[type[T.DataType], dict[str, Any]] = {
    T.ByteType: {"type": "integer"},
    T.ShortType: {"type": "integer"},
    T.IntegerType: {"type": "integer"},
    T.LongType: {"type": "integer"},
    T.FloatType: {"type": "number"},
    T.DoubleType: {"type": "number"},
    T.StringType: {"type": "string"},
    T.CharType: {"type": "string"},
    T.VarcharType: {"type": "string"},
    T.BooleanType: {"type": "boolean"},
    T.DateType: {"type": "string", "format": "date"},
    T.TimestampType: {"type": "string", "format": "date-time"},
}
_ADVICE = {
    T.MapType: "turn it into text with to_json(…), or into a struct",
    T.VariantType: "turn it into text with to_json(…)",
    T.BinaryType: "turn it into text with base64(…) or hex(…)",
    T.NullType: "say what it is null of, as in cast(null as string)",
    T.TimestampNTZType: "say which instants are meant, as in cast(… as timestamp)",
}


def schema_of(fields: list[T.StructField], keys: list[str]) -> SchemaEntry:
    """The schema of a table that holds a query's rows.

    Args:
        fields: The query's columns.
        keys: Those that are the key; all others may be null.

    Raises:
        InvalidQueryError: A name is empty or there twice, or a type has no place in a lake;
            names the column.
    """
    _check_names([field.name for field in fields], "")
    properties = {}
    for field in fields:
        spec = _spec(field.dataType, field.name)
        properties[field.name] = spec if field.name in keys else _nullable(spec)
    entry = SchemaEntry({"type": "object", "properties": properties}, keys)
    for name, type_ in columns_of(entry):
        if _holds_text(type_):
            raise InvalidQueryError(f"column {name!r} is nested too deep: take it apart")
    return entry


def _spec(type_: T.DataType, where: str) -> dict[str, Any]:
    if type(type_) in _SIMPLE:
        return dict(_SIMPLE[type(type_)])
    if isinstance(type_, T.DecimalType):
        # Not multipleOf: validators that compute with doubles find 19.99 no multiple of 0.01.
        digits = {"precision": type_.precision, "scale": type_.scale}
        return {"type": "number", "format": "singer.decimal", **digits}
    if isinstance(type_, T.ArrayType):
        return {"type": "array", "items": _nullable(_spec(type_.elementType, f"{where}[]"))}
    if isinstance(type_, T.StructType) and type_.fields:
        _check_names(type_.names, f" in {where!r}")
        properties = {
            field.name: _nullable(_spec(field.dataType, f"{where}.{field.name}"))
            for field in type_.fields
        }
        return {"type": "object", "properties": properties}
    advice = next((said for kind, said in _ADVICE.items() if isinstance(type_, kind)), "")
    raise InvalidQueryError(
        f"column {where!r} is of the type {type_.simpleString()}, which has no place in a lake: "
        + (advice or "cast it to another")
    )


def _nullable(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "type": ["null", spec["type"]]}


def _check_names(names: list[str], where: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        listed = ", ".join(repr(name) for name in twice)
        raise InvalidQueryError(f"columns{where} are there more than once: {listed}; use AS")
    if "" in names:
        place = names.index("") + 1
        raise InvalidQueryError(f"column {place}{where} has the empty name '': name it with AS")


def _holds_text(type_: Type) -> bool:
    inner = [field for _, field in type_.fields] + ([type_.item] if type_.item else [])
    return type_.kind is Kind.TEXT or any(_holds_text(one) for one in inner)


@dataclass
class RowChecker:
    """Looks at a query's rows on the executors: what they come down to, and that all may be.

    Attributes:
        columns: The new table's columns, in the order in which they come.
        keys: Places of the key columns.
    """

    columns: Columns
    keys: list[int]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row a partition: the rows' sums, their bytes, and nulls of each key column."""
        sums = Sums((Proof.VALUES,))
        size = 0
        nulls = [0] * len(self.keys)
        for batch in batches:
            for place, (name, type_) in enumerate(self.columns):
                check_values(batch.column(place), name, type_)
            size += batch.nbytes
            sums.take(batch, self.columns)
            for n, place in enumerate(self.keys):
                nulls[n] += batch.column(place).null_count
        found = sums.batch().append_column("bytes", pa.array([size], pa.int64()))
        yield found.append_column("nulls", pa.array([nulls], pa.list_(pa.int64())))


def check_values(array: pa.Array, name: str, type_: Type) -> None:
    """Make sure that every value of a column can be written and read back the same.

    Raises:
        InvalidQueryError: One cannot; names the column.
    """
    if name == DELETED and array.null_count < len(array):
        raise InvalidQueryError(
            f"column {name!r} marks deleted rows, which a table does not show: leave it out, or "
            "give it another name"
        )
    if (found := _misfit(array, type_)) is not None:
        raise InvalidQueryError(f"column {name!r} holds {found}, which a lake cannot keep")


def _misfit(array: pa.Array, type_: Type) -> str | None:
    if type_.kind is Kind.NUMBER:
        finite = pc.all(pc.is_finite(array)).as_py()
        return None if finite in (True, None) else "NaN or Infinity"
    if type_.kind is Kind.DATE:
        return _outside(pc.cast(array, pa.int32()), _DAYS, "a date")
    if type_.kind is Kind.TIMESTAMP:
        return _outside(pc.cast(array, pa.int64()), _MICROS, "a time")
    if type_.kind is Kind.STRING:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return "text that is not UTF-8"
    inner = [(array.flatten(), type_.item)] if type_.item else []
    if type_.fields:
        members = [member for _, member in type_.fields]
        inner = list(zip(array.flatten(), members, strict=True))
    found = (_misfit(values, member) for values, member in inner)
    return next((said for said in found if said is not None), None)


def _outside(numbers: pa.Array, bounds: tuple[int, int], what: str) -> str | None:
    found = pc.min_max(numbers).as_py()
    if found["min"] is None or bounds[0] <= found["min"] <= found["max"] <= bounds[1]:
        return None
    return f"{what} outside the years 1 to 9999"


@dataclass
class RecordWriter:
    """Writes rows as blocks. Sent to the executors by value: the store goes with it.

    Each part has a time of its own, one microsecond after the part before: its files' names
    are then its own, and nobody has to try for a free one.

    Attributes:
        store: The lake's store.
        table: The new table.
        columns: Its columns, in the order in which they come.
        schema: Its schema.
        schema_hash: That schema's hash.
        micros: ``time_extracted`` of the first part, since 1970.
        block_rows: Rows in a block.
        file_bytes: Compressed size of a file.
    """

    store: Store
    table: TableName
    columns: Columns
    schema: SchemaEntry
    schema_hash: str
    micros: int
    block_rows: int
    file_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a partition; its files are durable when the descriptions come out."""
        part = _part()
        stamp = times.iso(times.from_micros(self.micros + part))
        staged = StagedTable(self.store, self.table, self.file_bytes)
        try:
            for lines in self._piles(batches, stamp):
                staged.add(self.schema_hash, *self._block(lines, stamp))
            staged.publish()
            written = staged.numbered(0)
        finally:
            staged.discard()
        if written:
            yield pa.RecordBatch.from_pydict(
                {
                    "part": pa.array([part] * len(written), pa.int32()),
                    "block": [msgspec.json.encode(block) for block in written],
                }
            )

    def _piles(self, batches: Iterator[pa.RecordBatch], stamp: str) -> Iterator[list[bytes]]:
        stream = json.dumps(self.table.stream, ensure_ascii=False)
        before = f'{{"type":"RECORD","stream":{stream},"record":'.encode()
        after = f',"time_extracted":"{stamp}"}}\n'.encode()
        lines: list[bytes] = []
        size = 0
        for batch in batches:
            for text in (
                canonical.row_texts(batch, self.columns).cast(pa.large_binary()).to_pylist()
            ):
                lines.append(before + text + after)
                size += len(lines[-1])
                if len(lines) >= self.block_rows or size >= BLOCK_BYTES:
                    yield lines
                    lines, size = [], 0
        if lines:
            yield lines

    def _block(self, lines: list[bytes], stamp: str) -> tuple[bytes, Block]:
        head = {
            "type": "SCHEMA",
            "stream": self.table.stream,
            "schema": self.schema.schema,
            "key_properties": self.schema.key_properties,
        }
        text = b"".join((msgspec.json.encode(head) + b"\n", *lines))
        data = format_block.encode(text, len(lines), times.micros(times.now()))
        return data, Block(0, "", 0, len(data), len(lines), len(text), stamp, stamp)


def _part() -> int:
    """The number of the partition that this executor works on."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("rows are written by Spark's tasks only")
    return context.partitionId()
