"""singerlake locks: locks and their holders."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

import click

from singerlake.format import times
from singerlake.log.locks.holders import SeenLock, locks
from singerlake_cli import output
from singerlake_cli.shared import Shared

DROPPED_FIRST = ("refreshed (UTC)", "acquired (UTC)", "schema")
"""Columns that a narrow terminal leaves out, those that matter least first."""


@click.command("locks")
@click.argument("table", required=False)
@click.pass_obj
def command(shared: Shared, table: str | None) -> None:
    """List locks of the lake or of one TABLE, and their holders.

    A process that writes, commits, vacuums or reads refreshes its lock. If a lock is not refreshed
    for the stale time (60 s by default), the next writer takes it over; `singerlake unlock` breaks
    it at once.

    \b
    singerlake locks
    singerlake locks tap-shop.orders
    singerlake --output json locks
    """
    lake = shared.lake()
    name = None if table is None else lake.find(table)[0].name
    seen = locks(lake.store, name)
    ignored = lake.file is not None and lake.file.conditional_writes is False
    shared.output.result(
        lambda: [as_json(lock) for lock in seen],
        lambda: _print(seen, conditions_ignored=ignored),
    )


def _print(seen: Sequence[SeenLock], *, conditions_ignored: bool) -> None:
    rows = [
        (
            lock.target.table,
            lock.target.kind,
            lock.target.schema,
            lock.holder or None,
            output.clock(lock.acquired) or None,
            output.clock(lock.refreshed) or None,
            _age(lock),
        )
        for lock in seen
    ]
    columns = ("table", "lock", "schema", "holder~", "acquired (UTC)", "refreshed (UTC)", "age>")
    notes = [] if rows else ["there are no locks"]
    if conditions_ignored:
        notes.append(
            "the store ignores conditional writes: writers take turns by these locks alone "
            "(docs/about/guarantees.md)"
        )
    output.print_table(None, columns, rows, *notes, drop=DROPPED_FIRST)


def as_json(lock: SeenLock) -> dict[str, object]:
    """Return a lock for scripts; ``age_seconds`` since its refresh, by this machine's clock."""
    return {
        "table": str(lock.target.table) if lock.target.table else None,
        "lock": lock.target.kind,
        "schema": lock.target.schema,
        "holder": lock.holder or None,
        "acquired": lock.acquired or None,
        "refreshed": lock.refreshed or None,
        "age_seconds": age_seconds(lock),
        "key": lock.key,
    }


def age_seconds(lock: SeenLock) -> float | None:
    """Return the seconds since a lock was refreshed, by this machine's clock."""
    instant = times.parse(lock.refreshed)
    if instant is None:
        return None
    return round((datetime.now(tz=timezone.utc) - instant).total_seconds(), 1)


def _age(lock: SeenLock) -> str | None:
    seconds = age_seconds(lock)
    return None if seconds is None else f"{seconds:.0f} s"
