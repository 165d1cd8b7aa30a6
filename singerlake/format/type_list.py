"""Types that a person says of some columns: ``zip:string, total:decimal(12,2)``; and shown so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from singerlake.errors import UsageError
from singerlake.format.column_list import parse_columns
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Kind, Type

JSON: dict[str, Any] = {"type": ["number", "boolean", "object", "array"]}
"""What ``json`` means here: any JSON but a bare string, so that texts of cells are JSON texts."""
_NAME_AND_COLON = re.compile(r'\s*(?:"(?:[^"]|"")*"|`(?:[^`]|``)*`|[^\W\d]\w*)\s*(:)')
_OPENING, _CLOSING = "(<", ")>"


def parse_types(text: str) -> dict[str, dict[str, Any]]:
    """Read the types of some columns: their JSON Schemas, null not among the values.

    Args:
        text: For example ``zip:string, total:decimal(12,2)``.

    Raises:
        UsageError: It is no such list; says where, and what may have been meant.
    """
    # A colon becomes a blank, so that an error counts characters as they were written.
    columns = parse_columns("".join(_without_colon(part) for part in _parts(text)))
    for column in columns:
        if column.not_null or column.default is not None or column.comment:
            raise UsageError(f"only a type is allowed here for column {column.name!r}")
    return {column.name: column.spec or JSON for column in columns}


def parse_names(text: str) -> list[str]:
    """Read a list of columns' names, separated by commas; a name with a comma is in quotes.

    Args:
        text: For example ``id, "a,b"``.

    Raises:
        UsageError: A name is empty, or there twice.
    """
    names: list[str] = []
    for part in _parts(text):
        name = part.removesuffix(",").strip()
        if len(name) > 1 and name[0] == name[-1] == '"':
            name = name[1:-1].replace('""', '"')
        if not name:
            raise UsageError(f"a column's name is empty in {text!r}")
        if name in names:
            raise UsageError(f"column {name!r} is named twice in {text!r}")
        names.append(name)
    return names


def names_text(names: Iterable[str]) -> str:
    """Write columns' names as :func:`parse_names` reads them."""
    return ",".join(
        name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"' for name in names
    )


_PLAIN = re.compile(r"[\w.-]+")


def declared_type(spec: Any, type_: Type) -> str:
    """Return a column's type as it was declared: with the digits that its decimals are held to.

    Args:
        spec: Its JSON Schema.
        type_: The type that it has when it is read, whose decimals are of 38 digits.
    """
    known = spec if isinstance(spec, dict) else {}
    if type_.kind is Kind.DECIMAL and "precision" in known and "exclusiveMaximum" in known:
        return f"decimal({known['precision']},{type_.scale})"
    if type_.kind is Kind.LIST and type_.item is not None:
        return f"list<{declared_type(known.get('items'), type_.item)}>"
    if type_.kind is Kind.STRUCT:
        inner = known.get("properties", {})
        fields = (f"{name}: {declared_type(inner.get(name), t)}" for name, t in type_.fields)
        return f"struct<{', '.join(fields)}>"
    return str(type_)


def same_digits(entry: SchemaEntry, name: str, spec: Any) -> bool:
    """Tell whether a column's type and another declare as many digits, which are no part of a type.

    Args:
        entry: The schema of the column.
        name: Its name.
        spec: The JSON Schema of the other.
    """
    own = entry.schema.get("properties", {}).get(name)
    before, after = (one.get("precision") if isinstance(one, dict) else None for one in (own, spec))
    return bool(before == after)


def _without_colon(part: str) -> str:
    match = _NAME_AND_COLON.match(part)
    return part if match is None else f"{part[: match.start(1)]} {part[match.end(1) :]}"


def _parts(text: str) -> list[str]:
    """Cut a list behind its commas, but not within quotes or brackets."""
    parts, begin, depth, quote = [], 0, 0, ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"`'":
            quote = letter
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif letter == "," and depth <= 0:
            parts.append(text[begin : at + 1])
            begin = at + 1
    return [*parts, text[begin:]]
