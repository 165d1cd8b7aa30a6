"""Avro files, by fastavro: logical types, every column may be null, block by block."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.errors import UsageError
from singerlake.extras import require
from singerlake.publish.files.base import FileFormat, FileWriter, Layout, odd_advice
from singerlake.publish.projection import Format

BATCH_ROWS = 4_096
"""Rows that are Python's objects at once."""
BLOCK_BYTES = 256 << 10
"""Bytes of a block before compression: a reader inflates so many at once."""
_CODECS = {"deflate": "deflate", "none": "null", "bzip2": "bzip2", "xz": "xz"}
"""Our words for fastavro's; those that need no further library."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIMPLE = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "int"),
    (pa.types.is_int16, "int"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
)


class Avro(FileFormat):
    """Avro object container files.

    Raises:
        RuntimeMissingError: fastavro is not installed.
    """

    format = Format.AVRO
    compressions: ClassVar[tuple[str, ...]] = tuple(_CODECS)
    reads_back = True

    def __init__(self) -> None:
        require("fastavro", "writing Avro")

    def check(self, schema: pa.Schema) -> None:
        """Names are stricter here than anywhere else.

        Raises:
            UsageError: Avro has no such type, or no such name.
        """
        super().check(schema)
        for name in _names(pa.struct(list(schema))):
            if not _NAME.fullmatch(name):
                raise UsageError(
                    f"Avro has no column {name!r}: names consist of letters, digits and _; rename "
                    "it with AS"
                )

    def advice(self, type_: pa.DataType) -> str | None:
        """Maps, unsigned numbers and times of day are not written."""
        return _advice(type_)

    def suffix(self, compression: str) -> str:  # noqa: ARG002
        """Compression shows inside."""
        return ".avro"

    def writer(self, out: BinaryIO, schema: pa.Schema, layout: Layout) -> FileWriter:
        """Begin a file."""
        return _Writer(out, schema, layout)

    def read(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read some rows at a time."""
        import fastavro

        rows: Iterator[Any] = iter(fastavro.reader(file))
        while some := list(islice(rows, BATCH_ROWS)):
            arrays = [pa.array([row.get(f.name) for row in some], f.type) for f in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _names(type_: pa.DataType) -> Iterator[str]:
    for index in range(type_.num_fields):
        if pa.types.is_struct(type_):
            yield type_.field(index).name
        yield from _names(type_.field(index).type)


def _advice(type_: pa.DataType) -> str | None:
    if (said := odd_advice(type_)) is not None:
        return said
    if pa.types.is_struct(type_) or _is_list(type_):
        inner = (_advice(type_.field(i).type) for i in range(type_.num_fields))
        return next((said for said in inner if said), None)
    if pa.types.is_map(type_):
        return "cast it to string, with to_json()"
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return "cast it to timestamp, which has microseconds"
    if pa.types.is_date32(type_) or pa.types.is_timestamp(type_) or pa.types.is_decimal(type_):
        return None
    return None if any(known(type_) for known, _ in _SIMPLE) else "cast it to bigint, or to string"


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Return the schema of a file's rows."""
    return _record(pa.struct(list(schema)), "row")


def _record(type_: pa.DataType, name: str) -> dict[str, Any]:
    fields = [
        {
            "name": type_.field(i).name,
            "type": _nullable(type_.field(i).type, f"{name}_{type_.field(i).name}"),
            "default": None,
        }
        for i in range(type_.num_fields)
    ]
    return {"type": "record", "name": name, "fields": fields}


def _nullable(type_: pa.DataType, name: str) -> list[Any]:
    return ["null", _of(type_, name)]


def _of(type_: pa.DataType, name: str) -> Any:
    if (simple := next((said for known, said in _SIMPLE if known(type_)), None)) is not None:
        return simple
    if pa.types.is_decimal(type_):
        logical = {"precision": type_.precision, "scale": type_.scale}
        return {"type": "bytes", "logicalType": "decimal", **logical}
    if pa.types.is_date(type_):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(type_):
        local = "" if type_.tz else "local-"
        unit = "millis" if type_.unit in ("s", "ms") else "micros"
        return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
    if _is_list(type_):
        return {"type": "array", "items": _nullable(type_.value_type, f"{name}_item")}
    return _record(type_, name)


class _Writer(FileWriter):
    def __init__(self, out: BinaryIO, schema: pa.Schema, layout: Layout) -> None:
        from fastavro.write import Writer

        self._writer = Writer(
            out,
            avro_schema(schema),
            codec=_CODECS[layout.compression],
            sync_interval=BLOCK_BYTES,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            some = batch.slice(start, BATCH_ROWS)
            # Times as the numbers that Avro keeps: no object is made of each.
            columns = [_numbers(column).to_pylist() for column in some.columns]
            names = some.schema.names
            for values in zip(*columns, strict=True):
                self._writer.write(dict(zip(names, values, strict=True)))

    def close(self) -> Mapping[str, Any]:
        self._writer.flush()
        return {}


def _numbers(column: pa.Array) -> pa.Array:
    if pa.types.is_date32(column.type):
        return pc.cast(column, pa.int32())
    if pa.types.is_timestamp(column.type) and column.type.unit in ("ms", "us"):
        return pc.cast(column, pa.int64())
    return column
