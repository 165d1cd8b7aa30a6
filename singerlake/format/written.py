"""The schema that a change of rows is written under: by the members of the records.

What people call a column is their word of today; a line is there for good. So records that a
change writes have the members that the tap would give them, and the overlay lies over their block
as it lies over the tap's. A column that was dropped is declared too, for it may be restored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from singerlake.format.json_schema import resolved
from singerlake.format.log import SchemaEntry
from singerlake.format.overlaid import laid, names_of, retyped_of
from singerlake.format.overlay import ColumnOverlay, Overlay
from singerlake.format.types import RULES, Columns, columns_of

_AS_THE_TAP_SAYS = ColumnOverlay()


@dataclass(frozen=True)
class WrittenUnder:
    """The schema and the members with which a change writes records.

    Attributes:
        entry: The schema that they are written under, by member.
        check: What is asked of them, constraints too, by member.
        shown: The same, by the names that people see.
        members: What records call each column, where that is not the name that people see.
        overlay: The table's, with the columns in it that it hides, under names that nobody gives.
        hidden: Those columns.
    """

    entry: SchemaEntry
    check: SchemaEntry
    shown: SchemaEntry
    members: Mapping[str, str]
    overlay: Overlay
    hidden: Columns


def written_under(entry: SchemaEntry, overlay: Overlay, rules: int = RULES) -> WrittenUnder:
    """Return how records of a table are written.

    Args:
        entry: The schema in effect, as the tap sent it.
        rules: The number of the rules of types.
    """
    if overlay.only_texts:
        return WrittenUnder(entry, entry, entry, {}, overlay, ())
    own = _properties(entry)
    names = names_of(own, overlay)
    hidden = {member: f"\0{member}" for member in own if member not in names}
    whole = _with_hidden(overlay, hidden)
    names |= hidden
    members = {name: member for member, name in names.items() if name != member}
    for member in overlay.added.keys() - names.keys():
        name = overlay.columns.get(member, _AS_THE_TAP_SAYS).name or member
        if name != member and name not in names.values():
            members[name] = member
    unseen = frozenset(hidden.values())
    bare = laid(entry, whole, constrained=False)
    all_of_them = _optional(laid(entry, whole), unseen)
    columns = columns_of(bare, rules, retyped_of(whole))
    return WrittenUnder(
        entry=_by_members(_optional(bare, unseen), members, entry),
        check=_by_members(all_of_them, members, entry),
        shown=all_of_them,
        members=members,
        overlay=whole,
        hidden=tuple(column for column in columns if column[0] in unseen),
    )


def _with_hidden(overlay: Overlay, hidden: Mapping[str, str]) -> Overlay:
    columns = dict(overlay.columns)
    for member, name in hidden.items():
        column = columns.get(member, _AS_THE_TAP_SAYS)
        columns[member] = msgspec.structs.replace(column, name=name, dropped=False)
    return msgspec.structs.replace(overlay, columns=columns)


def _optional(entry: SchemaEntry, unseen: frozenset[str]) -> SchemaEntry:
    """Ask no row for columns that nobody sees."""
    required = entry.schema.get("required")
    if not unseen or not isinstance(required, list):
        return entry
    schema = {**entry.schema, "required": [name for name in required if name not in unseen]}
    return SchemaEntry(schema, entry.key_properties)


def _by_members(entry: SchemaEntry, members: Mapping[str, str], tap: SchemaEntry) -> SchemaEntry:
    schema = entry.schema
    if members:
        own = _properties(entry)
        schema = {**schema, "properties": {members.get(n, n): spec for n, spec in own.items()}}
        required = schema.get("required")
        if isinstance(required, list):
            schema["required"] = [members.get(name, name) for name in required]
    found = SchemaEntry(schema, [members.get(key, key) for key in entry.key_properties])
    return tap if found == tap else found


def _properties(entry: SchemaEntry) -> dict[str, Any]:
    properties = resolved(entry.schema, entry.schema).get("properties")
    return properties if isinstance(properties, dict) else {}
