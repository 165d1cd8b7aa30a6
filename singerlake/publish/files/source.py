"""A file of a store as a file object, read in the ranges that a format's reader asks for."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, cast

from singerlake.storage.base import Store

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE = 4 << 20
"""Bytes that are read at once, at least."""


def open_file(store: Store, key: str, size: int) -> BinaryIO:
    """Open an object for reading."""
    return cast("BinaryIO", io.BufferedReader(_Ranges(store, key, size), PIECE))


class _Ranges(io.RawIOBase):
    def __init__(self, store: Store, key: str, size: int) -> None:
        self._store, self._key, self._size, self._at = store, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), self._size - self._at)
        if length <= 0:
            return 0
        data = self._store.get_range(self._key, self._at, length)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
