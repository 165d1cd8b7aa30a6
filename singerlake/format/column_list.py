"""Columns as a person lists them in SQL's words, and the JSON Schema that they make.

``id integer, name string not null, total decimal(12,2) default 0 comment 'in euros'``. A list is
taken as a whole or refused: nothing in it is guessed, and an error says at which character it is.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import msgspec

from singerlake.errors import UsageError
from singerlake.format.log import SchemaEntry
from singerlake.format.messages import DELETED
from singerlake.format.types import DIGITS, MAX_DEPTH, Kind, Type, type_of
from singerlake.format.values import converter, misfit
from singerlake.nearest import nearest, offer

Spec: TypeAlias = dict[str, Any]

_INTEGER: Spec = {"type": "integer"}
_NUMBER: Spec = {"type": "number"}
_STRING: Spec = {"type": "string"}
_BOOLEAN: Spec = {"type": "boolean"}
_TIMESTAMP: Spec = {"type": "string", "format": "date-time"}
SIMPLE_TYPES: dict[str, Spec] = {
    "integer": _INTEGER,
    "int": _INTEGER,
    "bigint": _INTEGER,
    "int64": _INTEGER,
    "number": _NUMBER,
    "double": _NUMBER,
    "float": _NUMBER,
    "string": _STRING,
    "varchar": _STRING,
    "boolean": _BOOLEAN,
    "bool": _BOOLEAN,
    "date": {"type": "string", "format": "date"},
    "timestamp": _TIMESTAMP,
    "timestamptz": _TIMESTAMP,
    "datetime": _TIMESTAMP,
    "json": {},
}
"""Types of one word, and what they are in JSON Schema; a column with ``{}`` holds any value."""
TYPE_NAMES = (*SIMPLE_TYPES, "decimal", "numeric", "list", "array", "struct")
_SHOWN_TYPES = (
    "integer, number, decimal(12,2), string, boolean, date, timestamp, json, list<…> and struct<…>"
)
RESERVED = ("_delete", "_row_id", "_row_version", "_transaction", DELETED)
"""Names that mean something else in files with changes, in the output of a query, or in records."""
_ANY_VALUE = ["string", "number", "boolean", "object", "array"]
_BOUNDED_DIGITS = 18
"""Digits before the point up to which every reader of JSON Schema knows a bound exactly."""
_LONGEST = 400
"""Characters of a number; the largest double has 309 digits."""
_CLAUSES = ("not null", "null", "default", "comment")
_NOT_HERE = {
    "primary": "name the key with --key",
    "unique": "name the key with --key",
    "check": "there are no checks here",
    "references": "a lake has no foreign keys",
    "collate": "text is compared by its code points",
}

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<word>[^\W\d]\w*)
    | (?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    | (?P<text>'(?:[^']|'')*')
    | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?(?!\w))
    | (?P<sign>[(),<>:])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class ColumnSpec:
    """A column as a person describes it.

    Attributes:
        name: Its name.
        spec: The JSON Schema of its values, null not among them.
        not_null: Whether every row must have a value.
        default: What a new row without a value gets; None where that is nothing.
        comment: What it is, in words; empty where nobody says.
    """

    name: str
    spec: Spec
    not_null: bool = False
    default: str | int | float | bool | None = None
    comment: str = ""

    @property
    def type(self) -> Type:
        """The type that the column has."""
        return type_of(self.spec)

    def property(self, *, key: bool = False) -> Spec:
        """Return the column's JSON Schema.

        Args:
            key: Whether it is of the key, and so never null.
        """
        made = _without_null(self.spec) if self.not_null or key else _nullable(self.spec)
        if self.default is not None:
            made["default"] = self.default
        if self.comment:
            made["description"] = self.comment
        return made


def parse_columns(text: str) -> list[ColumnSpec]:
    """Read a list of columns.

    Args:
        text: For example ``id integer, total decimal(12,2) default 0``.

    Raises:
        UsageError: It is none; says where, and what may have been meant.
    """
    return _Parser(text).columns()


def schema_of_columns(columns: list[ColumnSpec], keys: list[str]) -> SchemaEntry:
    """Make the schema of a table with these columns.

    Args:
        columns: The columns, in order.
        keys: Names of those that are the key, in order.

    Raises:
        UsageError: A key is no such column, is named twice, or is of a type that no key can have.
    """
    by_name = {column.name: column for column in columns}
    if len(set(keys)) < len(keys):
        raise UsageError(f"a key column is named twice: {', '.join(keys)}")
    for key in keys:
        if key not in by_name:
            raise UsageError(
                f"there is no column {key!r} to use as the key: {offer(key, [*by_name])}"
            )
        if by_name[key].type.kind in (Kind.STRUCT, Kind.LIST, Kind.TEXT):
            what = "json" if by_name[key].type.kind is Kind.TEXT else by_name[key].type
            raise UsageError(f"{key!r} cannot be a key: it is {what}")
    schema: Spec = {
        "type": "object",
        "properties": {c.name: c.property(key=c.name in keys) for c in columns},
    }
    if required := [c.name for c in columns if c.not_null or c.name in keys]:
        schema["required"] = required
    return SchemaEntry(schema, list(keys))


def _nullable(spec: Spec) -> Spec:
    return {**spec, "type": ["null", spec["type"]]} if spec else {}


def _without_null(spec: Spec) -> Spec:
    return dict(spec) if spec else {"type": list(_ANY_VALUE)}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)

    @property
    def word(self) -> str:
        """A word in lower case; empty for what is none."""
        return self.text.lower() if self.kind == "word" else ""


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0

    def columns(self) -> list[ColumnSpec]:
        columns: list[ColumnSpec] = []
        while True:
            columns.append(self._column({column.name for column in columns}))
            if self._peek().kind == "end":
                return columns
            self._take(",")

    def _column(self, taken: set[str]) -> ColumnSpec:
        token = self._peek()
        name = self._name("a column's name")
        if name in taken:
            raise _wrong(token.at, f"there is a column {name!r} already")
        if name in RESERVED:
            raise _wrong(
                token.at, f"no column can be called {name!r}: the name has a meaning of its own"
            )
        spec = self._type(0)
        said: dict[str, Any] = {}
        while self._peek().text not in (",", ""):
            self._clause(name, spec, said)
        if said.get("not_null") and said.get("default", "") is None:
            raise _wrong(token.at, f"column {name!r} is not null, and null by default")
        return ColumnSpec(name, spec, **said)

    def _clause(self, name: str, spec: Spec, said: dict[str, Any]) -> None:
        token = self._pop()
        field: str
        value: Any
        if token.word == "not":
            if self._pop().word != "null":
                raise _wrong(token.at, "'not' is followed by 'null'")
            field, value = "not_null", True
        elif token.word == "null":
            field, value = "not_null", False
        elif token.word == "default":
            field, value = "default", self._default(name, spec)
        elif token.word == "comment":
            field, value = "comment", self._quoted("a comment")
        else:
            raise _wrong(token.at, _no_clause(token, name))
        if field in said:
            raise _wrong(token.at, f"column {name!r} has {token.text!r} twice")
        said[field] = value

    def _type(self, depth: int) -> Spec:
        token = self._pop()
        if depth > MAX_DEPTH:
            raise _wrong(token.at, "this is nested too deep: take it apart, or keep it as json")
        if token.word in SIMPLE_TYPES:
            return dict(SIMPLE_TYPES[token.word])
        if token.word in ("decimal", "numeric"):
            return self._decimal(token)
        if token.word in ("list", "array"):
            return self._list(depth)
        if token.word == "struct":
            return self._struct(depth)
        if token.word == "text":
            raise _wrong(token.at, "'text' is either string, or json for values of any kind")
        near = nearest(token.text, TYPE_NAMES)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {_SHOWN_TYPES}"
        raise _wrong(token.at, f"{token.shown} is not a type: {hint}")

    def _decimal(self, word: _Token) -> Spec:
        if self._peek().text != "(":
            raise _wrong(
                word.at, f"write how many digits, and how many after the point: {word.text}(12,2)"
            )
        self._take("(")
        precision = self._digits("digits", 1, DIGITS)
        scale = 0
        if self._peek().text == ",":
            self._take(",")
            scale = self._digits("digits after the point", 0, precision)
        self._take(")")
        # Not multipleOf: validators that compute with doubles find 19.99 no multiple of 0.01.
        spec = {"type": "number", "format": "singer.decimal", "precision": precision}
        spec["scale"] = scale
        if (whole := precision - scale) <= _BOUNDED_DIGITS:
            spec |= {"exclusiveMinimum": -(10**whole), "exclusiveMaximum": 10**whole}
        return spec

    def _digits(self, what: str, least: int, most: int) -> int:
        token = self._pop()
        if not re.fullmatch(r"\d{1,3}", token.text) or not least <= int(token.text) <= most:
            raise _wrong(token.at, f"{token.shown} is no number of {what}: it is {least} to {most}")
        return int(token.text)

    def _list(self, depth: int) -> Spec:
        self._take("<")
        token = self._peek()
        inner = self._type(depth + 1)
        if not inner:
            raise _wrong(token.at, "a list of json is json itself: write json")
        self._take(">")
        return {"type": "array", "items": _nullable(inner)}

    def _struct(self, depth: int) -> Spec:
        self._take("<")
        properties: Spec = {}
        while True:
            token = self._peek()
            name = self._name("a field's name")
            if name in properties:
                raise _wrong(token.at, f"there is a field {name!r} already")
            if self._peek().text == ":":
                self._take(":")
            properties[name] = _nullable(self._type(depth + 1))
            if self._peek().text == ">":
                self._take(">")
                return {"type": "object", "properties": properties}
            self._take(",")

    def _default(self, name: str, spec: Spec) -> str | int | float | bool | None:
        token = self._pop()
        if token.word == "null":
            return None
        value: str | int | float | bool
        if token.word in ("true", "false"):
            value = token.word == "true"
        elif token.kind == "text":
            value = _unquoted(token.text)
        elif token.kind == "number":
            value = _number(token, spec, name)
        else:
            raise _wrong(
                token.at, f"{token.shown} is not a default: a number, 'text', true, false or null"
            )
        type_ = type_of(spec)
        if type_.kind in (Kind.STRUCT, Kind.LIST):
            raise _wrong(token.at, f"column {name!r} is {type_}, which can have no default")
        if wrong := misfit(msgspec.json.encode(value), converter(type_), name):
            raise _wrong(token.at, wrong)
        return value

    def _name(self, what: str) -> str:
        token = self._pop()
        if token.kind == "word":
            return token.text
        if token.kind == "name" and (name := _unquoted(token.text)):
            return name
        hint = ' (one with other characters goes in "quotes")' if token.kind != "end" else ""
        raise _wrong(token.at, f"{what} is missing before {token.shown}{hint}")

    def _quoted(self, what: str) -> str:
        token = self._pop()
        if token.kind != "text":
            raise _wrong(token.at, f"{what} goes in 'single quotes', and this is {token.shown}")
        return _unquoted(token.text)

    def _take(self, sign: str) -> None:
        token = self._pop()
        if token.text != sign:
            raise _wrong(token.at, f"{sign!r} is missing before {token.shown}")

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _pop(self) -> _Token:
        token = self._peek()
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            what = "an unclosed quote" if text[at] in "\"'`" else f"{text[at]!r}"
            raise _wrong(at, f"this is not understood: {what}")
        kind = match.lastgroup or ""
        tokens.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return tokens


def _number(token: _Token, spec: Spec, name: str) -> int | float:
    if len(token.text) > _LONGEST:
        raise _wrong(token.at, f"the default of column {name!r} has too many digits")
    value = int(token.text) if re.fullmatch(r"[+-]?\d+", token.text) else float(token.text)
    if math.isinf(value):
        raise _wrong(token.at, f"the default {token.text} of column {name!r} is too large")
    if "precision" in spec:
        exact, digits, scale = Decimal(token.text), spec["precision"], spec["scale"]
        if abs(exact) >= 10 ** (digits - scale):
            text = f"decimal({digits},{scale})"
            raise _wrong(
                token.at, f"the default {token.text} of column {name!r} is not a valid {text}"
            )
        if Decimal(repr(value)) != exact:  # in the schema it is a JSON number
            raise _wrong(
                token.at, f"the default {token.text} of column {name!r} has too many digits"
            )
    return value


def _unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])


def _no_clause(token: _Token, name: str) -> str:
    if token.word in _NOT_HERE:
        return f"{token.shown} is not allowed for column {name!r}: {_NOT_HERE[token.word]}"
    if token.word and (near := nearest(token.word, _CLAUSES)):
        return f"{token.shown} cannot follow a column's type: did you mean {' or '.join(near)}?"
    return f"a comma, not null, null, default or comment is missing before {token.shown}"


def _wrong(at: int, what: str) -> UsageError:
    return UsageError(f"the list of columns, character {at + 1}: {what}")
