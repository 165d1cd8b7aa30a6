"""What a person may say of a table's columns, key and rows: each as a change of its overlay.

Each function takes the table as it is and returns the overlay that it would have. Several go one
after the other: ``snapshot.laid_over(overlay)`` is the table under the overlay of the first. What
only the rows can tell (whether a key is unique, a constraint met) is not asked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from singerlake.errors import NotFoundError, UsageError
from singerlake.format import sql_tokens
from singerlake.format.column_list import RESERVED
from singerlake.format.json_schema import resolved
from singerlake.format.laid import member_of, with_texts
from singerlake.format.overlay import AddedColumn, ColumnOverlay, Constraint, Overlay
from singerlake.format.type_list import same_digits
from singerlake.format.types import Kind, Type, columns_of, exact, keeps_numbers, type_of
from singerlake.log.table_state import TableState
from singerlake.nearest import offer
from singerlake.overlay.constraint_checks import (
    check_defaults,
    check_listed,
    check_type,
    check_value,
    checked,
    with_nulls_of,
)
from singerlake.rows.blocks.misfits import STRING_SCHEMA, THEN

_NOT_IN_KEYS = (Kind.STRUCT, Kind.LIST)


def with_column(
    snapshot: TableState,
    name: str,
    schema: dict[str, Any],
    *,
    default: Any = None,
    initial: Any = msgspec.UNSET,
    description: str | None = None,
) -> Overlay:
    """Add a column.

    Args:
        snapshot: The table.
        name: The column's name.
        schema: The JSON Schema of its values.
        default: What new rows get that have no value for it, as JSON has it; a decimal may be a
            string of its digits.
        initial: What the rows show that are there; the default if nothing is said.
        description: What it means.

    Raises:
        UsageError: There is such a column, the tap sends one, or a default is no such value.
    """
    overlay = snapshot.overlay
    _check_new_name(snapshot, name)
    initial = default if initial is msgspec.UNSET else initial
    type_ = type_of(schema)
    for what, value in (("default", default), ("initial value", initial)):
        check_value(f"the {what} of column {name!r}", value, name, {name: schema}, type_)
    if description is not None:
        schema = {**schema, "description": description}
    first = snapshot.last_block + 1
    added = AddedColumn(schema, [(0, initial), (first, default)])
    return replace(overlay, added={**overlay.added, name: added})


def without_column(snapshot: TableState, name: str) -> Overlay:
    """Drop a column. The records keep what they have of it.

    Raises:
        NotFoundError: There is no such column.
        UsageError: It is of the key, the only one, or a constraint is about it.
    """
    _check_there(snapshot, name)
    if name in snapshot.schema.key_properties:
        raise UsageError(
            f"column {name!r} is part of the key of {snapshot.table}: give the table another key "
            "first"
        )
    _check_no_constraint(snapshot, name)
    if len(snapshot.columns) == 1:
        raise UsageError(
            f"column {name!r} is the only one of {snapshot.table}: a table without columns has no "
            "rows to show; drop the table, or add another column first"
        )
    overlay = snapshot.overlay
    member = member_of(overlay, name)
    columns = {m: column for m, column in overlay.columns.items() if m != member}
    if member in overlay.added:
        added = {m: column for m, column in overlay.added.items() if m != member}
        overlay = replace(overlay, added=added)
        if member not in _sent(snapshot):
            return replace(overlay, columns=columns)
    return replace(overlay, columns={**columns, member: ColumnOverlay(dropped=True)})


def with_restored(snapshot: TableState, name: str) -> Overlay:
    """Take back that a column of the tap's was dropped.

    Raises:
        NotFoundError: None of this name was dropped.
        UsageError: Another column has its name by now.
    """
    overlay = snapshot.overlay
    column = overlay.columns.get(name)
    if column is None or not column.dropped:
        dropped = [member for member, one in overlay.columns.items() if one.dropped]
        raise NotFoundError(
            f"no column {name!r} of {snapshot.table} was dropped: "
            f"{offer(name, dropped, 'all that the tap sends are there')}"
        )
    if name in dict(snapshot.columns):
        raise UsageError(f"{snapshot.table} now has another column {name!r}: rename that first")
    return replace(overlay, columns={m: c for m, c in overlay.columns.items() if m != name})


def with_name(snapshot: TableState, name: str, new: str) -> Overlay:
    """Give a column another name; key and constraints go by it too.

    Raises:
        NotFoundError: There is no such column.
        UsageError: The name is taken.
    """
    _check_there(snapshot, name)
    overlay = snapshot.overlay
    member = member_of(overlay, name)
    if name == new:
        return overlay
    if new != member:
        _check_new_name(snapshot, new)

    for title, one in overlay.constraints.items():
        if name in one.columns and sql_tokens.may_be_variable(one.sql, new):
            raise UsageError(
                f"the constraint {title!r} of {snapshot.table} has a variable {new!r}: choose "
                "another name, or drop it first"
            )

    def renamed(names: Sequence[str]) -> list[str]:
        return [new if one == name else one for one in names]

    column = overlay.columns.get(member, ColumnOverlay())
    column = replace(column, name=None if new == member else new)
    key = overlay.key
    return replace(
        _with(overlay, member, column),
        key=None if key is None else renamed(key),
        constraints={
            n: replace(
                one, columns=renamed(one.columns), sql=sql_tokens.renamed(one.sql, {name: new})
            )
            for n, one in overlay.constraints.items()
        },
    )


def with_type(snapshot: TableState, name: str, schema: dict[str, Any] | None) -> Overlay:
    """Give a column another type, under every schema that the table has or gets.

    Args:
        snapshot: The table.
        name: The column's name.
        schema: The JSON Schema of its values; None makes it text. A column that may be null
            stays so: what asks for values is a constraint.

    Raises:
        NotFoundError: There is no such column.
        UsageError: It is of the key, and its values might come apart; a default is no such
            value; or a constraint is none for such values.
    """
    type_ = _check_there(snapshot, name)
    overlay = snapshot.overlay
    member = member_of(overlay, name)
    if schema is None:
        if name in snapshot.schema.key_properties:
            _check_one_type(snapshot, name, member)
        if type_.kind is Kind.TEXT:
            return overlay
        return check_type(snapshot, name, with_texts(overlay, [name]))
    new = type_of(schema)
    if new == exact(type_, is_key=False) and same_digits(snapshot.schema, name, schema):
        return overlay
    if name in snapshot.schema.key_properties:
        _check_keeps_keys(snapshot, name, member, new)
    schema = with_nulls_of(snapshot, name, schema)
    column = overlay.columns.get(member, ColumnOverlay())
    if (added := overlay.added.get(member)) is not None:
        for _, value in added.defaults:
            if value is not None:
                check_value(f"the default of column {name!r}", value, name, {name: schema}, new)
        overlay = replace(overlay, added={**overlay.added, member: replace(added, schema=schema)})
    elif (default := column.default) is not msgspec.UNSET and default is not None:
        check_value(f"the default of column {name!r}", default, name, {name: schema}, new)
    return check_type(snapshot, name, _with(overlay, member, replace(column, type=schema)))


def with_default(snapshot: TableState, name: str, default: Any) -> Overlay:
    """Say what new rows get that have no value for a column; those that are there stay.

    Args:
        snapshot: The table.
        name: The column's name.
        default: The value as JSON has it; None for null.

    Raises:
        NotFoundError: There is no such column.
        UsageError: The column cannot hold it.
    """
    type_ = _check_there(snapshot, name)
    overlay = snapshot.overlay
    member = member_of(overlay, name)
    root = resolved(snapshot.schema.schema, snapshot.schema.schema)
    what = f"the default of column {name!r}"
    check_value(what, default, name, root["properties"], type_, root)
    check_listed(what, default, name, type_, overlay.constraints)
    if (added := overlay.added.get(member)) is None:
        column = overlay.columns.get(member, ColumnOverlay())
        return _with(overlay, member, replace(column, default=default))
    first = snapshot.last_block + 1
    kept = [pair for pair in added.defaults[1:] if pair[0] < first]
    defaults = [added.defaults[0], *kept, (first, default)]
    if added.default == default:
        return overlay
    return replace(overlay, added={**overlay.added, member: replace(added, defaults=defaults)})


def with_description(snapshot: TableState, name: str, text: str) -> Overlay:
    """Say what a column means, in place of what the tap says; an empty text takes that back.

    Raises:
        NotFoundError: There is no such column.
    """
    _check_there(snapshot, name)
    overlay = snapshot.overlay
    member = member_of(overlay, name)
    column = overlay.columns.get(member, ColumnOverlay())
    return _with(overlay, member, replace(column, description=text.strip() or None))


def with_key(snapshot: TableState, names: Sequence[str]) -> Overlay:
    """Give the table a key, whatever the tap calls one.

    Raises:
        NotFoundError: There is no such column.
        UsageError: No column is named, one twice, or one that no key can have.
    """
    if not names:
        raise UsageError("name the columns of the key")
    if len(set(names)) < len(names):
        raise UsageError(f"a key column is named twice: {', '.join(names)}")
    for name in names:
        type_ = _check_there(snapshot, name)
        if type_.kind in _NOT_IN_KEYS:
            raise UsageError(f"column {name!r} cannot be part of a key: it is {type_}")
        if name in snapshot.retyped and name not in snapshot.schema.key_properties:
            _check_one_type(snapshot, name, member_of(snapshot.overlay, name))
    overlay = snapshot.overlay
    if list(names) == snapshot.schema.key_properties and overlay.key is None:
        return overlay
    return replace(overlay, key=list(names))


def with_constraint(snapshot: TableState, name: str, constraint: Constraint) -> Overlay:
    """Ask something of all rows, from now on.

    Raises:
        NotFoundError: There is no such column.
        UsageError: The name is taken, the constraint is none for columns of these types, or a
            column's default breaks it.
    """
    overlay = snapshot.overlay
    if not name.strip() or not name.isprintable():
        raise UsageError(f"the name {name!r} is empty, or has control characters in it")
    for column in constraint.columns:
        _check_there(snapshot, column)
    constraint = checked(snapshot, constraint)
    if overlay.constraints.get(name, constraint) != constraint:
        raise UsageError(
            f"{snapshot.table} has a constraint {name!r} already: drop it first, or choose another "
            "name"
        )
    overlay = replace(overlay, constraints={**overlay.constraints, name: constraint})
    check_defaults(snapshot.laid_over(overlay), constraint)
    return overlay


def without_constraint(snapshot: TableState, name: str) -> Overlay:
    """Ask it no more.

    Raises:
        NotFoundError: There is no such constraint.
    """
    constraints = snapshot.overlay.constraints
    if name not in constraints:
        raise NotFoundError(
            f"{snapshot.table} has no constraint {name!r}: "
            f"{offer(name, [*constraints], 'it has none')}"
        )
    rest = {n: one for n, one in constraints.items() if n != name}
    return replace(snapshot.overlay, constraints=rest)


def _with(overlay: Overlay, member: str, column: ColumnOverlay) -> Overlay:
    columns = {m: one for m, one in overlay.columns.items() if m != member}
    if column != ColumnOverlay():
        columns[member] = column
    return replace(overlay, columns=columns)


def _check_there(snapshot: TableState, name: str) -> Type:
    columns = dict(snapshot.columns)
    if name not in columns:
        raise NotFoundError(
            f"{snapshot.table} has no column {name!r}: {offer(name, [*columns], 'it has none')}"
        )
    return columns[name]


def _sent(snapshot: TableState) -> list[str]:
    """What the tap calls the columns that it sends."""
    return [name for name, _ in columns_of(snapshot.tap_schema, snapshot.rules)]


def _check_new_name(snapshot: TableState, name: str) -> None:
    """Refuse a name that means another column, now or in the records that there are."""
    table, overlay = snapshot.table, snapshot.overlay
    if not name.strip() or not name.isprintable():
        raise UsageError(f"the name {name!r} is empty, or has control characters in it")
    if name in RESERVED or name.startswith("_sdc_"):
        raise UsageError(f"no column can be called {name!r}: the name has a meaning of its own")
    if name in dict(snapshot.columns):
        raise UsageError(f"{table} has a column {name!r} already")
    if name in _sent(snapshot):
        said = overlay.columns.get(name, ColumnOverlay())
        if said.dropped:
            raise UsageError(
                f"the tap of {table} sends a column {name!r}, which was dropped: restore it with "
                "restore-column, or choose another name"
            )
        raise UsageError(
            f"the tap of {table} calls {said.name!r} {name!r}: choose another name, or rename it "
            "back"
        )
    if name in overlay.added or name in overlay.columns:
        raise UsageError(
            f"the records of {table} use {name!r} for another column: choose another name"
        )


def _check_no_constraint(snapshot: TableState, name: str) -> None:
    for title, one in snapshot.overlay.constraints.items():
        if name in one.columns:
            raise UsageError(
                f"column {name!r} of {snapshot.table} cannot be dropped while the constraint "
                f"{title!r} is about it: drop that first"
            )


def _check_keeps_keys(snapshot: TableState, name: str, member: str, new: Type) -> None:
    """Refuse a type of a key's column under which two keys could become one."""
    types = (
        dict(columns_of(schema, snapshot.rules)).get(member) for schema in snapshot.schemas.values()
    )
    if not all(type_ is None or keeps_numbers(type_, new) for type_ in types):
        raise UsageError(
            f"column {name!r} is part of the key of {snapshot.table}: it can be made text, or, if "
            "all its values are numbers, a decimal that holds them all, for example 'decimal(38,0)'"
        )


def _check_one_type(snapshot: TableState, name: str, member: str) -> None:
    """Refuse where rows that are one by their key might come apart as texts."""
    type_names = {
        _of_key(dict(columns_of(schema, snapshot.rules)).get(member))
        for schema in snapshot.schemas.values()
    } - {None}
    if len(type_names) > 1:
        listed = ", ".join(sorted(map(str, type_names)))
        raise UsageError(
            f"column {name!r} is part of the key of {snapshot.table} and has had several types "
            f"({listed}): as text, one row might become two; declare it as {STRING_SCHEMA} in the "
            f"tap's schema and sync: {THEN}, or, if all its values are numbers, make it a decimal "
            "that holds them all, for example 'decimal(38,0)'"
        )


def _of_key(type_: Type | None) -> str | None:
    """A type's name, the same for types whose values are the same texts."""
    if type_ is None:
        return None
    return "int64 or decimal" if type_.kind in (Kind.INTEGER, Kind.DECIMAL) else str(type_)
