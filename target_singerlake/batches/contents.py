"""What is in a file of records, told by its first bytes: labels are often wrong.

The SDK calls plain Parquet ``.gz`` and gzips what it calls ``none``. A file is read as a stream,
in a few megabytes of memory; only what must be read from its end, and is compressed or lies in a
bucket, goes through a temporary file.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from singerlake.errors import StoreError
from singerlake.plugins.quick_imports import spare_pandas
from singerlake.quantities import size
from singerlake.rows.given.byte_sources import DAMAGE
from target_singerlake.batches.files import COPY_BYTES, BatchFile, seekable
from target_singerlake.errors import InvalidLineError
from target_singerlake.reader import ChunkReader

if TYPE_CHECKING:
    from target_singerlake.batches.columns import Columns

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
PARQUET, ARROW_FILE, ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
JSONL = "jsonl"
KNOWN = frozenset({JSONL, "json", "ndjson", "parquet", "arrow", "feather", "ipc"})
"""What a message may call the format; which it is, the file says."""
PLAIN = frozenset({"", "none", "null", "uncompressed", "identity"})
"""What a message may call no compression; compressed, even an empty file has bytes."""
_BEGINS = 8
_BUFFER = 1 << 20
_APART = 1 << 20
"""A compressed file that is larger is inflated on a thread of its own."""


@dataclass(frozen=True)
class Encoding:
    """What a BATCH message says of its files.

    Attributes:
        format: In small letters; empty where it says nothing.
        compression: Likewise.
    """

    format: str = ""
    compression: str = ""


@contextmanager
def opened(file: BatchFile, said: Encoding, most: int) -> Iterator[Iterator[bytes] | Columns]:
    """Open a file of records.

    Args:
        file: The file.
        said: What its message says of it.
        most: Bytes that it may have, once it is inflated.

    Yields:
        Whole lines of JSON, about as many at a time as :class:`ChunkReader` gives; or columns.

    Raises:
        InvalidLineError: It is not there, cut off, too large or of no format that is known.
        SingerlakeError: It cannot be read.
    """
    with ExitStack() as stack:
        raw = stack.enter_context(file.open())
        begins, stream = _begins(raw)
        compressed = begins.startswith((GZIP, ZSTD))
        if compressed:
            with _told(file.name):
                inflating = stack.enter_context(_inflating(stream, gzip=begins.startswith(GZIP)))
                begins, stream = _begins(inflating)
        if begins.startswith((PARQUET, ARROW_FILE, ARROW_STREAM)):
            spare_pandas()
            from target_singerlake.batches.columns import Columns  # late: it brings pyarrow

            if compressed or not raw.seekable():
                pieces = _limited(iter(lambda: stream.read(COPY_BYTES), b""), file.name, most)
                raw = stack.enter_context(seekable(pieces, file.name))
            yield stack.enter_context(Columns(raw, begins, file.name, most))
            return
        _check_format(file.name, said, empty=not begins and not compressed)
        yield _limited(ChunkReader().chunks(stream), file.name, most)


def _begins(file: BinaryIO) -> tuple[bytes, BinaryIO]:
    """Look at the first bytes of a file; return them, and the file with them still to be read."""
    begins = b""
    while len(begins) < _BEGINS and (piece := file.read(_BEGINS - len(begins))):
        begins += piece
    if isinstance(file, io.FileIO):
        file.seek(0)
        return begins, file
    return begins, cast("BinaryIO", io.BufferedReader(_Again(begins, file), _BUFFER))


def _inflating(stream: BinaryIO, *, gzip: bool) -> BinaryIO:
    if not gzip:
        import pyarrow as pa  # late: few files need it

        return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd"))
    from isal import igzip, igzip_threaded  # three times as fast as Arrow's

    small = isinstance(stream, io.FileIO) and os.fstat(stream.fileno()).st_size < _APART
    if small:  # a thread would cost more than it saves
        return cast("BinaryIO", igzip.IGzipFile(fileobj=stream))  # type: ignore[no-untyped-call]
    opened = igzip_threaded.open(stream, "rb", block_size=_BUFFER // 4)  # type: ignore[no-untyped-call]
    return cast("BinaryIO", opened)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Tell of what is wrong with a compressed file, or with reading any, as ours.

    Raises:
        InvalidLineError: It is cut off or damaged.
        StoreError: The disk does not give it.
    """
    try:
        yield
    except DAMAGE as error:
        raise _damaged(name, error) from error
    except OSError as error:
        if error.errno is None:  # of the compression: the system's have a number
            raise _damaged(name, error) from error
        raise StoreError(f"{name} cannot be read: {error.strerror}") from error


def _damaged(name: str, error: Exception) -> InvalidLineError:
    return InvalidLineError(
        f"{name} is damaged or incomplete: {error}; have the tap write it again"
    )


def _limited(pieces: Iterator[bytes], name: str, most: int) -> Iterator[bytes]:
    """Pass on the bytes of a file, unless there are too many of them.

    Raises:
        InvalidLineError: There are, or it is cut off or damaged.
    """
    left = most
    while True:
        with _told(name):
            piece = next(pieces, None)
        if piece is None:
            return
        left -= len(piece)
        if left < 0:
            raise InvalidLineError(
                f"{name} has more than {size(most)} when decompressed, the maximum of "
                "batch_file_bytes"
            )
        yield piece
        del piece


def _check_format(name: str, said: Encoding, *, empty: bool) -> None:
    """Make sure that a file that begins as no other may be lines of JSON.

    Raises:
        InvalidLineError: It should be something else.
    """
    if said.format and said.format not in KNOWN:
        raise InvalidLineError(
            f"{name} is of the format {said.format[:40]!r}, and this target accepts jsonl, parquet "
            "and arrow: set another in the tap's batch_config"
        )
    other = said.format in KNOWN - {JSONL, "json", "ndjson"}
    if other or (empty and said.compression not in PLAIN):
        what = said.format if other else f"compressed by {said.compression[:40]!r}"
        raise InvalidLineError(
            f"{name} should be {what}, and {'is empty' if empty else 'does not begin as such'}: it "
            "is damaged or incomplete; have the tap write it again"
        )


class _Again(io.RawIOBase):
    """A file whose first bytes were read already; closing it leaves the file open."""

    def __init__(self, begins: bytes, file: BinaryIO) -> None:
        super().__init__()
        self._begins = io.BytesIO(begins)
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._begins.read(len(buffer)) or self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
