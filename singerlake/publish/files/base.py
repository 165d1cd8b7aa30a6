"""What every file format has: which types and compressions it knows, and a writer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa

from singerlake.errors import UsageError
from singerlake.publish.projection import Format, OrderKey
from singerlake.quantities import repeated


@dataclass(frozen=True)
class Layout:
    """How one file is to be written.

    Attributes:
        compression: One that the format knows.
        order_by: What its rows are ordered by: they come in that order.
        key: The columns by which a row is looked for.
    """

    compression: str
    order_by: tuple[OrderKey, ...] = ()
    key: tuple[str, ...] = ()


class FileWriter(ABC):
    """Writes one file, batch by batch. Memory stays the same, however long it becomes."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. They need not be in the file before :meth:`close`."""

    @property
    def waiting(self) -> int:
        """Bytes, about, that were taken and are not in the file yet."""
        return 0

    @abstractmethod
    def close(self) -> Mapping[str, Any]:
        """End the file; the file object stays open.

        Returns:
            What is known of the file, for ``DataFile.facts``.
        """


@dataclass(frozen=True)
class Piece:
    """Rows of a file that lie together.

    Attributes:
        read: Reads them, in their order; a column that the file has not is null.
        bounds: Of columns of which the file tells it, the least and the greatest value; null is
            none of them.
    """

    read: Callable[[pa.Schema], Iterator[pa.RecordBatch]]
    bounds: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


class FileFormat(ABC):
    """One way to write rows into a file.

    Attributes:
        format: Its name.
        compressions: Those that it knows; the first is usual.
        reads_back: Whether :meth:`read` gives exactly what was written.
    """

    format: ClassVar[Format]
    compressions: ClassVar[Sequence[str]]
    reads_back: ClassVar[bool] = False

    def compression(self, asked: str | None) -> str:
        """Give the compression to use.

        Raises:
            UsageError: The format does not know what was asked for.
        """
        if asked is not None and asked not in self.compressions:
            raise UsageError(
                f"{self.format} files cannot be compressed with {asked!r}: use "
                f"{', '.join(self.compressions)}"
            )
        return asked or self.compressions[0]

    def check(self, schema: pa.Schema) -> None:
        """Make sure that files can hold these columns.

        Raises:
            UsageError: The format has no such type. The message tells what to cast.
        """
        if twice := repeated(schema.names):
            raise UsageError(f"two columns are named {twice[0]!r}: rename one with AS")
        for one in schema:
            if (advice := self.advice(one.type)) is not None:
                raise UsageError(
                    f"{self.format} has no type for column {one.name!r} ({one.type}): {advice}"
                )

    @abstractmethod
    def advice(self, type_: pa.DataType) -> str | None:
        """Say what to do with a column of a type that files cannot hold; None if they can."""

    @abstractmethod
    def suffix(self, compression: str) -> str:
        """Give the end of a file's name, from the point on."""

    @abstractmethod
    def writer(self, out: BinaryIO, schema: pa.Schema, layout: Layout) -> FileWriter:
        """Begin a file.

        Args:
            out: Takes its bytes; it need not be seekable.
            schema: Its columns.
            layout: How they are to lie.
        """

    def read(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the rows of a file, in their order.

        Args:
            file: The file, seekable.
            schema: The columns that are wanted; one that the file has not is null.
        """
        raise NotImplementedError(f"{self.format} files are not read back")

    def pieces(self, file: BinaryIO) -> Iterator[Piece]:
        """Give the pieces of a file, each to be read before the next, as often as need be.

        Args:
            file: The file, seekable.
        """

        def whole(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            file.seek(0)
            return self.read(file, schema)

        yield Piece(whole)


def odd_advice(type_: pa.DataType) -> str | None:
    """Say what to do with a type that no format here takes; None for all others."""
    if pa.types.is_null(type_):
        return "it is always null: cast it to the type that it should have"
    if pa.types.is_duration(type_) or pa.types.is_interval(type_):
        return "cast it to a number of seconds, or to string"
    return None
