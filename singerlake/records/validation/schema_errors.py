"""What is wrong with a schema that is none, and at which property, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from singerlake.format.json_schema import TYPES

_MOST = 300
_ITEMS = ("items", "prefixItems", "additionalItems")


def wrong_schema(error: Exception, schema: Any) -> str:
    """Say what is wrong with a schema, and where.

    Args:
        error: What the validators of JSON Schema say.
        schema: The schema.
    """
    reason = first_line(error)
    path: Sequence[Any] = getattr(error, "instance_path", None) or _reference(reason, schema)
    names, rest = _split(path)
    said, is_not_valid, _ = reason.partition(" is not valid under ")
    if is_not_valid and rest and rest[-1] == "type":
        reason = f"{said} is not what JSON Schema has, one or several of {', '.join(TYPES)}"
    if len(reason) > _MOST:
        reason = f"{reason[: _MOST // 2]} … {reason[-_MOST // 2 :]}"
    where = ".".join(map(str, rest))
    if names:
        where = f"property {names!r}, {where}" if where else f"property {names!r}"
    return f"{where}: {reason}" if where else reason


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, or its name."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _split(path: Sequence[Any]) -> tuple[str, list[Any]]:
    """Take apart a path: the property as people name it, and what stands behind that."""
    name, at = "", 0
    while at < len(path):
        if path[at] == "properties" and at + 1 < len(path):
            name += f".{path[at + 1]}" if name else str(path[at + 1])
            at += 2
        elif name and path[at] in _ITEMS and at + 1 < len(path):
            name += "[]"
            at += 2 if isinstance(path[at + 1], int) else 1
        else:
            break
    return name, list(path[at:])


def _reference(reason: str, schema: Any) -> list[Any]:
    """Find the ``$ref`` that an error is about which does not say where it stands."""
    for path, ref in _references(schema, []):
        if ref and (ref in reason or repr(ref.removeprefix("#")) in reason):
            return path
    return []


def _references(node: Any, path: list[Any]) -> Iterator[tuple[list[Any], str]]:
    parts = enumerate(node) if isinstance(node, list) else ()
    for word, inner in node.items() if isinstance(node, dict) else parts:
        here = [*path, word]
        if word == "$ref" and isinstance(inner, str):
            yield here, inner
        yield from _references(inner, here)
