"""Parquet files of an index, written and read on the executors through the lake's store."""

from __future__ import annotations

import io
import json
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from singerlake.errors import DamagedError
from singerlake.format import names
from singerlake.rows.batches.row_columns import MISFITS, TYPES
from singerlake.rows.batches.steps import BATCH_ROWS, Batches
from singerlake.rows.blocks import block_tasks
from singerlake.storage.base import KeyMissingError, Staged, Store

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from typing_extensions import Buffer

WRITTEN = "path string, rows long, bytes long, hash string, misfits string"
"""What a writer gives for each file, as Spark names it."""
BUFFER_BYTES = 4 << 20
ROW_GROUP = 250_000
"""Rows that a Parquet file keeps together."""
_DICTIONARY_BYTES = 1 << 17
"""A column of more different values is written without a dictionary from there on. Arrow gives up
at a megabyte only, which takes a quarter more of the writer's time, and makes larger files."""


class IndexDamagedError(DamagedError):
    """A file of an index is not what it was; the blocks may be sound, and an index is a cache."""


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
        folder: Key prefix of the index.
        schema: The files' schema; columns come in this order.
    """

    store: Store
    folder: str
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Write a partition; gives what :data:`WRITTEN` names, misfits by column index."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        staged = self.store.stage()
        try:
            misfits: Counter[int] = Counter()
            rows, written_hash = self._write(staged, chain([first], batches), misfits)
            name = names.index_part(uuid.uuid4().hex)
            staged.publish(self.folder + name)
            size = staged.size
        finally:
            staged.discard()
        yield pa.RecordBatch.from_pydict(
            {
                "path": [name],
                "rows": [rows],
                "bytes": [size],
                "hash": [written_hash],
                "misfits": [json.dumps(dict(sorted(misfits.items())))],
            }
        )

    def remove(self, path: str) -> None:
        """Delete a file that no index names yet."""
        self.store.delete(self.folder + path)

    def _write(self, staged: Staged, batches: Batches, misfits: Counter[int]) -> tuple[int, str]:
        rows = 0
        raw = _Sink(staged)
        with (
            io.BufferedWriter(raw, BUFFER_BYTES) as sink,
            pq.ParquetWriter(
                sink,
                self.schema,
                compression="zstd",
                write_page_checksum=True,
                dictionary_pagesize_limit=_DICTIONARY_BYTES,
            ) as writer,
        ):
            for table in _grouped(self._renamed(batches, misfits)):
                writer.write_table(table, row_group_size=ROW_GROUP)
                rows += table.num_rows
        return rows, raw.hash.hexdigest()

    def _renamed(self, batches: Batches, misfits: Counter[int]) -> Iterator[pa.Table]:
        """Give batches under the files' names and types; their misfits are counted."""
        for batch in batches:
            misfits.update(_columns_of_misfits(batch.column(MISFITS)))
            columns = [
                column.cast(field.type)
                for column, field in zip(batch.columns, self.schema, strict=True)
            ]
            yield pa.Table.from_arrays(columns, schema=self.schema)


def _columns_of_misfits(misfits: pa.Array) -> Iterator[int]:
    """The column indexes of the values that do not fit, one for each value."""
    if misfits.null_count < len(misfits):
        yield from misfits.drop_null().keys.to_pylist()


def _grouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Tables of a row group's size out of small ones."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
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
        hash: That of its bytes, as its writer computed it.
    """

    key: str
    hash: str


class Share(NamedTuple):
    """A share of a file's row groups: of so many, the one of a number."""

    number: int
    of: int


WHOLE = Share(0, 1)


@dataclass
class PartReader:
    """Reads the Parquet files of an index in Python, and checks each against its hash.

    Attributes:
        parts: The files; a task reads the one of its number.
        names: What to call their columns.
        left_out: Those of ours that are not wanted; they are not read, and null.
        proven: Whether files in a folder of this machine were checked against their hashes
            just now. Of such files only what is wanted is read, and proved by its pages'
            checksums.
    """

    store: Store
    parts: list[Part]
    names: list[str]
    left_out: frozenset[str] = frozenset()
    proven: bool = False

    def __call__(self, numbers: Batches) -> Batches:
        """Read the files whose numbers come in."""
        for number in block_tasks.numbers(numbers):
            yield from self._rows(self.parts[number])

    def select(
        self,
        part: Part,
        wanted: Sequence[str],
        row_filter: pc.Expression | None = None,
        share: Share = WHOLE,
    ) -> Batches:
        """Read some columns of a file, by what they are called.

        Args:
            row_filter: Over the table's columns by their own names. Row groups that have no such
                row by their statistics are left out; other rows come all the same.
            share: Which of the row groups that are left.

        Raises:
            IndexDamagedError: The file is not what was written.
            KeyMissingError: It is gone.
        """
        with self._opened(part) as source:
            file = pq.ParquetFile(source, page_checksum_verification=self.proven)
            own = dict(zip(self.names, file.schema_arrow.names, strict=True))
            groups = [*range(file.num_row_groups)]
            if row_filter is not None:
                groups = self._groups(file, source, row_filter)
            groups = groups[share.number :: share.of]
            for batch in file.iter_batches(BATCH_ROWS, groups, [own[name] for name in wanted]):
                # By name: for "a", "a.b" is read as well.
                columns = [batch.column(own[name]) for name in wanted]
                yield pa.RecordBatch.from_arrays(columns, names=list(wanted))

    def groups(self, part: Part, row_filter: pc.Expression) -> int:
        """Count the row groups that :meth:`select` reads with a filter.

        Raises:
            IndexDamagedError: The file is not what was written.
            KeyMissingError: It is gone.
        """
        with self._opened(part) as source:
            return len(self._groups(pq.ParquetFile(source), source, row_filter))

    @contextmanager
    def _opened(self, part: Part) -> Iterator[pa.NativeFile]:
        path = self.store.local_path(part.key)
        if path is not None and self.proven:
            try:
                with pa.OSFile(str(path)) as source:
                    yield source
            except FileNotFoundError as error:
                raise KeyMissingError(f"{part.key} is missing") from error
            except (OSError, pa.ArrowInvalid) as error:
                raise damaged(part) from error
            return
        # Of what is got as a whole, a folder's store computes a tag first.
        data = (
            self.store.get(part.key).data
            if path is None
            else self.store.get_range(part.key, 0, sys.maxsize)
        )
        check_part(data, part)
        yield pa.BufferReader(data)

    def _groups(
        self, file: pq.ParquetFile, source: pa.NativeFile, row_filter: pc.Expression
    ) -> list[int]:
        """The row groups that may have rows which a filter keeps.

        Statistics know of no NaN, and doubles here have none: JSON has no way to write it.
        """
        from pyarrow.dataset import ParquetFileFormat

        own = [n for n, name in enumerate(self.names) if name not in TYPES]
        schema = pa.schema([file.schema_arrow.field(n) for n in own])
        fragment = ParquetFileFormat().make_fragment(source)
        return [group.id for group in fragment.subset(row_filter, schema=schema).row_groups]

    def _rows(self, part: Part) -> Batches:
        wanted = [name for name in self.names if name not in self.left_out]
        for batch in self.select(part, wanted):
            yield pa.RecordBatch.from_arrays(
                [
                    pa.nulls(len(batch), TYPES[name])
                    if name in self.left_out
                    else batch.column(name)
                    for name in self.names
                ],
                names=self.names,
            )


def check_part(data: bytes, part: Part) -> None:
    """Hold a file's bytes against the hash that its writer computed.

    Raises:
        IndexDamagedError: They are others.
    """
    if blake3(data).hexdigest() != part.hash:
        raise damaged(part)


def damaged(part: Part) -> IndexDamagedError:
    """Return the error of a file that is not what was written."""
    return IndexDamagedError(
        f"{part.key} is not as it was written: a materialized snapshot is only a cache: delete the "
        f"folder {part.key.rpartition('/')[0]}"
    )
