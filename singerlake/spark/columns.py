"""Columns as Arrow has them; what becomes a column is decided in ``singerlake.format.types``."""

from __future__ import annotations

import pyarrow as pa

from singerlake.format.types import (
    BOOLEAN,
    DATE,
    DEFAULT_SCALE,
    DIGITS,
    INTEGER,
    MAX_DEPTH,
    NUMBER,
    STRING,
    TEXT,
    TIMESTAMP,
    WHOLE,
    Columns,
    Kind,
    Type,
    columns_of,
    key_positions,
    type_of,
)

__all__ = [
    "BOOLEAN",
    "DATE",
    "DEFAULT_SCALE",
    "DIGITS",
    "INTEGER",
    "MAX_DEPTH",
    "NUMBER",
    "STRING",
    "TEXT",
    "TIMESTAMP",
    "WHOLE",
    "Columns",
    "Kind",
    "Type",
    "arrow_type",
    "columns_of",
    "key_positions",
    "type_of",
]

_ARROW = {
    Kind.INTEGER: pa.int64(),
    Kind.NUMBER: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TEXT: pa.string(),
}


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type that holds a column's values."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(DIGITS, type_.scale)
    if type_.kind is Kind.STRUCT:
        return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in type_.fields])
    if type_.kind is Kind.LIST:
        return pa.list_(pa.field("element", arrow_type(type_.item or TEXT)))
    return _ARROW[type_.kind]
