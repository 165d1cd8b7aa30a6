"""From the columns of a query to the JSON Schema of a table that holds its rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as T  # noqa: N812  # as everybody names it

from singerlake.errors import InvalidQueryError
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Kind, Type, columns_of
from singerlake.quantities import repeated

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
    advice = next((text for kind, text in _ADVICE.items() if isinstance(type_, kind)), "")
    raise InvalidQueryError(
        f"column {where!r} is of the type {type_.simpleString()}, which a lake cannot store: "
        + (advice or "cast it to another")
    )


def _nullable(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "type": ["null", spec["type"]]}


def _check_names(names: list[str], where: str) -> None:
    if twice := sorted(repeated(names)):
        listed = ", ".join(repr(name) for name in twice)
        raise InvalidQueryError(f"columns{where} occur more than once: {listed}; use AS")
    if "" in names:
        number = names.index("") + 1
        raise InvalidQueryError(f"column {number}{where} has the empty name '': name it with AS")


def _holds_text(type_: Type) -> bool:
    return type_.kind is Kind.TEXT or any(map(_holds_text, type_.parts))
