"""Cells with the apostrophe of ``query --safe-cells``: without it, as they are, or refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.rows.given.csv.dialect import Dialect
from singerlake.spreadsheet_cells import INERT, evaluated, is_inert

UNDECIDED = (
    "begins with ' as --safe-cells writes it: add --safe-cells to remove the ', or --raw-cells to "
    "keep it"
)


def read(cells: pa.Array, dialect: Dialect) -> tuple[pa.Array, list[int]]:
    """Return cells as they were before they were made safe for spreadsheets.

    Args:
        cells: Strings.
        dialect: How the file is written.

    Returns:
        The cells, and the rows of those of which nobody said what they are.
    """
    if dialect.safe_cells is False or not pc.any(pc.starts_with(cells, "'")).as_py():
        return cells, []
    inert = pc.fill_null(pc.match_substring_regex(cells, INERT), False)
    if not pc.any(inert).as_py():
        return cells, []
    if dialect.safe_cells is None:
        return cells, pc.indices_nonzero(inert).to_pylist()
    return pc.if_else(inert, pc.utf8_slice_codeunits(cells, 1), cells), []


def read_name(name: str, dialect: Dialect) -> str | None:
    """Return a column's name likewise; None if nobody said what it is."""
    if dialect.safe_cells is None:
        return None if is_inert(name) else name
    return evaluated(name) if dialect.safe_cells else name
