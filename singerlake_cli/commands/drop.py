"""singerlake drop: remove a table, for a while or for good."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from singerlake.errors import UsageError
from singerlake.log import lake_log
from singerlake.ops.drop import Holdings, drop_table
from singerlake.ops.vacuum.sizes import RETENTION
from singerlake.overlay.alter import AlterOptions
from singerlake_cli import output
from singerlake_cli.dropped_tables import held_words
from singerlake_cli.shared import Shared, alter_options, complete_table, confirm

_DAYS = round(RETENTION / 86_400)


@click.command("drop")
@click.argument("table", shell_complete=complete_table)
@click.option("--with-versions", is_flag=True, help="Drop it even if it has frozen versions.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@alter_options
@click.pass_obj
def command(
    shared: Shared, table: str, with_versions: bool, yes: bool, options: AlterOptions
) -> None:
    """Drop a TABLE: hide it from all commands and taps.

    Nothing is deleted yet. `singerlake undrop` restores the table with history and versions, until
    a vacuum deletes its data (the first one after the retention, 7 days by default) or a sync under
    its name creates a new table. `singerlake ls --dropped` lists dropped tables.

    \b
    singerlake drop tap-shop.orders
    singerlake drop tap-shop.orders --with-versions --yes --comment "moved to tap-store"
    """
    lake_table, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is a past snapshot: drop the table itself, {ref.table}")
    if shared.json and not (yes or options.dry_run):
        raise UsageError(f"cannot ask without a terminal whether to drop {ref.table}: add --yes")
    store, snapshot = lake_table.store, lake_table.snapshot()
    numbers = {one.number for one in snapshot.frozen} if with_versions else set()
    losing = [
        one
        for one in (lake_log.look(store)[0] if numbers else [])
        if (said := one.table(ref.table)) is not None and said.version in numbers
    ]
    for one in losing:
        shared.output.note(f"{one} loses {ref.table}, and keeps its other tables")
    if not (yes or options.dry_run):
        going = drop_table(
            store,
            snapshot,
            AlterOptions(if_transaction=options.if_transaction, dry_run=True),
            with_versions=with_versions,
        )
        confirm(f"Drop {ref.table} ({held_words(going)})?")
    done = drop_table(store, snapshot, options, with_versions=with_versions)
    shared.output.result(
        lambda: as_json(done, dry_run=options.dry_run),
        lambda: _print(done, dry_run=options.dry_run),
    )


def as_json(held: Holdings, *, dry_run: bool) -> dict[str, Any]:
    """Describe a dropped or restored table for scripts; a dry run's transaction is null."""
    number = None if dry_run else held.transaction
    return {**asdict(held), "table": str(held.table), "transaction": number, "dry_run": dry_run}


def _print(done: Holdings, *, dry_run: bool) -> None:
    if dry_run:
        output.say(f"{done.table} would be dropped: {held_words(done)}")
        return
    output.say(
        f"{done.table} is dropped (transaction {done.transaction}): {held_words(done)}; "
        f"`singerlake undrop {done.table}` restores it until a vacuum deletes it (after {_DAYS} "
        "days by default) or a new table takes its name"
    )
