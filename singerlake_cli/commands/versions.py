"""singerlake versions: the frozen versions of a table."""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec import structs

from singerlake.format.log import FrozenVersion
from singerlake.format.names import TableName
from singerlake_cli import output
from singerlake_cli.shared import Shared, complete_table

DROPPED_FIRST = ("schema", "by", "proof", "frozen (UTC)", "rows")
"""Columns that a narrow terminal leaves out, those that matter least first."""


@click.command("versions")
@click.argument("table", shell_complete=complete_table)
@click.pass_obj
def command(shared: Shared, table: str) -> None:
    """List a TABLE's frozen versions.

    \b
    singerlake versions tap-shop.orders
    """
    lake_table, ref = shared.lake().find(table)
    snapshot = lake_table.snapshot()
    versions = snapshot.frozen if ref.version is None else [snapshot.version(ref.version)]
    shared.output.result(
        lambda: [structs.asdict(version) for version in versions],
        lambda: _print(ref.table, versions),
    )


def _print(table: TableName, versions: Sequence[FrozenVersion]) -> None:
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
        "label",
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
    if marked := [v for v in versions if v.violations]:
        broken = (f"{v.number} breaks {', '.join(v.violations)}" for v in marked)
        note += f" · {'; '.join(broken)}"
    if not rows:
        note = f"none yet: freeze one with: singerlake freeze {table}"
    output.print_table(str(table), columns, rows, note, drop=DROPPED_FIRST)
