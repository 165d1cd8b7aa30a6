"""Numbers of files that have a comma before their decimals, as columns read them: with a point."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format.types import Kind, Type
from singerlake.records.given.csv.dialect import Dialect

_NUMERIC = (Kind.INTEGER, Kind.NUMBER, Kind.DECIMAL)
_LIKE_A_NUMBER = r"^[-+]?[0-9.,]+(?:[eE][-+]?[0-9]+)?$"


def pointed(cells: pa.Array, dialect: Dialect) -> pa.Array:
    """Return cells in which a number has a point before its decimals.

    In what looks like a number, point and comma change places: ``1.5`` is none in a file that
    writes ``1,5``, and is text.

    Args:
        cells: Strings.
        dialect: How the file is written.
    """
    if dialect.decimal == ".":
        return cells
    alike = pc.fill_null(pc.match_substring_regex(cells, _LIKE_A_NUMBER), False)
    if not pc.any(alike).as_py():
        return cells
    changed = cells
    for old, new in ((".", "\0"), (",", "."), ("\0", ",")):  # Arrow has no translate()
        changed = pc.replace_substring(changed, old, new)
    return pc.if_else(alike, changed, cells)


def pointed_as(cells: pa.Array, type_: Type, dialect: Dialect) -> pa.Array:
    """Return the cells of a column as its type is read from them; see :func:`pointed`."""
    return pointed(cells, dialect) if type_.kind in _NUMERIC else cells


def as_written(text: str, dialect: Dialect) -> str:
    """Return a cell that :func:`pointed` gave as the file has it."""
    found = pointed(pa.array([text], pa.string()), dialect)
    return str(found[0].as_py())
