"""Keys of a block's rows and their positions, read without the rest of them.

What decides which rows make the state is the key and the position, a few of a row's bytes. So
these go first, and alone, through Spark's shuffle; the rows that won are read then. Most keys
are integers or strings under an unchanged schema: msgspec reads only these out of a line and
skips over the rest, twice as fast as pyarrow.json can. Anything else is read as ``decoding.py``
reads it.

Keys are compared as Arrow compares them. Kinds that it compares otherwise than Spark does, or
not at all, are turned first: -0.0 into 0.0, structs and lists into their canonical text.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.errors import DataError
from singerlake.format import block as format_block
from singerlake.format.types import TEXT, Columns, Kind, Type
from singerlake.rows.batches.packing import one_array
from singerlake.rows.batches.row_columns import alias, aliases
from singerlake.rows.blocks import bounded_keys, decoding, positions
from singerlake.rows.blocks.decoding import BlockSpec
from singerlake.rows.columns import canonical_text, key_text
from singerlake.rows.columns.arrow_types import arrow_type

AT = "at"
"""The column of positions, as codes, by which rows are compared."""


def read(text: bytes, spec: BlockSpec) -> pa.Table:
    """Read the keys of an inflated block's rows, and where each row is.

    Args:
        spec: Its ``target`` are the key columns.

    Returns:
        The key columns ``c0``, ``c1``, …, fit to be compared, then ``at``.

    Raises:
        DamagedError: As ``decoding.read``.
    """
    arrays = _read_plain(text, spec)
    if arrays is None:
        arrays = _read_as_texts(text, spec) or decoding.read(text, spec).columns
        arrays = arrays[: len(spec.target)]
    return table(arrays, spec.target, positions.of_block(text, spec.block))


def table(arrays: list[pa.Array], columns: Columns, codes: NDArray[np.int64]) -> pa.Table:
    """Make the same of key columns that are read already, and of their rows' positions."""
    return pa.table([*compared(arrays, columns), pa.array(codes)], [*aliases(len(arrays)), AT])


def none(columns: Columns) -> pa.Table:
    """Make what :func:`read` gives of no row at all."""
    arrays = [pa.nulls(0, arrow_type(type_)) for _, type_ in columns]
    return table(arrays, columns, np.empty(0, dtype=np.int64))


def compared(arrays: list[pa.Array], columns: Columns) -> list[pa.Array]:
    """Make key columns fit to be compared."""
    return [_compared(array, type_) for array, (_, type_) in zip(arrays, columns, strict=True)]


def compared_columns(columns: Columns) -> Columns:
    """Return a key's columns, as keys are compared: objects and lists by their text."""
    return tuple(
        (name, TEXT if type_.kind in (Kind.STRUCT, Kind.LIST) else type_) for name, type_ in columns
    )


def newest(tables: list[pa.Table], *, apart: bool) -> pa.Table:
    """Find the newest row of each key in what :func:`read` gave.

    Args:
        apart: Whether a row with a null in its key is a row of its own, as in a ``Shape``.
    """
    whole = pa.concat_tables(tables)
    own = lacking(whole.drop_columns([AT])) if apart else None
    rows = whole if own is None else whole.filter(pa.array(~own))
    grouped = rows.group_by(rows.column_names[:-1], use_threads=False)
    found = grouped.aggregate([(AT, "max")]).rename_columns(rows.column_names)
    return found if own is None else pa.concat_tables([found, whole.filter(pa.array(own))])


def lacking(rows: pa.Table) -> NDArray[np.bool_] | None:
    """Tell which keys have a null in them; None where none has."""
    masks = [column.is_null().to_numpy() for column in rows.columns if column.null_count]
    return np.logical_or.reduce(masks) if masks else None


def numbered(rows: pa.Table, *, apart: bool = True) -> NDArray[np.int64]:
    """Number keys from 0, equal ones alike.

    Args:
        rows: The key columns, fit to be compared.
        apart: Whether each with a null in it has a number of its own.
    """
    codes = _numbered(rows)
    if apart and (own := lacking(rows)) is not None:
        codes = codes.copy()
        codes[own] = codes.max() + 1 + np.arange(np.count_nonzero(own))
    return codes


def _numbered(rows: pa.Table) -> NDArray[np.int64]:
    codes = np.zeros(len(rows), dtype=np.int64)
    for column in rows.columns:
        encoded = one_array(column).dictionary_encode(null_encoding="encode")
        numbers: NDArray[np.int64] = encoded.indices.to_numpy().astype(np.int64)
        if len(rows.columns) == 1:
            return numbers
        mixed = codes * len(encoded.dictionary) + numbers
        codes = np.unique(mixed, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return codes


def split_by_key(rows: pa.Table, parts: int) -> list[pa.Table]:
    """Split rows that :func:`read` gave into parts, equal keys into the same one everywhere."""
    part = parts_of(rows.drop_columns([AT]), parts)
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(parts + 1))
    sorted_ = rows.take(pa.array(order))
    return [sorted_.slice(a, b - a) for a, b in pairwise(ends)]


def parts_of(rows: pa.Table, parts: int) -> NDArray[np.int64]:
    """Return the part of each row: the same for equal keys, everywhere.

    Args:
        rows: The key columns, fit to be compared.
    """
    hashes = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.columns if parts > 1 else ():
        hashes = hashes * np.uint64(31) + _hashes(column)
    part: NDArray[np.int64] = (hashes % np.uint64(parts)).astype(np.int64)
    return part


def _hashes(column: pa.ChunkedArray) -> NDArray[np.uint64]:
    """The same on every machine. Which part a null goes to is all the same."""
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.int64())
    if pa.types.is_integer(column.type):
        return _mixed(pc.fill_null(column, 0).to_numpy().astype(np.int64).view(np.uint64))
    texts = pc.cast(pc.cast(column, pa.string()), pa.binary()).fill_null(b"")
    sums = np.fromiter(map(crc32, texts.to_pylist()), np.uint32, len(texts))
    return sums.astype(np.uint64)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Make each bit depend on all bits of a number, as SplitMix64 does."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = numbers ^ (numbers >> np.uint64(31))
    return mixed


def _compared(array: pa.Array, type_: Type) -> pa.Array:
    if type_.kind in (Kind.STRUCT, Kind.LIST):
        return canonical_text.texts(array, type_)
    return pc.add(array, 0.0) if type_.kind is Kind.NUMBER else array


def _read_as_texts(text: bytes, spec: BlockSpec) -> list[pa.Array] | None:
    """Read columns of ``types.identity`` by their own types, whole, where no value is rounded."""
    source = dict(spec.source)
    made = {
        name
        for name, type_ in spec.target
        if type_.own is not None and source.get(name, TEXT).kind is not Kind.TEXT
    }
    if not made:
        return None
    target = tuple((n, t.own if n in made and t.own else t) for n, t in spec.target)
    try:
        arrays = decoding.read(text, replace(spec, target=target, lenient=False)).columns
    except DataError:
        return None
    return [
        key_text.of_values(array, type_) if name in made else array
        for array, (name, type_) in zip(arrays, target, strict=False)
    ]


def _read_plain(text: bytes, spec: BlockSpec) -> list[pa.Array] | None:
    source = dict(spec.source)
    lines = format_block.after_schema(text)
    if not spec.defaults.keys().isdisjoint(name for name, _ in spec.target):
        return None
    if (
        any(source.get(n) != t or t.kind not in bounded_keys.PLAIN for n, t in spec.target)
        or not lines
    ):
        return None
    wanted = spec.in_records(spec.target)
    decoder = bounded_keys.decoder_of(tuple((name, type_.kind) for name, type_ in wanted))
    if decoder is None:
        return None
    try:
        messages = decoder.decode_lines(lines)
        if len(messages) != format_block.line_ends(text) - 1 or text[-1:] != b"\n":
            return None  # several values on a line, or an empty one
        if spec.block.activations:
            messages = bounded_keys.records(messages)
        if len(messages) != spec.block.rows:
            return None
        return [
            # In a fifth of the time of a comprehension, which looks each name up for each row.
            pa.array(list(map(attrgetter(f"record.{alias(i)}"), messages)), arrow_type(type_))
            for i, (_, type_) in enumerate(spec.target)
        ]
    except (msgspec.DecodeError, ValueError, RecursionError, OverflowError, pa.ArrowException):
        return None
