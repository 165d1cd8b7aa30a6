"""singerlake ls: the tables of the lake."""

from __future__ import annotations

import click

from singerlake.errors import NotFoundError, SingerlakeError
from singerlake_cli import output
from singerlake_cli.shared import Shared


@click.command("ls")
@click.argument("tap", required=False)
@click.pass_obj
def command(shared: Shared, tap: str | None) -> None:
    """List the lake's tables, or one TAP's.

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
        syncs = [t for t in snapshot.transactions if t.operation != "freeze"]
        found.append(
            {
                "table": str(name),
                "records": sum(t.rows for t in snapshot.transactions),
                "bytes": sum(t.bytes for t in snapshot.transactions),
                "transactions": snapshot.head,
                "versions": len(snapshot.frozen),
                "last_sync": syncs[-1].time if syncs else None,
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


def _print(shared: Shared, found: list[dict[str, object]]) -> None:
    rows = [
        (
            t["table"],
            f"{t['records']:,}",
            output.size(int(str(t["bytes"]))),
            t["transactions"],
            t["versions"] or None,
            output.ago(str(t["last_sync"])) if t["last_sync"] else None,
        )
        for t in found
    ]
    columns = ("table", "records>", "size>", "transactions>", "versions>", "last sync")
    output.print_table(None, columns, rows, "" if rows else f"the lake at {shared.uri} is empty")
