"""From a JSON Schema to typed columns. ``docs/types.md`` has the table; a test compares them.

Needs no Spark: what decides how a value is read must be testable without a JVM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from singerlake.errors import DamagedError
from singerlake.format.log import SchemaEntry

DIGITS = 38
"""Digits of a decimal, in Arrow's 128 bits and in Spark."""
DEFAULT_SCALE = 18
"""Digits behind the point of ``singer.decimal`` where the schema does not say."""
MAX_SCALE = 30
"""Finer steps than 10^-30 leave too few digits before the point; such numbers are doubles."""
MAX_DEPTH = 32
"""Deeper nesting (or a schema that refers to itself) is kept as JSON text from there on."""
_INT64 = (-(1 << 63), (1 << 63) - 1)


class Kind(Enum):
    """What a column holds."""

    INTEGER = "int64"
    NUMBER = "double"
    DECIMAL = "decimal"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BOOLEAN = "boolean"
    STRUCT = "struct"
    LIST = "list"
    TEXT = "text"
    """A string as its bare text, any other value as its JSON text."""


@dataclass(frozen=True)
class Type:
    """The type of a column, or of what lies inside one.

    Attributes:
        kind: What it holds.
        scale: Digits behind the point of a decimal.
        fields: A struct's fields in order.
        item: What a list holds.
    """

    kind: Kind
    scale: int = 0
    fields: tuple[tuple[str, Type], ...] = ()
    item: Type | None = None

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"decimal({DIGITS},{self.scale})"
        if self.kind is Kind.STRUCT:
            return "struct<" + ", ".join(f"{name}: {type_}" for name, type_ in self.fields) + ">"
        return f"list<{self.item}>" if self.kind is Kind.LIST else self.kind.value


Columns: TypeAlias = tuple[tuple[str, Type], ...]

INTEGER = Type(Kind.INTEGER)
NUMBER = Type(Kind.NUMBER)
WHOLE = Type(Kind.DECIMAL)
STRING = Type(Kind.STRING)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
BOOLEAN = Type(Kind.BOOLEAN)
TEXT = Type(Kind.TEXT)

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


def columns_of(entry: SchemaEntry) -> Columns:
    """A table's columns, in the order of the schema's properties."""
    root = entry.schema
    properties = _resolve(root, root).get("properties")
    if not isinstance(properties, dict):
        return ()
    return tuple((name, _type(spec, root, 0)) for name, spec in properties.items())


def key_positions(entry: SchemaEntry, columns: Columns, table: object) -> tuple[int, ...]:
    """Where a table's key columns are; none for a keyless table.

    Raises:
        DamagedError: A key is not among the columns.
    """
    places = {name: place for place, (name, _) in enumerate(columns)}
    missing = [key for key in entry.key_properties if key not in places]
    if missing:
        raise DamagedError(
            f"the schema of {table} has the key {missing[0]!r} but no such property: "
            "mend the tap's SCHEMA message"
        )
    return tuple(dict.fromkeys(places[key] for key in entry.key_properties))


def type_of(spec: Any, root: dict[str, Any] | None = None) -> Type:
    """The type of one property.

    Args:
        spec: Its JSON Schema.
        root: The whole schema, in which ``$ref`` is looked up.
    """
    return _type(spec, root or {}, 0)


def _type(spec: Any, root: dict[str, Any], depth: int) -> Type:
    spec = _resolve(spec, root)
    if depth > MAX_DEPTH:
        return TEXT
    kinds = spec.get("type")
    if kinds is None:
        branches = spec.get("anyOf") or spec.get("oneOf")
        if isinstance(branches, list):
            return _merge([_type(b, root, depth + 1) for b in branches if not _is_null(b, root)])
        kinds = [k for k, sign in (("object", "properties"), ("array", "items")) if sign in spec]
    if isinstance(kinds, str):
        kinds = [kinds]
    kinds = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else []
    if spec.get("format") == "singer.decimal" and set(kinds) <= {"string", "number", "integer"}:
        return _singer_decimal(spec)
    return _merge([_single(kind, spec, root, depth) for kind in kinds])


def _single(kind: Any, spec: dict[str, Any], root: dict[str, Any], depth: int) -> Type:
    if kind in _SCALARS:
        return _SCALARS[kind](spec)
    properties, items = spec.get("properties"), spec.get("items")
    if kind == "object" and isinstance(properties, dict) and properties:
        fields = ((name, _type(inner, root, depth + 1)) for name, inner in properties.items())
        return Type(Kind.STRUCT, fields=tuple(fields))
    if kind == "array" and isinstance(items, dict) and items:
        return Type(Kind.LIST, item=_type(items, root, depth + 1))
    return TEXT


def _string(spec: dict[str, Any]) -> Type:
    return {"date": DATE, "date-time": TIMESTAMP}.get(str(spec.get("format")), STRING)


def _merge(types: list[Type]) -> Type:
    """One type for values of several."""
    distinct = list(dict.fromkeys(types))
    if len(distinct) == 1:
        return distinct[0]
    if distinct and set(distinct) <= {INTEGER, NUMBER}:
        return NUMBER
    return TEXT


def _integer(spec: dict[str, Any]) -> Type:
    for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        bound = spec.get(word)
        if isinstance(bound, (int, float)) and not _INT64[0] - 1 <= bound <= _INT64[1] + 1:
            return WHOLE
    top = spec.get("maximum")
    bottom = spec.get("minimum")
    return WHOLE if top == _INT64[1] + 1 or bottom == _INT64[0] - 1 else INTEGER


def _number(spec: dict[str, Any]) -> Type:
    step = _decimal(spec.get("multipleOf"))
    if step is None or step <= 0:
        return NUMBER
    exponent = step.normalize().as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else DIGITS
    bounds = [_decimal(spec.get(word)) for word in ("minimum", "maximum")]
    whole = max((bound.adjusted() + 1 for bound in bounds if bound), default=0)
    if scale > MAX_SCALE or scale + whole > DIGITS:
        return NUMBER
    return Type(Kind.DECIMAL, scale=scale)


_SCALARS: dict[Any, Callable[[dict[str, Any]], Type]] = {
    "integer": _integer,
    "number": _number,
    "string": _string,
    "boolean": lambda _: BOOLEAN,
}


def _singer_decimal(spec: dict[str, Any]) -> Type:
    """Its scale is said in one of the ways that are about, or not at all."""
    scale: Any = spec.get("scale")
    more = spec.get("additionalProperties")
    if scale is None and isinstance(more, dict):
        scale = str(more.get("scale_precision", "")).strip("()").partition(",")[2].strip()
        scale = int(scale) if scale.isdigit() else None
    if isinstance(scale, int) and 0 <= scale <= DIGITS:
        return Type(Kind.DECIMAL, scale=scale)
    stepped = _number(spec)
    return stepped if stepped.kind is Kind.DECIMAL else Type(Kind.DECIMAL, scale=DEFAULT_SCALE)


@lru_cache(maxsize=256)
def _parse_decimal(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def _decimal(value: Any) -> Decimal | None:
    """A number of a schema; JSON's 0.01 came in as a double, whose shortest text is meant."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return _parse_decimal(repr(value))


def _resolve(spec: Any, root: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """A schema with its own ``$ref`` and ``allOf`` put in place."""
    if not isinstance(spec, dict) or depth > MAX_DEPTH:
        return {}
    if isinstance(ref := spec.get("$ref"), str):
        rest = {key: value for key, value in spec.items() if key != "$ref"}
        return {**_resolve(_look_up(ref, root), root, depth + 1), **rest}
    if isinstance(parts := spec.get("allOf"), list):
        whole = {key: value for key, value in spec.items() if key != "allOf"}
        for part in parts:
            whole = {**_resolve(part, root, depth + 1), **whole}
        return whole
    return spec


def _look_up(ref: str, root: dict[str, Any]) -> Any:
    if not ref.startswith("#"):
        return {}
    found: Any = root
    for part in ref[1:].split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~"), {}) if found else {}
        if not isinstance(found, dict):
            return {}
    return found


def _is_null(spec: Any, root: dict[str, Any]) -> bool:
    return _resolve(spec, root).get("type") in ("null", ["null"])
