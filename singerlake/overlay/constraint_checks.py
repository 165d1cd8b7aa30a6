"""Rules between a table's columns and its constraints, checked before either is changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from singerlake.errors import InvalidQueryError, UsageError
from singerlake.format.constraint_types import spelled, unfit
from singerlake.format.constraints import allows_null, with_null
from singerlake.format.json_schema import Spec, may_be, resolved
from singerlake.format.overlaid import laid, member_of
from singerlake.format.overlay import ColumnOverlay, Constraint, Overlay
from singerlake.format.types import DECIMAL_FORMATS, Kind, Type
from singerlake.format.values import converter, misfit
from singerlake.log.table_state import TableState
from singerlake.nearest import offer


def checked(snapshot: TableState, one: Constraint) -> Constraint:
    """Return a constraint as the log keeps it.

    Args:
        snapshot: The table, which has the constraint's columns.

    Raises:
        UsageError: It is none for columns of these types, or asks for nothing.
    """
    if not one.columns:
        raise UsageError(f"a constraint needs a column of {snapshot.table}")
    _check_types(snapshot, one)
    columns = dict(snapshot.columns)
    for column in one.columns:
        one = spelled(one, column, columns[column])
    if one.kind == "pattern":
        import jsonschema_rs  # late: every command knows what may be said, and few say it

        try:
            jsonschema_rs.validator_for({"pattern": one.pattern}, validate_formats=True)
        except ValueError as error:
            raise UsageError(f"{one.pattern!r} is not a regular expression") from error
    return one


def beyond_schemas(one: Constraint, types: Mapping[str, Type]) -> bool:
    """Tell whether a constraint is about single rows, and no schema says it."""
    if one.kind == "enum":
        decimal = any(c in types and types[c].kind is Kind.DECIMAL for c in one.columns)
        return decimal and any(isinstance(value, str) for value in one.values)
    return one.kind == "check"


def not_a_condition(sql: str, why: str) -> InvalidQueryError:
    """Return the error of SQL that is not a condition of a row."""
    return InvalidQueryError(f"{sql!r} is no condition that rows can be held against: {why}")


def no_such_column(sql: str, name: str, names: Sequence[str]) -> InvalidQueryError:
    """Return the error of a condition that names a column which the table does not have."""
    offered = offer(name, names, "the table has none")
    return not_a_condition(sql, f"there is no column {name!r}: {offered}")


def check_type(snapshot: TableState, name: str, overlay: Overlay) -> Overlay:
    """Make sure that a column may have the type that it has by an overlay, and return that.

    Raises:
        UsageError: A constraint of the column is none for this type.
    """
    after = snapshot.laid_over(overlay)
    for title, one in overlay.constraints.items():
        if name not in one.columns:
            continue
        try:
            _check_types(after, one)
        except UsageError as error:
            raise UsageError(
                f"column {name!r} of {snapshot.table} cannot have this type while the constraint "
                f"{title!r} is about it: {error}; drop the constraint first"
            ) from error
    return overlay


def check_value(
    what: str,
    value: Any,
    name: str,
    properties: Mapping[str, Any],
    type_: Type,
    root: Mapping[str, Any] | None = None,
) -> None:
    """Refuse a value that a column cannot hold.

    Args:
        value: The value, as JSON has it.
        properties: The schemas of columns, by name.
        root: The whole schema, in which ``$ref`` is looked up; None where there is none.

    Raises:
        UsageError: It is of another type, null where nothing may be, or the schema does not allow
            it.
    """
    raw = msgspec.json.encode(value)
    if type_.kind is not Kind.TEXT and (wrong := misfit(raw, converter(type_), what)):
        raise UsageError(wrong)
    root = root or {}
    whole = {**root, "properties": properties}
    if value is None:
        if not allows_null(properties[name], whole):
            raise UsageError(f"{what} cannot be null: the column must not be null; set a value")
        return
    decimal = type_.kind is Kind.DECIMAL
    if not decimal and resolved(properties[name], whole).get("format") in DECIMAL_FORMATS:
        return  # its digits may be a string where the schema says number
    # Late: every command knows what may be said, and few say it.
    from singerlake.rows.validation.full_validation import NotASchemaError, validator_of

    words = {word: root[word] for word in ("$schema", "definitions", "$defs") if word in root}
    try:
        validator = validator_of({**words, "properties": dict(properties)})
    except NotASchemaError:
        return  # the target takes its records unchecked
    if decimal:  # to its last digit, as it will be written
        digits = format(converter(type_)(raw), "f")
        spelled_as = digits if may_be(properties[name], whole, "number") else f'"{digits}"'
        record = f"{{{json.dumps(name)}: {spelled_as}}}"
        valid = validator.is_valid_exactly(record.encode(), extreme=True)
    else:
        valid = validator.is_valid({name: value}, extreme=False)
    if not valid:
        raise UsageError(f"{what}, {raw.decode()}, is not allowed by the column's schema")


def check_listed(
    what: str, value: Any, name: str, type_: Type, constraints: Mapping[str, Constraint]
) -> None:
    """Refuse a decimal that is none of an enum which no schema says, for doubles lack its digits.

    Args:
        value: The value, which the column can hold.
        constraints: The table's, by name.

    Raises:
        UsageError: It is none of these.
    """
    if value is None or type_.kind is not Kind.DECIMAL:
        return
    for title, one in constraints.items():
        listed = {Decimal(str(other)) for other in one.values} if one.kind == "enum" else set()
        if name in one.columns and listed and Decimal(str(value)) not in listed:
            raise UsageError(f"{what}, {value}, is none that the constraint {title!r} allows")


def check_defaults(after: TableState, constraint: Constraint) -> None:
    """Refuse a constraint that new rows would break which get a column's default.

    Of null nothing is asked: it is what a column has that has no default. What a ``check`` says of
    a default, the first row that gets it tells.

    Raises:
        UsageError: A default breaks it.
    """
    overlay, columns = after.overlay, dict(after.columns)
    root = resolved(after.schema.schema, after.schema.schema)
    for name in constraint.columns:
        member = member_of(overlay, name)
        if (added := overlay.added.get(member)) is not None:
            default = added.default
        else:
            default = overlay.columns.get(member, ColumnOverlay()).default
        if default is msgspec.UNSET or default is None:
            continue
        what, type_ = f"the default of column {name!r}", columns[name]
        check_value(what, default, name, root["properties"], type_, root)
        check_listed(what, default, name, type_, overlay.constraints)


def with_nulls_of(snapshot: TableState, name: str, schema: Spec) -> Spec:
    """Return a new schema for a column, with null in it where the column may be null so far."""
    root = _unconstrained(snapshot)
    if allows_null(schema, {}) or not allows_null(root["properties"][name], root):
        return schema
    return with_null(schema)


def _check_types(snapshot: TableState, one: Constraint) -> None:
    columns, schema = dict(snapshot.columns), _unconstrained(snapshot)
    for column in one.columns:
        spec = schema["properties"][column]
        if wrong := unfit(one, column, columns[column], spec, schema):
            raise UsageError(wrong)


def _unconstrained(snapshot: TableState) -> dict[str, Any]:
    """The schema in effect without what constraints make of it."""
    schema = laid(snapshot.tap_schema, snapshot.overlay, constrained=False).schema
    return resolved(schema, schema)
