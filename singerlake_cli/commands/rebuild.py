"""singerlake rebuild: make a lost log, manifest or catalogue again."""

from __future__ import annotations

import click

from singerlake.errors import UsageError
from singerlake.format import names
from singerlake.maintenance.rebuild import rebuild_table
from singerlake_cli import output
from singerlake_cli.shared import Shared


@click.command("rebuild")
@click.argument("tables", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every table of the lake.")
@click.option(
    "--include-locked",
    is_flag=True,
    help="Where the log is lost, adopt files beside a writer's lock too. "
    "Only when that writer is dead: they may never have been committed.",
)
@click.pass_obj
def command(shared: Shared, tables: tuple[str, ...], every: bool, include_locked: bool) -> None:
    """Make the log, manifest and catalogue entry of TABLES again, from what is left.

    The log comes back from the manifest, else from the data files as one transaction; the
    manifest and the catalogue come back from the log. What is there is never overwritten.

    \b
    singerlake rebuild tap-shop.orders
    singerlake rebuild --all
    """
    if every == bool(tables):
        raise UsageError("name the tables to rebuild, or say --all")
    lake = shared.lake()
    chosen = lake.tables() if every else [names.parse_ref(text).table for text in tables]
    done = [
        rebuild_table(lake.store, table, include_locked=include_locked)
        for table in dict.fromkeys(chosen)
    ]
    if shared.json:
        output.print_json(
            [
                {
                    "table": str(d.table),
                    "transactions": d.transactions,
                    "restored_entries": d.restored,
                    "adopted_blocks": d.adopted,
                }
                for d in done
            ]
        )
        return
    for d in done:
        click.echo(
            f"{d.table}: {d.transactions} transactions; {d.restored} log entries restored "
            f"from the manifest, {d.adopted} blocks adopted from files"
        )
