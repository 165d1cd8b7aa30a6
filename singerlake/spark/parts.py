"""Parquet files of an index, written and read on the executors through the lake's store."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from singerlake.format import names
from singerlake.storage.base import Staged, Store

if TYPE_CHECKING:
    from typing_extensions import Buffer

WRITTEN = "path string, rows long, bytes long"
"""What a writer says of each file, as Spark names it."""
BUFFER_BYTES = 4 << 20
BATCH_ROWS = 16_384
ROW_GROUP = 250_000
"""Rows that a Parquet file keeps together."""


class _Sink(io.RawIOBase):
    """A file object over what is being staged."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        whole = bytes(data)
        self._staged.write(whole)
        return len(whole)


@dataclass
class PartWriter:
    """Writes each partition of a frame as one Parquet file under a folder of the store.

    Attributes:
        store: The lake's store.
        folder: Key prefix of the index.
        schema: The files' schema; columns come in this order.
    """

    store: Store
    folder: str
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a partition; yields its file's name, rows and bytes."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        staged = self.store.stage()
        try:
            rows = self._write(staged, first, batches)
            name = names.index_part(uuid.uuid4().hex)
            staged.publish(self.folder + name)
            size = staged.size
        finally:
            staged.discard()
        yield pa.RecordBatch.from_pydict({"path": [name], "rows": [rows], "bytes": [size]})

    def remove(self, path: str) -> None:
        """Delete a file that no index names yet."""
        self.store.delete(self.folder + path)

    def _write(self, staged: Staged, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
        rows = 0
        with (
            io.BufferedWriter(_Sink(staged), BUFFER_BYTES) as sink,
            pq.ParquetWriter(
                sink, self.schema, compression="zstd", write_page_checksum=True
            ) as writer,
        ):
            for table in _grouped(self._named(first), (self._named(batch) for batch in rest)):
                writer.write_table(table, row_group_size=ROW_GROUP)
                rows += table.num_rows
        return rows

    def _named(self, batch: pa.RecordBatch) -> pa.Table:
        table = pa.Table.from_arrays(batch.columns, names=self.schema.names)
        return pa.Table.from_arrays(
            [
                column.cast(field.type)
                for column, field in zip(table.columns, self.schema, strict=True)
            ],
            schema=self.schema,
        )


def _grouped(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Tables of a row group's size out of small ones."""
    waiting, rows = [first], first.num_rows
    for table in rest:
        waiting.append(table)
        rows += table.num_rows
        if rows >= ROW_GROUP:
            yield pa.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


@dataclass
class PartReader:
    """Reads the Parquet files of an index where Spark itself cannot reach the store.

    Attributes:
        store: The lake's store.
        keys: The files; a task reads the one of its number.
        names: What to call their columns.
    """

    store: Store
    keys: list[str]
    names: list[str]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the files whose numbers come in."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                data = self.store.get(self.keys[number]).data
                file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
                for part in file.iter_batches(BATCH_ROWS):
                    yield part.rename_columns(self.names)
