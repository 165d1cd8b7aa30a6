"""The output of the sizes of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from singerlake.ops.vacuum.sizes import RETENTION
from singerlake_cli import output

COLUMNS = (
    "table",
    "records>",
    "size>",
    "files>",
    "small>",
    "history>",
    "indexes>",
    "store>",
    "free now>",
    "free later>",
    "all by (UTC)",
)
DROPPED_FIRST = (
    "history",
    "small",
    "files",
    "indexes",
    "records",
    "store",
    "all by (UTC)",
    "size",
)
"""Columns that a narrow terminal leaves out, those that matter least first."""
DAY = 86_400


def print_sizes(tables: Sequence[Mapping[str, Any]], shown: Mapping[str, str], empty: str) -> None:
    """Print a table of sizes, with a total if there are several.

    Args:
        tables: The document that `ls --sizes` gives scripts.
        shown: Tables as they are written, by name.
        empty: The line to print if there is none.
    """
    if not tables:
        output.say(empty)
        return
    rows = [(shown[table["table"]], *_cells(table)) for table in tables]
    if len(tables) > 1:
        rows.append(("total", *_cells(_total(tables))))
    output.print_table(None, COLUMNS, rows, *_notes(_total(tables)), drop=DROPPED_FIRST)


def _cells(table: Mapping[str, Any]) -> list[object]:
    def size(name: str) -> str | None:
        return output.size(table[name]) if table[name] else None

    indexes = f"{table['indexes']:,}: {size('index_bytes')}" if table["index_bytes"] else None
    return [
        f"{table['records']:,}",
        size("bytes"),
        f"{table['files']:,}",
        f"{table['small_files']:,}" if table["small_files"] else None,
        size("history_bytes"),
        indexes,
        size("store_bytes"),
        size("free_now_bytes"),
        size("free_later_bytes"),
        output.clock(table["free_later_at"]) if table["free_later_at"] else None,
    ]


def _total(tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    summed = (
        "records",
        "bytes",
        "files",
        "small_files",
        "history_bytes",
        "indexes",
        "index_bytes",
        "store_bytes",
        "free_now_bytes",
        "free_later_bytes",
    )
    # ISO times of one length, all in UTC: the last in the alphabet is the latest.
    last = max((table["free_later_at"] or "" for table in tables), default="")
    total: dict[str, Any] = {name: sum(table[name] or 0 for table in tables) for name in summed}
    return {**total, "free_later_at": last or None}


def _notes(total: Mapping[str, Any]) -> list[str]:
    """Describe the work for a vacuum, now and later."""
    small, now, later = (total[f] for f in ("small_files", "free_now_bytes", "free_later_bytes"))
    notes = []
    if small or now:
        work = f"{output.count(small, 'small file')} to compact, {output.size(now)} to free now"
        notes.append(f"{work}: singerlake vacuum --all")
    if later:
        notes.append(
            f"{output.size(later)} wait for the retention of "
            f"{output.count(int(RETENTION // DAY), 'day')}: a vacuum frees all of it from "
            f"{output.clock(total['free_later_at'])} UTC on"
        )
    return notes or ["nothing for a vacuum to do"]
