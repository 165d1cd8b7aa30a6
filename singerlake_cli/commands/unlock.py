"""singerlake unlock: break a lock on purpose."""

from __future__ import annotations

import click

from singerlake.errors import NotFoundError
from singerlake.transactions.locks import SeenLock, break_lock, locks
from singerlake_cli import output
from singerlake_cli.commands.locks import age_seconds, as_json
from singerlake_cli.shared import Shared


@click.command("unlock")
@click.argument("table")
@click.option("--schema", metavar="HASH", help="Only the lock of this schema's writers.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def command(shared: Shared, table: str, schema: str | None, yes: bool) -> None:
    """Break the locks on TABLE that writers and vacuums hold.

    Seldom needed: a dead writer's lock is taken over once it stood still for the stale time.
    A writer that lives stops with a conflict (exit code 4) and commits nothing. Readers'
    leases stay; they end by themselves.

    \b
    singerlake unlock tap-shop.orders
    singerlake unlock tap-shop.orders --schema NFSHXeX --yes
    """
    lake = shared.lake()
    name = lake.find(table)[0].name
    found = [
        lock
        for lock in locks(lake.store, name)
        if lock.place.kind != "read" and schema in (None, lock.place.schema)
    ]
    if not found:
        where = "" if schema is None else f" under the schema {schema}"
        raise NotFoundError(
            f"there is no lock on {name}{where}: see which there are with: singerlake locks"
        )
    for lock in found:
        output.say(_said(lock), err=True)
    if not yes:
        click.confirm("Break it?" if len(found) == 1 else "Break them?", abort=True, err=True)
    for lock in found:
        break_lock(lake.store, lock)
    if shared.json:
        output.print_json([as_json(lock) for lock in found])
    else:
        for lock in found:
            output.say(f"broke the {_what(lock)}")


def _what(lock: SeenLock) -> str:
    of_schema = f" of schema {lock.place.schema}" if lock.place.schema else ""
    return f"{lock.place.kind} lock{of_schema} on {lock.place.table}"


def _said(lock: SeenLock) -> str:
    seconds = age_seconds(lock)
    refreshed = "" if seconds is None else f", refreshed {seconds:.0f} s ago"
    since = f" since {output.clock(lock.acquired)}" if lock.acquired else ""
    return f"{_what(lock)}: held by {lock.holder or 'nobody known'}{since}{refreshed}"
