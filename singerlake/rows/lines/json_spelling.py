"""The JSON spelling of typed values: canonical texts, as the column's schema has them.

What the canonical text of a row leaves open is settled here by the schema: whether a null is
written, whether a decimal is a JSON string, and whether a text is the string that it looks like
or the JSON that a column of no one type shows as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format.json_schema import Spec, may_be, resolved
from singerlake.format.nesting import too_deep
from singerlake.format.types import Kind, Type
from singerlake.rows.columns import canonical_text, text_bytes
from singerlake.rows.columns.arrow_types import DAYS, MICROS

_NOT_JSON, _NOT_FINITE, _NOT_IN_CALENDAR, _NOT_UTF8 = "\x01", "\x02", "\x03", "\x04"
REASONS = {
    _NOT_JSON: "is not valid JSON, and the column allows no string",
    _NOT_FINITE: "is not a JSON number",
    _NOT_IN_CALENDAR: "is outside the years 1 to 9999",
    _NOT_UTF8: "is text that is not UTF-8",
}
"""Why a value cannot be written, by the character that stands for it until somebody looks: no
JSON text has it."""
MARKS = "[\x01-\x04]"
"""Finds one of them."""


def may_have_marks(texts: pa.Array) -> bool:
    """Tell in a glance whether there may be marks in some texts; there is none where it says no."""
    return text_bytes.least(texts) <= ord(max(REASONS))


@dataclass(frozen=True)
class Spelling:
    """The spelling of a column's values, or of a part of it.

    Attributes:
        nullable: Whether the schema allows null.
        required: Whether an object must have the member.
        as_string: Whether a number is written as a JSON string.
        as_json: Whether a text is JSON, which goes in as it is.
        fields: Those of a struct, in order, by name.
        item: That of a list's items.
    """

    type: Type
    nullable: bool
    required: bool
    as_string: bool = False
    as_json: bool = False
    fields: tuple[tuple[str, Spelling], ...] = ()
    item: Spelling | None = None


def spelling_of(type_: Type, spec: Any, root: Spec, *, required: bool) -> Spelling:
    """Find out how a column is written.

    Args:
        root: The whole schema, in which ``$ref`` is looked up.
        required: Whether a record must have it.
    """
    text = may_be(spec, root, "string")
    inner = _structured(spec, root) if type_.kind in (Kind.STRUCT, Kind.LIST) else {}
    needed = inner.get("required")
    needed = needed if isinstance(needed, list) else []
    properties = inner.get("properties", {})
    fields = (
        (name, spelling_of(field, properties.get(name, {}), root, required=name in needed))
        for name, field in type_.fields
    )
    return Spelling(
        type=type_,
        nullable=may_be(spec, root, "null"),
        required=required,
        as_string=type_.kind is Kind.DECIMAL and text and not may_be(spec, root, "number"),
        as_json=type_.kind is Kind.TEXT and not text,
        fields=tuple(fields),
        item=None
        if type_.item is None
        else spelling_of(type_.item, inner.get("items"), root, required=False),
    )


def _structured(part: Any, root: Spec) -> Spec:
    """The part of a schema that says what is in an object or an array."""
    spec = resolved(part, root)
    branches = [*(spec.get("anyOf") or ()), *(spec.get("oneOf") or ())]
    if "properties" in spec or "items" in spec or not branches:
        return spec
    structured = (
        branch
        for branch in branches
        if may_be(branch, root, "object") or may_be(branch, root, "array")
    )
    return _structured(next(structured, None), root)


def texts(array: pa.Array, spelling: Spelling) -> pa.Array:
    """Write each value as JSON; null where it is null.

    A value that cannot be written has a mark in its text: see :data:`REASONS`.
    """
    kind = spelling.type.kind
    if kind is Kind.STRUCT:
        return _struct_texts(array, spelling)
    if kind is Kind.LIST and spelling.item is not None:
        return canonical_text.list_texts(array, texts(array.flatten(), spelling.item))
    if kind is Kind.TEXT and spelling.as_json:
        return _by_value(array, _json)
    if kind in (Kind.TEXT, Kind.STRING) and not _is_utf8(array):
        return _by_value(array.cast(pa.binary()), _utf8)
    if kind in _OUTSIDE and (outside := _OUTSIDE[kind](array)) is not None:
        mark = _NOT_FINITE if kind is Kind.NUMBER else _NOT_IN_CALENDAR
        inside = pc.if_else(outside, pa.scalar(None, array.type), array)
        return pc.if_else(outside, _large(mark), canonical_text.texts(inside, spelling.type))
    written = canonical_text.texts(array, spelling.type)
    return canonical_text.joined('"', written, '"') if spelling.as_string else written


def _struct_texts(array: pa.StructArray, spelling: Spelling) -> pa.Array:
    members = []
    for values, (name, field) in zip(array.flatten(), spelling.fields, strict=True):
        text = texts(values, field)
        if field.required and field.nullable:
            text = pc.fill_null(text, "null")
        members.append((name, text))
    members.sort(key=lambda member: member[0])
    objects = canonical_text.object_texts(members, len(array))
    return pc.if_else(array.is_valid(), objects, pa.scalar(None, pa.large_string()))


def _by_value(array: pa.Array, written: Callable[[Any], str]) -> pa.Array:
    values = (None if value is None else written(value) for value in array.to_pylist())
    return pa.array(values, pa.large_string())


def _json(text: str) -> str:
    """A text as the JSON that it should be, on one line."""
    if too_deep(text.encode(), 2):
        return _NOT_JSON
    try:
        orjson.loads(text)
    except ValueError:
        try:  # orjson has no numbers past a double's range
            json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return _NOT_JSON
    return text.strip().replace("\n", " ").replace("\r", " ")


def _no_constant(_name: str) -> None:
    raise ValueError("JSON has neither NaN nor Infinity")


def _utf8(data: bytes) -> str:
    try:
        return canonical_text.string_text(data.decode("utf-8"))
    except UnicodeDecodeError:
        return _NOT_UTF8


def _is_utf8(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _not_finite(array: pa.Array) -> pa.Array | None:
    finite = pc.fill_null(pc.is_finite(array), True)
    return None if pc.all(finite).as_py() is not False else pc.invert(finite)


def _outside(storage: pa.DataType, bounds: tuple[int, int]) -> Callable[..., pa.Array | None]:
    def outside(array: pa.Array) -> pa.Array | None:
        numbers = pc.cast(array, storage)
        extremes = pc.min_max(numbers).as_py()
        if extremes["min"] is None:
            return None
        if bounds[0] <= extremes["min"] and extremes["max"] <= bounds[1]:
            return None
        beyond = pc.or_(pc.less(numbers, bounds[0]), pc.greater(numbers, bounds[1]))
        return pc.fill_null(beyond, False)

    return outside


_OUTSIDE: dict[Kind, Callable[..., pa.Array | None]] = {
    Kind.NUMBER: _not_finite,
    Kind.DATE: _outside(pa.int32(), DAYS),
    Kind.TIMESTAMP: _outside(pa.int64(), MICROS),
}


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())
