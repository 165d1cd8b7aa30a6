"""singerlake alter: say of a column what the tap does not."""

from __future__ import annotations

from dataclasses import asdict

import click

from singerlake.errors import UsageError
from singerlake.maintenance.alter import retype
from singerlake_cli import output
from singerlake_cli.shared import Shared, complete_table


@click.command("alter")
@click.argument("table", shell_complete=complete_table)
@click.argument("change", type=click.Choice(["retype"]))
@click.argument("column")
@click.argument("kind", metavar="text", type=click.Choice(["text"]))
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--comment", metavar="TEXT", help="Why; kept with the transaction.")
@click.pass_obj
def command(
    shared: Shared,
    table: str,
    change: str,  # noqa: ARG001  # there is one by now
    column: str,
    kind: str,  # noqa: ARG001
    dry_run: bool,
    comment: str | None,
) -> None:
    """Make text of a COLUMN of a TABLE, in which each value reads as the tap wrote it.

    For columns with values that fit no other type. It holds for old rows and for new ones,
    whatever the tap's schema says; frozen versions stay as they are, and so does what
    tap-singerlake puts out. In a column of the key, 1 and 1.0 stay one key, and read as 1.

    \b
    singerlake alter tap-shop.orders retype amount text
    singerlake alter tap-shop.orders retype amount text --comment "the source has 'n/a'"
    """
    found, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is a state that was: alter the table itself, {ref.table}")
    done = retype(found.store, found.snapshot(), column, comment=comment, dry_run=dry_run)
    if shared.json:
        output.print_json({"table": str(ref.table), **asdict(done), "dry_run": dry_run})
        return
    if done.same:
        output.say(f"{ref.table}: column {column!r} is {done.after} already: nothing was done")
        return
    did = "would become" if dry_run else "is"
    end = "" if done.transaction is None else f", from transaction {done.transaction} on"
    output.say(f"{ref.table}: column {column!r}, until now {done.before}, {did} {done.after}{end}")
