"""JSON Schema as types that msgspec decodes: what decodes is certain to be valid.

The reverse is not claimed: a value that does not decode, or a schema with a keyword that is
not known here, goes to the full validator. So this may be incomplete, but never lenient.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Raw

from singerlake.format.messages import DELETED
from singerlake.format.types import Columns, Kind, Type

_TIMES = {Kind.DATE: dt.date, Kind.TIMESTAMP: dt.datetime}
_PLAIN = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}
# The keywords of draft 2020-12 that can refuse a value, or change how another one does.
# Whatever is in none of the lists is an annotation, as the draft has it.
_HANDLED = {"type", "properties", "required", "items", "additionalProperties", "anyOf", "enum"}
_BOUNDS = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
_LENGTHS = {"minLength": "min_length", "maxLength": "max_length"}
_ITEMS = {"minItems": "min_length", "maxItems": "max_length"}
_REFUSED = {
    "$ref", "$dynamicRef", "$recursiveRef", "allOf", "oneOf", "not", "if", "then", "else",
    "const", "pattern", "multipleOf", "prefixItems", "additionalItems", "contains",
    "minContains", "maxContains", "uniqueItems", "patternProperties", "propertyNames",
    "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies",
    "unevaluatedItems", "unevaluatedProperties", "$id", "$anchor", "$defs", "definitions",
}  # fmt: skip
_EVERY_TYPE = {"string", "number", "boolean", "null", "object", "array"}
_SOMETHING = bool | int | float | str | list[Raw] | dict[str, Raw]
"""Every value but null."""


class _UnsupportedError(Exception):
    """The schema has something that types cannot say."""


def record_decoder(
    schema: dict[str, Any], keys: list[str], *, formats: bool, columns: Columns | None = None
) -> msgspec.json.Decoder[Any] | None:
    """Build a decoder that accepts only records that are valid and have a value in each key.

    Args:
        schema: The stream's JSON Schema.
        formats: Whether ``format`` must hold, which types cannot say.
        columns: Columns that must be able to hold the values too; times at either end of the
            calendar are for ``ValueCheck.may_leave_the_calendar`` to find. The mark of
            deletions must then be a time or null, declared or not.

    Returns:
        None where the schema is beyond types. The keys' fields are called ``k0``, ``k1``, ….
    """
    try:
        column = None if columns is None else Type(Kind.STRUCT, fields=columns)
        kind = _Builder(formats=formats).record(schema, keys, column)
        return msgspec.json.Decoder(kind)
    except (_UnsupportedError, TypeError, ValueError, RecursionError):
        return None


def key_decoder(keys: list[str]) -> msgspec.json.Decoder[Any] | None:
    """Build a decoder of every JSON object that has a value in each key; None for odd names."""
    try:
        kind = _struct("Keys", dict.fromkeys(keys, _SOMETHING), set(keys), closed=False)
        return msgspec.json.Decoder(kind)
    except ValueError:  # a name with a quote or a control character in it
        return None


class _Builder:
    def __init__(self, *, formats: bool) -> None:
        self._formats = formats

    def record(self, schema: dict[str, Any], keys: list[str], column: Type | None) -> Any:
        self._check_keywords(schema)
        if "anyOf" in schema or "enum" in schema:
            raise _UnsupportedError
        kinds = as_list(schema.get("type", "object"))
        if "object" not in kinds:
            raise _UnsupportedError
        return self._object(schema, {*schema.get("required", []), *keys}, column, keys, top=True)

    def _check_keywords(self, schema: dict[str, Any]) -> None:
        if not isinstance(schema, dict) or not _REFUSED.isdisjoint(schema):
            raise _UnsupportedError
        if self._formats and "format" in schema:
            raise _UnsupportedError

    def _kind(self, schema: Any, column: Type | None) -> Any:
        """Build the type of a value.

        Args:
            column: The column that must be able to hold it; None where any can.
        """
        if column is not None and column.kind is Kind.TEXT:
            column = None
        if schema is True or schema == {}:
            return Raw
        self._check_keywords(schema)
        if "enum" in schema:
            return self._enum(schema, column)
        if "anyOf" in schema:
            return self._any_of(schema, column)
        kinds = set(as_list(schema["type"])) if "type" in schema else set(_EVERY_TYPE)
        limits = {*_HANDLED, *_BOUNDS, *_LENGTHS, *_ITEMS} - {"type"}
        if kinds >= _EVERY_TYPE and limits.isdisjoint(schema):
            return Raw
        if "type" not in schema:
            raise _UnsupportedError
        ones = (self._one(kind, schema, column) for kind in sorted(kinds))
        return Union[tuple(ones)]  # noqa: UP007

    def _one(self, kind: str, schema: dict[str, Any], column: Type | None) -> Any:
        if kind == "object":
            return self._object(schema, set(schema.get("required", [])), column)
        if kind == "array":
            item = None if column is None else _inner(column, Kind.LIST).item
            return _limited(list[self._kind(schema.get("items", True), item)], schema, _ITEMS)  # type: ignore[misc]
        if kind not in _PLAIN:
            raise _UnsupportedError
        if column is not None and kind != "null":
            return _fitting(kind, schema, column)
        limits = {"string": _LENGTHS, "integer": _BOUNDS, "number": _BOUNDS}.get(kind, {})
        return _limited(_PLAIN[kind], schema, limits)

    def _any_of(self, schema: dict[str, Any], column: Type | None) -> Any:
        if not {*_HANDLED, *_BOUNDS, *_LENGTHS, *_ITEMS}.isdisjoint(set(schema) - {"anyOf"}):
            raise _UnsupportedError  # both must hold, which a union does not say
        branches = (self._kind(branch, column) for branch in schema["anyOf"])
        return Union[tuple(branches)]  # noqa: UP007

    def _enum(self, schema: dict[str, Any], column: Type | None) -> Any:
        values = schema["enum"]
        # A number equals its other spellings (1 and 1.0) in JSON Schema, not in a Literal.
        if not values or not all(value is None or isinstance(value, str) for value in values):
            raise _UnsupportedError
        if not {*_HANDLED, *_LENGTHS}.isdisjoint(set(schema) - {"enum", "type"}):
            raise _UnsupportedError
        kinds = set(as_list(schema.get("type", ["string", "null"])))
        allowed = [v for v in values if ("null" if v is None else "string") in kinds]
        if not allowed or (column is not None and column.kind is not Kind.STRING):
            raise _UnsupportedError
        return Literal[tuple(allowed)]

    def _object(
        self,
        schema: dict[str, Any],
        required: set[str],
        column: Type | None,
        keys: Sequence[str] = (),
        *,
        top: bool = False,
    ) -> Any:
        extra = schema.get("additionalProperties", True)
        if not isinstance(extra, bool) and extra != {}:
            raise _UnsupportedError
        inner = {} if column is None else dict(_inner(column, Kind.STRUCT).fields)
        properties = schema.get("properties", {}).items()
        fields = {name: self._kind(sub, inner.get(name)) for name, sub in properties}
        if extra is not False:
            fields.update((name, Raw) for name in required - set(fields))
        elif not required <= set(fields):
            raise _UnsupportedError
        if top and column is not None and (extra is not False or DELETED in fields):
            fields[DELETED] = _mark(fields.get(DELETED, Raw))
        fields.update((key, not_null(fields[key])) for key in keys)
        return _struct("Object", fields, required, closed=extra is False, keys=keys)


def _mark(kind: Any) -> Any:
    """Return the type of what a type decodes and marks a deletion, or none.

    Raises:
        _UnsupportedError: It decodes neither a time nor null.
    """
    if kind is Raw:
        return dt.datetime | None
    ones = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    times: list[Any] = [one for one in ones if one in (dt.date, dt.datetime)]
    if not times and str in ones:
        times = [dt.datetime]
    if None in ones or type(None) in ones:
        times.append(None)
    if not times:
        raise _UnsupportedError
    return Union[tuple(times)]  # noqa: UP007


def not_null(kind: Any) -> Any:
    """Return the type of what a type decodes but null, by which no row is told from others.

    Raises:
        TypeError: It decodes nothing else.
    """
    if kind is Raw:
        return _SOMETHING
    if kind in (None, type(None)):
        raise TypeError("nothing but null")
    rest = tuple(one for one in get_args(kind) if one not in (None, type(None)))
    if get_origin(kind) is Literal:
        return Literal[rest]
    return Union[rest] if get_origin(kind) in (Union, UnionType) else kind  # noqa: UP007


def neutral_names(names: Iterable[str], keys: Sequence[str] = ()) -> dict[str, str]:
    """Return what fields are called that stand for properties, which may be called anything.

    Args:
        names: Of the properties.
        keys: Those by which rows are told apart: ``k0``, ``k1`` and so on, wherever they stand.
    """
    numbers = {key: number for number, key in reversed([*enumerate(keys)])}
    return {f"k{numbers[x]}" if x in numbers else f"f{n}": x for n, x in enumerate(names)}


def _struct(
    name: str, fields: dict[str, Any], required: set[str], *, closed: bool, keys: Sequence[str] = ()
) -> type:
    neutral = neutral_names(fields, keys)
    must = [(n, fields[field]) for n, field in neutral.items() if field in required]
    may: list[Any] = [
        (n, fields[field], None) for n, field in neutral.items() if field not in required
    ]
    return msgspec.defstruct(
        name, [*must, *may], rename=neutral, gc=False, forbid_unknown_fields=closed
    )


def _inner(column: Type, kind: Kind) -> Type:
    if column.kind is not kind:
        raise _UnsupportedError
    return column


def _fitting(kind: str, schema: dict[str, Any], column: Type) -> Any:
    """Build the type of a plain value that a column can hold."""
    if column.exact and column.kind is Kind.NUMBER and kind in ("integer", "number"):
        # Of other numbers no type says whether a double would round them.
        return _whole(schema, -(1 << 53), 1 << 53)
    if kind == "integer" and column.kind in (Kind.INTEGER, Kind.NUMBER, Kind.DECIMAL):
        if column.scale:
            raise _UnsupportedError
        return _whole(schema, -(1 << 63), (1 << 63) - 1)
    if kind == "string" and column.kind in _TIMES:
        if not _LENGTHS.keys().isdisjoint(schema):
            raise _UnsupportedError
        return _TIMES[column.kind]
    plain = {"number": Kind.NUMBER, "string": Kind.STRING, "boolean": Kind.BOOLEAN}
    if plain.get(kind) is not column.kind:
        raise _UnsupportedError
    limits = {"string": _LENGTHS, "number": _BOUNDS}.get(kind, {})
    return _limited(_PLAIN[kind], schema, limits)


def _whole(schema: dict[str, Any], least: int, most: int) -> Any:
    """Build the type of whole numbers within a schema's bounds, or else within others."""
    inside = {word: bound for word, bound in schema.items() if word in _BOUNDS}
    if any(isinstance(bound, bool) or not least <= bound <= most for bound in inside.values()):
        raise _UnsupportedError
    if not {"minimum", "exclusiveMinimum"} & inside.keys():
        inside["minimum"] = least
    if not {"maximum", "exclusiveMaximum"} & inside.keys():
        inside["maximum"] = most
    return _limited(int, inside, _BOUNDS)


def _limited(kind: Any, schema: dict[str, Any], limits: dict[str, str]) -> Any:
    bounds: dict[str, Any] = {limits[k]: schema[k] for k in limits if k in schema}
    if not bounds:
        return kind
    if any(isinstance(v, bool) or not isinstance(v, int) for v in bounds.values()):
        raise _UnsupportedError
    # From 2**53 on a bound and the value it bounds may round to the same double.
    if kind is float and any(abs(v) >= 1 << 53 for v in bounds.values()):
        raise _UnsupportedError
    return Annotated[kind, msgspec.Meta(**bounds)]


def as_list(value: Any) -> list[str]:
    """Return the types that a schema names, which may be one."""
    return [value] if isinstance(value, str) else list(value)
