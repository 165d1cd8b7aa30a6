"""The differences of two states of a table: lines for people, a document for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from singerlake.log.schema_difference import Comparison, State
from singerlake_cli import output, results

if TYPE_CHECKING:
    from singerlake.ops.diff.diff import Counts

_COLOURS = {"added": "green", "removed": "red"}
_OTHERWISE = "yellow"
"""The colours of what was added or removed, and of all that changed otherwise."""


def document(compared: Comparison, counts: Counts, misfits: Mapping[str, int]) -> dict[str, Any]:
    """Return the differences, without the rows."""
    return {
        "table": str(compared.after.snapshot.table),
        "from": _state(compared.before),
        "to": _state(compared.after),
        "matched_by": compared.matching.name.lower(),
        "schema": [asdict(change) for change in compared.schema],
        **asdict(counts),
        "misfits": dict(misfits),
    }


def _state(state: State) -> dict[str, Any]:
    version = state.version
    return {
        "version": None if version is None else version.number,
        "label": None if version is None else version.label,
        "transaction": state.number,
    }


def title(compared: Comparison) -> str:
    """Return one line that names both sides of the comparison."""
    return f"{compared.after.snapshot.table} from {compared.before} to {compared.after}"


def print_schema(compared: Comparison) -> None:
    """Print how the schemas differ, if they do."""
    if compared.schema:
        rows = [(one.change, one.column, one.before, one.after) for one in compared.schema]
        colours = [_COLOURS.get(one.change, _OTHERWISE) for one in compared.schema]
        output.print_table(None, ("schema", "column", "before~", "after~"), rows, colours=colours)


def summary(counts: Counts) -> str:
    """Return one line with the numbers of rows that differ."""
    rows = (
        f"{output.count(counts.added, 'row')} added, {counts.changed:,} changed, "
        f"{counts.removed:,} removed, {counts.unchanged:,} unchanged"
    )
    if counts.respelled:
        rows += f" ({counts.respelled:,} of them with other bytes that no column shows)"
    return rows


def print_cells(counts: Counts) -> None:
    """Print how many cells of each column changed."""
    if counts.cells:
        rows = [(name, f"{cells:,}") for name, cells in counts.cells.items()]
        output.print_table(None, ("column", "cells changed>"), rows)


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], cut: str) -> None:
    """Print rows that differ, a line a cell: changed cells of changed rows, else those not null.

    Args:
        columns: Names of the cells, as ``Diff.flat`` has them.
        rows: The cells.
        cut: The note below if these are not all.
    """
    changed = columns.index("changed")
    keys = [name.removeprefix("key.") for name in columns[1:changed]]
    lines: list[Sequence[str | None]] = []
    for row in rows:
        head = [results.shown(value) for value in row[:changed]]
        cells = [[*head, *cell] for cell in cells_of(columns, row, changed)]
        lines += cells or [[*head, None, None, None]]
    colours = [_COLOURS.get(str(line[0]), _OTHERWISE) for line in lines]
    headings = ["change", *keys, "column", "before~", "after~"]
    if not output.has_room(headings, lines):
        headings[-2:] = ["before → after~"]
        lines = [[*line[:-2], _both(*line[-2:])] for line in lines]
    output.print_table(None, headings, lines, cut, colours=colours)


def _both(before: str | None, after: str | None) -> str:
    """Return a cell's old and new value as one text that may be wrapped in between."""
    from singerlake_cli.tables import NOTHING

    return f"{NOTHING if before is None else before} → {NOTHING if after is None else after}"


def cells_of(
    columns: Sequence[str], row: Sequence[Any], changed: int
) -> Iterator[tuple[str, str | None, str | None]]:
    """Return the cells of one row that are shown: the column, its old and its new value.

    Args:
        columns: Names of the cells, as ``Diff.flat_rows`` has them.
        changed: The place of the column ``changed``.
    """
    names = row[changed]
    for index in range(changed + 1, len(columns), 2):
        name = columns[index].removeprefix("before.")
        before, after = (results.shown(value) for value in row[index : index + 2])
        # So many names that they were cut come as a text.
        shown = name in names if isinstance(names, list) else before != after
        if shown:
            yield name, before, after
