"""Looks for rows and texts in the columns of a Parquet file."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from singerlake.erasure.sought import Key, Sought, Text
from singerlake.format import times

BATCH_ROWS = 8192
REFUSED, REFUSED_BASE64 = "message", "message_base64"
"""Columns of refused lines, in the tables that keep them."""
_TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def batches(file: pq.ParquetFile, sought: Sequence[Sought]) -> Iterator[pa.RecordBatch]:
    """Read a file, some rows at a time, and of its columns those that what is sought may be in."""
    wanted = None
    if not any(isinstance(one, Text) for one in sought):
        wanted = sorted({*_key_columns(sought), REFUSED, REFUSED_BASE64} & {*_names(file)})
    if wanted != []:
        yield from file.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False)


def search(batch: pa.RecordBatch, sought: Sequence[Sought]) -> Iterator[tuple[Sought, str, int]]:
    """Look through some rows.

    Yields:
        What was found, where in words, and how often.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for one in sought:
            if isinstance(one, Text):
                yield one, f"column {name}", _count(column, one)
    of_keys = _key_columns(sought)
    rows = batch.select([name for name in batch.schema.names if name in of_keys]).to_pylist()
    for key in sought:
        if isinstance(key, Key):
            yield key, "a row of it", sum(map(key.is_row, rows))


def packed(batch: pa.RecordBatch, kinds: Mapping[bytes, str]) -> str:
    """Tell what some rows' binary values are whose text is packed; nothing where none is.

    Args:
        batch: The rows.
        kinds: How such values begin, and what they are in words.
    """
    pattern = rb"\A(?:" + b"|".join(_literal(magic) for magic in kinds) + b")"
    found = any(
        pc.any(pc.match_substring_regex(leaf.cast(pa.large_binary()), pattern=pattern)).as_py()
        for column in batch.columns
        for leaf in _leaves(column)
        if any(check(leaf.type) for check in _BINARIES)
    )
    return "packed documents in columns" if found else ""


def refused_lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Give the lines that rows keep as they were refused."""
    for name in {REFUSED, REFUSED_BASE64} & {*batch.schema.names}:
        for text in batch.column(name).to_pylist():
            if isinstance(text, str):
                yield decoded(text.encode()) if name == REFUSED_BASE64 else text.encode()


def decoded(text: bytes) -> bytes:
    """Decode Base64; nothing where it is none."""
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _names(file: pq.ParquetFile) -> list[str]:
    return list(file.schema_arrow.names)


def _key_columns(sought: Sequence[Sought]) -> set[str]:
    keys = (one for one in sought if isinstance(one, Key))
    return {name for key in keys for names, _ in key.alternatives for name in names}


def _count(column: pa.Array, text: Text) -> int:
    """How many values of a column have a text in them."""
    return sum(_count_leaf(leaf, text) for leaf in _leaves(column))


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Give the values of a column that hold no others."""
    type_ = column.type
    within: Iterable[pa.Array] = ()
    if pa.types.is_struct(type_):
        within = column.flatten()
    elif any(check(type_) for check in _LISTS):
        within = [column.flatten()]
    elif pa.types.is_map(type_):
        within = [column.keys, column.items]
    elif pa.types.is_dictionary(type_):
        within = [column.dictionary_decode()]
    else:
        yield column
    for one in within:
        yield from _leaves(one)


def _count_leaf(column: pa.Array, text: Text) -> int:
    type_ = column.type
    if any(check(type_) for check in _TEXTS):
        return _matching(column.cast(pa.large_binary()), text.pattern)
    at_instant = 0
    if pa.types.is_timestamp(type_) and (instant := times.parse(text.text)) is not None:
        at_instant = _true(
            pc.equal(column.cast(pa.timestamp("us", "UTC"), safe=False), pa.scalar(instant))
        )
    spelled = column.cast(pa.large_string()).cast(pa.large_binary())
    return max(at_instant, _matching(spelled, text.pattern))


def _matching(values: pa.Array, pattern: bytes) -> int:
    return _true(pc.match_substring_regex(values, pattern=pattern))


def _literal(data: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in data)


def _true(flags: Any) -> int:
    return int(pc.sum(flags).as_py() or 0)
