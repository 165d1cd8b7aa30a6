"""singerlake ls: the tables of the lake."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from singerlake.errors import NotFoundError, SingerlakeError
from singerlake.format.names import written
from singerlake.maintenance import repeats
from singerlake.maintenance.sizes import sizes
from singerlake_cli import output
from singerlake_cli.shared import Shared

RECENT = 6
"""So many transactions back the sparkline goes."""


@click.command("ls")
@click.argument("tap", required=False)
@click.option("--sizes", "measured", is_flag=True, help="What each takes, and what vacuum frees.")
@click.pass_obj
def command(shared: Shared, tap: str | None, measured: bool) -> None:
    """List the lake's tables, or one TAP's.

    "head" is a table's last transaction; "recent" draws the records of its last ones, the
    newest at the right. With --sizes, "small" files are those that `vacuum` would combine,
    "history" is about what rows take that later ones have replaced (where a version or an
    index tells; versions may need some of it), and "free" what `vacuum` would delete once it is
    old enough.

    \b
    singerlake ls
    singerlake ls tap-shop --sizes
    singerlake --output json ls
    """
    lake = shared.lake()
    if tap is not None and tap not in (taps := lake.taps()):
        known = ", ".join(taps) or "none yet"
        raise NotFoundError(f"the lake at {shared.uri} has no tap {tap!r}: it has {known}")
    found = []
    failed = []
    names = lake.tables(tap)
    all_names = set(names)
    shown = {str(name): written(name, all_names) for name in names}
    repeating = []
    for name in names:
        try:
            snapshot = lake.table(name).snapshot()
            more = asdict(sizes(lake.store, snapshot)) if measured else {}
        except NotFoundError:
            continue  # a folder in which nothing was ever committed, or not yet
        except SingerlakeError as error:
            failed.append(error)
            continue
        writes = [t for t in snapshot.transactions if t.rows]
        if (repeated := repeats.find(snapshot)) is not None:
            repeating.append(f"{shown[str(name)]}: {repeated}")
        found.append(
            {
                "table": str(name),
                "records": sum(block.rows for block in snapshot.blocks),
                "bytes": sum(block.length for block in snapshot.blocks),
                "transactions": snapshot.head,
                "versions": len(snapshot.frozen),
                "last_sync": writes[-1].time if writes else None,
                "recent": [t.rows for t in writes[-RECENT:]],
                "repeats": asdict(repeated) if repeated else None,
                **more,
            }
        )
    if shared.json:
        output.print_json(found)
    elif measured:
        _print_sizes(shared, found, shown)
    else:
        _print(shared, found, shown, repeating)
    for failure in failed:
        output.say_failure(failure)
    if failed:
        click.get_current_context().exit(max(failure.exit_code for failure in failed))


def _print_sizes(shared: Shared, found: list[dict[str, Any]], shown: dict[str, str]) -> None:
    def size(count: int | None) -> str | None:
        return output.size(count) if count else None

    rows = [
        (
            shown[t["table"]],
            f"{t['records']:,}",
            size(t["bytes"]),
            t["files"],
            t["small_files"] or None,
            size(t["history_bytes"]),
            size(t["index_bytes"]),
            size(t["reclaimable_bytes"]),
        )
        for t in found
    ]
    columns = ("table~", "records>", "size>", "files>", "small>", "history>", "indexes>", "free>")
    note = f"the lake at {shared.uri} is empty"
    if rows:
        due = sum(t["small_files"] for t in found), sum(t["reclaimable_bytes"] for t in found)
        note = f"{due[0]:,} small files, {output.size(due[1])} to free: singerlake vacuum --all"
        if not any(due):
            note = "nothing for a vacuum to do"
    output.print_table(None, columns, rows, note)


def _print(
    shared: Shared, found: list[dict[str, Any]], shown: dict[str, str], repeating: list[str]
) -> None:
    rows = [
        (
            shown[t["table"]],
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
    notes = [
        f"{said}; if each brings the whole table, see the README on streams without a key"
        for said in repeating
    ]
    if not rows:
        notes = [f"the lake at {shared.uri} is empty"]
    output.print_table(None, columns, rows, *notes)
