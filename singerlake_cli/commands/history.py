"""singerlake history: the transactions of a table."""

from __future__ import annotations

from typing import Any

import click
from msgspec import structs, to_builtins

from singerlake.lake import Table
from singerlake.maintenance.revert import last_readable
from singerlake.transactions.log import read_entry
from singerlake.transactions.snapshot import Snapshot
from singerlake_cli import output
from singerlake_cli.shared import Shared, complete_table


@click.command("history")
@click.argument("table", shell_complete=complete_table)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.pass_obj
def command(shared: Shared, table: str, limit: int) -> None:
    """List a TABLE's transactions, newest first.

    \b
    singerlake history tap-shop.orders --limit 5
    singerlake --output json history tap-shop.orders
    """
    found, ref = shared.lake().find(table)
    snapshot = found.snapshot_at(ref.version)
    newest = list(reversed(snapshot.transactions))[:limit]
    readable = last_readable(found.store, snapshot)
    if shared.json:
        output.print_json(
            [
                {
                    **_in_full(found, snapshot, t.number),
                    "readable": t.number <= readable and snapshot.readable(t.number),
                }
                for t in newest
            ]
        )
        return
    names = {version.transaction: version for version in snapshot.frozen}
    rows = []
    for t in newest:
        version = names.get(t.number)
        label = None
        if version is not None:
            label = f"{version.number}" + (f" {version.label}" if version.label else "")
        rows.append(
            (
                t.number,
                output.clock(t.time),
                t.operation,
                f"{t.rows:,}" if t.rows else None,
                t.blocks or None,
                output.size(t.bytes) if t.bytes else None,
                t.schema_hash,
                label,
            )
        )
    columns = (
        "no.>",
        "time (UTC)",
        "operation",
        "records>",
        "blocks>",
        "size>",
        "schema",
        "version~",
    )
    left = snapshot.head - len(rows)
    notes = [f"{left} older: --limit"] if left else []
    if readable < snapshot.head:
        notes.append(
            f"from transaction {readable + 1} on the state cannot be read: files are gone; "
            f"singerlake verify {ref.table} names them"
        )
    if snapshot.floor > 1:
        notes.append(
            f"history before transaction {snapshot.floor} was dropped: of what came before, only "
            "frozen versions can be read"
        )
    output.print_table(str(ref), columns, rows, *notes)


def _in_full(table: Table, snapshot: Snapshot, number: int) -> dict[str, Any]:
    """A transaction as the log has it, or as the manifest does where the entry is lost."""
    entry = read_entry(table.store, table.name, number)
    known: dict[str, Any] = structs.asdict(snapshot.summary(number))
    if entry is not None:
        known |= {"metadata": entry.metadata, "metrics": entry.metrics}
        if entry.overlay is not None:
            known["overlay"] = to_builtins(entry.overlay)
        if entry.version is not None:
            known["version"] = structs.asdict(entry.version)
    return known
