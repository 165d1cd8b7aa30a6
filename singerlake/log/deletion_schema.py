"""The schema that a deletion is written under: one that knows the mark of a deletion.

A revert deletes a row by its line once more with ``_sdc_deleted_at`` set. Where the row's schema
does not declare that property, whoever reads the stream would refuse the line, or pass over the
one member that matters. So such lines get a schema that differs in this property alone: each part
of it judges a row with the mark as the part it was made of judges the row without.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from singerlake.format.json_schema import Spec, look_up, resolved
from singerlake.format.log import SchemaEntry
from singerlake.format.schema_hash import schema_hash
from singerlake.log.table_state import TableState

MARK = "_sdc_deleted_at"
_TYPE = {"type": ["null", "string"], "format": "date-time"}
# What is said in these is said of the row itself.
_LISTED = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_NAMED = ("dependentSchemas", "dependencies")
_CLOSING = ("additionalProperties", "unevaluatedProperties")


def declaring(entry: SchemaEntry) -> SchemaEntry:
    """Return a schema that declares the mark; the same one where it does already."""
    schema = entry.schema
    changed = _Marking(schema).whole()
    if MARK not in _properties(resolved(schema, schema)):
        changed = {**changed, "properties": _with_mark(changed)}
    return entry if changed == schema else SchemaEntry(changed, entry.key_properties)


def deletion_schemas(snapshot: TableState, hashes: Iterable[str]) -> dict[str, SchemaEntry]:
    """For each schema that rows may be deleted under, the one that declares the mark.

    Returns:
        Those that differ from the rows' own, by the hash of the latter.
    """
    declared = {name: declaring(snapshot.schema_of(name)) for name in hashes}
    return {
        name: entry for name, entry in declared.items() if entry is not snapshot.schema_of(name)
    }


def hash_of(entry: SchemaEntry) -> str:
    """Return a schema's hash."""
    return schema_hash(entry.schema, entry.key_properties)


def _properties(schema: Spec) -> Spec:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _with_mark(schema: Spec) -> Spec:
    properties = _properties(schema)
    return properties if MARK in properties else {**properties, MARK: _TYPE}


class _Marking:
    """Lets every part of a schema pass over the mark.

    What a ``$ref`` points to is copied first: a column may be of that kind too, and a column's
    type is not to change.

    Args:
        root: The whole schema.
    """

    def __init__(self, root: Spec) -> None:
        self._root = root
        self._copies: dict[str, str] = {}
        self._added: dict[str, Spec] = {}

    def whole(self) -> Spec:
        """Return the whole schema, with the copies."""
        changed = self._marked(self._root)
        for ref, spec in self._added.items():
            changed = _placed(changed, ref.split("/")[1:], spec)
        return changed

    def _part(self, spec: Any) -> Any:
        return self._marked(spec) if isinstance(spec, dict) else spec

    def _marked(self, spec: Spec) -> Spec:
        changed = dict(spec)
        for word, value in spec.items():
            if word in _LISTED and isinstance(value, list):
                changed[word] = [self._part(branch) for branch in value]
            elif word in _SINGLE:
                changed[word] = self._part(value)
            elif word in _NAMED and isinstance(value, dict):
                changed[word] = {name: self._part(branch) for name, branch in value.items()}
            elif word == "$ref" and isinstance(value, str):
                changed[word] = self._copy(value)
            elif word == "propertyNames" and value is not True:
                changed[word] = {"anyOf": [{"enum": [MARK]}, value]}
            elif word in ("minProperties", "maxProperties") and isinstance(value, (int, float)):
                changed[word] = value + 1
        if any(spec.get(word, True) is not True for word in _CLOSING):
            changed["properties"] = _with_mark(spec)
        return changed

    def _copy(self, ref: str) -> str:
        """Return where a copy lies of what a reference points to."""
        target = look_up(ref, self._root)
        if not ref.startswith("#/") or not isinstance(target, dict):
            return ref  # the whole schema is marked itself; what lies elsewhere is not for us
        if ref not in self._copies:
            copy = ref
            while look_up(copy, self._root) is not None:
                copy += f"-{MARK}"
            self._copies[ref] = copy
            self._added[copy] = self._marked(target)
        return self._copies[ref]


def _placed(spec: Spec, path: list[str], value: Spec) -> Spec:
    name = path[0].replace("~1", "/").replace("~0", "~")
    return {**spec, name: _placed(spec[name], path[1:], value) if path[1:] else value}
