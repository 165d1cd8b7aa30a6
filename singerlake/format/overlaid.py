"""The overlay laid over a schema: what the table's columns, key and rules are by both words.

Blocks are written under the names of the records' members, so it is laid over each once, whatever
it says by then: ``written.py`` has the schema that changes are written under. Laying it over what
it was laid over before changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from singerlake.format import constraints
from singerlake.format.json_schema import Spec, resolved
from singerlake.format.log import SchemaEntry
from singerlake.format.overlay import ColumnOverlay, Overlay
from singerlake.format.types import (
    EXACT_KEYS,
    RULES,
    TEXT,
    Columns,
    Kind,
    Type,
    columns_of,
    exact,
    never_fails,
    type_of,
)

_AS_THE_TAP_SAYS = ColumnOverlay()
_OF_THE_WHOLE_ROW = frozenset(
    """
    additionalProperties allOf anyOf const dependencies dependentRequired dependentSchemas else enum
    if maxProperties minProperties not oneOf patternProperties propertyNames then
    unevaluatedProperties
    """.split()  # noqa: SIM905
)
"""What a schema says of a row beside ``properties`` and ``required``. It is left out where columns
are renamed, dropped, added or retyped: the target has held each record against it before."""


def laid(entry: SchemaEntry, overlay: Overlay, *, constrained: bool = True) -> SchemaEntry:
    """Lay an overlay over a schema.

    Args:
        overlay: What people said. What it only makes text of stays as it is, for no JSON Schema
            says that of numbers.
        constrained: Whether to lay its constraints over it too, as far as JSON Schema can say
            them. The columns' types go by the schema without.

    Returns:
        The same schema where the overlay says nothing of it.
    """
    if overlay.only_texts:
        return entry
    schema = resolved(entry.schema, entry.schema)
    own = _properties(schema)
    names, said = names_of(own, overlay), overlay.columns.keys()
    properties = {
        name: _column(own[member], overlay.columns.get(member, _AS_THE_TAP_SAYS))
        for member, name in names.items()
    }
    for member, added in overlay.added.items():
        column = overlay.columns.get(member, _AS_THE_TAP_SAYS)
        own_default = {} if added.default is None else {"default": added.default}
        spec = {**added.schema, **own_default}
        properties.setdefault(column.name or member, _column(spec, column))
    if [*properties.items()] != [*own.items()]:
        retyped = any(isinstance(overlay.columns[m].type, dict) for m in names.keys() & said)
        if retyped or properties.keys() != own.keys():
            schema = {k: v for k, v in schema.items() if k not in _OF_THE_WHOLE_ROW}
        required = schema.get("required")
        schema = {**schema, "properties": properties}
        if isinstance(required, list):
            schema["required"] = [names[name] for name in required if name in names]
    if constrained:
        schema = constraints.laid(schema, overlay.constraints)
    keys = [names.get(key, key) for key in entry.key_properties]
    return SchemaEntry(schema, keys if overlay.key is None else list(overlay.key))


def names_of(declared: Mapping[str, Any], overlay: Overlay) -> dict[str, str]:
    """Return what people see of a schema's columns: their names, by those in the records."""
    said = overlay.columns
    given = {said[name].name for name in declared if name in said and not said[name].dropped}
    shown: dict[str, str] = {}
    for member in declared:
        column = said.get(member, _AS_THE_TAP_SAYS)
        if not column.dropped and (column.name or member not in given):
            shown[member] = column.name or member
    return shown


def retyped_of(overlay: Overlay) -> frozenset[str]:
    """Return the columns that are text whatever the tap says, by the names that people see."""
    return frozenset(
        column.name or member for member, column in overlay.columns.items() if column.type == "text"
    )


def member_of(overlay: Overlay, name: str) -> str:
    """Return what the records call a column, by the name that people see."""
    given = (member for member, column in overlay.columns.items() if column.name == name)
    return next(given, name)


def with_texts(overlay: Overlay, names: Iterable[str]) -> Overlay:
    """Return an overlay that makes text of some columns too, by the names that people see."""
    columns = dict(overlay.columns)
    for member in (member_of(overlay, name) for name in names):
        column = columns.get(member, _AS_THE_TAP_SAYS)
        columns[member] = msgspec.structs.replace(column, type="text")
    return msgspec.structs.replace(overlay, columns=columns)


def reading_of(overlay: Overlay, names: Iterable[str]) -> bytes:
    """Return how an overlay has columns read, as a text that is equal where that is the same."""
    how = []
    for name in names:
        member = member_of(overlay, name)
        said = overlay.columns.get(member, _AS_THE_TAP_SAYS)
        how.append((member, name, said.type, said.dropped, overlay.added.get(member)))
    return msgspec.json.encode(how)


def texts_of(overlay: Overlay, other: Overlay) -> Overlay:
    """Return an overlay that makes text of what another one makes text too, by the members."""
    texts = {m: c for m, c in other.columns.items() if c.type == "text"}
    if overlay.columns.keys() >= texts.keys() and all(
        overlay.columns[member].type == "text" for member in texts
    ):
        return overlay
    columns = {
        member: msgspec.structs.replace(overlay.columns.get(member, _AS_THE_TAP_SAYS), type="text")
        for member in texts
    }
    return msgspec.structs.replace(overlay, columns={**overlay.columns, **columns})


def table_columns(entry: SchemaEntry, overlay: Overlay, rules: int = RULES) -> Columns:
    """Return a table's columns, in order.

    Args:
        entry: The schema in effect, as the tap sent it.
        rules: The number of the rules of types.
    """
    return columns_of(laid(entry, overlay, constrained=False), rules, retyped_of(overlay))


@dataclass(frozen=True)
class BlockColumns:
    """The columns of the table that the records of a schema have.

    Attributes:
        columns: By the names that people see, each with the type by which its values are read.
        members: What the records call those columns that people call otherwise.
        rules: The number of the rules by which they are columns.
    """

    columns: Columns
    members: Mapping[str, str]
    rules: int = RULES


def block_columns(entry: SchemaEntry, overlay: Overlay, rules: int = RULES) -> BlockColumns:
    """Return what blocks under a schema have of the table's columns.

    A column that a person gave another type is read by the schema's own, where all its values can
    become the other, else as the tap wrote it: that loses no digit on the way.

    Args:
        entry: The schema that the blocks were written under.
        rules: The number of the rules of types.
    """
    texts = {member for member, column in overlay.columns.items() if column.type == "text"}
    if overlay.only_texts:
        return BlockColumns(columns_of(entry, rules, texts), {}, rules)
    own = dict(columns_of(entry, rules, texts))
    keys = set(overlay.key or ())
    columns: list[tuple[str, Type]] = []
    members: dict[str, str] = {}
    for member, name in names_of(own, overlay).items():
        column = overlay.columns.get(member, _AS_THE_TAP_SAYS)
        type_ = own[member]
        if name in keys and type_ == TEXT and member in texts:
            type_ = dict(columns_of(entry, rules))[member]
            type_ = Type(Kind.TEXT, own=exact(type_) if rules >= EXACT_KEYS else type_)
        if isinstance(column.type, dict) and not never_fails(type_, type_of(column.type)):
            type_ = TEXT
        columns.append((name, type_))
        if name != member:
            members[name] = member
    return BlockColumns(tuple(columns), members, rules)


def _properties(schema: Spec) -> Spec:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _column(spec: Any, said: ColumnOverlay) -> Any:
    if isinstance(said.type, dict):
        own = spec.get("description") if isinstance(spec, dict) else None
        spec = {**said.type, **({} if own is None else {"description": own})}
    words: Spec = {} if said.description is None else {"description": said.description}
    if said.default is not msgspec.UNSET:
        words["default"] = said.default
    if not words or spec is False:
        return spec
    return {**(spec if isinstance(spec, dict) else {}), **words}
