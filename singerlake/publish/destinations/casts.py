"""Types that table formats have not, and what to cast them to."""

from __future__ import annotations

import pyarrow as pa


def cast_for(format_name: str, column: str, type_: pa.DataType) -> str:
    """Say that a table format has no such type, and what to write in the SQL.

    Args:
        format_name: The format, as people call it.
        column: The column, or the one in which the type lies.
        type_: The type.
    """
    what = "is null in every row" if pa.types.is_null(type_) else f"is {type_}"
    return (
        f"column {column!r} {what}, which {format_name} cannot represent: write CAST({column} AS "
        f"{_meant(type_)}) AS {column} in the projection's SQL"
    )


def _meant(type_: pa.DataType) -> str:
    if pa.types.is_uint64(type_):
        return "DECIMAL(20,0)"
    if pa.types.is_unsigned_integer(type_):
        return "BIGINT"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP" if type_.tz else "TIMESTAMP_NTZ"
    if pa.types.is_decimal(type_):
        return f"DECIMAL(38,{min(max(type_.scale, 0), 38)})"
    if pa.types.is_date64(type_):
        return "DATE"
    if pa.types.is_float16(type_):
        return "FLOAT"
    return "STRING"
