"""Looks for rows and texts in the columns of a Parquet file."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from singerlake.format import times
from singerlake.ops.erase import spelling
from singerlake.ops.erase.documents import OF_REJECTED, REFUSED, REFUSED_BASE64, Members
from singerlake.ops.erase.sought import Key, Sought, Text

BATCH_ROWS = 8192
_WITH_DICTIONARY = {"PLAIN", "PLAIN_DICTIONARY", "RLE", "RLE_DICTIONARY", "BIT_PACKED"}
_BUFFER_BYTES = 1 << 20
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
        wanted = sorted({*_key_columns(sought), *OF_REJECTED} & {*_names(file)})
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
    rows = _rows(batch.select([n for n, name in enumerate(batch.schema.names) if name in of_keys]))
    for key in sought:
        if isinstance(key, Key) and key.may_have(batch.schema.names):
            yield key, "a row of it", sum(map(key.is_row, rows))


def dictionaries(file: io.RawIOBase, metadata: pq.FileMetaData) -> Iterator[pa.RecordBatch]:
    """Read a row of each row group, of the columns of texts that have dictionaries.

    What a dictionary has need be in no row any more: a table of which rows were taken keeps it.
    """
    readers: dict[tuple[str, ...], pq.ParquetFile] = {}
    for n in range(metadata.num_row_groups):
        group = metadata.row_group(n)
        chunks = map(group.column, range(metadata.num_columns))
        columns = tuple(chunk.path_in_schema for chunk in chunks if _has_dictionary(chunk))
        if columns and columns not in readers:
            packed = pa.PythonFile(file, "r")
            readers[columns] = pq.ParquetFile(
                packed, metadata=metadata, read_dictionary=[*columns], buffer_size=_BUFFER_BYTES
            )
        if columns:
            # With the first row comes all of the dictionary, and little else.
            rows = readers[columns].iter_batches(
                1, row_groups=[n], columns=[*columns], use_threads=False
            )
            if (row := next(rows, None)) is not None:
                yield row


def search_dictionaries(
    batch: pa.RecordBatch, sought: Sequence[Sought]
) -> Iterator[tuple[Sought, str, int]]:
    """Look through the dictionaries of some rows' columns; see :func:`search`."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        where = f"the dictionary of column {name}"
        for leaf in _leaves(column, decoded=False):
            if not pa.types.is_dictionary(leaf.type):
                continue
            for one in sought:
                if isinstance(one, Text):
                    yield one, where, _count_leaf(leaf.dictionary, one)
                elif isinstance(one, Key) and pa.types.is_dictionary(column.type):
                    values = leaf.dictionary.to_pylist()
                    yield one, where, sum(one.is_row({name: value}) for value in values)


def unclaimed(metadata: pq.FileMetaData, size: int) -> Sequence[tuple[int, int]]:
    """Tell where a file has bytes that are no column's: from which byte up to which.

    Its metadata are among them, with the smallest and the largest values of columns.

    Args:
        size: How many bytes it has.
    """
    chunks = []
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
            chunks.append((start, start + chunk.total_compressed_size))
    found, at = [], 0
    for start, end in sorted(chunks):
        if start > at:
            found.append((at, start))
        at = max(at, end)
    return [*found, (min(at, size), size)]


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
    return "compressed documents in columns" if found else ""


def quoted(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Give the percent-encoded values of some rows' columns, or of their dictionaries, as lines."""
    for column in batch.columns:
        for leaf in _leaves(column, decoded=False):
            values = leaf.dictionary if pa.types.is_dictionary(leaf.type) else leaf
            if any(check(values.type) for check in _TEXTS):
                values = values.cast(pa.large_binary())
                flags = pc.match_substring_regex(values, pattern=spelling.QUOTED)
                yield b"\n".join(values.filter(flags).to_pylist())


def refused_lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Give the lines that rows keep as they were refused."""
    for name in {REFUSED, REFUSED_BASE64} & {*batch.schema.names}:
        for text in batch.column(name).to_pylist():
            if isinstance(text, str):
                yield decoded(text.encode()) if name == REFUSED_BASE64 else text.encode()


def decoded(text: bytes) -> bytes:
    """Decode Base64, as far as it goes; nothing where it is none."""
    try:
        return base64.b64decode(text[: len(text) // 4 * 4])
    except binascii.Error:
        return b""


def _names(file: pq.ParquetFile) -> list[str]:
    return list(file.schema_arrow.names)


def _rows(batch: pa.RecordBatch) -> Sequence[Mapping[str, Any]]:
    """The rows of a batch; of columns that are called alike, each value counts."""
    names = batch.schema.names
    if len({*names}) == len(names):
        rows: list[Mapping[str, Any]] = batch.to_pylist()
        return rows
    columns = [column.to_pylist() for column in batch.columns]
    return [Members(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _has_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    """Tell whether a column has one of texts, and otherwise pages that can be read with it."""
    return (
        chunk.has_dictionary_page
        and chunk.physical_type == "BYTE_ARRAY"
        and {*chunk.encodings} <= _WITH_DICTIONARY
    )


def _key_columns(sought: Sequence[Sought]) -> set[str]:
    keys = (one for one in sought if isinstance(one, Key))
    return {name for key in keys for names, _ in key.alternatives for name in names}


def _count(column: pa.Array, text: Text) -> int:
    """Count the values of a column that contain a text."""
    return sum(_count_leaf(leaf, text) for leaf in _leaves(column))


def _leaves(column: pa.Array, *, decoded: bool = True) -> Iterator[pa.Array]:
    """Give the values of a column that hold no others."""
    type_ = column.type
    within: Iterable[pa.Array] = ()
    if pa.types.is_struct(type_):
        within = column.flatten()
    elif any(check(type_) for check in _LISTS):
        within = [column.flatten()]
    elif pa.types.is_map(type_):
        within = [column.keys, column.items]
    elif decoded and pa.types.is_dictionary(type_):
        within = [column.dictionary_decode()]
    else:
        yield column
    for one in within:
        yield from _leaves(one, decoded=decoded)


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
