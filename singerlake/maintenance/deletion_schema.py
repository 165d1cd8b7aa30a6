"""The schema that a deletion is written under: one that knows the mark of a deletion.

A revert deletes a row by its line once more with ``_sdc_deleted_at`` set. Where the row's schema
does not declare that property, whoever reads the stream would refuse the line, or pass over the
one member that matters. So such lines get a schema that differs in this property alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from singerlake.format.log import SchemaEntry
from singerlake.format.schema_hash import schema_hash
from singerlake.transactions.snapshot import Snapshot

MARK = "_sdc_deleted_at"
_TYPE = {"type": ["null", "string"], "format": "date-time"}
_BRANCHES = ("allOf", "anyOf", "oneOf")


def declaring(entry: SchemaEntry) -> SchemaEntry:
    """A schema that declares the mark; the same one where it does already."""
    schema = entry.schema
    if MARK in _properties(schema):
        return entry
    return SchemaEntry(
        {**_allowing(schema), "properties": _with_mark(schema)}, entry.key_properties
    )


def deletion_schemas(snapshot: Snapshot, hashes: Iterable[str]) -> dict[str, SchemaEntry]:
    """For each schema that rows may be deleted under, the one that declares the mark.

    Args:
        snapshot: Knows the schemas.
        hashes: Of the rows' schemas.

    Returns:
        Those that differ from the rows' own, by the hash of the latter.
    """
    found = {name: declaring(snapshot.schema_of(name)) for name in hashes}
    return {name: entry for name, entry in found.items() if entry is not snapshot.schema_of(name)}


def hash_of(entry: SchemaEntry) -> str:
    """A schema's hash."""
    return schema_hash(entry.schema, entry.key_properties)


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _with_mark(schema: dict[str, Any]) -> dict[str, Any]:
    return {**_properties(schema), MARK: _TYPE}


def _allowing(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of which no branch refuses the mark for being unknown to it."""
    changed = dict(schema)
    for word in _BRANCHES:
        if isinstance(branches := schema.get(word), list):
            changed[word] = [_branch(branch) for branch in branches]
    return changed


def _branch(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    changed = _allowing(schema)
    if schema.get("additionalProperties") is False and MARK not in _properties(schema):
        changed["properties"] = _with_mark(schema)
    return changed
