"""singerlake versions: the frozen versions of a table."""

from __future__ import annotations

import click
from msgspec import structs

from singerlake_cli import output
from singerlake_cli.shared import Shared, complete_table


@click.command("versions")
@click.argument("table", shell_complete=complete_table)
@click.pass_obj
def command(shared: Shared, table: str) -> None:
    """List a TABLE's frozen versions.

    \b
    singerlake versions tap-shop.orders
    """
    found, ref = shared.lake().find(table)
    snapshot = found.snapshot()
    versions = snapshot.frozen if ref.version is None else [snapshot.version(ref.version)]
    if shared.json:
        output.print_json([structs.asdict(version) for version in versions])
        return
    rows = [
        (
            v.number,
            v.label,
            v.transaction,
            f"{v.rows:,}",
            v.schema_hash,
            output.short_proof(v.fingerprint),
            output.clock(v.time),
            v.by,
            v.comment,
        )
        for v in versions
    ]
    columns = (
        "version>",
        "label~",
        "of>",
        "rows>",
        "schema",
        "proof",
        "frozen (UTC)",
        "by",
        "comment~",
    )
    note = "of: its transaction · proof: its fingerprint begins so, --output json has all of it"
    if any(v.only_against_accident for v in versions):
        note += " · without lt1: against accident only"
    if not rows:
        note = f"none yet: freeze one with: singerlake freeze {ref.table}"
    output.print_table(str(ref.table), columns, rows, note)
