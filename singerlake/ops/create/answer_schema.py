"""The JSON Schema of a table that holds a query's rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from singerlake.errors import InvalidQueryError
from singerlake.format.log import SchemaEntry
from singerlake.format.types import DIGITS, Columns, Kind, Type, columns_of
from singerlake.quantities import repeated

_SIMPLE: dict[Kind, dict[str, Any]] = {
    Kind.INTEGER: {"type": "integer"},
    Kind.NUMBER: {"type": "number"},
    Kind.STRING: {"type": "string"},
    Kind.TEXT: {"type": "string"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.DATE: {"type": "string", "format": "date"},
    Kind.TIMESTAMP: {"type": "string", "format": "date-time"},
}


def schema_of_specs(specs: Iterable[tuple[str, dict[str, Any]]], keys: list[str]) -> SchemaEntry:
    """Make the schema of a table.

    Args:
        specs: The columns, with the JSON Schemas of their values.
        keys: Those that are the key; all others may be null.

    Raises:
        InvalidQueryError: A column is nested too deep.
    """
    properties = {name: spec if name in keys else nullable(spec) for name, spec in specs}
    entry = SchemaEntry({"type": "object", "properties": properties}, keys)
    for name, type_ in columns_of(entry):
        if _holds_text(type_):
            raise InvalidQueryError(f"column {name!r} is nested too deep: take it apart")
    return entry


def schema_of_columns(columns: Columns, keys: list[str]) -> SchemaEntry:
    """Make the schema of a table that holds values of some columns as they are read.

    Raises:
        InvalidQueryError: A name is empty or there twice, or a column is nested too deep.
    """
    check_names([name for name, _ in columns], "")
    return schema_of_specs(((name, _spec(type_)) for name, type_ in columns), keys)


def _spec(type_: Type) -> dict[str, Any]:
    if type_.kind is Kind.DECIMAL:
        return decimal(DIGITS, type_.scale)
    if type_.kind is Kind.LIST:
        return {"type": "array", "items": nullable(_spec(type_.parts[0]))}
    if type_.kind is Kind.STRUCT:
        properties = {name: nullable(_spec(inner)) for name, inner in type_.fields}
        return {"type": "object", "properties": properties}
    return dict(_SIMPLE[type_.kind])


def decimal(precision: int, scale: int) -> dict[str, Any]:
    """Return the JSON Schema of decimals."""
    # Not multipleOf: validators that compute with doubles find 19.99 no multiple of 0.01.
    digits = {"precision": precision, "scale": scale}
    return {"type": "number", "format": "singer.decimal", **digits}


def nullable(spec: dict[str, Any]) -> dict[str, Any]:
    """Allow null beside other values."""
    return {**spec, "type": ["null", spec["type"]]}


def check_names(names: Sequence[str], where: str) -> None:
    """Make sure that all columns or members have names, each its own.

    Args:
        where: What follows "columns" in the message.

    Raises:
        InvalidQueryError: They have not.
    """
    if twice := sorted(repeated(names)):
        listed = ", ".join(repr(name) for name in twice)
        raise InvalidQueryError(f"columns{where} occur more than once: {listed}; use AS")
    if "" in names:
        number = names.index("") + 1
        raise InvalidQueryError(f"column {number}{where} has the empty name '': name it with AS")


def _holds_text(type_: Type) -> bool:
    return type_.kind is Kind.TEXT or any(map(_holds_text, type_.parts))
