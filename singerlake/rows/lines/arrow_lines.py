"""Rows of Arrow batches as records under a SCHEMA: what a tap would have sent as RECORD lines.

A column whose values its property's type can hold is written canonically, as a whole. Any other
(one that the schema does not name or lets be anything, a text where a number should be, a NaN) is
written value by value as what it is, and validation has the word, as it has of a tap's own lines.
Arrow has null where a record lacks a member: where the schema allows no null, and in objects whose
members it does not name, the member is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.errors import InputError, UsageError
from singerlake.format import times
from singerlake.format.json_schema import resolved
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Kind, Type, columns_of
from singerlake.quantities import repeated
from singerlake.rows.columns import canonical_text, text_bytes
from singerlake.rows.input.arrow.cells import cells_of, python_values
from singerlake.rows.input.arrow.schemas import check_fits, spec_of
from singerlake.rows.lines.json_spelling import Spelling, may_have_marks, spelling_of, texts

JSON_TYPE = "arrow.json"
"""Arrow's name for the extension type of texts that are JSON."""


class ArrowLines:
    """Writes batches of rows as records.

    Args:
        entry: The schema that the records are of.
    """

    def __init__(self, entry: SchemaEntry) -> None:
        whole = resolved(entry.schema, entry.schema)
        properties = whole.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        self._types: dict[str, Type] = dict(columns_of(entry))
        self._spellings: dict[str, Spelling] = {
            name: spelling_of(type_, properties.get(name, {}), entry.schema, required=False)
            for name, type_ in self._types.items()
        }

    def lines(self, batch: pa.RecordBatch) -> bytes:
        """Write rows.

        Returns:
            A record a line.

        Raises:
            InputError: A column cannot be in a record, or two have one name.
        """
        if twice := repeated(batch.schema.names):
            raise InputError(f"it has the column {twice[0]!r} twice")
        members = [
            (field.name, self._members(field, array))
            for field, array in zip(batch.schema, batch.columns, strict=True)
        ]
        written = canonical_text.object_texts(members, batch.num_rows, ("", "\n"))
        return text_bytes.written(written).tobytes()

    def _members(self, field: pa.Field, array: pa.Array) -> pa.Array:
        """Write a column's values as JSON; null where a record lacks the member."""
        type_ = self._types.get(field.name)
        if is_json(field):
            given = _json_texts(array, field.name)
            nulls = type_ is not None and self._spellings[field.name].nullable
            return pc.fill_null(given, "null") if nulls else given
        if pa.types.is_null(array.type):
            nulls = type_ is None or self._spellings[field.name].nullable
            return pa.array(["null" if nulls else None] * len(array), pa.large_string())
        written = self._canonical(field.name, type_, array) if type_ is not None else None
        if written is None:
            written = natural_texts(array, field.name)
        if type_ is None or self._spellings[field.name].nullable:
            return pc.fill_null(written, "null")
        return written

    def _canonical(self, name: str, type_: Type, array: pa.Array) -> pa.Array | None:
        """Write values as their column's type has them; None where it has not all of them."""
        if type_.kind is Kind.TEXT:
            return None
        try:
            check_fits(array.type, type_, name)
        except UsageError:
            return None
        return _texts(array, type_, self._spellings[name])


def _texts(array: pa.Array, type_: Type, spelling: Spelling) -> pa.Array | None:
    """Write values as a type has them, part by part; None where it has not all of them."""
    if type_.kind is Kind.TEXT and not pa.types.is_null(array.type):
        return None  # 5 and "5" are one text, and two values
    if type_.kind is Kind.STRUCT and pa.types.is_struct(array.type):
        return _object_texts(array, type_, spelling)
    plain_list = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
    if type_.item is not None and spelling.item is not None and plain_list:
        items = _texts(array.flatten(), type_.item, spelling.item)
        return None if items is None else canonical_text.list_texts(array, items)
    cells, misfits = cells_of(array, type_)
    if misfits:
        return None
    written = texts(cells, spelling)
    return None if may_have_marks(written) else written


def _object_texts(array: pa.StructArray, type_: Type, spelling: Spelling) -> pa.Array | None:
    types, spellings = dict(type_.fields), dict(spelling.fields)
    members = []
    for field, values in zip(array.type, array.flatten(), strict=True):
        written = _texts(values, types[field.name], spellings[field.name])
        if written is None:
            return None
        if spellings[field.name].required and spellings[field.name].nullable:
            written = pc.fill_null(written, "null")
        members.append((field.name, written))
    objects = canonical_text.object_texts(members, len(array))
    return pc.if_else(array.is_valid(), objects, pa.scalar(None, pa.large_string()))


def is_json(field: pa.Field) -> bool:
    """Tell whether a column's texts are JSON, as Arrow's own extension type says it."""
    if isinstance(field.type, pa.BaseExtensionType):
        return bool(field.type.extension_name == JSON_TYPE)
    said: Mapping[bytes, bytes] = field.metadata or {}
    return said.get(b"ARROW:extension:name") == JSON_TYPE.encode()


def _json_texts(array: pa.Array, name: str) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    given = array.to_pylist()
    for text in given:
        if text is not None and "\n" in text:
            raise InputError(f"the JSON in its column {name!r} is not on one line")
    return pa.array(given, pa.large_string())


def natural_texts(array: pa.Array, name: str) -> pa.Array:
    """Write values as what they are, whatever a schema says.

    Raises:
        InputError: They are of a type that JSON has not.
    """
    try:
        if not pa.types.is_time(array.type):
            spec_of(array.type, name)  # each part must have a place in a record
        values = python_values(array)
        written = [None if value is None else _natural(value) for value in values]
    except UsageError as error:
        raise InputError(str(error)) from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"its column {name!r} of the type {array.type} cannot be in a record: {error}"
        ) from error
    return pa.array(written, pa.large_string())


def _natural(value: Any) -> str:
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            return write(value)
    return json.dumps(value, ensure_ascii=False)


def _float(value: float) -> str:
    if math.isfinite(value):
        return canonical_text.number_text(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal) -> str:
    return format(value, "f") if value.is_finite() else _float(float(value))


def _datetime(value: datetime) -> str:
    return f'"{times.iso(value)}"' if value.tzinfo else f'"{value.isoformat()}"'


def _object(value: Mapping[str, Any]) -> str:
    there = ((name, one) for name, one in value.items() if one is not None)
    members = (f"{json.dumps(name, ensure_ascii=False)}:{_natural(one)}" for name, one in there)
    return "{" + ",".join(members) + "}"


def _array(value: list[Any]) -> str:
    return "[" + ",".join("null" if one is None else _natural(one) for one in value) + "]"


_WRITERS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (bool, json.dumps),
    (float, _float),
    (Decimal, _decimal),
    (datetime, _datetime),
    ((date, time), lambda value: f'"{value.isoformat()}"'),
    (Mapping, _object),
    (list, _array),
)
