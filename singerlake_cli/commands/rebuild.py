"""singerlake rebuild: make a lost log, manifest or catalogue again."""

from __future__ import annotations

import click

from singerlake.errors import NotFoundError, SingerlakeError, UsageError
from singerlake.format import names
from singerlake.maintenance.rebuild import Rebuilt, rebuild_table
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
@click.option(
    "--leave-locked",
    is_flag=True,
    help="Where the log is lost, go on without files beside a writer's lock, for good.",
)
@click.pass_obj
def command(
    shared: Shared, tables: tuple[str, ...], every: bool, include_locked: bool, leave_locked: bool
) -> None:
    """Make the log, manifest and catalogue entry of TABLES again, from what is left.

    The log comes back from the manifest, else from the data files as one transaction; the
    manifest and the catalogue come back from the log. What is there is never overwritten.

    \b
    singerlake rebuild tap-shop.orders
    singerlake rebuild --all
    """
    if every == bool(tables):
        raise UsageError("name the tables to rebuild, or say --all")
    if include_locked and leave_locked:
        raise UsageError("say --include-locked or --leave-locked, not both")
    lake = shared.lake()
    chosen = lake.tables() if every else [names.parse_ref(text).table for text in tables]
    done: list[Rebuilt] = []
    failed: list[SingerlakeError] = []
    for table in dict.fromkeys(chosen):
        try:
            rebuilt = rebuild_table(
                lake.store, table, include_locked=include_locked, leave_locked=leave_locked
            )
            done.append(rebuilt)
        except NotFoundError:
            if not every:
                raise
            # A folder in which nothing was ever committed, or not yet: no table, as for `ls`.
        except SingerlakeError as error:
            failed.append(error)
            output.say_failure(error, table)
    _print(shared, done)
    click.get_current_context().exit(max((error.exit_code for error in failed), default=0))


def _print(shared: Shared, done: list[Rebuilt]) -> None:
    if shared.json:
        output.print_json(
            [
                {
                    "table": str(d.table),
                    "transactions": d.transactions,
                    "restored_entries": d.restored,
                    "adopted_blocks": d.adopted,
                    "left_files": d.left,
                }
                for d in done
            ]
        )
        return
    for d in done:
        output.say(
            f"{d.table}: {output.count(d.transactions, 'transaction')}; {d.restored:,} log entries "
            f"restored from the manifest, {output.count(d.adopted, 'block')} adopted from files"
        )
        if d.adopted:
            lost = "what was lost behind its manifest came back as one transaction without versions"
            if not d.restored:
                lost = "with log and manifest its history is lost, and every frozen version"
            output.say(
                f"  {lost}; rows of writers that were killed before they committed may be among "
                f"them: look at it with: singerlake show {d.table}"
            )
        if d.left:
            output.say(f"  {output.count(d.left, 'file')} beside a writer's lock left out")
