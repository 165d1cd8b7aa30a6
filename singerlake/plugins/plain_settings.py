"""Settings that are plainly as their JSON Schema says: seen without a library for all of it.

Such a library takes a sixth of a plugin's start-up to import. Whatever is not plain, or wrong, is
left to the SDK, which has the words for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES: dict[type, frozenset[str]] = {
    str: frozenset({"string"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"number"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    type(None): frozenset({"null"}),
}
_NOTES = {"title", "description", "default", "examples", "secret", "writeOnly"}
"""What says nothing of a value."""
_CHECKS = {"type", "enum", "minimum", "maximum", "items", "properties", "additionalProperties"}
"""What is checked here."""


def filled(settings: dict[str, Any], properties: Mapping[str, Any]) -> bool:
    """Fill in what settings leave out, as the SDK does.

    Args:
        settings: By name.
        properties: What they may be, by name.

    Returns:
        Whether all are plainly what they may be; if not, that is for a library to decide.
    """
    for name, schema in properties.items():
        if "default" in schema:
            settings.setdefault(name, schema["default"])
    return all(_plain(settings[name], properties[name]) for name in settings.keys() & properties)


def _plain(value: Any, schema: Any) -> bool:
    if not isinstance(schema, dict) or not schema.keys() <= _CHECKS | _NOTES:
        return schema is True
    known = schema.get("type", ())
    types = _TYPES.get(type(value), frozenset())
    if types.isdisjoint([known] if isinstance(known, str) else known):
        return False
    if "enum" in schema and not (isinstance(value, str) and value in schema["enum"]):
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if isinstance(value, list):
        return all(_plain(one, schema.get("items", True)) for one in value)
    if isinstance(value, dict):
        others = schema.get("additionalProperties", True)
        # Settings within settings may have defaults of their own.
        return not schema.get("properties") and all(_plain(one, others) for one in value.values())
    return True
