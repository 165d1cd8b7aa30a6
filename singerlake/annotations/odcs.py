"""Annotations and schemas as data contracts of the Open Data Contract Standard 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singerlake.annotations import columns
from singerlake.format import times
from singerlake.format.annotations import ColumnEntry, TableEntry, TapEntry
from singerlake.format.metadata import LakeFile
from singerlake.format.overlay import Constraint
from singerlake.format.overlay_words import constraint_words
from singerlake.format.types import Kind, Type
from singerlake.log.table_state import TableState
from singerlake.storage.opening import is_remote

API_VERSION = "v3.1.0"

_LOGICAL = {
    Kind.INTEGER: "integer",
    Kind.NUMBER: "number",
    Kind.DECIMAL: "number",
    Kind.STRING: "string",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.BOOLEAN: "boolean",
    Kind.STRUCT: "object",
    Kind.LIST: "array",
}
_OPTIONS = {
    "string": ("minLength", "maxLength", "pattern"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("minItems", "maxItems", "uniqueItems"),
}
_HOUR = 3600
_SERVERS = {"s3": "s3", "az": "azure", "gs": "custom"}
"""The contract's words for stores; it has none for Google Cloud Storage."""


def contract(uri: str, file: LakeFile, tap: str, snapshots: Sequence[TableState]) -> dict[str, Any]:
    """The data contract of a tap: its tables, and their annotations.

    Args:
        uri: Where the lake lies, without credentials.
        snapshots: The heads of the tables that it is about.
    """
    entry = file.tap(tap)
    later = sum(max(0, len(snapshot.schemas) - 1) for snapshot in snapshots)
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "DataContract",
        "id": tap,
        "name": tap,
        # A schema that changes is the only thing a lake knows that a contract's version can say.
        "version": f"1.{later}.0",
        "status": "deprecated" if entry.deprecated or file.deprecated else "active",
    }
    owner = entry.owner or file.owner
    if owner:
        document["team"] = {"name": owner}
    if text := entry.description or file.description:
        document["description"] = {"purpose": text}
    if entry.tags:
        document["tags"] = list(entry.tags)
    if links := _links(entry):
        document["authoritativeDefinitions"] = links
    if custom := _custom(entry, ("job_status", "classification", "deprecated")):
        document["customProperties"] = custom
    document["servers"] = [_server(uri)]
    document["schema"] = [_table(snapshot, file.table(snapshot.table)) for snapshot in snapshots]
    promises = [_promise(entry, None)]
    promises += [
        _promise(table, stream)
        for stream, table in sorted(entry.tables.items())
        if any(snapshot.table.stream == stream for snapshot in snapshots)
    ]
    if kept := [promise for promise in promises if promise]:
        document["slaProperties"] = kept
    return document


def _server(uri: str) -> dict[str, Any]:
    if is_remote(uri):
        kind = _SERVERS[uri.partition(":")[0]]
        return {"server": "lake", "type": kind, "location": f"{uri}/raw/", "format": "json"}
    return {"server": "lake", "type": "local", "path": f"{uri}/raw", "format": "json"}


def _promise(entry: TapEntry | TableEntry, stream: str | None) -> dict[str, Any] | None:
    """The service level that a freshness is."""
    if not entry.freshness:
        return None
    hours = times.age(entry.freshness, "freshness").total_seconds() / _HOUR
    value: int | float = int(hours) if hours == int(hours) else round(hours, 4)
    promise: dict[str, Any] = {"property": "freshness", "value": value, "unit": "h"}
    if stream is not None:
        promise["element"] = stream
    return promise


def _table(snapshot: TableState, entry: TableEntry) -> dict[str, Any]:
    schema = columns.schema_of(snapshot)
    table: dict[str, Any] = {
        "name": snapshot.table.stream,
        "logicalType": "object",
        "physicalName": str(snapshot.table),
        "physicalType": "table",
    }
    if text := entry.description or columns.description(schema.schema, schema.schema):
        table["description"] = text
    if entry.tags:
        table["tags"] = list(entry.tags)
    if links := _links(entry):
        table["authoritativeDefinitions"] = links
    if custom := _custom(entry, ("owner", "job_status", "classification", "deprecated")):
        table["customProperties"] = custom
    specs = columns.properties(schema.schema, schema.schema)
    required = schema.schema.get("required")
    keys = schema.key_properties
    asked = snapshot.overlay.constraints
    unique = {o.columns[0] for o in asked.values() if o.kind == "unique" and len(o.columns) == 1}
    described = []
    for name, kind in snapshot.columns:
        one = _property(name, kind, specs.get(name), schema.schema, entry.columns.get(name))
        if name in keys:
            one |= {"primaryKey": True, "primaryKeyPosition": keys.index(name) + 1}
        if name in keys or (isinstance(required, list) and name in required):
            one["required"] = name in keys or not _nullable(specs.get(name), schema.schema)
        if name in unique:
            one["unique"] = True
        described.append(one)
    table["properties"] = described
    if quality := [rule for n, c in asked.items() if (rule := _rule(n, c))]:
        table["quality"] = quality
    return table


def _rule(name: str, one: Constraint) -> dict[str, Any] | None:
    """Return a constraint that neither the schema nor a property can express."""
    rule: dict[str, Any] = {"name": name, "description": constraint_words(one)}
    if one.kind == "check":
        # A null keeps a condition, as it keeps one in SQL.
        query = f"SELECT COUNT(*) FROM {{object}} WHERE NOT ({one.sql})"  # noqa: S608  # not run
        return {**rule, "type": "sql", "query": query, "mustBe": 0}
    if one.kind == "unique" and len(one.columns) > 1:
        arguments = {"properties": list(one.columns)}
        metric = {"metric": "duplicateValues", "arguments": arguments}
        return {**rule, "type": "library", **metric, "mustBe": 0}
    return None


def _nullable(spec: Any, root: dict[str, Any]) -> bool:
    kinds = columns.resolved(spec, root).get("type")
    return kinds is None or kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def _property(
    name: str | None, kind: Type, spec: Any, root: dict[str, Any], annotation: ColumnEntry | None
) -> dict[str, Any]:
    entry = annotation or ColumnEntry()
    prop: dict[str, Any] = {} if name is None else {"name": name}
    logical = _LOGICAL.get(kind.kind, "string")
    prop |= {"logicalType": logical, "physicalType": str(kind)}
    if text := entry.description or columns.description(spec, root):
        prop["description"] = text
    if entry.classification:
        prop["classification"] = entry.classification
    if entry.tags:
        prop["tags"] = list(entry.tags)
    if links := _links(entry):
        prop["authoritativeDefinitions"] = links
    if custom := _custom(entry, ("owner", "deprecated")):
        prop["customProperties"] = custom
    whole = columns.resolved(spec, root)
    if options := _options(logical, whole):
        prop["logicalTypeOptions"] = options
    inner = columns.properties(spec, root)
    if kind.kind is Kind.STRUCT:
        prop["properties"] = [
            _property(child, type_, inner.get(child), root, entry.columns.get(child))
            for child, type_ in kind.fields
        ]
    if kind.kind is Kind.LIST and kind.item is not None:
        # What is said of the properties inside an array is said of those of its items.
        below = ColumnEntry(columns=entry.columns)
        prop["items"] = _property(None, kind.item, whole.get("items"), root, below)
    return prop


def _options(logical: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The bounds that the schema has; not those booleans that draft 4 has in their place."""
    options = {}
    for word in _OPTIONS.get(logical, ()):
        value = spec.get(word)
        wanted: tuple[type, ...] = (int, float)
        if word == "pattern":
            wanted = (str,)
        elif word == "uniqueItems":
            wanted = (bool,)
        if isinstance(value, wanted) and (word == "uniqueItems" or not isinstance(value, bool)):
            options[word] = value
    return options


def _links(entry: TapEntry | TableEntry | ColumnEntry) -> list[dict[str, Any]]:
    links = []
    if entry.documentation:
        links.append({"url": entry.documentation, "type": "documentation"})
    job = getattr(entry, "job_url", None)
    if job:
        links.append({"url": job, "type": "transformationImplementation"})
    return links


def _custom(
    entry: TapEntry | TableEntry | ColumnEntry, fields: Sequence[str]
) -> list[dict[str, Any]]:
    """Return annotations as custom properties, because the standard has no member for them."""
    names = {"job_status": "jobStatus"}
    return [
        {"property": names.get(name, name), "value": value}
        for name in fields
        if (value := getattr(entry, name, None))
    ]
