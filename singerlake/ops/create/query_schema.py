"""From the columns of a query on Spark to the JSON Schema of a table that holds its rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as T  # noqa: N812  # as everybody names it

from singerlake.errors import InvalidQueryError
from singerlake.format.log import SchemaEntry
from singerlake.ops.create.answer_schema import (
    check_names,
    decimal,
    nullable,
    schema_of_specs,
)

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
    T.NullType: "specify its type, as in cast(null as string)",
    T.TimestampNTZType: "specify the instants, as in cast(… as timestamp)",
}


def schema_of(fields: list[T.StructField], keys: list[str]) -> SchemaEntry:
    """Make the schema of a table that holds a query's rows.

    Args:
        fields: The query's columns.
        keys: Those that are the key; all others may be null.

    Raises:
        InvalidQueryError: A name is empty or there twice, or a type has no place in a lake;
            names the column.
    """
    check_names([field.name for field in fields], "")
    return schema_of_specs(((one.name, _spec(one.dataType, one.name)) for one in fields), keys)


def _spec(type_: T.DataType, where: str) -> dict[str, Any]:
    if type(type_) in _SIMPLE:
        return dict(_SIMPLE[type(type_)])
    if isinstance(type_, T.DecimalType):
        return decimal(type_.precision, type_.scale)
    if isinstance(type_, T.ArrayType):
        return {"type": "array", "items": nullable(_spec(type_.elementType, f"{where}[]"))}
    if isinstance(type_, T.StructType) and type_.fields:
        check_names(type_.names, f" in {where!r}")
        properties = {
            field.name: nullable(_spec(field.dataType, f"{where}.{field.name}"))
            for field in type_.fields
        }
        return {"type": "object", "properties": properties}
    advice = next((text for kind, text in _ADVICE.items() if isinstance(type_, kind)), "")
    raise InvalidQueryError(
        f"column {where!r} is of the type {type_.simpleString()}, which a lake cannot store: "
        + (advice or "cast it to another")
    )
