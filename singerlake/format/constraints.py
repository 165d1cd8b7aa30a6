"""Constraints in the words of JSON Schema, as far as it has any for them.

``unique`` is about several rows, and stays with whoever sees them all; a ``check`` is SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from singerlake.format.json_schema import Spec, may_be, resolved
from singerlake.format.overlay import Constraint

IN_WORDS = ("not-null", "enum", "range", "length", "pattern")
"""The kinds that a schema can say."""


def laid(schema: Spec, constraints: Mapping[str, Constraint]) -> Spec:
    """Lay constraints over a schema; what it says already is not said again.

    A schema that lacks a column is left as it is, but that ``not-null`` requires it.

    Args:
        schema: Of the whole row, by the names that people see.
        constraints: By their own names.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    changed = dict(properties)
    for one in constraints.values():
        for column in one.columns if one.kind in IN_WORDS else ():
            if column in changed:
                changed[column] = narrowed(changed[column], one, schema)
    required = _required(schema.get("required"), constraints.values(), changed)
    if changed == properties and not required:
        return schema
    schema = {**schema, "properties": changed}
    return {**schema, "required": required} if required else schema


def narrowed(spec: Any, one: Constraint, root: Spec) -> Any:
    """Return the schema of a column with a constraint in it.

    Args:
        root: The whole schema, in which ``$ref`` is looked up.
    """
    if spec is False:
        return spec
    return _NARROW[one.kind](dict(resolved(spec, root)), one, root)


def allows_null(spec: Any, root: Spec) -> bool:
    """Tell whether a column's schema lets a null through, as far as its types say."""
    spec = resolved(spec, root)
    kinds = spec.get("type")
    if kinds is not None:
        return "null" in ([kinds] if isinstance(kinds, str) else kinds)
    for word in ("anyOf", "oneOf"):
        if isinstance(branches := spec.get(word), list):
            return any(allows_null(branch, root) for branch in branches)
    values = spec.get("enum")
    return (not isinstance(values, list) or None in values) and spec.get("not") != _NULL_TYPE


def with_null(spec: Spec) -> Spec:
    """Return a column's schema that lets a null through beside all else."""
    kinds = spec.get("type")
    if kinds is None or not {"enum", "const", "not", "$ref", "allOf"}.isdisjoint(spec):
        return {"anyOf": [spec, {"type": "null"}]}
    return {**spec, "type": ["null", *([kinds] if isinstance(kinds, str) else kinds)]}


def _required(
    stated: Any, constraints: Iterable[Constraint], properties: Mapping[str, Any]
) -> list[str]:
    """The columns that must be there, where constraints name more than the schema."""
    own = list(stated) if isinstance(stated, list) else []
    needed = [
        column
        for one in constraints
        for column in one.columns
        if one.kind == "not-null" and column in properties
    ]
    more = [name for name in dict.fromkeys(needed) if name not in own]
    return [*own, *more] if more else []


_NULL_TYPE: Spec = {"type": "null"}


def _not_null(spec: Spec, _one: Constraint, root: Spec) -> Spec:
    kinds = spec.get("type")
    if isinstance(kinds, list) and "null" in kinds:
        rest = [kind for kind in kinds if kind != "null"]
        if rest:
            spec["type"] = rest[0] if len(rest) == 1 else rest
    for word in ("anyOf", "oneOf"):
        if isinstance(branches := spec.get(word), list):
            spec[word] = [b for b in branches if resolved(b, root).get("type") not in _NULL]
    values = spec.get("enum")
    if isinstance(values, list) and None in values:
        spec["enum"] = [value for value in values if value is not None]
    return _with(spec, "not", _NULL_TYPE) if allows_null(spec, root) else spec


_NULL = ("null", ["null"])


def _enum(spec: Spec, one: Constraint, root: Spec) -> Spec:
    if any(isinstance(v, str) for v in one.values) and not may_be(spec, root, "string"):
        return spec  # digits that no double holds; others read numbers of a schema as doubles
    allowed = [*one.values, *([None] if allows_null(spec, root) else [])]
    stated = spec.get("enum")
    if isinstance(stated, list):
        allowed = [value for value in stated if any(_same(value, other) for other in allowed)]
    return {**spec, "enum": allowed}


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) is isinstance(other, bool)


def _bounds(least: str, most: str) -> Callable[[Spec, Constraint, Spec], Spec]:
    def narrow(spec: Spec, one: Constraint, _root: Spec) -> Spec:
        for word, bound, tighter in ((least, one.minimum, max), (most, one.maximum, min)):
            if bound is None:
                continue
            stated = spec.get(word)
            if isinstance(stated, bool) or not isinstance(stated, (int, float)):
                spec[word] = bound
            elif tighter(stated, bound) != stated:
                spec[word] = bound
                # In draft 4 it says of the bound that was there that it is left out itself.
                if isinstance(spec.get(exclusive := f"exclusive{word.capitalize()}"), bool):
                    del spec[exclusive]
        return spec

    return narrow


def _pattern(spec: Spec, one: Constraint, _root: Spec) -> Spec:
    return _with(spec, "pattern", one.pattern)


def _with(spec: Spec, word: str, value: Any) -> Spec:
    """Say a word beside what is said with the same one, in ``allOf`` where there is another."""
    if spec.get(word, value) == value:
        return {**spec, word: value}
    stated = spec.get("allOf")
    parts = stated if isinstance(stated, list) else []
    return spec if {word: value} in parts else {**spec, "allOf": [*parts, {word: value}]}


_NARROW: dict[str, Callable[[Spec, Constraint, Spec], Spec]] = {
    "not-null": _not_null,
    "enum": _enum,
    "range": _bounds("minimum", "maximum"),
    "length": _bounds("minLength", "maxLength"),
    "pattern": _pattern,
}
