"""singerlake ls: the tables of the lake."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from singerlake.errors import DamagedError, DroppedError, NotFoundError, SingerlakeError, UsageError
from singerlake.format import refused_lines
from singerlake.format.metadata import LakeFile, last_sync
from singerlake.format.names import REJECTED, TableName, written
from singerlake.lake import Lake, Table
from singerlake.log import rejections, repeats
from singerlake.log.repeats import Repeats
from singerlake.log.table_state import TableState
from singerlake.nearest import bare, offer
from singerlake_cli import output
from singerlake_cli.shared import Shared, exit_with

RECENT = 6
"""So many transactions back the sparkline goes."""
_OF_REFUSED = "of rejected lines"
DROPPED_FIRST = ("recent", "last freeze", "versions", "head", "size", "last sync")
"""Columns that a narrow terminal leaves out, those that matter least first."""


@click.command("ls")
@click.argument("tap", required=False)
@click.option(
    "--sizes",
    "measured",
    is_flag=True,
    help="Storage size of each table, and what a vacuum would free.",
)
@click.option(
    "--dropped", is_flag=True, help="List dropped tables, and until when they can be restored."
)
@click.pass_obj
def command(shared: Shared, tap: str | None, measured: bool, dropped: bool) -> None:
    """List the lake's tables, or one TAP's.

    "records" counts all records that were written, including replaced and deleted ones, so a table
    may have fewer rows. "head" is the last transaction. "recent" is a chart of the records in the
    last transactions, newest on the right. "last freeze" is when the newest version was frozen, and
    shown if a table has one. "rejected" counts quarantined records (the target's setting
    invalid_records).

    With --sizes, "size" is the size of the data, and "store" that of the whole table, with
    materialized snapshots, log and files to be deleted. "small" counts files that `vacuum` would
    compact. "history" estimates the share of replaced rows (if a version or a materialized snapshot
    shows it; versions may need some of them). `vacuum` deletes "free now" immediately, and "free
    later" after the retention, which ends for all of it at the time shown.

    With --dropped, "until" is when the default retention of `vacuum` ends: the first vacuum after
    it deletes the table for good.

    \b
    singerlake ls
    singerlake ls tap-shop --sizes
    singerlake ls --dropped
    singerlake --output json ls
    """
    lake = shared.lake()
    tap = None if tap is None else _tap(lake, tap)
    if dropped and measured:
        raise UsageError("use --sizes or --dropped, not both")
    if dropped:
        from singerlake_cli import dropped_tables

        dropped_tables.list_dropped(shared, lake, tap)
        return
    tables: list[dict[str, Any]] = []
    failed: list[SingerlakeError] = []
    names = lake.tables(tap)
    all_names = set(names)
    shown = {str(name): written(name, all_names) for name in names}
    repeating = []
    nothing = set()
    gone = 0
    lake_file = lake.annotations()

    def look(table: Table) -> tuple[TableState, dict[str, Any]]:
        snapshot = table.snapshot()
        return snapshot, _measured(lake, snapshot) if measured else {}

    for name, found in lake.each(names, look):
        if isinstance(found, SingerlakeError):
            if isinstance(found, DroppedError):
                gone += 1
            elif isinstance(found, NotFoundError):
                nothing.add(name)  # a folder in which nothing was ever committed, or not yet
            else:
                failed.append(found)
            continue
        snapshot, more = found
        if (repeated := repeats.find(snapshot)) is not None:
            repeating.append(f"{shown[str(name)]}: {repeated}")
        tables.append({**_described(snapshot, repeated), **_annotated(lake_file, name), **more})
    _count_rejected(tables)
    failed += map(DamagedError, map(str, lake.inventory(all_names - nothing, tap).lost))
    empty = f"the lake at {shared.uri} is empty"
    also = f"{output.count(gone, 'table')} dropped: singerlake ls --dropped" if gone else ""
    shared.output.result(
        lambda: tables,
        lambda: (
            _print_measured(tables, shown, also or empty)
            if measured
            else _print(tables, shown, repeating, empty, also)
        ),
    )
    exit_with(shared, failed)


def _described(snapshot: TableState, repeated: Repeats | None) -> dict[str, Any]:
    """Describe a table from its log alone."""
    writes = [t for t in snapshot.own_transactions if t.rows]
    name = snapshot.table
    return {
        _OF_REFUSED: _rejected(snapshot),
        "table": str(name),
        "records": sum(block.rows for block in snapshot.blocks),
        "bytes": sum(block.length for block in snapshot.blocks),
        "transactions": snapshot.number,
        "versions": len(snapshot.frozen),
        "last_sync": last_sync(snapshot.own_transactions),
        "last_freeze": snapshot.frozen[-1].time if snapshot.frozen else None,
        "recent": [t.rows for t in writes[-RECENT:]],
        "repeats": asdict(repeated) if repeated else None,
    }


def _rejected(snapshot: TableState) -> int | None:
    """Count the lines that runs rejected; None if the table is not a dead-letter table."""
    holds = snapshot.table.stream.endswith(REJECTED) and refused_lines.are_in(snapshot.tap_schema)
    return rejections.rejected(snapshot) if holds else None


def _measured(lake: Lake, snapshot: TableState) -> dict[str, Any]:
    """Measure a table's size, and how much of it a vacuum could free."""
    from singerlake.ops.vacuum.sizes import sizes  # late: with the plans of a vacuum

    return asdict(sizes(lake.store, snapshot))


def _print_measured(tables: list[dict[str, Any]], shown: dict[str, str], note: str) -> None:
    from singerlake_cli.sizes_output import print_sizes

    print_sizes(tables, shown, note)


def _count_rejected(tables: list[dict[str, Any]]) -> None:
    """Add to each table the number of lines of its stream that were refused.

    If the stream itself is not here, the table of those lines gets their number: they belong to no
    stream, or a map stores it under another name.
    """
    there = {listed["table"] for listed in tables}
    counts = {listed["table"]: listed.pop(_OF_REFUSED) for listed in tables}
    for listed in tables:
        name = listed["table"]
        listed["rejected"] = counts.get(name + REJECTED) or 0
        if counts[name] and name.removesuffix(REJECTED) not in there:
            listed["rejected"] += counts[name]


def _tap(lake: Lake, text: str) -> str:
    """Return the tap that is meant; dashes and underscores are alike."""
    taps = lake.taps()
    like = [text] if text in taps else [tap for tap in taps if bare(tap) == bare(text)]
    if len(like) == 1:
        return like[0]
    for lost in lake.inventory(lake.tables()).lost:
        if lost.tap == text:
            raise DamagedError(str(lost))
    known = offer(text, taps, "it has none yet")
    raise NotFoundError(f"the lake at {lake.store.uri} has no tap {text!r}: {known}")


def _annotated(file: LakeFile, name: TableName) -> dict[str, Any]:
    return {
        "owner": _annotation(file, name, "owner") or file.owner,
        "deprecated": _annotation(file, name, "deprecated"),
    }


def _annotation(file: LakeFile, name: TableName, field: str) -> str | None:
    """Return a table's annotation, or else its tap's."""
    own: str | None = getattr(file.table(name), field)
    return own or getattr(file.tap(name.tap), field)


def _print(
    tables: list[dict[str, Any]],
    shown: dict[str, str],
    repeating: list[str],
    empty: str,
    also: str,
) -> None:
    if not tables:
        output.say(also or empty)
        return
    # A column of dashes would take room from the others, and 80 columns have little to spare.
    frozen = any(t["last_freeze"] for t in tables)
    rows: list[tuple[object, ...]] = [
        (
            shown[t["table"]],
            f"{t['records']:,}",
            output.size(t["bytes"]),
            t["transactions"],
            t["versions"] or None,
            output.ago(t["last_sync"]) if t["last_sync"] else None,
            *([output.ago(t["last_freeze"]) if t["last_freeze"] else None] if frozen else []),
            output.sparkline(t["recent"]) or None,
        )
        for t in tables
    ]
    columns: tuple[str, ...] = (
        "table",
        "records>",
        "size>",
        "head>",
        "versions>",
        "last sync",
        *(["last freeze"] if frozen else []),
        "recent",
    )
    if any(t["rejected"] for t in tables):
        columns = (*columns, "rejected>")
        rows = [(*row, t["rejected"] or None) for row, t in zip(rows, tables, strict=True)]
    if any(t["owner"] for t in tables):
        columns = (*columns, "owner~")
        rows = [(*row, t["owner"]) for row, t in zip(rows, tables, strict=True)]
    notes = [
        f"{shown[t['table']]}: deprecated: {t['deprecated']}" for t in tables if t["deprecated"]
    ]
    notes += [
        f"{repetition}; if each brings the whole table, see 'Streams without a key' in "
        "docs/reference/tables.md"
        for repetition in repeating
    ]
    if also:
        notes.append(also)
    output.print_table(None, columns, rows, *notes, drop=DROPPED_FIRST)
