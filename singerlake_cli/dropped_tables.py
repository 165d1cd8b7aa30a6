"""The output about tables that were dropped."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from singerlake.errors import NotFoundError, SingerlakeError
from singerlake.format.names import written
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.ops.drop import DroppedTable, Holdings, describe
from singerlake.storage.base import Store
from singerlake_cli import output
from singerlake_cli.shared import Shared, exit_with

DROPPED_FIRST = ("transaction", "versions", "size", "why", "by")
"""Columns that a narrow terminal leaves out, those that matter least first."""


def held_words(held: Holdings) -> str:
    """Describe the content of a table in a few words."""
    versions = f", {output.count(held.versions, 'version')}" if held.versions else ""
    return f"{output.count(held.rows, 'record')}, {output.size(held.bytes)}{versions}"


def way_back(gone: DroppedTable) -> str:
    """Describe until when a table can be restored."""
    if gone.until is None:
        return "too late: a vacuum has deleted the data, or begun to"
    return f"until the first vacuum after {output.clock(gone.until)} UTC (usual retention)"


def dropped_as_json(gone: DroppedTable) -> dict[str, Any]:
    """Return a dropped table for scripts."""
    held = asdict(gone.holdings)
    return {
        "records": held.pop("rows"),
        **held,
        "table": str(gone.holdings.table),
        "dropped": gone.time,
        "by": gone.by or None,
        "comment": gone.comment,
        "until": gone.until,
    }


def show_dropped(shared: Shared, store: Store, head: TableState, labels: int) -> None:
    """Show the facts that are known of a dropped table.

    Args:
        labels: Columns that the names of facts take.
    """
    gone = describe(store, head)
    by = f", by {gone.by}" if gone.by else ""
    lines = [
        ("table", str(gone.holdings.table)),
        ("dropped", f"{output.clock(gone.time)} UTC, transaction {gone.holdings.transaction}{by}"),
        *([("because", gone.comment)] if gone.comment else []),
        ("held", held_words(gone.holdings)),
        ("undrop", way_back(gone)),
    ]

    def print_lines() -> None:
        for label, value in lines:
            output.say(f"{label:<{labels}}{value}", hang=labels)

    shared.output.result(lambda: dropped_as_json(gone), print_lines)


def list_dropped(shared: Shared, lake: Lake, tap: str | None) -> None:
    """List the tables that were dropped, of the lake or one tap."""
    found: list[DroppedTable] = []
    failed: list[SingerlakeError] = []
    names = lake.tables(tap)

    def look(table: Table) -> DroppedTable | None:
        snapshot = table.snapshot(dropped=True)
        return describe(lake.store, snapshot) if snapshot.dropped_at else None

    for _, seen in lake.each(names, look):
        if isinstance(seen, DroppedTable):
            found.append(seen)
        # If nothing is found, nothing was ever committed in the folder, or not yet.
        elif isinstance(seen, SingerlakeError) and not isinstance(seen, NotFoundError):
            failed.append(seen)
    known = set(names)
    rows = [
        (
            written(one.holdings.table, known),
            output.clock(one.time),
            one.holdings.transaction,
            one.by or None,
            f"{one.holdings.rows:,}",
            output.size(one.holdings.bytes),
            one.holdings.versions or None,
            output.clock(one.until) if one.until else "gone",
            one.comment,
        )
        for one in found
    ]
    columns = (
        "table",
        "dropped (UTC)",
        "transaction>",
        "by~",
        "records>",
        "size>",
        "versions>",
        "until (UTC)",
        "why~",
    )
    shared.output.result(
        lambda: [dropped_as_json(one) for one in found],
        lambda: (
            output.print_table(None, columns, rows, drop=DROPPED_FIRST)
            if rows
            else output.say("there are no dropped tables")
        ),
    )
    exit_with(shared, failed)
