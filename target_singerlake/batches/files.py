"""Files of records where they lie: on this machine, or in a bucket."""

from __future__ import annotations

import functools
import io
import os
import tempfile
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from singerlake.errors import DamagedError, SingerlakeError, StoreError
from singerlake.storage.base import KeyExistsError, KeyMissingError
from singerlake.storage.local import files
from singerlake.storage.opening import open_store
from singerlake.storage.options import StoreOptions
from target_singerlake.errors import InvalidLineError

if TYPE_CHECKING:
    from singerlake.storage.object_store.store import ObjectStore
    from singerlake.storage.s3.store import S3Store

PIECE_BYTES = 4 << 20
"""Bytes of an object that are asked for at once."""
COPY_BYTES = 1 << 20
"""Bytes that go into a temporary file at once."""


class BatchFile(Protocol):
    """A file that a manifest names."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def place(self) -> Hashable:
        """Where it is; the same for every way to name it."""

    @property
    def identity(self) -> Hashable:
        """Which file it is, as far as that can be told before it is read: links are one file."""

    @property
    def size(self) -> int:
        """Its bytes; 0 where that costs a request."""

    def open(self) -> BinaryIO:
        """Open it for reading from its beginning; only a local one can be read from any place.

        Raises:
            InvalidLineError: It is not there, or no file.
            SingerlakeError: It cannot be read.
        """

    def remove(self) -> bool:
        """Delete it, unless it is not there any more; call :meth:`open` before.

        Returns:
            Whether it was left because it is another than was read.

        Raises:
            SingerlakeError: It cannot be deleted.
        """


@dataclass
class LocalBatchFile:
    """A file of this machine, below a folder that is trusted.

    Attributes:
        root: The folder, without links on the way to it.
        parts: The names of the folders from there, and its own.
    """

    root: Path
    parts: tuple[str, ...]
    _facts: tuple[int, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """Its path."""
        return os.path.join(self.root, *self.parts)  # noqa: PTH118  # in a tenth of the time

    @property
    def place(self) -> Hashable:
        """Its path."""
        return self.name

    @property
    def identity(self) -> Hashable:
        """Its device and number there; its path if it is not there, which reading it tells."""
        try:
            about = os.stat(self.name, follow_symlinks=False)  # noqa: PTH116
        except OSError:
            return self.name
        return about.st_dev, about.st_ino

    @property
    def size(self) -> int:
        """Its bytes; 0 if it is not there, which reading it tells."""
        try:
            return os.stat(self.name, follow_symlinks=False).st_size  # noqa: PTH116
        except OSError:
            return 0

    def open(self) -> BinaryIO:
        """Open it; see :class:`BatchFile`."""
        try:
            opened = os.fdopen(files.open_file(self.root, self.parts), "rb", buffering=0)
        except DamagedError as error:
            what = str(error).rpartition(": ")[0]  # it was said of a lake's file: remove it
            raise InvalidLineError(f"{what}: correct the tap, which names it") from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _missing(self.name) from error
        except IsADirectoryError as error:
            raise InvalidLineError(f"{self.name} is a folder, where a file should be") from error
        except OSError as error:
            raise StoreError(f"{self.name} cannot be read: {error.strerror}") from error
        self._facts = _facts(os.fstat(opened.fileno()))
        return cast("BinaryIO", opened)

    def remove(self) -> bool:
        """Delete it; see :class:`BatchFile`."""
        try:
            with files.folder(self.root, self.parts[:-1]) as inner:
                about = os.stat(self.parts[-1], dir_fd=inner, follow_symlinks=False)
                if _facts(about) != self._facts:
                    return True
                os.unlink(self.parts[-1], dir_fd=inner)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreError(f"{self.name} cannot be deleted: {error.strerror}") from error
        return False


@dataclass
class ObjectBatchFile:
    """An object of a bucket or container.

    Attributes:
        bucket: Its URI, ``s3://bucket``, ``gs://bucket`` or ``az://container``.
        key: The object's whole name.
        options: How to reach the bucket.
    """

    bucket: str
    key: str
    options: StoreOptions
    _etag: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        """Its URI."""
        return f"{self.bucket}/{self.key}"

    @property
    def place(self) -> Hashable:
        """Its URI."""
        return self.name

    @property
    def identity(self) -> Hashable:
        """Its URI."""
        return self.name

    @property
    def size(self) -> int:
        """Not known before it is read."""
        return 0

    def open(self) -> BinaryIO:
        """Open it; see :class:`BatchFile`."""
        return cast("BinaryIO", io.BufferedReader(_Pieces(self._pieces())))

    def remove(self) -> bool:
        """Delete it; see :class:`BatchFile`."""
        store = _store(self.bucket, self.options)
        try:
            if store.etag(self.key) != self._etag:
                return True
        except KeyMissingError:
            return False
        store.delete(self.key)
        return False

    def _pieces(self) -> Iterator[bytes]:
        store = _store(self.bucket, self.options)
        try:
            self._etag = store.etag(self.key)
            yield from store.pieces(self.key, PIECE_BYTES)
            # On S3 each piece is asked for on condition that it is of the same object.
            if not self.bucket.startswith("s3:") and store.etag(self.key) != self._etag:
                raise KeyExistsError(self.name)
        except KeyMissingError as error:
            raise _missing(self.name) from error
        except KeyExistsError as error:
            raise InvalidLineError(f"{self.name} was changed while it was read") from error


class _Pieces(io.RawIOBase):
    """Pieces as they come, as a file that is read from its beginning to its end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            closing = getattr(self._pieces, "close", None)
            if closing is not None:
                closing()
        super().close()


def seekable(pieces: Iterator[bytes], name: str) -> BinaryIO:
    """Keep bytes in a temporary file, which is gone once it is closed.

    Args:
        pieces: The bytes.
        name: What messages call them.

    Raises:
        StoreError: The disk for temporary files is full.
    """
    file = None
    try:
        file = tempfile.TemporaryFile(prefix="singerlake-", suffix=".batch")  # noqa: SIM115
        for piece in pieces:
            file.write(piece)
        file.seek(0)
    except (OSError, SingerlakeError) as error:
        if file is not None:
            file.close()
        if isinstance(error, SingerlakeError):
            raise
        raise StoreError(
            f"cannot keep {name} in {tempfile.gettempdir()}: {error.strerror}: check that folder "
            "and its free space, or set TMPDIR to another"
        ) from error
    return cast("BinaryIO", file)


@functools.lru_cache(maxsize=16)
def _store(bucket: str, options: StoreOptions) -> S3Store | ObjectStore:
    return cast("S3Store | ObjectStore", open_store(bucket, options))


def _facts(about: os.stat_result) -> tuple[int, ...]:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _missing(name: str) -> InvalidLineError:
    return InvalidLineError(
        f"{name} does not exist: either it was deleted before it was read, or the tap's files are "
        "on another machine; have the tap write it again"
    )
