"""What a tap's records must be by two words: its own schema's, and what people said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from singerlake.format import constraints
from singerlake.format.constraint_types import unfit
from singerlake.format.json_schema import resolved
from singerlake.format.laid import laid, member_of, names_of, table_columns
from singerlake.format.log import SchemaEntry
from singerlake.format.overlay import ColumnOverlay, Constraint, Overlay
from singerlake.format.types import (
    Kind,
    Type,
    columns_of,
    exact,
    keeps_numbers,
    never_fails,
    type_of,
)

_AS_THE_TAP_SAYS = ColumnOverlay()
_TEXTS = frozenset((Kind.STRING, Kind.TEXT))
_NUMBERS = frozenset((Kind.INTEGER, Kind.NUMBER, Kind.DECIMAL))
_TIMES = frozenset((Kind.DATE, Kind.TIMESTAMP))


def bound(entry: SchemaEntry, overlay: Overlay) -> SchemaEntry:
    """Return the schema that a tap's records are held against, and their key, by their own names.

    Args:
        entry: What the tap says.
        overlay: What people said.
    """
    if overlay.only_texts:
        return entry
    schema = resolved(entry.schema, entry.schema)
    members = {shown: member for member, shown in names_of(_declared(schema), overlay).items()}
    rules: dict[str, Constraint] = {}
    for name, one in overlay.constraints.items():
        own = [members[column] for column in one.columns if column in members]
        said = (overlay.columns.get(member, _AS_THE_TAP_SAYS).type for member in own)
        # Of a column of another type the schema speaks of other values than the constraint.
        if own and (one.kind == "not-null" or not any(said)):
            rules[name] = replace(one, columns=own)
    keys = entry.key_properties
    if overlay.key is not None:
        keys = [members[name] for name in overlay.key if name in members]
        rules["key"] = Constraint("not-null", keys)
    narrowed = constraints.laid(schema, rules)
    return SchemaEntry(entry.schema if narrowed is schema else narrowed, keys)


def contradiction(entry: SchemaEntry, overlay: Overlay) -> str:
    """Say in what a tap's schema and an overlay cannot both hold; empty where they can.

    Args:
        entry: What the tap says.
        overlay: What people said.
    """
    if overlay.only_texts:
        return ""
    own = {name: exact(type_, is_key=False) for name, type_ in columns_of(entry)}
    wrong = next(_contradictions(entry, own, overlay), "")
    return wrong or next(_of_constraints(entry, overlay), "")


def _contradictions(entry: SchemaEntry, own: Mapping[str, Type], overlay: Overlay) -> Iterator[str]:
    shown = names_of(own, overlay)
    for member in entry.key_properties if overlay.key is None else ():
        column = overlay.columns.get(member, _AS_THE_TAP_SAYS)
        if column.dropped:
            yield (
                f"its key has {member!r}, and alter dropped that column: restore it with "
                "restore-column, or give the table another key with set-key"
            )
        elif (
            isinstance(column.type, dict)
            and member in own
            and not keeps_numbers(own[member], type_of(column.type))
        ):
            yield (
                f"its key has {member!r}, and alter made {type_of(column.type)} of that column, "
                "which might not identify rows: give the table another key with set-key"
            )
    for name in overlay.key or ():
        member = member_of(overlay, name)
        added = overlay.added.get(member)
        if name not in shown.values() and (added is None or added.default is None):
            called = "" if name == member else f", which its records call {member!r}"
            yield f"it lacks the column {name!r}{called}, which alter made part of the key"
    for member, one in overlay.added.items():
        wanted = type_of(one.schema)
        if (type_ := own.get(member, wanted)) != wanted:
            yield f"it declares {member!r} as {type_}, and alter added that column as {wanted}"
    for member, column in overlay.columns.items():
        if member in own and not column.dropped:
            yield from _of_column(own, overlay, member, column)


def _of_constraints(entry: SchemaEntry, overlay: Overlay) -> Iterator[str]:
    """In what the types of columns are none that constraints are for."""
    if not overlay.constraints:
        return
    schema = laid(entry, overlay, constrained=False).schema
    schema = resolved(schema, schema)
    columns = dict(table_columns(entry, overlay))
    for name, one in overlay.constraints.items():
        for column in one.columns:
            if column in columns:
                spec = schema["properties"][column]
                if wrong := unfit(one, column, columns[column], spec, schema):
                    yield f"the constraint {name!r} does not fit what it declares: {wrong}"


def _of_column(
    own: Mapping[str, Type], overlay: Overlay, member: str, column: ColumnOverlay
) -> Iterator[str]:
    if column.name is not None and column.name in own:
        other = overlay.columns.get(column.name, _AS_THE_TAP_SAYS)
        if not other.dropped and other.name is None:
            yield f"it declares {column.name!r}, and that is what alter calls {member!r}"
    if isinstance(column.type, dict) and not _can_become(own[member], type_of(column.type)):
        new = type_of(column.type)
        yield f"it declares {member!r} as {own[member]}, and alter made {new} of it"


def _can_become(own: Type, new: Type) -> bool:
    """Whether some values of a type may be read as another."""
    if never_fails(own, new) or own.kind in _TEXTS:
        return True
    return any(own.kind in kinds and new.kind in kinds for kinds in (_NUMBERS, _TIMES)) or (
        own.kind is new.kind
    )


def _declared(schema: dict[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}
