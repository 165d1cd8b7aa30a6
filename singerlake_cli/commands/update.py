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
    help="A column's new value. May be repeated, or contain several, separated by commas.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="ID",
    help="The _row_id of a row (see delete). May be repeated.",
)
@click.option("--where", metavar="SQL", help="A condition for the rows.  [default: all rows]")
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

    Values and the condition are SQL, as in a query, and can read other tables. A value must have
    the column's type; a cast that could change a value is refused. Unchanged rows are not written;
    in changed rows, only the named members change, and all other bytes stay.

    Literals, such as 17, 'text', null or date'2026-11-20', and simple SQL need no Spark if the
    table is small. With --key, only literals are allowed, and a key that does not exist is an
    error. Any other SQL needs Spark.

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
