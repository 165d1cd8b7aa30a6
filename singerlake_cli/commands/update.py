"""singerlake update: set columns of the rows that a condition selects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from singerlake.errors import UsageError
from singerlake.ops.change.plan import ChangeOptions, plan
from singerlake_cli import changes
from singerlake_cli.shared import Shared, change_options, complete_table, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice


@click.command("update")
@click.argument("table", shell_complete=complete_table)
@click.option(
    "--set",
    "sets",
    multiple=True,
    required=True,
    metavar="COLUMN=SQL",
    help="A column's new value; may be repeated, or several with commas between.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="ID",
    help="A row's id, as _row_id shows it (see delete). May be repeated.",
)
@click.option("--where", metavar="SQL", help="Which rows.  [default: all of them]")
@change_options
@engine_options
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    sets: tuple[str, ...],
    keys: tuple[str, ...],
    where: str | None,
    change: ChangeOptions,
    choice: EngineChoice,
) -> None:
    """Set columns of a TABLE's rows.

    Values and the condition are SQL as in a query, and may ask other tables. A value must be of
    its column's type; nothing is cast that could become another value. Rows that are so already
    are left alone, and of the others only the named members are written anew: everything else in
    a record keeps its bytes.

    Values that are written out, such as 17, 'text', null or date'2026-11-20', need no Spark for all
    rows of a small table, and for those of certain keys; a key that is not there is an error. Any
    other SQL needs Spark.

    \b
    singerlake update tap-shop.orders --set "status = 'paid'" --key 17 --key 18
    singerlake update tap-shop.orders --set "status = 'paid'" --where "id = 17" --dry-run
    singerlake update tap-shop.orders --set "total = total * 2, note = null" --comment "in euros"
    """
    from singerlake.format.assignments import assignments
    from singerlake.ops.update import UpdateOptions, update

    lake = shared.lake()
    lake_table, ref = lake.find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is frozen and never changes: name the table alone")
    plan(lake_table.snapshot(), change)
    options = UpdateOptions(assignments(sets), keys, where, change)
    with working(f"updating {ref.table}"):
        done = update(lake, lake_table, options, choice)
    shared.output.result(
        lambda: changes.as_json(ref.table, done, dry_run=change.dry_run),
        lambda: changes.print_done(ref.table, done, dry_run=change.dry_run),
    )
