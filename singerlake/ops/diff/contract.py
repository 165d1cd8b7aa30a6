"""Differences of a tap's schema to the one before, in words, for contracts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from singerlake.format.json_schema import resolved
from singerlake.format.log import SchemaEntry
from singerlake.format.types import columns_of
from singerlake.log.schema_difference import SchemaChange

_FOR_PEOPLE = frozenset({"$comment", "description", "examples", "title"})
"""Words of JSON Schema that bind nobody."""
_SETS = frozenset({"required", "type"})
"""Words whose lists have no order."""


def schema_changes(before: SchemaEntry, after: SchemaEntry) -> Iterator[SchemaChange]:
    """Yield each difference between two schemas of a stream that binds records or readers."""
    old, new = (dict(columns_of(entry)) for entry in (before, after))
    whole = [resolved(entry.schema, entry.schema) for entry in (before, after)]
    old_rules, new_rules = (_properties(schema) for schema in whole)
    for name, type_ in new.items():
        if name not in old:
            yield SchemaChange("added", name, None, str(type_))
    for name, type_ in old.items():
        if name not in new:
            yield SchemaChange("removed", name, str(type_), None)
        elif str(type_) != str(new[name]):
            yield SchemaChange("retyped", name, str(type_), str(new[name]))
        elif old_rules.get(name) != new_rules.get(name):
            yield SchemaChange("rules", name, old_rules.get(name), new_rules.get(name))
    keys = [", ".join(entry.key_properties) or None for entry in (before, after)]
    if keys[0] != keys[1]:
        yield SchemaChange("key", None, *keys)
    rows = [_spelled({w: v for w, v in one.items() if w != "properties"}) for one in whole]
    if rows[0] != rows[1]:
        yield SchemaChange("rules", None, *rows)


def _properties(schema: dict[str, Any]) -> dict[str, str]:
    return {name: _spelled(spec) for name, spec in (schema.get("properties") or {}).items()}


def _spelled(spec: Any) -> str:
    return json.dumps(_binding(spec), ensure_ascii=False, sort_keys=True)


def _binding(spec: Any) -> Any:
    """A schema without what is said for people, in one order."""
    if isinstance(spec, list):
        return [_binding(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    return {
        word: sorted(value) if word in _SETS and _texts(value) else _binding(value)
        for word, value in spec.items()
        if word not in _FOR_PEOPLE or isinstance(value, dict)  # a column of that name
    }


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
