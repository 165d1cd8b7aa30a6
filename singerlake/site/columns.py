"""The columns of a schema for a page: types, constraints, words, and what changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from singerlake.annotations import columns as schema_columns
from singerlake.annotations.fields import is_url
from singerlake.format.annotations import ColumnEntry
from singerlake.format.log import SchemaEntry
from singerlake.format.types import Columns, Kind, Type, columns_of
from singerlake.log.table_state import TableState
from singerlake.site import lists
from singerlake.site.pages import Column, Said, SchemaChange

MAX_COLUMNS = 2_000
"""Of one table; a schema that refers to itself has no end."""
MAX_WORDS = 1_000
"""A longer description of a column is cut: the page must stay small."""
MAX_CHANGES = 10
MAX_NAMES = 25
MAX_CHANGES_BYTES = 24_000
"""Of all changes on a page; names of columns may be long."""
_LINE = 300
_NO_ENTRY, _NOTHING = ColumnEntry(), Said()
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BOUNDS = {
    "minimum": "≥",
    "maximum": "≤",
    "exclusiveMinimum": ">",
    "exclusiveMaximum": "<",
    "multipleOf": "multiple of",
    "minLength": "length ≥",
    "maxLength": "length ≤",
    "minItems": "items ≥",
    "maxItems": "items ≤",
}


def columns_for(snapshot: TableState, entries: Mapping[str, ColumnEntry]) -> list[Column]:
    """The columns in effect, each followed by the properties inside it."""
    schema = schema_columns.schema_of(snapshot)
    asked = schema_columns.asked_of_rows(snapshot)
    listed: list[Column] = []
    for column in _listed(schema, snapshot.columns, snapshot.retyped, entries):
        if len(listed) == MAX_COLUMNS:
            break
        words = [] if column.depth else [f"{n}: {w}" for n, w in asked.get(column.name, ())]
        if words:
            column = msgspec.structs.replace(  # noqa: PLW2901
                column, constraints=[*column.constraints, *words]
            )
        listed.append(column)
    return listed


def _listed(
    schema: SchemaEntry, columns: Columns, retyped: Any, entries: Mapping[str, ColumnEntry]
) -> Iterator[Column]:
    root = schema.schema
    specs = schema_columns.properties(root, root)
    required = root.get("required")
    for name, kind in columns:
        spec = specs.get(name)
        keys = schema.key_properties
        place = keys.index(name) + 1 if name in keys else 0
        demanded = isinstance(required, list) and name in required
        listed = _column(name, kind, spec, root, entries.get(name), "$", 0, place, demanded)
        for column in listed:
            if retyped and column.depth == 0 and name in retyped:
                own = [
                    f"converted to text by alter; the tap declares {column.said_type}",
                    *column.constraints,
                ]
                column = msgspec.structs.replace(column, constraints=own)  # noqa: PLW2901
            yield column


def _column(
    name: str,
    kind: Type,
    spec: Any,
    root: dict[str, Any],
    given: ColumnEntry | None,
    above: str,
    depth: int,
    place: int = 0,
    demanded: bool = False,
) -> Iterator[Column]:
    entry = given or _NO_ENTRY
    path = f"{above}{_step(name)}"
    own = schema_columns.description(spec, root)
    words = entry.description or own
    whole = schema_columns.resolved(spec, root)
    yield Column(
        name=name,
        path=path,
        depth=depth,
        type=_shown(kind),
        said_type=json_type(whole),
        key=place,
        constraints=constraints(whole, demanded=demanded),
        description=_cut(words),
        by_schema=bool(words) and not entry.description,
        said=said_of(entry),
    )
    while kind.kind is Kind.LIST and kind.item is not None:
        kind, path = kind.item, f"{path}[*]"
    if kind.kind is Kind.STRUCT and depth < schema_columns.MAX_DEPTH:
        inner = schema_columns.properties(spec, root)
        for child, type_ in kind.fields:
            below = entry.columns.get(child)
            yield from _column(child, type_, inner.get(child), root, below, path, depth + 1)


def said_of(entry: Any) -> Said:
    """What is said of something, as far as a page shows it; a link only where it is one."""
    if entry is _NO_ENTRY:
        return _NOTHING
    values = {}
    for name in Said.__struct_fields__:
        value = getattr(entry, name, None)
        if value and not (name in ("documentation", "job_url") and not is_url(value)):
            values[name] = value
    if (status := values.get("job_status")) and "job_url" not in values and is_url(status):
        values["job_url"] = values.pop("job_status")  # as an earlier release's people wrote it
    return Said(**values)


def _cut(words: str | None) -> str | None:
    if words is None or len(words) <= MAX_WORDS:
        return words
    return f"{words[:MAX_WORDS]}…"


def _step(name: str) -> str:
    return f".{name}" if _PLAIN.fullmatch(name) else f"[{json.dumps(name, ensure_ascii=False)}]"


def _shown(kind: Type) -> str:
    """A type; what lies inside an object has rows of its own."""
    if kind.kind is Kind.STRUCT:
        return "object"
    if kind.kind is Kind.LIST and kind.item is not None:
        return f"list of {_shown(kind.item)}"
    return str(kind)


def json_type(spec: dict[str, Any]) -> str:
    """The JSON type that a schema names, with its format."""
    kinds = spec.get("type")
    if isinstance(kinds, list):
        kinds = ", ".join(str(kind) for kind in kinds if kind != "null")
    if not isinstance(kinds, str) or not kinds:
        kinds = "object" if "properties" in spec else "any"
    form = spec.get("format")
    return f"{kinds} ({form})" if isinstance(form, str) else kinds


def constraints(spec: dict[str, Any], *, demanded: bool = False) -> list[str]:
    """What a schema demands of a value, in words."""
    demands = ["required"] if demanded else []
    kinds = spec.get("type")
    if isinstance(kinds, (str, list)) and "null" not in kinds:
        demands.append("not null")
    for word in [word for word in _BOUNDS if word in spec]:
        bound = spec[word]
        if isinstance(bound, (int, float)) and not isinstance(bound, bool):
            demands.append(f"{_BOUNDS[word]} {bound}")
    if isinstance(pattern := spec.get("pattern"), str):
        demands.append(f"matches {pattern[:80]}")
    values = spec.get("enum")
    if isinstance(values, list) and values:
        shown = ", ".join(json.dumps(value, ensure_ascii=False)[:40] for value in values[:12])
        demands.append(f"one of {shown}" + (", …" if len(values) > 12 else ""))  # noqa: PLR2004
    if spec.get("uniqueItems") is True:
        demands.append("items differ")
    return demands


def changes_of(snapshot: TableState) -> list[SchemaChange]:
    """How the schema in effect became what it is, the newest first."""
    changes: list[SchemaChange] = []
    facts: dict[str, dict[str, str]] = {}
    before = ""
    for transaction in snapshot.transactions:
        after = transaction.schema_hash
        if before and after and after != before:
            for name in (before, after):
                if name not in facts:
                    facts[name] = _facts(snapshot, name)
            change = _change(snapshot, facts[before], facts[after], before, after)
            changes.append(
                SchemaChange(
                    transaction=transaction.number,
                    time=transaction.time,
                    before=before,
                    after=after,
                    **change,
                )
            )
        before = after or before
    return _within(changes[-MAX_CHANGES:][::-1])


def _within(changes: list[SchemaChange]) -> list[SchemaChange]:
    """As much of the changes as a page has room for, the newest first."""
    left = MAX_CHANGES_BYTES
    kept = []
    for change in changes:
        lines: dict[str, list[str]] = {}
        for name in ("added", "removed", "changed"):
            texts = getattr(change, name)
            some: list[str] = []
            for text in texts[:MAX_NAMES]:
                left -= lists.weight(text[:_LINE]) + 60
                if left < 0:
                    break
                some.append(text[:_LINE] + ("…" if len(text) > _LINE else ""))
            if len(some) < len(texts):
                some.append(f"and {len(texts) - len(some)} more")
            lines[name] = some
        left -= lists.weight((change.keys or "")[:_LINE])
        kept.append(msgspec.structs.replace(change, **lines))
    return kept


def _facts(snapshot: TableState, name: str) -> dict[str, str]:
    """Each path of a schema, with its type and constraints as one text."""
    schema = snapshot.schemas.get(name, SchemaEntry({}))
    facts: dict[str, str] = {}
    for column in _listed(schema, columns_of(schema, snapshot.rules), frozenset(), {}):
        if len(facts) == MAX_COLUMNS:
            break
        more = f" ({', '.join(column.constraints)})" if column.constraints else ""
        facts[column.path] = f"{column.type}{more}"
    return facts


def _change(
    snapshot: TableState, old: dict[str, str], new: dict[str, str], before: str, after: str
) -> dict[str, Any]:
    differing = [path for path in new if path in old and old[path] != new[path]]
    keys = [
        ", ".join(snapshot.schemas.get(name, SchemaEntry({})).key_properties) or "none"
        for name in (before, after)
    ]
    return {
        "added": [f"{path}: {new[path]}" for path in new if path not in old],
        "removed": [f"{path}: {old[path]}" for path in old if path not in new],
        "changed": [f"{path}: {old[path]} → {new[path]}" for path in differing],
        "keys": f"{keys[0]} → {keys[1]}" if keys[0] != keys[1] else None,
    }
