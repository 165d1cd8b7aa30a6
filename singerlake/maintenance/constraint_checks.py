"""What a table's columns and its constraints are to each other, asked before either is changed."""

from __future__ import annotations

from typing import Any

from singerlake.errors import UsageError
from singerlake.format.constraint_types import spelled, unfit
from singerlake.format.constraints import allows_null, with_null
from singerlake.format.json_schema import Spec, resolved
from singerlake.format.laid import laid
from singerlake.format.overlay import Constraint, Overlay
from singerlake.transactions.snapshot import Snapshot


def checked(snapshot: Snapshot, one: Constraint) -> Constraint:
    """Return a constraint as the log keeps it.

    Args:
        snapshot: The table, which has the constraint's columns.
        one: The constraint.

    Raises:
        UsageError: It is none for columns of these types, or asks for nothing.
    """
    _check_types(snapshot, one)
    columns = dict(snapshot.columns)
    for column in one.columns:
        one = spelled(one, column, columns[column])
    if one.kind == "pattern":
        import jsonschema_rs  # late: every command knows what may be said, and few say it

        try:
            jsonschema_rs.validator_for({"pattern": one.pattern}, validate_formats=True)
        except ValueError as error:
            raise UsageError(f"{one.pattern!r} is no regular expression") from error
    return one


def check_type(snapshot: Snapshot, name: str, overlay: Overlay) -> Overlay:
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


def with_nulls_of(snapshot: Snapshot, name: str, schema: Spec) -> Spec:
    """Return a new schema for a column, with null in it where the column may be null so far."""
    root = _unconstrained(snapshot)
    if allows_null(schema, {}) or not allows_null(root["properties"][name], root):
        return schema
    return with_null(schema)


def _check_types(snapshot: Snapshot, one: Constraint) -> None:
    columns, schema = dict(snapshot.columns), _unconstrained(snapshot)
    for column in one.columns:
        spec = schema["properties"][column]
        if wrong := unfit(one, column, columns[column], spec, schema):
            raise UsageError(wrong)


def _unconstrained(snapshot: Snapshot) -> dict[str, Any]:
    """The schema in effect without what constraints make of it."""
    schema = laid(snapshot.tap_schema, snapshot.overlay, constrained=False).schema
    return resolved(schema, schema)
