"""The Arrow types of columns; what becomes a column is decided in ``singerlake.format.types``."""

from __future__ import annotations

import pyarrow as pa

from singerlake.format.types import DIGITS, TEXT, Kind, Type

DAYS = (-719162, 2932896)
"""The years 1 to 9999, in days since 1970: what Spark and Python's dates can hold."""
MICROS = (DAYS[0] * 86_400_000_000, (DAYS[1] + 1) * 86_400_000_000 - 1)
"""The same in microseconds."""

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
    """Return the Arrow type that holds a column's values."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(DIGITS, type_.scale)
    if type_.kind is Kind.STRUCT:
        return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in type_.fields])
    if type_.kind is Kind.LIST:
        return pa.list_(pa.field("element", arrow_type(type_.item or TEXT)))
    return _ARROW[type_.kind]
