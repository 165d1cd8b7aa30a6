"""singerlake point: names that move from version to version."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from singerlake.errors import UsageError
from singerlake.format.names import TableName
from singerlake.log import versions
from singerlake.log.table_state import TableState
from singerlake_cli import output
from singerlake_cli.lake_versions import pointer_words
from singerlake_cli.shared import Shared, complete_table


@click.command("point")
@click.argument("table", shell_complete=complete_table)
@click.argument("name", required=False)
@click.argument("version", required=False)
@click.option("--remove", is_flag=True, help="Remove the pointer. Its history stays in the log.")
@click.pass_obj
def command(
    shared: Shared, table: str, name: str | None, version: str | None, remove: bool
) -> None:
    """Move a pointer of a TABLE to a VERSION, or list the pointers.

    A pointer is a movable name for a frozen version: readers, projections and taps that read
    TABLE@NAME get the version that it names when they begin. Use it to release only versions that
    you have checked; to undo a release, move the pointer back. In SQL, write VERSION AS OF '@NAME'.

    VERSION is a number, a label or another pointer. A version that a pointer names cannot be
    deleted before the pointer has moved. `singerlake freeze --as NAME` moves it to the new version
    in the same transaction. Each move is a transaction: `singerlake history` shows it.

    \b
    singerlake point tap-shop.orders
    singerlake point tap-shop.orders current 3
    singerlake point tap-shop.orders current --remove
    singerlake query "select * from tap_shop.orders version as of '@current'"
    """
    lake_table, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(f"name the table alone: singerlake point {ref.table}")
    head = lake_table.snapshot()
    if name is None:
        if remove:
            raise UsageError("name the pointer to remove")
        shared.output.result(lambda: _as_json(head), lambda: _print(ref.table, head))
        return
    if remove is (version is not None):
        raise UsageError("name the version that the pointer moves to, or --remove")
    from singerlake.ops.point import point  # late: a list needs no writer

    done = point(lake_table.store, head, name, version)
    document: dict[str, Any] = asdict(done)
    document["version"] = None if done.version is None else done.version.number
    shared.output.result(lambda: document, lambda: output.say(pointer_words(ref.table, done)))


def _as_json(head: TableState) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "version": version.number,
            "transaction": note.transaction,
            "time": note.time,
            "by": note.by,
            "history": _history(head, name),
        }
        for name, (version, note) in versions.pointers(head).items()
    ]


def _history(head: TableState, name: str) -> list[dict[str, Any]]:
    """Return the moves of a pointer, oldest first."""
    moves = [
        {
            "version": None if note.removed else version.number,
            "transaction": note.transaction,
            "time": note.time,
            "by": note.by,
        }
        for version in versions.by_number(head.frozen, head.deleted_versions)
        for note in version.pointed
        if note.name == name
    ]
    return sorted(moves, key=lambda move: move["transaction"])


def _print(table: TableName, head: TableState) -> None:
    found = versions.pointers(head)
    if not found:
        output.say(f"{table} has no pointers; set one with: singerlake point {table} NAME VERSION")
        return
    rows = [
        [f"@{name}", one.number, one.label, f"{one.rows:,}", output.clock(note.time), note.by]
        for name, (one, note) in found.items()
    ]
    columns = ["pointer", "version>", "label", "rows>", "moved (UTC)", "by"]
    output.print_table(str(table), columns, rows, drop=("by", "rows", "label"))
