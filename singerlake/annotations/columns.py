"""The properties of a table's schema as a tree: what a column's path means, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singerlake.errors import DataError
from singerlake.format import json_schema
from singerlake.format.annotations import ColumnEntry
from singerlake.format.log import SchemaEntry
from singerlake.format.overlay_words import constraint_words
from singerlake.log.table_state import TableState

Path = tuple[str, ...]
MAX_DEPTH = 8
"""Deeper properties are not listed: a schema may refer to itself."""


def properties(spec: Any, root: dict[str, Any]) -> dict[str, Any]:
    """The properties of an object, or of the objects in an array; empty for all else."""
    schema = resolved(spec, root)
    for _ in range(MAX_DEPTH):  # arrays of arrays
        inner = schema.get("properties")
        if isinstance(inner, dict) and inner:
            return inner
        items = schema.get("items")
        if not isinstance(items, dict) or not items:
            break
        schema = resolved(items, root)
    return {}


def resolved(spec: Any, root: dict[str, Any]) -> dict[str, Any]:
    """A property's schema with its ``$ref`` in place; of "null or something", the something."""
    schema = json_schema.resolved(spec, root)
    for word in ("anyOf", "oneOf"):
        branches = schema.get(word)
        if isinstance(branches, list) and not {"type", "properties", "items"} & schema.keys():
            whole = [json_schema.resolved(branch, root) for branch in branches]
            real = [branch for branch in whole if branch.get("type") not in ("null", ["null"])]
            if len(real) == 1:
                rest = {key: value for key, value in schema.items() if key != word}
                return {**real[0], **rest}
    return schema


def asked_of_rows(snapshot: TableState) -> dict[str, list[tuple[str, str]]]:
    """Return what people ask of rows beyond their schemas: names and words, by column."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, one in snapshot.overlay.constraints.items():
        for column in one.columns if one.kind in ("unique", "check") else ():
            found.setdefault(column, []).append((name, constraint_words(one)))
    return found


def resolve(schema: SchemaEntry, text: str) -> Path | None:
    """The column that a person means by ``address.city``; None where there is none.

    A property whose own name has dots wins over one inside another.
    """
    return _resolve(resolved(schema.schema, schema.schema), text, schema.schema, 0)


def _resolve(spec: Any, text: str, root: dict[str, Any], depth: int) -> Path | None:
    inner = properties(spec, root)
    if text in inner:
        return (text,)
    parts = text.split(".")
    for count in range(len(parts) - 1, 0, -1):
        name, rest = ".".join(parts[:count]), ".".join(parts[count:])
        if name in inner and depth < MAX_DEPTH:
            below = _resolve(inner[name], rest, root, depth + 1)
            if below is not None:
                return (name, *below)
    return None


def top_level(schema: SchemaEntry) -> list[str]:
    """The names of a table's columns."""
    return list(properties(schema.schema, schema.schema))


def column_texts(schema: SchemaEntry, entries: Mapping[str, ColumnEntry]) -> dict[str, str]:
    """Describe columns, in a person's words or else as the tap's schema does."""
    texts = {}
    for name, spec in properties(schema.schema, schema.schema).items():
        entry = entries.get(name)
        text = (entry.description if entry else None) or description(spec, schema.schema)
        if text:
            texts[name] = text
    return texts


def description(spec: Any, root: dict[str, Any]) -> str | None:
    """Return the description in a property's schema."""
    own = spec.get("description") if isinstance(spec, dict) else None
    text = own if isinstance(own, str) else resolved(spec, root).get("description")
    return text.strip() or None if isinstance(text, str) else None


def schema_of(snapshot: Any) -> SchemaEntry:
    """The schema in effect; an empty one where the table's log does not tell it."""
    try:
        schema: SchemaEntry = snapshot.schema
    except DataError:
        return SchemaEntry({})
    return schema
