"""singerlake undrop: bring a dropped table back."""

from __future__ import annotations

import click

from singerlake.errors import UsageError
from singerlake.ops.drop import undrop_table
from singerlake.overlay.alter import AlterOptions
from singerlake_cli import output
from singerlake_cli.commands.drop import as_json
from singerlake_cli.dropped_tables import held_words
from singerlake_cli.shared import Shared, alter_options, complete_table


@click.command("undrop")
@click.argument("table", shell_complete=complete_table)
@alter_options
@click.pass_obj
def command(shared: Shared, table: str, options: AlterOptions) -> None:
    """Restore a dropped TABLE, with history and versions.

    This works until a vacuum begins to delete its data, or a new table takes its name.

    \b
    singerlake ls --dropped
    singerlake undrop tap-shop.orders
    """
    lake = shared.lake()
    lake_table, ref = lake.find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is a past snapshot: restore the table itself, {ref.table}")
    taps = lake.file.taps if lake.file is not None else ()
    snapshot = lake_table.snapshot(dropped=True)
    done = undrop_table(lake_table.store, snapshot, options, taps)
    verb = (
        "would be restored" if options.dry_run else f"is restored (transaction {done.transaction})"
    )
    shared.output.result(
        lambda: as_json(done, dry_run=options.dry_run),
        lambda: output.say(f"{done.table} {verb}: {held_words(done)}"),
    )
