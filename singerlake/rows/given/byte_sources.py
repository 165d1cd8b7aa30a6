"""Where a file's bytes come from: a path, or an object of a store, read in ranges by any task.

A source is small and can be pickled, so that each task reads its own part. Compressed files
are one stream, which only one task can read.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

from isal import igzip, isal_zlib

from singerlake.errors import DamagedError, NotFoundError, SingerlakeError, UsageError
from singerlake.storage.base import KeyMissingError, Store

CHUNK = 4 << 20
"""Bytes that are read at a time."""
_BEHIND = 64 << 10
"""Bytes that are read first behind the end of a range."""
DAMAGE = (EOFError, zlib.error, cast("type[Exception]", isal_zlib.error))
"""What is raised over compressed bytes that are none."""
_BROKEN = (*DAMAGE, OSError)
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class ByteSource(Protocol):
    """A file's bytes, which do not change while they are read."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def read(self, start: int, length: int) -> bytes:
        """Read a range; fewer bytes where the file ends earlier.

        Raises:
            SingerlakeError: It cannot be read, or is another file than it was.
        """


@dataclass(frozen=True)
class LocalFile:
    """A file that every task finds under the same path.

    Attributes:
        name: What messages call it.
        path: Where it is.
        size: How many bytes it has.
        modified: When it was last changed, in nanoseconds since 1970.
    """

    name: str
    path: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> LocalFile:
        """Look at a file.

        Raises:
            NotFoundError: There is none.
            UsageError: It is a folder, or a pipe.
            SingerlakeError: It may not be read.
        """
        try:
            if path.exists() and not path.is_file():
                raise UsageError(f"{path} is not a seekable file")
            with path.open("rb") as file:
                facts = os.fstat(file.fileno())
        except FileNotFoundError as error:
            raise NotFoundError(f"there is no file {path}") from error
        except OSError as error:
            raise SingerlakeError(f"{path} cannot be read: {error.strerror}") from error
        return cls(str(path), str(path.resolve()), facts.st_size, facts.st_mtime_ns)

    def read(self, start: int, length: int) -> bytes:
        """Read a range; see :class:`ByteSource`."""
        try:
            with Path(self.path).open("rb", buffering=0) as file:
                facts = os.fstat(file.fileno())
                if (facts.st_size, facts.st_mtime_ns) != (self.size, self.modified):
                    raise SingerlakeError(
                        f"{self.name} was changed while it was read: nothing was done; run it "
                        "again when the file is complete"
                    )
                return os.pread(file.fileno(), length, start)
        except OSError as error:
            away = error.errno == errno.ENOENT
            raise SingerlakeError(
                f"{self.name} cannot be read{' any more' * away}: {error.strerror}"
            ) from error


@dataclass(frozen=True)
class StoreFile:
    """An object of a store, such as a file that was staged there for a cluster's executors.

    Attributes:
        name: What messages call it.
        store: Where it lies.
        key: Its key there.
        size: How many bytes it has.
    """

    name: str
    store: Store
    key: str
    size: int

    def read(self, start: int, length: int) -> bytes:
        """Read a range; see :class:`ByteSource`."""
        try:
            return self.store.get_range(self.key, start, length)
        except KeyMissingError as error:
            raise SingerlakeError(f"{self.name} is missing from {self.store.uri}") from error


def compression_of(source: ByteSource) -> str | None:
    """Tell by its first bytes how a file is compressed: ``gzip``, ``zstd``, or not."""
    begins = source.read(0, 4)
    return next((name for magic, name in _MAGIC.items() if begins.startswith(magic)), None)


def encoding_of(begins: bytes) -> str | None:
    """Tell by a file's first bytes that a byte order mark says an encoding that is not UTF-8."""
    return next((codec for mark, codec in _MARKS.items() if begins.startswith(mark)), None)


def chunks(source: ByteSource, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Read a file from some byte to its end.

    Args:
        source: The file.
        start: The first byte wanted.
        stop: Where the caller hopes to end: a chunk ends there, and little is read at once of what
            is behind it.
    """
    behind = _BEHIND
    while start < source.size:
        if stop is None or start < stop:
            length = min(CHUNK, (stop or source.size) - start)
        else:
            length, behind = behind, min(CHUNK, 2 * behind)
        data = source.read(start, length)
        if not data:
            raise SingerlakeError(f"{source.name} is shorter than it was: it was cut off")
        yield data
        start += len(data)


def inflated(source: ByteSource, compression: str) -> Iterator[bytes]:
    """Read what is in a compressed file, from its beginning, in a few megabytes of memory.

    Raises:
        DamagedError: It is cut off, or damaged.
    """
    with _opened(source, compression) as file:
        while True:
            try:
                data = file.read(CHUNK)
            except SingerlakeError:
                raise
            except _BROKEN as error:
                raise DamagedError(
                    f"{source.name} is not a complete {compression} file: {error}; copy it again"
                ) from error
            if not data:
                return
            yield data


def _opened(source: ByteSource, compression: str) -> IO[bytes]:
    raw = io.BufferedReader(_Reading(source), CHUNK)
    file: IO[bytes]
    if compression == "gzip":  # three times as fast as Arrow's
        file = igzip.IGzipFile(fileobj=raw)  # type: ignore[no-untyped-call, assignment]
    else:
        import pyarrow as pa  # here: a command that names a file may not need it

        file = pa.CompressedInputStream(pa.PythonFile(raw, "r"), compression)
    return file


class _Reading(io.RawIOBase):
    """A source as a file that is read from its beginning to its end."""

    def __init__(self, source: ByteSource) -> None:
        super().__init__()
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._source.read(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
