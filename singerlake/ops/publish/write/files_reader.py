"""Reads published files back, with the columns that only their folders say."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from singerlake.errors import DamagedError
from singerlake.ops.publish.write.published_files import conformed
from singerlake.publish import partitions
from singerlake.publish.files import FileFormat
from singerlake.publish.files.base import Piece
from singerlake.publish.files.source import open_file
from singerlake.publish.projection import PartitionKey, Transform
from singerlake.publish.published import DataFile
from singerlake.rows.batches.steps import Batches
from singerlake.storage.base import KeyMissingError, Store

_UNREADABLE = (
    pa.ArrowException, KeyMissingError, OSError, EOFError, ValueError, TypeError, LookupError
)  # fmt: skip
"""What readers raise of a file that was cut, taken away, or replaced by another."""


@dataclass
class FilesReader:
    """Reads published files back.

    Attributes:
        files: Which.
        partition_by: What keeps them apart: columns that only their folders say are put back.
    """

    store: Store
    format: FileFormat
    files: Sequence[DataFile]
    partition_by: Sequence[PartitionKey]
    wanted: pa.Schema
    written: pa.Schema

    def read(self, file: DataFile) -> Batches:
        """Read one file.

        Raises:
            DamagedError: It is gone, or not as it was written.
        """
        with self._sound(file), open_file(self.store, file.path, file.bytes) as opened:
            yield from self._columns(file, partial(self.format.read, opened), self.wanted)

    def pieces(self, file: DataFile) -> Iterator[Piece]:
        """Give the pieces of a file, which is opened once.

        Raises:
            DamagedError: It is gone, or not as it was written.
        """
        with self._sound(file), open_file(self.store, file.path, file.bytes) as opened:
            for piece in self.format.pieces(opened):
                yield Piece(partial(self._soundly, file, piece.read), piece.bounds)

    def _soundly(
        self, file: DataFile, read: Callable[[pa.Schema], Batches], wanted: pa.Schema
    ) -> Batches:
        with self._sound(file):
            yield from self._columns(file, read, wanted)

    def _columns(
        self, file: DataFile, read: Callable[[pa.Schema], Batches], wanted: pa.Schema
    ) -> Batches:
        """Read the columns that a file has, and put those back that its folders say."""
        folders = {
            key.column: name
            for key, name in zip(self.partition_by, file.partition, strict=False)
            if key.transform is Transform.IDENTITY and key.column not in self.written.names
        }
        kept = pa.schema([one for one in wanted if one.name not in folders])
        for rows in read(kept):
            columns = [
                partitions.column_of(folders[one.name], one.type, rows.num_rows)
                if one.name in folders
                else rows.column(one.name)
                for one in wanted
            ]
            yield conformed(pa.RecordBatch.from_arrays(columns, names=wanted.names), wanted)

    @contextlib.contextmanager
    def _sound(self, file: DataFile) -> Iterator[None]:
        """Turn what readers raise of a file into an error that names it."""
        try:
            yield
        except _UNREADABLE as error:
            what = "is gone" if isinstance(error, KeyMissingError) else "is not as it was written"
            raise DamagedError(
                f"the published file {self.store.uri}/{file.path} {what}: publish with "
                "--full-refresh"
            ) from error
