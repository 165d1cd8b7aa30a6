"""Text cells that are the JSON of their values as they stand, or nearly: no value is made of them.

That is so in columns that were summed up (``cell_summary.py``) and are what they seemed: an integer
there has no zero in front, a number no digit that a double would change. What is returned is what
``canonical_text.py`` would write of the cells' values, in a third of the time.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format.types import Kind, Type
from singerlake.rows.columns import canonical_text, text_bytes
from singerlake.rows.columns.canonical_text import Quoted
from singerlake.rows.given.values.inference import EXPONENT

Spelled: TypeAlias = pa.Array | Quoted
"""Texts of values, null where these are; or such as have no null, and still lack their quotes."""

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?Z?", re.ASCII)
_CANONICAL = np.void(b'"0000-00-00T00:00:00.000000Z"')
_FRACTION_AT = len("2020-08-19T13:01:56.")


def put(index: int, texts: Spelled) -> dict[str, pa.Array]:
    """Return what a batch has of a column whose cells were written, by name."""
    return {f"q{index}": texts.inner} if isinstance(texts, Quoted) else {f"j{index}": texts}


def get(batch: pa.RecordBatch, index: int) -> Spelled | None:
    """Return what :func:`put` has put into a batch of a column; None where it has not."""
    names = batch.schema.names
    if f"q{index}" in names:
        return Quoted(batch.column(f"q{index}"))
    return batch.column(f"j{index}") if f"j{index}" in names else None


def spelled(cells: pa.Array, type_: Type, kinds: int) -> Spelled | None:
    """Write cells as JSON; None where that takes their values.

    Args:
        cells: Strings of a column, null where there is nothing.
        type_: The column's type, which holds all of them.
        kinds: Which kinds of values they are, or more of them: ``Summary.kinds``.
    """
    kind = type_.kind
    if type_.own is not None:
        return None
    if kind is Kind.STRING:
        return _quoted(canonical_text.escaped(cells))
    if not _only_nulls_empty(cells):  # other empty cells are null as well
        return None
    if kind is Kind.INTEGER:
        return cells.cast(pa.large_string())
    if kind is Kind.BOOLEAN:
        lower = text_bytes.least(cells) >= ord("a")
        return cells.cast(pa.large_string()) if lower else None
    if kind is Kind.NUMBER and not kinds & EXPONENT:
        return _plain_numbers(cells)
    if kind is Kind.DATE:
        return _quoted(cells.cast(pa.large_string()))
    return _instants(cells) if kind is Kind.TIMESTAMP else None


def _quoted(texts: pa.Array) -> Spelled:
    return canonical_text.joined('"', texts, '"') if texts.null_count else Quoted(texts)


def _only_nulls_empty(cells: pa.Array) -> bool:
    empty = np.diff(text_bytes.ends(cells)) == 0
    if not cells.null_count:
        return not empty.any()
    return bool((empty == cells.is_null().to_numpy(zero_copy_only=False)).all())


def _plain_numbers(cells: pa.Array) -> pa.Array | None:
    """Digits that a double keeps are its shortest, but for zeros after the point."""
    texts = cells.cast(pa.large_string())
    data, ends = text_bytes.written(texts), text_bytes.ends(texts)
    if not len(data) or not (data[ends[1:] - ends[0] - 1] == ord("0")).any():
        return texts
    points = np.count_nonzero(data == ord("."))
    if points < len(texts) - texts.null_count:  # some are integers, and keep their zeros
        return texts if not points else None
    trimmed = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    if (data == ord("-")).any():
        return pc.if_else(pc.equal(trimmed, "-0"), pa.scalar("0", pa.large_string()), trimmed)
    return trimmed


def _layout(length: int, before: int = 0) -> np.dtype[np.void]:
    """Where an instant's day and clock are in texts of one length: both are moved as a whole."""
    offsets = [before, before + len("2020-08-19T")]
    return np.dtype(
        {
            "names": ["day", "clock"],
            "formats": ["V10", "V8"],
            "offsets": offsets,
            "itemsize": length,
        }
    )


def _instants(cells: pa.Array) -> pa.Array | None:
    if cells.null_count == len(cells):
        return cells.cast(pa.large_string())
    valid = cells.drop_null() if cells.null_count else cells
    first = valid[0].as_py()
    if not _INSTANT.fullmatch(first) or not text_bytes.all_like(first, valid):
        return None
    given = text_bytes.written(valid).view(_layout(len(first)))
    whole = np.full(len(valid), _CANONICAL).view(_layout(_CANONICAL.itemsize, before=1))
    whole["day"], whole["clock"] = given["day"], given["clock"]
    digits = first.removesuffix("Z")[_FRACTION_AT:]
    if digits:
        rows = len(valid)
        to, from_ = (array.view(np.uint8).reshape(rows, -1) for array in (whole, given))
        stop = _FRACTION_AT + len(digits)
        to[:, 1 + _FRACTION_AT : 1 + stop] = from_[:, _FRACTION_AT:stop]
    lengths = np.zeros(len(cells), np.int64)
    lengths[cells.is_valid().to_numpy(zero_copy_only=False)] = whole.itemsize
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    written = pa.LargeStringArray.from_buffers(len(cells), pa.py_buffer(ends), pa.py_buffer(whole))
    nothing = pa.scalar(None, pa.large_string())
    return pc.if_else(cells.is_valid(), written, nothing) if cells.null_count else written
