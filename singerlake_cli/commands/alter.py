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
    """Say of a TABLE's columns what its tap does not.

    What is said lies over what the tap sends, now and later: its next sync does not undo it. Frozen
    versions stay as they are, and so do the records.

    \b
    singerlake alter tap-shop.orders add-column region string --default EU
    singerlake alter tap-shop.orders rename-column cust_no customer
    singerlake alter tap-shop.orders retype amount text --comment "the source has 'n/a'"
    """
    ctx.meta[TABLE] = table


@command.command("add-column")
@click.argument("name")
@click.argument("kind", metavar="TYPE")
@click.option("--default", metavar="VALUE", help="What new rows get that have no value for it.")
@click.option(
    "--initial", metavar="VALUE", help="What the rows show that are there.  [default: --default]"
)
@click.option("--description", metavar="TEXT", help="What it means.")
@alters
def add_column(
    altering: Altering,
    name: str,
    kind: str,
    default: str | None,
    initial: str | None,
    description: str | None,
) -> None:
    """Add a column NAME of a TYPE, beside those that the tap sends.

    Types are those of create-table: integer, number, decimal(12,2), string, boolean, date,
    timestamp, json, list<string> and struct<a integer>; behind one may stand "not null".

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
            f"column {name!r} is not null: say what rows without a value have, with --default"
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
    """Drop a column: the table has it no more, whatever the tap sends.

    The records keep their values, and earlier transactions still show them. A column that the
    tap sends comes back with restore-column.
    """
    altering.show(partial(overlay_changes.without_column, name=name))


@command.command("restore-column")
@click.argument("name")
@alters
def restore_column(altering: Altering, name: str) -> None:
    """Bring back a column of the tap's that was dropped."""
    altering.show(partial(overlay_changes.with_restored, name=name))


@command.command("rename-column")
@click.argument("name")
@click.argument("new")
@alters
def rename_column(altering: Altering, name: str, new: str) -> None:
    """Call the column NAME by a NEW name, whatever the tap calls it."""
    altering.show(partial(overlay_changes.with_name, name=name, new=new))


@command.command("retype")
@click.argument("column")
@click.argument("kind", metavar="TYPE")
@click.option("--allow-misfits", is_flag=True, help="Do so even if values do not fit the type.")
@alters
def retype(
    altering: Altering,
    column: str,
    kind: str,
    allow_misfits: bool,
) -> None:
    """Give a COLUMN another TYPE, for old and new rows.

    As text, each value reads as the tap wrote it, whatever the tap's schema says: for columns with
    values that fit no other type. In a key column, 1 and 1.0 remain the same key, and read as 1.

    Another type is one of add-column's. It is refused if values of the table do not fit it.

    \b
    singerlake alter tap-shop.orders retype amount text
    singerlake alter tap-shop.orders retype amount "decimal(12,2)"
    """
    schema = None if kind == "text" else _type_of(column, kind)
    change = partial(overlay_changes.with_type, name=column, schema=schema)
    altering.options = replace(altering.options, allow_misfits=allow_misfits)
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
    """Give the table a key of COLUMNS, whatever its tap calls one.

    Refused where rows lack a value of it, or two have the same. Where replaced or deleted rows
    would come back under the new key, all rows are written again, as a revert of a table without a
    key does; --dry-run says so.

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
    """Ask something of all rows by a NAME, from now on (on Spark).

    Refused where rows do not keep it. It binds changes, freezes and, but for --unique and --check,
    the target. Null values break only --not-null, and a --check that is null is kept.

    A --check is a condition of SQL on one row, under the rules of a query.

    \b
    singerlake alter tap-shop.orders add-constraint paid --range amount 0 ""
    singerlake alter tap-shop.orders add-constraint states --enum status '["new", "sent"]'
    singerlake alter tap-shop.orders add-constraint sum --check "total >= 0 or status = 'refund'"
    """
    one = constraint_of(kinds)
    change: OverlayChange = partial(overlay_changes.with_constraint, name=name, constraint=one)
    if one.kind == "check":
        altering.choice.need_spark("alter add-constraint --check", "the condition of --check")
        from singerlake.sql.conditions import with_check

        engine: Any = altering.choice.spark_engine("alter add-constraint --check")
        change = with_check(engine.spark, name, one.sql)
    altering.show(change)


@command.command("drop-constraint")
@click.argument("name")
@alters
def drop_constraint(altering: Altering, name: str) -> None:
    """Ask no more what was asked by a NAME."""
    altering.show(partial(overlay_changes.without_constraint, name=name))


@command.command("set-default")
@click.argument("column")
@click.argument("value", required=False)
@alters
def set_default(altering: Altering, column: str, value: str | None) -> None:
    """Say what new rows get that have no VALUE for a COLUMN; without a VALUE they get null.

    The rows that are there stay as they are.
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
    """Say in a TEXT what a COLUMN means, in place of what the tap says; "" takes it back.

    It becomes part of the table's schema, of which versions and the tap's output tell. Words about
    the data that are to change without a transaction go with annotate.
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
            f"a type says nothing of nulls: ask for values with add-constraint NAME --not-null "
            f"{name}"
        )
    return column.property()


def _value(text: str, type_: Type) -> Any:
    """A value as a person writes it, in JSON's words: texts need no quotes, and null is null."""
    if text == "null":
        return None
    if type_.kind in _BARE:
        return text
    try:
        value = json.loads(text)
        if type_.kind is Kind.DECIMAL and Decimal(repr(value)) != Decimal(text):
            return text  # a JSON number would lose digits
    except (ValueError, ArithmeticError) as error:
        raise UsageError(f"{text!r} is no value of a column of {type_}") from error
    return value
