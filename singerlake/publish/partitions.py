"""What keeps files apart: partition values of rows, and the folders that are named by them.

Folders are named as Hive has it, ``country=DE/``, which every reader of folders knows. Buckets are
those of Iceberg: the 32-bit murmur3 of a value's bytes, so that its tables share them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.errors import UsageError
from singerlake.publish.projection import PartitionKey, Transform

NULL = "__HIVE_DEFAULT_PARTITION__"
LONGEST_NAME = 255
"""Bytes of a name that every usual file system takes."""
Words: TypeAlias = Any
"""Arrays of 32 bits without sign: what numpy's operators give is too much for mypy."""
_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""What Hive escapes in the names of folders."""


def check(keys: Sequence[PartitionKey], schema: pa.Schema) -> None:
    """Make sure that rows can be kept apart so.

    Raises:
        UsageError: A column is not there, or its type is not for that.
    """
    for key in keys:
        if key.column not in schema.names:
            raise UsageError(
                f"partition_by names {key.column!r}, which is not a column of the rows"
            )
        type_ = schema.field(key.column).type
        if not _suits(key.transform, type_):
            raise UsageError(
                f"rows cannot be partitioned by {key}: the column is {type_}; {_advice(key)}"
            )


def _suits(transform: Transform, type_: pa.DataType) -> bool:
    is_date = pa.types.is_date32(type_) or pa.types.is_timestamp(type_)
    if transform in (Transform.YEAR, Transform.MONTH, Transform.DAY):
        return bool(is_date)
    plain = (
        is_date or pa.types.is_integer(type_) or _is_text(type_) or pa.types.is_decimal128(type_)
    )
    if transform is Transform.BUCKET:
        return bool(plain)
    return bool(plain or pa.types.is_boolean(type_))


def _advice(key: PartitionKey) -> str:
    if key.transform in (Transform.YEAR, Transform.MONTH, Transform.DAY):
        return f"cast it to date or timestamp, or partition by {key.column} itself"
    return "cast it to string, or partition by another"


def label(key: PartitionKey) -> str:
    """Return what the folders of a partition key are named by."""
    if key.transform is Transform.IDENTITY:
        return key.column
    return f"{key.column}_{key.transform}"


def values(column: pa.Array, key: PartitionKey) -> pa.Array:
    """Compute the partition values of a column's rows: numbers that sort as the column does.

    For a year, a month and a day they are counted from 1970, as Iceberg has them.
    """
    if key.transform is Transform.IDENTITY:
        return column
    if key.transform is Transform.BUCKET:
        hashed = np.bitwise_and(murmur3(column), 0x7FFFFFFF) % key.buckets
        return pa.array(hashed.astype(np.int32), mask=_nulls(column))
    if key.transform is Transform.DAY:
        return pc.cast(pc.cast(column, pa.date32()), pa.int32())
    years = pc.subtract(pc.year(column), 1970)
    if key.transform is Transform.YEAR:
        return pc.cast(years, pa.int32())
    months = pc.add(pc.multiply(years, 12), pc.subtract(pc.month(column), 1))
    return pc.cast(months, pa.int32())


def text(value: Any, key: PartitionKey) -> str:
    """Spell one of :func:`values`, as Python has it, for the name of a folder."""
    if value is None:
        return NULL
    if key.transform is Transform.YEAR:
        return f"{1970 + value:04d}"
    if key.transform is Transform.MONTH:
        return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
    if key.transform is Transform.DAY:
        return str(np.datetime64(value, "D"))
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if hasattr(value, "year") or isinstance(value, int) else _decimal(value)


def _decimal(value: Any) -> str:
    return value if isinstance(value, str) else format(value, "f")


def folder(key: PartitionKey, value: Any) -> str:
    """Name the folder of one of :func:`values`: ``country=DE``.

    Raises:
        UsageError: The value is too long for the name of a folder.
    """
    said = text(value, key)
    if value is not None and said == NULL:
        said = f"%5F{said[1:]}"
    elif value is not None:
        said = _escaped(said)
    name = f"{_escaped(label(key))}={said}"
    if (size := len(name.encode())) > LONGEST_NAME:
        raise UsageError(
            f"partition_by names {key.column!r}, and a value of it is too long for the name of a "
            f"folder ({size:,} bytes with the column's name, {LONGEST_NAME} at most): partition by "
            f"bucket(16, {key.column}), or by another column"
        )
    return name


def _escaped(name: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", name)


def column_of(folder_name: str, type_: pa.DataType, rows: int) -> pa.Array:
    """Return the column that a folder's name stands for, as many times as there are rows."""
    said = folder_name.partition("=")[2]
    if said == NULL:
        return pa.nulls(rows, type_)
    value = pa.array([unquote(said)], pa.string())
    if pa.types.is_timestamp(type_) and type_.tz:
        local = pc.cast(pc.replace_substring(value, "+00:00", ""), pa.timestamp(type_.unit))
        value = pc.assume_timezone(local, "UTC")
    return pa.repeat(pc.cast(value, type_)[0], rows)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.asarray(column.is_null())
    return found


def murmur3(column: pa.Array) -> Words:
    """Hash values as Iceberg's specification has it (appendix B); anything where they are null."""
    type_ = column.type
    if _is_text(type_):
        return _of_bytes([(value or "").encode() for value in column.to_pylist()])
    if pa.types.is_decimal(type_):
        unscaled = (0 if value is None else _unscaled(value) for value in column.to_pylist())
        return _of_bytes([_least_bytes(number) for number in unscaled])
    if pa.types.is_timestamp(type_):
        column = pc.cast(column, pa.timestamp("us", type_.tz))
        column = pc.cast(column, pa.int64())
    elif pa.types.is_date(type_):
        column = pc.cast(column, pa.int32())
    numbers = pc.fill_null(pc.cast(column, pa.int64()), 0)
    words = np.asarray(numbers).astype("<i8").view("<u4").reshape(-1, 2)
    return _finished(_mixed(_mixed(np.zeros(len(words), np.uint32), words[:, 0]), words[:, 1]), 8)


def _unscaled(value: Decimal) -> int:
    sign, digits, _ = value.as_tuple()  # as Arrow gives it, with all digits behind the point
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def _least_bytes(number: int) -> bytes:
    """Two's complement, the highest byte first, in as few bytes as can be."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _of_bytes(texts: Sequence[bytes]) -> Words:
    """Texts of one length are hashed together."""
    found = np.zeros(len(texts), np.uint32)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    for length in np.unique(lengths).tolist():
        at = np.flatnonzero(lengths == length)
        data = np.frombuffer(b"".join(texts[i] for i in at.tolist()), np.uint8).reshape(
            len(at), length
        )
        whole = length - length % 4
        state = np.zeros(len(at), np.uint32)
        words = np.ascontiguousarray(data[:, :whole]).view("<u4")
        for number in range(whole // 4):
            state = _mixed(state, words[:, number])
        if length > whole:
            rest = np.zeros((len(at), 4), np.uint8)
            rest[:, : length - whole] = data[:, whole:]
            state ^= _scrambled(rest.view("<u4")[:, 0])
        found[at] = _finished(state, length)
    return found


def _rotated(word: Words, by: int) -> Words:
    return (word << np.uint32(by)) | (word >> np.uint32(32 - by))


def _scrambled(word: Words) -> Words:
    return _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _mixed(state: Words, word: Words) -> Words:
    return _rotated(state ^ _scrambled(word), 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(state: Words, length: int) -> Words:
    state = state ^ np.uint32(length)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))
