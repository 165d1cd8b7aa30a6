"""Parquet files of an index, written and read on the executors through the lake's store."""

from __future__ import annotations

import io
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from singerlake.format import names
from singerlake.spark.failures import IndexDamagedError
from singerlake.storage.base import Staged, Store

if TYPE_CHECKING:
    from typing_extensions import Buffer

WRITTEN = "path string, rows long, bytes long, hash string, misfits string"
"""What a writer says of each file, as Spark names it."""
BUFFER_BYTES = 4 << 20
BATCH_ROWS = 16_384
ROW_GROUP = 250_000
"""Rows that a Parquet file keeps together."""


class _Sink(io.RawIOBase):
    """A file object over what is being staged; knows the hash of all that went through."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged
        self.hash = blake3()

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        whole = bytes(data)
        self.hash.update(whole)
        self._staged.write(whole)
        return len(whole)


@dataclass
class PartWriter:
    """Writes each partition of a frame as one Parquet file under a folder of the store.

    Attributes:
        store: The lake's store.
        folder: Key prefix of the index.
        schema: The files' schema; columns come in this order.
        misfit: The place of the column that says what does not fit.
    """

    store: Store
    folder: str
    schema: pa.Schema
    misfit: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a partition; yields its file's name, rows, bytes, hash and misfits by place."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        staged = self.store.stage()
        try:
            misfits: Counter[int] = Counter()
            rows, found = self._write(staged, first, batches, misfits)
            name = names.index_part(uuid.uuid4().hex)
            staged.publish(self.folder + name)
            size = staged.size
        finally:
            staged.discard()
        said = json.dumps({str(place): count for place, count in sorted(misfits.items())})
        yield pa.RecordBatch.from_pydict(
            {
                "path": [name],
                "rows": [rows],
                "bytes": [size],
                "hash": [found],
                "misfits": [said],
            }
        )

    def remove(self, path: str) -> None:
        """Delete a file that no index names yet."""
        self.store.delete(self.folder + path)

    def _write(
        self,
        staged: Staged,
        first: pa.RecordBatch,
        rest: Iterator[pa.RecordBatch],
        misfits: Counter[int],
    ) -> tuple[int, str]:
        rows = 0
        raw = _Sink(staged)
        with (
            io.BufferedWriter(raw, BUFFER_BYTES) as sink,
            pq.ParquetWriter(
                sink, self.schema, compression="zstd", write_page_checksum=True
            ) as writer,
        ):
            for table in _grouped(self._named(first), (self._named(batch) for batch in rest)):
                writer.write_table(table, row_group_size=ROW_GROUP)
                rows += table.num_rows
                misfits.update(_misfits(table.column(self.misfit)))
        return rows, raw.hash.hexdigest()

    def _named(self, batch: pa.RecordBatch) -> pa.Table:
        table = pa.Table.from_arrays(batch.columns, names=self.schema.names)
        return pa.Table.from_arrays(
            [
                column.cast(field.type)
                for column, field in zip(table.columns, self.schema, strict=True)
            ],
            schema=self.schema,
        )


def _misfits(said: pa.ChunkedArray) -> Iterator[int]:
    """The places of the columns that values do not fit, one for each value."""
    for chunk in said.chunks:
        if chunk.null_count < len(chunk):
            yield from chunk.drop_null().keys.to_pylist()


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


class Part(NamedTuple):
    """A file of an index.

    Attributes:
        key: On the store.
        hash: That of its bytes, as its writer found it.
    """

    key: str
    hash: str


@dataclass
class PartReader:
    """Reads the Parquet files of an index in Python, and checks each against its hash.

    Attributes:
        store: The lake's store.
        parts: The files; a task reads the one of its number.
        names: What to call their columns.
        left_out: Those of ``names`` that nobody asks for; they are null.
    """

    store: Store
    parts: list[Part]
    names: list[str]
    left_out: frozenset[str] = frozenset()

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the files whose numbers come in."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._rows(self.parts[number])

    def _rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        data = self.store.get(part.key).data
        check_part(data, part)
        file = pq.ParquetFile(pa.BufferReader(data))
        for batch in file.iter_batches(BATCH_ROWS):
            yield pa.RecordBatch.from_arrays(
                [
                    pa.nulls(len(column), column.type) if name in self.left_out else column
                    for name, column in zip(self.names, batch.columns, strict=True)
                ],
                names=self.names,
            )


def check_part(data: bytes, part: Part) -> None:
    """Hold a file's bytes against the hash that its writer found.

    Raises:
        IndexDamagedError: They are others.
    """
    if blake3(data).hexdigest() != part.hash:
        raise IndexDamagedError(
            f"{part.key} is not as it was written: an index is only a cache, delete the folder "
            f"{part.key.rpartition('/')[0]}"
        )
