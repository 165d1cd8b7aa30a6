"""The differences of two states of a table as a page: HTML or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from singerlake.log.schema_difference import Comparison
from singerlake_cli import differences, results

if TYPE_CHECKING:
    from singerlake.ops.diff.diff import Diff
    from singerlake.site.difference import Row

MOST_ROWS = 200
"""Rows that a page shows unless --limit asks for another number."""


def page(found: Diff[Any], form: str, limit: int | None) -> tuple[str, int]:
    """Count the differences, fetch the first rows, and render them.

    Args:
        found: The comparison.
        form: ``html`` or ``markdown``.
        limit: At most so many rows.

    Returns:
        The page, and how many rows it shows.
    """
    from singerlake.site import difference  # late: it imports jinja2

    found.keep()  # rows are counted, and then fetched
    counts = found.counts()
    answer = found.flat_rows(limit or MOST_ROWS)
    rows = answer.glimpse(limit or MOST_ROWS)
    compared = found.compared
    shown = difference.Difference(
        table=str(compared.after.snapshot.table),
        before=str(compared.before),
        after=str(compared.after),
        notes=[*compared.notes()],
        schema=_schema(compared),
        counts={
            "added": counts.added,
            "changed": counts.changed,
            "removed": counts.removed,
            "unchanged": counts.unchanged,
        },
        columns=counts.cells,
        keys=_keys(answer.columns),
        rows=[_row(answer.columns, row) for row in rows],
        more=counts.added + counts.changed + counts.removed - len(rows),
    )
    return difference.page(shown, form).decode(), len(rows)


def _schema(compared: Comparison) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(one.change, one.column, one.before, one.after) for one in compared.schema]


def _keys(columns: Sequence[str]) -> list[str]:
    return [name.removeprefix("key.") for name in columns[1 : columns.index("changed")]]


def _row(columns: Sequence[str], row: Sequence[Any]) -> Row:
    from singerlake.site.difference import Cell, Row

    changed = columns.index("changed")
    change, *key = (results.shown(value) for value in row[:changed])
    cells = [Cell(*cell) for cell in differences.cells_of(columns, row, changed)]
    return Row(str(change), key, cells or [Cell("", None, None)])
