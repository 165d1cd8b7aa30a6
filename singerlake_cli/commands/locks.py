"""singerlake locks: who holds what."""

from __future__ import annotations

from datetime import datetime, timezone

import click

from singerlake.format import times
from singerlake.transactions import derived
from singerlake.transactions.locks import SeenLock, locks
from singerlake_cli import output
from singerlake_cli.shared import Shared


@click.command("locks")
@click.argument("table", required=False)
@click.pass_obj
def command(shared: Shared, table: str | None) -> None:
    """List the lake's locks, or one TABLE's: who writes, commits, vacuums or reads.

    A lock is refreshed while its holder lives. One that stands still for the stale time (60 s
    by default) is taken over by the next writer, by itself.

    \b
    singerlake locks
    singerlake locks tap-shop.orders
    singerlake --output json locks
    """
    lake = shared.lake()
    name = None if table is None else lake.find(table)[0].name
    found = locks(lake.store, name)
    if shared.json:
        output.print_json([as_json(lock) for lock in found])
        return
    rows = [
        (
            lock.place.table,
            lock.place.kind,
            lock.place.schema,
            lock.holder or None,
            output.clock(lock.acquired) or None,
            output.clock(lock.refreshed) or None,
            _age(lock),
        )
        for lock in found
    ]
    columns = ("table", "lock", "schema", "holder~", "acquired", "refreshed", "age>")
    lake_file = derived.seen_lake_file(lake.store)
    notes = [] if rows else ["nobody holds a lock"]
    if lake_file is not None and lake_file.conditional_writes is False:
        notes.append(
            "the store ignores conditional writes: writers take turns by these locks alone "
            "(docs/safety.md)"
        )
    output.print_table(None, columns, rows, *notes)


def as_json(lock: SeenLock) -> dict[str, object]:
    """A lock for scripts; ``age_seconds`` since it was refreshed, by this machine's clock."""
    return {
        "table": str(lock.place.table) if lock.place.table else None,
        "lock": lock.place.kind,
        "schema": lock.place.schema,
        "holder": lock.holder or None,
        "acquired": lock.acquired or None,
        "refreshed": lock.refreshed or None,
        "age_seconds": age_seconds(lock),
        "key": lock.key,
    }


def age_seconds(lock: SeenLock) -> float | None:
    """Seconds since a lock was refreshed, by this machine's clock."""
    instant = times.parse(lock.refreshed)
    if instant is None:
        return None
    return round((datetime.now(tz=timezone.utc) - instant).total_seconds(), 1)


def _age(lock: SeenLock) -> str | None:
    seconds = age_seconds(lock)
    return None if seconds is None else f"{seconds:.0f} s"
