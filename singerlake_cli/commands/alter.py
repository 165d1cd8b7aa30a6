"""singerlake alter: say of a table's columns, key and rows what the tap does not."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from decimal import Decimal
from functools import partial
from typing import Any

import click

from singerlake.errors import UsageError
from singerlake.format.column_list import ColumnSpec, parse_columns
from singerlake.format.overlay import Overlay
from singerlake.format.types import Kind, Type
from singerlake.log.table_state import TableState
from singerlake.overlay import overlay_changes
from singerlake.overlay.alter import OverlayChange, retyped
from singerlake_cli.altering import TABLE, Altering, alters, version_document
from singerlake_cli.constraint_options import constraint_of, constraint_options
from singerlake_cli.shared import SubcommandGroup, complete_table

_BARE = (Kind.STRING, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP)
"""Columns whose values JSON has as strings, and people write without quotes."""


@click.group("alter", cls=SubcommandGroup)
@click.argument("table", shell_complete=complete_table)
@click.pass_context
def command(ctx: click.Context, table: str) -> None:
    """Change a TABLE's columns, key and constraints.

    Use this if the tap sends a wrong type, an ugly name or no key, and you cannot change the tap.
    Each change is one transaction. It applies to old and new rows, and the next sync does not undo
    it. Stored records, frozen versions and earlier transactions do not change.

    \b
    singerlake alter tap-shop.orders add-column region string --default EU
    singerlake alter tap-shop.orders rename-column cust_no customer
    singerlake alter tap-shop.orders retype amount text --comment "the source has 'n/a'"
    """
    ctx.meta[TABLE] = table


@command.command("add-column")
@click.argument("name")
@click.argument("kind", metavar="TYPE")
@click.option("--default", metavar="VALUE", help="The value of new rows that have none.")
@click.option(
    "--initial", metavar="VALUE", help="The value of existing rows.  [default: --default]"
)
@click.option("--description", metavar="TEXT", help="A description.")
@alters
def add_column(
    altering: Altering,
    name: str,
    kind: str,
    default: str | None,
    initial: str | None,
    description: str | None,
) -> None:
    """Add a column NAME of a TYPE to those that the tap sends.

    Types are those of create-table: integer, number, decimal(12,2), string, boolean, date,
    timestamp, json, list<string> and struct<a integer>. A type can be followed by "not null".

    \b
    singerlake alter tap-shop.orders add-column region string --default EU
    singerlake alter tap-shop.orders add-column checked "boolean not null" --default false
    """
    column = _one_column(name, kind)
    given = {"default": default, "initial": initial}
    values = {k: _value(text, column.type) for k, text in given.items() if text is not None}
    if default is None and column.default is not None:
        values["default"] = column.default
    if column.not_null and (values.get("default") is None or values.get("initial", 0) is None):
        raise UsageError(
            f"column {name!r} is not null: set the value of rows that have none with --default"
        )
    schema = {k: v for k, v in column.property().items() if k != "default"}

    def change(snapshot: TableState) -> Overlay:
        return overlay_changes.with_column(
            snapshot, name, schema, description=description or None, **values
        )

    altering.show(change)


@command.command("drop-column")
@click.argument("name")
@alters
def drop_column(altering: Altering, name: str) -> None:
    """Drop a column, whatever the tap sends.

    Records keep their values, and earlier transactions still show them. Use restore-column to
    restore a column that the tap sends.
    """
    altering.show(partial(overlay_changes.without_column, name=name))


@command.command("restore-column")
@click.argument("name")
@alters
def restore_column(altering: Altering, name: str) -> None:
    """Restore a dropped column of the tap."""
    altering.show(partial(overlay_changes.with_restored, name=name))


@command.command("rename-column")
@click.argument("name")
@click.argument("new")
@alters
def rename_column(altering: Altering, name: str, new: str) -> None:
    """Rename the column NAME to NEW, whatever the tap calls it."""
    altering.show(partial(overlay_changes.with_name, name=name, new=new))


@command.command("retype")
@click.argument("column")
@click.argument("kind", metavar="TYPE")
@click.option(
    "--allow-type-mismatches", is_flag=True, help="Retype even if values do not fit the type."
)
@alters
def retype(
    altering: Altering,
    column: str,
    kind: str,
    allow_type_mismatches: bool,
) -> None:
    """Change the TYPE of a COLUMN, for old and new rows.

    As text, each value is shown as the tap wrote it, whatever its schema declares. Use this for
    columns with values that fit no other type. In a key column, 1 and 1.0 remain the same key, and
    are shown as 1.

    Other types are those of add-column. They are refused if current values do not fit.

    \b
    singerlake alter tap-shop.orders retype amount text
    singerlake alter tap-shop.orders retype amount "decimal(12,2)"
    """
    schema = None if kind == "text" else _type_of(column, kind)
    change = partial(overlay_changes.with_type, name=column, schema=schema)
    altering.options = replace(altering.options, allow_type_mismatches=allow_type_mismatches)
    done = altering.done(change)
    said = retyped(altering.head, column, change(altering.head), done)
    name, dry_run = str(altering.table.name), altering.options.dry_run
    altering.shared.output.result(
        lambda: {
            "table": name,
            **asdict(said),
            **version_document(done),
            "dry_run": dry_run,
        },
        lambda: altering.say(f"column {column!r}{_retyped(said, dry_run)}", done),
    )


@command.command("set-key")
@click.argument("columns", nargs=-1, required=True)
@alters
def set_key(
    altering: Altering,
    columns: tuple[str, ...],
) -> None:
    """Set the table's key to COLUMNS, whatever the tap declares.

    Refused if rows lack a value of the key, or if two rows have the same. If replaced or deleted
    rows would become visible again under the new key, all rows are written again, as in a revert of
    a table without a key; --dry-run shows this.

    \b
    singerlake alter tap-shop.events set-key event_id
    singerlake alter tap-shop.lines set-key order_id position --dry-run
    """
    altering.show(partial(overlay_changes.with_key, names=columns))


@command.command("add-constraint")
@click.argument("name")
@constraint_options
@alters
def add_constraint(
    altering: Altering,
    name: str,
    **kinds: Any,
) -> None:
    """Add a constraint NAME that all rows must satisfy.

    Refused if existing rows violate it. It applies to changes, freezes and, except for --unique and
    --check, to the target. Null violates only --not-null. A --check is a SQL condition on one row,
    under the rules of a query; null satisfies it.

    \b
    singerlake alter tap-shop.orders add-constraint paid --range amount 0 ""
    singerlake alter tap-shop.orders add-constraint states --enum status '["new", "sent"]'
    singerlake alter tap-shop.orders add-constraint sum --check "total >= 0 or status = 'refund'"
    """
    one = constraint_of(kinds)
    change: OverlayChange = partial(overlay_changes.with_constraint, name=name, constraint=one)
    if one.kind == "check":
        from singerlake.sql.constraints import with_check

        change = with_check(altering.choice, altering.head, name, one.sql)
    altering.show(change)


@command.command("drop-constraint")
@click.argument("name")
@alters
def drop_constraint(altering: Altering, name: str) -> None:
    """Drop the constraint NAME."""
    altering.show(partial(overlay_changes.without_constraint, name=name))


@command.command("set-default")
@click.argument("column")
@click.argument("value", required=False)
@alters
def set_default(altering: Altering, column: str, value: str | None) -> None:
    """Set the default VALUE of a COLUMN for new rows, or null without a VALUE.

    Existing rows do not change.
    """

    def change(snapshot: TableState) -> Overlay:
        type_ = dict(snapshot.columns).get(column, Type(Kind.TEXT))
        default = None if value is None else _value(value, type_)
        return overlay_changes.with_default(snapshot, column, default)

    altering.show(change)


@command.command("describe")
@click.argument("column")
@click.argument("text")
@alters
def describe(altering: Altering, column: str, text: str) -> None:
    """Describe a COLUMN with a TEXT, instead of the tap's description.

    An empty TEXT restores the tap's. The description is part of the table's schema, so versions and
    the tap's output contain it. For descriptions that can change without a transaction, use
    annotate.
    """
    altering.show(partial(overlay_changes.with_description, name=column, text=text))


def _retyped(said: Any, dry_run: bool) -> str:
    if said.same:
        return f" is {said.after} already: nothing was done"
    did = "would become" if dry_run else "is"
    end = "" if said.transaction is None else f", from transaction {said.transaction} on"
    return f", until now {said.before}, {did} {said.after}{end}"


def _one_column(name: str, kind: str) -> ColumnSpec:
    quoted = name.replace('"', '""')
    columns = parse_columns(f'"{quoted}" {kind}')
    if len(columns) > 1:
        raise UsageError(f"{kind!r} is more than one type: add columns one by one")
    return columns[0]


def _type_of(name: str, kind: str) -> dict[str, Any]:
    column = _one_column(name, kind)
    if column.not_null:
        raise UsageError(
            f"a type does not restrict nulls: use add-constraint NAME --not-null {name}"
        )
    return column.property()


def _value(text: str, type_: Type) -> Any:
    """Parse a value in JSON; texts need no quotes, and null is null."""
    if text == "null":
        return None
    if type_.kind in _BARE:
        return text
    try:
        value = json.loads(text)
        if type_.kind is Kind.DECIMAL and Decimal(repr(value)) != Decimal(text):
            return text  # a JSON number would lose digits
    except (ValueError, ArithmeticError) as error:
        raise UsageError(f"{text!r} is not a valid value for a column of type {type_}") from error
    return value
