"""Numbers of files that have a comma before their decimals, as columns read them: with a point."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format.types import Kind, Type
from singerlake.rows.input.csv.dialect import Dialect

_NUMERIC = (Kind.INTEGER, Kind.NUMBER, Kind.DECIMAL)
_LIKE_A_NUMBER = r"^[-+]?[0-9.,]+(?:[eE][-+]?[0-9]+)?$"


def pointed(cells: pa.Array, dialect: Dialect) -> pa.Array:
    """Return cells in which a number has a point before its decimals.

    In what looks like a number, point and comma change places: ``1.5`` is none in a file that
    writes ``1,5``, and is text.

    Args:
        cells: Strings.
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


def comma_advice(text: str, decimal: str) -> str | None:
    """Say what to do about a text that is no number because of a comma in it, or a point.

    Args:
        decimal: What decimals begin with, as was said.
    """
    other = "," if decimal == "." else "."
    mark = {",": "comma", ".": "point"}[other]
    grouped = re.fullmatch(rf"[+-]?\d{{1,3}}(?:[{other}]\d{{3}})+(?:[{decimal}]\d*)?", text)
    without = f"thousands separators are not read: write 1234 instead of 1{other}234"
    if grouped and (text.count(other) > 1 or decimal in text):
        return without
    if decimal == "," or not re.fullmatch(r"[+-]?\d+,\d+", text):
        return without if grouped else None
    way = f"add --decimal , if its decimals begin with the {mark}"
    return f"{way}; if it separates thousands, remove it" if grouped else way
