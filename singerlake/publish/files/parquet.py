"""Parquet files that prune well: row groups of one size, statistics, page index, Bloom filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from singerlake.publish.bounds import Bounds, bounds_of, has_bounds, shortened
from singerlake.publish.files.base import FileFormat, FileWriter, Layout, Piece, odd_advice
from singerlake.publish.projection import Format, OrderKey

GROUP_ROWS = 122_880
"""Rows of a row group, as DuckDB has it: a reader of one key decompresses no more than these."""
GROUP_BYTES = 64 << 20
"""Bytes of Arrow at which a row group ends all the same: what a writer holds in memory."""
FALSE_POSITIVES = 0.01
COLUMNS = "columns"
"""In ``DataFile.facts``: of each column that has bounds these, by its name."""


class Parquet(FileFormat):
    """Parquet, by pyarrow."""

    format = Format.PARQUET
    compressions: ClassVar[Sequence[str]] = (
        "zstd", "snappy", "gzip", "lz4", "brotli", "none",
    )  # fmt: skip
    reads_back = True

    def advice(self, type_: pa.DataType) -> str | None:
        """Every type but intervals, and columns of nothing."""
        return _advice(type_)

    def suffix(self, compression: str) -> str:  # noqa: ARG002
        """Compression shows inside."""
        return ".parquet"

    def writer(self, out: BinaryIO, schema: pa.Schema, layout: Layout) -> FileWriter:
        """Begin a file."""
        return _Writer(out, schema, layout)

    def read(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read row group by row group."""
        parquet = pq.ParquetFile(file)
        yield from _rows(parquet, schema, range(parquet.num_row_groups))

    def pieces(self, file: BinaryIO) -> Iterator[Piece]:
        """Give the row groups, with what their statistics say."""
        parquet = pq.ParquetFile(file)
        for number in range(parquet.num_row_groups):
            yield Piece(partial(_rows, parquet, groups=[number]), _told(parquet, number))


def _rows(
    parquet: pq.ParquetFile, schema: pa.Schema, groups: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    there = [name for name in schema.names if name in parquet.schema_arrow.names]
    for batch in parquet.iter_batches(columns=there, row_groups=groups):
        columns = [
            batch.column(field.name).cast(field.type)
            if field.name in there
            else pa.nulls(batch.num_rows, field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _told(parquet: pq.ParquetFile, number: int) -> dict[str, tuple[Any, Any]]:
    """The bounds of a row group's whole numbers and texts, which Parquet keeps as they are."""
    group, found = parquet.metadata.row_group(number), {}
    types = {field.name: field.type for field in parquet.schema_arrow}
    for index in range(group.num_columns):
        column, leaf = group.column(index), parquet.schema.column(index)
        if leaf.path != leaf.name:
            continue  # a member "b" of "a" has the path of a column "a.b"
        type_ = types[leaf.name]
        if not (pa.types.is_integer(type_) or pa.types.is_string(type_)):
            continue
        if (known := column.statistics) is not None and known.has_min_max:
            found[leaf.name] = (known.min, known.max)
    return found


def _advice(type_: pa.DataType) -> str | None:
    inner = (_advice(type_.field(i).type) for i in range(type_.num_fields))
    return odd_advice(type_) or next((said for said in inner if said), None)


def sorting_columns(schema: pa.Schema, order_by: Sequence[OrderKey]) -> list[pq.SortingColumn]:
    """Say what rows are sorted by, in Parquet's own words; nulls are last."""
    # Parquet counts leaves: a struct before the column has as many as it has members.
    leaves = [_leaves(field.type) for field in schema]
    found = []
    for key in order_by:
        index = schema.get_field_index(key.column)
        if index < 0 or schema.field(index).type.num_fields:
            break  # the rest says nothing without it
        found.append(pq.SortingColumn(sum(leaves[:index]), key.descending, nulls_first=False))
    return found


def _leaves(type_: pa.DataType) -> int:
    count = sum(_leaves(type_.field(i).type) for i in range(type_.num_fields))
    return count or 1


class _Writer(FileWriter):
    def __init__(self, out: BinaryIO, schema: pa.Schema, layout: Layout) -> None:
        self._schema = schema
        self._rows: list[pa.RecordBatch] = []
        self._count = self._bytes = 0
        self._bounds = {field.name: Bounds() for field in schema if has_bounds(field.type)}
        self._nulls = {field.name: 0 for field in schema}
        # Where rows lie in the order of the key, statistics alone find a row group.
        first = layout.order_by[0].column if layout.order_by else ""
        filtered = [
            name
            for name in layout.key
            if name != first and name in schema.names and _can_be_filtered(schema.field(name).type)
        ]
        options = {"ndv": GROUP_ROWS, "fpp": FALSE_POSITIVES}
        self._writer = pq.ParquetWriter(
            out,
            schema,
            compression=layout.compression,
            **_encodings(schema),
            write_page_index=True,
            sorting_columns=sorting_columns(schema, layout.order_by) or None,
            bloom_filter_options=dict.fromkeys(filtered, options) or None,
        )

    @property
    def waiting(self) -> int:
        # Compressed it is about a quarter; it is only to know when a file is full.
        return self._bytes // 4

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            some = batch.slice(0, GROUP_ROWS - self._count)
            self._rows.append(some)
            self._count += some.num_rows
            self._bytes += some.nbytes
            if self._count == GROUP_ROWS or self._bytes >= GROUP_BYTES:
                self._flush()
            batch = batch.slice(some.num_rows)

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._rows, self._schema)
        for name, before in self._bounds.items():
            self._bounds[name] = before.with_more(bounds_of(rows.column(name)))
        for name in self._nulls:
            self._nulls[name] += rows.column(name).null_count
        self._writer.write_table(rows, row_group_size=len(rows))
        self._rows, self._count, self._bytes = [], 0, 0

    def close(self) -> Mapping[str, Any]:
        if self._rows:
            self._flush()
        self._writer.close()
        known = {name: shortened(bounds) for name, bounds in self._bounds.items()}
        rest = {name: Bounds(nulls=count) for name, count in self._nulls.items()}
        return {COLUMNS: {**rest, **known}}


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Choose how values are spelled: half the size of a dictionary for every column.

    Whole numbers and times as differences, which are small where rows are in order; a dictionary
    only for texts, which repeat.
    """
    of_texts = [one.name for one in schema if pa.types.is_string(one.type)]
    whole = (
        pa.types.is_integer,
        pa.types.is_timestamp,
        pa.types.is_date32,
    )
    # Encodings are said by path: that of a column "a.b" may be that of a member of "a" as well.
    nested = tuple(f"{one.name}." for one in schema if one.type.num_fields)
    numbers = [
        one.name
        for one in schema
        if any(known(one.type) for known in whole) and not one.name.startswith(nested)
    ]
    return {
        "use_dictionary": of_texts,
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED") or None,
    }


def _can_be_filtered(type_: pa.DataType) -> bool:
    return not (type_.num_fields or pa.types.is_boolean(type_))
