"""From a JSON Schema to typed columns. A test holds them to ``docs/reference/types.md``.

Needs neither Spark nor Arrow: whoever takes records must know what a reader will make of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

from singerlake.errors import DamagedError
from singerlake.format import json_schema
from singerlake.format.log import SchemaEntry

DIGITS = 38
"""Digits of a decimal, in Arrow's 128 bits and in Spark."""
DEFAULT_SCALE = 18
"""Digits after the point of ``singer.decimal`` where the schema does not say."""
MAX_SCALE = 30
"""Finer steps than 10^-30 leave too few digits before the point; such numbers are doubles."""
MAX_DEPTH = 32
"""Deeper nesting (or a schema that refers to itself) is kept as JSON text from there on."""
MAX_PARTS = 5_000
"""A column of more parts, as a schema has that refers to itself twice, is text from there on."""
RULES = 3
"""The number of the rules by which columns are read. A version keeps the rules it was frozen under.
Rules 1 overlaid the parts of ``allOf``, knew one format of decimals and no booleans as bounds, and
counted no parts. Rules 1 and 2 compared keys as their columns had rounded them, took rows with a
null in their key for one row, and any value of ``_sdc_deleted_at`` for a deletion."""
EXACT_KEYS = 3
"""The first rules by which keys are exact, and a row with a null in its key is a row of its own."""
TIMED_DELETIONS = 3
"""The first rules by which only a time in ``_sdc_deleted_at`` makes a record a deletion."""
DECIMAL_FORMATS = ("singer.decimal", "x-singer.decimal")
INT64 = range(-(1 << 63), 1 << 63)
"""The whole numbers that a 64-bit column holds."""


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
        own: Of a key column that a person made text of, its type by the schema: a value that
            has it is text in one way only, so that 1 and 1.0 stay one key.
        exact: Of a number, an instant or a day that is part of a key: a value that the column would
            have to round does not fit, for two keys that are rounded to one are two rows.
    """

    kind: Kind
    scale: int = 0
    fields: tuple[tuple[str, Type], ...] = ()
    item: Type | None = None
    own: Type | None = None
    exact: bool = False

    @property
    def parts(self) -> list[Type]:
        """The types right within it: of a struct's fields, or of a list's items."""
        return [inner for _, inner in self.fields] + ([self.item] if self.item else [])

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"decimal({DIGITS},{self.scale})"
        if self.kind is Kind.STRUCT:
            return "struct<" + ", ".join(f"{name}: {type_}" for name, type_ in self.fields) + ">"
        return f"list<{self.item}>" if self.kind is Kind.LIST else self.kind.value


Columns: TypeAlias = tuple[tuple[str, Type], ...]
_INEXACT = (Kind.NUMBER, Kind.TIMESTAMP, Kind.DATE)
"""Kinds whose columns take values that they have to change: digits go, or what is past midnight."""

INTEGER = Type(Kind.INTEGER)
NUMBER = Type(Kind.NUMBER)
WHOLE = Type(Kind.DECIMAL)
STRING = Type(Kind.STRING)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
BOOLEAN = Type(Kind.BOOLEAN)
TEXT = Type(Kind.TEXT)


def columns_of(
    entry: SchemaEntry, rules: int = RULES, retyped: Container[str] = frozenset()
) -> Columns:
    """A table's columns, in the order of the schema's properties.

    Args:
        entry: The schema.
        rules: The number of the rules: those of a version that was frozen under earlier ones
            stay as they were.
        retyped: Columns that a person has said to be text.
    """
    reader = _Reader(entry.schema, rules)
    properties = reader.resolved(entry.schema).get("properties")
    if not isinstance(properties, dict):
        return ()
    keys = set(entry.key_properties)

    def column(name: str, spec: Any) -> Type:
        if name not in keys:
            return TEXT if name in retyped else reader.column(spec)
        own = exact(reader.column(spec)) if rules >= EXACT_KEYS else reader.column(spec)
        return Type(Kind.TEXT, own=own) if name in retyped else own

    return tuple((name, column(name, spec)) for name, spec in properties.items())


def exact(type_: Type, *, is_key: bool = True) -> Type:
    """Return a type under which no value is rounded, for a column of a key; or its reverse."""
    if type_.kind in _INEXACT:
        return replace(type_, exact=is_key)
    if type_.kind is Kind.STRUCT:
        fields = tuple((name, exact(inner, is_key=is_key)) for name, inner in type_.fields)
        return replace(type_, fields=fields)
    return type_ if type_.item is None else replace(type_, item=exact(type_.item, is_key=is_key))


def identity(columns: Columns) -> Columns:
    """Return columns that tell the rows of a key apart whatever their values are.

    What an exact column would have to round is a text there, each value in one way only.
    """
    return tuple(
        (name, Type(Kind.TEXT, own=type_) if is_exact(type_) else type_) for name, type_ in columns
    )


def is_exact(type_: Type) -> bool:
    """Tell whether a column is of a key, and would have to round some of its values."""
    return rounds(type_) and type_ != exact(type_, is_key=False)


def keeps_numbers(own: Type, new: Type) -> bool:
    """Tell whether two keys that are two numbers under one type cannot be one under another."""
    numbers = (Kind.INTEGER, Kind.NUMBER, Kind.DECIMAL)
    return own.kind in numbers and new.kind is Kind.DECIMAL


def rounds(type_: Type) -> bool:
    """Tell whether a column would have to round some of the values that its schema allows."""
    return type_.kind in (Kind.NUMBER, Kind.TIMESTAMP) or any(map(rounds, type_.parts))


def descriptions_of(entry: SchemaEntry) -> dict[str, str]:
    """What a schema says of its columns in words, for those of which it says anything."""
    reader = _Reader(entry.schema, RULES)
    properties = reader.resolved(entry.schema).get("properties")
    if not isinstance(properties, dict):
        return {}
    described = {
        name: reader.resolved(spec).get("description") for name, spec in properties.items()
    }
    return {name: text for name, text in described.items() if isinstance(text, str) and text}


def key_positions(entry: SchemaEntry, columns: Columns, table: object) -> tuple[int, ...]:
    """Where a table's key columns are; none for a keyless table.

    Raises:
        DamagedError: A key is not among the columns.
    """
    positions = {name: position for position, (name, _) in enumerate(columns)}
    missing = [key for key in entry.key_properties if key not in positions]
    if missing:
        raise DamagedError(
            f"the schema of {table} has the key {missing[0]!r} but no such property: "
            "correct the tap's SCHEMA message"
        )
    return tuple(dict.fromkeys(positions[key] for key in entry.key_properties))


def never_fails(source: Type, target: Type) -> bool:
    """Tell whether every value of one type can become the other."""
    return (
        source == target
        or target.kind in (Kind.STRING, Kind.TEXT)
        or (source.kind is Kind.INTEGER and target == NUMBER)
        or (source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP)
    )


def type_of(spec: Any, root: dict[str, Any] | None = None) -> Type:
    """The type of one property.

    Args:
        spec: Its JSON Schema.
        root: The whole schema, in which ``$ref`` is looked up.
    """
    return _Reader(root or {}, RULES).column(spec)


class _Reader:
    """Reads the types of one schema's properties.

    Args:
        root: The schema, in which ``$ref`` is looked up.
        rules: The number of the rules to read by.
    """

    def __init__(self, root: dict[str, Any], rules: int) -> None:
        self._root = root
        self._rules = rules
        self._left = MAX_PARTS

    def column(self, spec: Any) -> Type:
        """The type of a column."""
        self._left = MAX_PARTS
        return self._type(spec, 0)

    def resolved(self, spec: Any) -> dict[str, Any]:
        """A schema with its own ``$ref`` and ``allOf`` put in place."""
        if self._rules > 1:
            return json_schema.resolved(spec, self._root)
        return _overlaid(spec, self._root)

    def _type(self, spec: Any, depth: int) -> Type:
        spec = self.resolved(spec)
        self._left -= 1
        if depth > MAX_DEPTH or (self._rules > 1 and self._left < 0):
            return TEXT
        kinds = spec.get("type")
        if kinds is None:
            branches = spec.get("anyOf") or spec.get("oneOf")
            if isinstance(branches, list):
                return _merge([self._type(b, depth + 1) for b in branches if not self._is_null(b)])
            signs = (("object", "properties"), ("array", "items"))
            kinds = [kind for kind, sign in signs if sign in spec]
        if isinstance(kinds, str):
            kinds = [kinds]
        kinds = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else []
        if not all(isinstance(kind, str) for kind in kinds):
            return TEXT
        decimals = DECIMAL_FORMATS[: self._rules]
        if spec.get("format") in decimals and set(kinds) <= {"string", "number", "integer"}:
            return _singer_decimal(spec)
        return _merge([self._single(kind, spec, depth) for kind in kinds])

    def _single(self, kind: Any, spec: dict[str, Any], depth: int) -> Type:
        if kind == "integer":
            return _integer(spec, self._rules)
        if kind in _SCALARS:
            return _SCALARS[kind](spec)
        properties, items = spec.get("properties"), spec.get("items")
        if kind == "object" and isinstance(properties, dict) and properties:
            fields = ((name, self._type(inner, depth + 1)) for name, inner in properties.items())
            return Type(Kind.STRUCT, fields=tuple(fields))
        if kind == "array" and isinstance(items, dict) and items:
            return Type(Kind.LIST, item=self._type(items, depth + 1))
        return TEXT

    def _is_null(self, spec: Any) -> bool:
        return self.resolved(spec).get("type") in ("null", ["null"])


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


def _integer(spec: dict[str, Any], rules: int) -> Type:
    for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        bound = spec.get(word)
        if isinstance(bound, (int, float)) and not INT64[0] - 1 <= bound <= INT64[-1] + 1:
            return WHOLE
    # In draft 4 the exclusive bounds only say of the others that they are.
    top, bottom = (
        spec.get(word) if rules == 1 or spec.get(exclusive) is not True else None
        for word, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum"))
    )
    return WHOLE if top == INT64[-1] + 1 or bottom == INT64[0] - 1 else INTEGER


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


def _overlaid(spec: Any, root: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """How rules 1 put ``$ref`` and ``allOf`` in place: of two equal keywords, one is lost."""
    if not isinstance(spec, dict) or depth > MAX_DEPTH:
        return {}
    if isinstance(ref := spec.get("$ref"), str):
        rest = {key: value for key, value in spec.items() if key != "$ref"}
        return {**_overlaid(json_schema.look_up(ref, root), root, depth + 1), **rest}
    if isinstance(parts := spec.get("allOf"), list):
        whole = {key: value for key, value in spec.items() if key != "allOf"}
        for part in parts:
            whole = {**_overlaid(part, root, depth + 1), **whole}
        return whole
    return spec
