"""singerlake rebuild: make a lost log, manifest or catalogue again."""

from __future__ import annotations

from typing import Any

import click

from singerlake.errors import NotFoundError, SingerlakeError, UsageError
from singerlake.format import names
from singerlake.log.scan import is_table
from singerlake.ops.rebuild import Rebuilt, rebuild_table
from singerlake_cli import output
from singerlake_cli.shared import Shared


@click.command("rebuild")
@click.argument("tables", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All tables of the lake.")
@click.option(
    "--include-locked",
    is_flag=True,
    help="If the log is lost, also adopt files next to a writer's lock. Use it only if that "
    "writer is dead: its files may never have been committed.",
)
@click.option(
    "--leave-locked",
    is_flag=True,
    help="If the log is lost, leave out files next to a writer's lock, permanently.",
)
@click.pass_obj
def command(
    shared: Shared, tables: tuple[str, ...], every: bool, include_locked: bool, leave_locked: bool
) -> None:
    """Restore lost logs, manifests and catalogs of TABLES.

    Use this if a command reports damage and suggests it. The log is restored from the manifest,
    otherwise from the data files as one transaction; manifest and catalog are restored from the
    log. Existing log entries are never overwritten.

    \b
    singerlake rebuild tap-shop.orders
    singerlake rebuild --all
    """
    if every == bool(tables):
        raise UsageError("name the tables to rebuild, or use --all")
    if include_locked and leave_locked:
        raise UsageError("use --include-locked or --leave-locked, not both")
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
        except SingerlakeError as error:
            if every and not is_table(lake.store, table):
                if not isinstance(error, NotFoundError):
                    shared.output.note(str(error))
                continue  # a folder in which nothing was ever committed, or not yet, as for `ls`
            if isinstance(error, NotFoundError) and not every:
                raise
            failed.append(error)
            shared.output.error(error, table)
    shared.output.result(lambda: [_as_json(one) for one in done], lambda: _print(done))
    click.get_current_context().exit(max((error.exit_code for error in failed), default=0))


def _as_json(done: Rebuilt) -> dict[str, Any]:
    return {
        "table": str(done.table),
        "transactions": done.transactions,
        "restored_entries": done.restored,
        "adopted_blocks": done.adopted,
        "left_files": done.left,
        "dropped": done.dropped,
    }


def _print(done: list[Rebuilt]) -> None:
    for d in done:
        output.say(
            f"{d.table}: {output.count(d.transactions, 'transaction')}; "
            f"{output.count(d.restored, 'log entry', 'log entries')} "
            f"restored from the manifest, {output.count(d.adopted, 'block')} adopted from files"
        )
        if d.adopted:
            lost = "what its manifest lacked was restored as one transaction without versions"
            if not d.restored:
                lost = (
                    "log and manifest were lost, and with them its history and all frozen versions"
                )
            output.say(
                f"  {lost}; it may contain rows of writers that were killed before they committed: "
                f"check it with: singerlake show {d.table}"
            )
        if d.dropped:
            output.say(f"  it is dropped, and stays so: singerlake undrop {d.table}")
        if d.left:
            output.say(f"  {output.count(d.left, 'file')} next to a writer's lock left out")
