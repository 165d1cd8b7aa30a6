"""What formats of text share: which types they can say, values as canonical text, compression."""

from __future__ import annotations

from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from isal import igzip

from singerlake.errors import InvalidQueryError
from singerlake.format.types import (
    BOOLEAN,
    DATE,
    INTEGER,
    NUMBER,
    STRING,
    TIMESTAMP,
    Columns,
    Kind,
    Type,
)
from singerlake.publish.files.base import FileFormat, odd_advice

GZIP, ZSTD, NONE = "gzip", "zstd", "none"
_SUFFIXES = {NONE: "", GZIP: ".gz", ZSTD: ".zst"}
_LEVEL = 2
"""Of isal's four: a third smaller than the first, and still at several hundred MB a second."""


class TextFormat(FileFormat):
    """A format whose files are lines of text."""

    compressions: ClassVar[tuple[str, ...]] = (NONE, GZIP, ZSTD)

    def advice(self, type_: pa.DataType) -> str | None:
        """Binary values, maps and times without a zone have no text of their own."""
        return _advice(type_)

    def suffix(self, compression: str) -> str:
        """With the compression's own behind it."""
        return f".{self.format}{_SUFFIXES[compression]}"


def _advice(type_: pa.DataType) -> str | None:
    if (said := odd_advice(type_)) is not None:
        return said
    if pa.types.is_struct(type_):
        inner = (_advice(type_.field(i).type) for i in range(type_.num_fields))
        return next((said for said in inner if said), None)
    if _is_list(type_):
        return _advice(type_.value_type)
    if pa.types.is_map(type_):
        return "cast it to string, with to_json()"
    if pa.types.is_timestamp(type_) and not type_.tz:
        return "cast it to timestamp, or to string"
    if _simple(type_) is None and not pa.types.is_decimal(type_):
        return "cast it to string, with base64() or hex() if it is binary"
    return None


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


def _simple(type_: pa.DataType) -> Type | None:
    kinds = (
        (pa.types.is_integer, INTEGER),
        (pa.types.is_floating, NUMBER),
        (pa.types.is_string, STRING),
        (pa.types.is_large_string, STRING),
        (pa.types.is_date, DATE),
        (pa.types.is_timestamp, TIMESTAMP),
        (pa.types.is_boolean, BOOLEAN),
    )
    return next((type_of for known, type_of in kinds if known(type_)), None)


def type_of(type_: pa.DataType) -> Type:
    """Return a lake's type for values of an Arrow type that has passed the check."""
    if (simple := _simple(type_)) is not None:
        return simple
    if pa.types.is_decimal(type_):
        return Type(Kind.DECIMAL, scale=type_.scale)
    if _is_list(type_):
        return Type(Kind.LIST, item=type_of(type_.value_type))
    return Type(
        Kind.STRUCT,
        fields=tuple(
            (type_.field(i).name, type_of(type_.field(i).type)) for i in range(type_.num_fields)
        ),
    )


def columns_of(schema: pa.Schema) -> Columns:
    """Return the columns of a schema as a lake has them."""
    return tuple((field.name, type_of(field.type)) for field in schema)


def check_finite(array: pa.Array, name: str, format_: object) -> None:
    """Refuse numbers that have no text.

    Raises:
        InvalidQueryError: There is NaN or Infinity among them.
    """
    if pa.types.is_floating(array.type):
        if pc.all(pc.is_finite(array)).as_py() is False:
            raise InvalidQueryError(
                f"column {name!r} holds NaN or Infinity, which {format_} cannot represent: turn it "
                "into null with nanvl() or nullif(), or into a string"
            )
    elif pa.types.is_struct(array.type) or _is_list(array.type):
        inner = array.flatten() if pa.types.is_struct(array.type) else [array.flatten()]
        for one in inner:
            check_finite(one, name, format_)


def shortest(array: pa.Array) -> pa.Array:
    """Return floats as doubles with the same shortest digits; all else as it is."""
    if pa.types.is_float32(array.type):
        return pc.cast(pc.cast(array, pa.string()), pa.float64())
    return array


class Compressed:
    """Compresses what goes into a file; closing it ends the compressed stream, not the file.

    Args:
        out: The file.
        compression: By what.
    """

    def __init__(self, out: BinaryIO, compression: str) -> None:
        self._into: Any = out
        self._ends = compression != NONE
        if compression == GZIP:
            # Without a time in its header the same rows are the same bytes.
            kept: Any = igzip.IGzipFile  # has no types
            self._into = kept(fileobj=out, mode="wb", filename="", compresslevel=_LEVEL, mtime=0)
        elif compression == ZSTD:
            self._into = pa.CompressedOutputStream(_NotClosed(out), ZSTD)

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        self._into.write(data)

    def close(self) -> None:
        """End the stream."""
        if self._ends:
            self._into.close()


class _NotClosed:
    """What pyarrow may not close."""

    closed = False

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, data: bytes) -> int:
        return self._out.write(data)

    def flush(self) -> None:
        return None

    def close(self) -> None:
        return None

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False
