"""singerlake unlock: break a lock on purpose."""

from __future__ import annotations

import click

from singerlake.errors import NotFoundError, UsageError
from singerlake.log.locks.holders import SeenLock, break_lock, locks
from singerlake_cli import output
from singerlake_cli.commands.locks import age_seconds, as_json
from singerlake_cli.shared import Shared, confirm


@click.command("unlock")
@click.argument("table")
@click.option("--schema", metavar="HASH", help="Only the lock of this schema's writers.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def command(shared: Shared, table: str, schema: str | None, yes: bool) -> None:
    """Break the locks of writers and vacuums on a TABLE.

    Rarely needed: a dead writer's lock is taken over once it has not been refreshed for the stale
    time. If the writer is still alive, it stops with a conflict (exit code 4) and commits nothing.
    Readers' leases stay; they expire by themselves.

    \b
    singerlake unlock tap-shop.orders
    singerlake unlock tap-shop.orders --schema NFSHXeX --yes
    """
    lake = shared.lake()
    name = lake.find(table)[0].name
    held = [
        lock
        for lock in locks(lake.store, name)
        if lock.target.kind != "read" and schema in (None, lock.target.schema)
    ]
    if not held:
        where = "" if schema is None else f" under the schema {schema}"
        raise NotFoundError(f"there is no lock on {name}{where}: list locks with: singerlake locks")
    if shared.json and not yes:
        raise UsageError("cannot ask without a terminal whether to break them: add --yes")
    if not shared.json:
        for lock in held:
            output.say(_description(lock), err=True)
    if not yes:
        confirm("Break it?" if len(held) == 1 else "Break them?")
    for lock in held:
        break_lock(lake.store, lock)
    shared.output.result(
        lambda: [as_json(lock) for lock in held],
        lambda: output.say_lines(f"broke the {_what(lock)}" for lock in held),
    )


def _what(lock: SeenLock) -> str:
    of_schema = f" of schema {lock.target.schema}" if lock.target.schema else ""
    return f"{lock.target.kind} lock{of_schema} on {lock.target.table}"


def _description(lock: SeenLock) -> str:
    seconds = age_seconds(lock)
    refreshed = "" if seconds is None else f", refreshed {seconds:.0f} s ago"
    since = f" since {output.clock(lock.acquired)}" if lock.acquired else ""
    return f"{_what(lock)}: held by {lock.holder or 'an unknown process'}{since}{refreshed}"
