"""singerlake ls: the tables of the lake."""

from __future__ import annotations

from typing import Any

import click

from singerlake.errors import NotFoundError, SingerlakeError
from singerlake_cli import output
from singerlake_cli.shared import Shared

RECENT = 6
"""So many transactions back the sparkline goes."""


@click.command("ls")
@click.argument("tap", required=False)
@click.pass_obj
def command(shared: Shared, tap: str | None) -> None:
    """List the lake's tables, or one TAP's.

    "head" is a table's last transaction; "recent" draws the records of its last ones, the
    newest at the right.

    \b
    singerlake ls
    singerlake ls tap-shop
    singerlake --output json ls
    """
    lake = shared.lake()
    found = []
    failed = []
    for name in lake.tables(tap):
        try:
            snapshot = lake.table(name).snapshot()
        except NotFoundError:
            continue  # a folder in which nothing was ever committed, or not yet
        except SingerlakeError as error:
            failed.append(error)
            continue
        writes = [t for t in snapshot.transactions if t.rows]
        found.append(
            {
                "table": str(name),
                "records": sum(t.rows for t in snapshot.transactions),
                "bytes": sum(t.bytes for t in snapshot.transactions),
                "transactions": snapshot.head,
                "versions": len(snapshot.frozen),
                "last_sync": writes[-1].time if writes else None,
                "recent": [t.rows for t in writes[-RECENT:]],
            }
        )
    if shared.json:
        output.print_json(found)
    else:
        _print(shared, found)
    for failure in failed:
        click.echo(f"error: {failure}", err=True)
    if failed:
        click.get_current_context().exit(max(failure.exit_code for failure in failed))


def _print(shared: Shared, found: list[dict[str, Any]]) -> None:
    rows = [
        (
            t["table"],
            f"{t['records']:,}",
            output.size(t["bytes"]),
            t["transactions"],
            t["versions"] or None,
            output.ago(t["last_sync"]) if t["last_sync"] else None,
            output.sparkline(t["recent"]) or None,
        )
        for t in found
    ]
    columns = ("table~", "records>", "size>", "head>", "versions>", "last sync", "recent")
    output.print_table(None, columns, rows, "" if rows else f"the lake at {shared.uri} is empty")
