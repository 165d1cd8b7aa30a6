"""Which row is where: the keys of a block's rows, read without the rest of them.

What decides which rows make the state is the key and the position, a few of a row's bytes. So
these go first, and alone, through Spark's shuffle; the rows that won are read then. Most keys
are integers or strings under an unchanged schema: msgspec reads only these out of a line and
skips over the rest, twice as fast as pyarrow.json can. Anything else is read as ``rows.py``
reads it.

Keys are compared as Arrow compares them. Kinds that it compares otherwise than Spark does, or
not at all, are turned first: -0.0 into 0.0, structs and lists into their canonical text.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.format import block as format_block
from singerlake.format import rewritten
from singerlake.format.log import Block
from singerlake.spark import canonical, rows
from singerlake.spark.columns import Columns, Kind, Type, arrow_type
from singerlake.spark.rows import BlockRows

AT = "at"
"""A position as one number, by which rows are compared: block times 2^31, plus ordinal."""
_ORDINAL_BITS = 31
_PLAIN: dict[Kind, type] = {Kind.INTEGER: int, Kind.STRING: str}


def codes(blocks: NDArray[np.int64], ordinals: NDArray[Any]) -> NDArray[np.int64]:
    """Positions as numbers."""
    return (blocks << _ORDINAL_BITS) | ordinals.astype(np.int64)


def blocks_of(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The block that each of some positions names."""
    return places >> _ORDINAL_BITS


def positions(text: bytes, block: Block) -> NDArray[np.int64]:
    """The position of each row of an inflated block, rising.

    Raises:
        DamagedError: A block that a vacuum put together does not say.
    """
    if not block.rewritten:
        first = block.number << _ORDINAL_BITS
        return np.arange(first, first + block.rows, dtype=np.int64)
    found = np.array(rewritten.positions(text, block), dtype=np.int64).reshape(-1, 2)
    return codes(found[:, 0], found[:, 1])


def read(text: bytes, about: BlockRows) -> pa.Table:
    """The keys of an inflated block's rows, and where each row is.

    Args:
        text: The block.
        about: Its ``target`` are the key columns.

    Returns:
        The key columns ``c0``, ``c1``, …, fit to be compared, then ``at``.

    Raises:
        DamagedError: As ``rows.read``.
    """
    arrays = _read_plain(text, about)
    if arrays is None:
        arrays = rows.read(text, about).columns[: len(about.target)]
    return table(arrays, about.target, positions(text, about.block))


def table(arrays: list[pa.Array], columns: Columns, places: NDArray[np.int64]) -> pa.Table:
    """The same of key columns that are read already, and of their rows' positions."""
    compared = [_compared(array, type_) for array, (_, type_) in zip(arrays, columns, strict=True)]
    names = [*(f"c{place}" for place in range(len(arrays))), AT]
    return pa.table([*compared, pa.array(places)], names)


def newest(tables: list[pa.Table]) -> pa.Table:
    """Of what :func:`read` gave, the newest row of each key."""
    whole = pa.concat_tables(tables)
    found = whole.group_by(whole.column_names[:-1], use_threads=False).aggregate([(AT, "max")])
    return found.rename_columns(whole.column_names)


def shared_out(found: pa.Table, parts: int) -> list[pa.Table]:
    """Rows that :func:`read` gave in so many parts, equal keys in the same one everywhere."""
    hashes = np.zeros(len(found), dtype=np.uint64)
    for column in found.columns[:-1]:
        hashes = hashes * np.uint64(31) + _hashes(column)
    part = (hashes % np.uint64(parts)).astype(np.int64)
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(parts + 1))
    sorted_ = found.take(pa.array(order))
    return [sorted_.slice(a, b - a) for a, b in pairwise(ends)]


def _hashes(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    import pandas as pd  # takes longer to import than a small table to read

    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.int64())
    if not pa.types.is_integer(column.type):
        column = pc.cast(column, pa.string())
        values = column.to_numpy()
        values[values == None] = ""  # noqa: E711  # which part a null goes to is all the same
    else:
        values = pc.fill_null(column, 0).to_numpy()
    # The same on every machine: its key is a constant.
    hashes: NDArray[np.uint64] = pd.util.hash_array(values, categorize=False)
    return hashes


def _compared(array: pa.Array, type_: Type) -> pa.Array:
    if type_.kind in (Kind.STRUCT, Kind.LIST):
        return canonical.texts(array, type_)
    return pc.add(array, 0.0) if type_.kind is Kind.NUMBER else array


def _read_plain(text: bytes, about: BlockRows) -> list[pa.Array] | None:
    source = dict(about.source)
    lines = format_block.after_schema(text)
    if any(source.get(n) != t or t.kind not in _PLAIN for n, t in about.target) or not lines:
        return None
    decoder = _decoder(tuple((name, type_.kind) for name, type_ in about.target))
    if decoder is None:
        return None
    try:
        found = decoder.decode_lines(lines)
        if len(found) != format_block.line_ends(text) - 1 or text[-1:] != b"\n":
            return None  # several values on a line, or an empty one
        if about.block.activations:
            found = [message for message in found if type(message) is not _Activation]
        if len(found) != about.block.rows:
            return None
        return [
            pa.array([getattr(m.record, f"c{place}") for m in found], arrow_type(type_))
            for place, (_, type_) in enumerate(about.target)
        ]
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError, pa.ArrowException):
        return None


class _Activation(msgspec.Struct, tag="ACTIVATE_VERSION", tag_field="type", gc=False):
    pass


@lru_cache(maxsize=64)
def _decoder(keys: tuple[tuple[str, Kind], ...]) -> msgspec.json.Decoder[Any] | None:
    fields: list[tuple[str, Any, Any]] = [
        (f"c{place}", _PLAIN[kind] | None, None) for place, (_, kind) in enumerate(keys)
    ]
    own = {f"c{place}": name for place, (name, _) in enumerate(keys)}
    try:
        record = msgspec.defstruct("Keys", fields, rename=own, gc=False)
        line = msgspec.defstruct(
            "Record", [("record", record)], tag="RECORD", tag_field="type", gc=False
        )
        return msgspec.json.Decoder(line | _Activation)
    except ValueError:  # a name with a quote or a control character in it
        return None
