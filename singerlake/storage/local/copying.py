"""Copying between files of one disk: by the kernel where it can, without a detour through us.

Combining 800 MB in files of 1.6 MB took 1.44 s of processor by reading and writing, 0.37 s by
``copy_file_range``: what ``cat`` takes, which does the same.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from singerlake.storage.base import Range
from singerlake.storage.local.files import folder, open_in, parts_of
from singerlake.storage.local.os_errors import map_os_errors

_PIECE = 1 << 20
_CANNOT = frozenset(
    (errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY)
)
"""What systems and file systems say that have no such call, or not between these two files."""
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""What only the file that is written can meet with."""


class Opener:
    """Opens many files for reading, of which neighbours lie in one folder; to be entered.

    The way to a folder is gone once for all of them: it stays open until a file of another one
    is wanted.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._there: Sequence[str] | None = None
        self._handle = -1
        self._held = ExitStack()

    def __enter__(self) -> Opener:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def __call__(self, parts: Sequence[str]) -> int:
        """Open a file; raises as :func:`files.open_file` does."""
        if parts[:-1] != self._there:
            self._there = None
            self._held.close()
            self._handle = self._held.enter_context(folder(self._root, parts[:-1]))
            self._there = parts[:-1]
        return open_in(self._handle, parts[-1], f"{self._root}/{'/'.join(parts)}")


def copy_ranges(root: Path, ranges: Iterable[Range], target: int, at: int) -> list[int]:
    """Copy parts of a lake's files into another file, one behind the other.

    Args:
        target: Descriptor of the file to write.
        at: Where the first byte goes.

    Returns:
        Bytes copied of each; fewer than asked for where its file ends earlier.

    Raises:
        KeyMissingError: A file is not there.
        DamagedError: A symbolic link is in the way, or something else than a file.
        StoreError: One cannot be read.
        OSError: There is no room for the bytes.
    """
    counts: list[int] = []
    with Opener(root) as opened:
        for key, offset, length in ranges:
            try:  # no context managers: of small files they would take half as long as the copy
                source = opened(parts_of(key))
                try:
                    counts.append(copy_range(source, offset, target, at, length))
                finally:
                    os.close(source)
            except OSError as error:
                if error.errno in _NO_ROOM:
                    raise
                with map_os_errors("read", f"{root}/{key}"):
                    raise error from None
            at += counts[-1]
    return counts


def copy_range(source: int, offset: int, target: int, at: int, length: int) -> int:
    """Copy part of a file into another.

    Args:
        source: Descriptor of the file to read.
        offset: Its first byte to copy.
        target: Descriptor of the file to write.
        at: Where the bytes go there.
        length: How many bytes.

    Returns:
        Bytes copied; fewer where the file ends earlier.

    Raises:
        OSError: One cannot be read or written.
    """
    copied = 0
    while copied < length:
        rest = (length - copied, offset + copied, at + copied)
        # A file system that cannot may also say that nothing is there; reading tells.
        count = _by_the_kernel(source, target, *rest) or _by_hand(source, target, *rest)
        if not count:
            break
        copied += count
    return copied


def _by_the_kernel(source: int, target: int, length: int, offset: int, at: int) -> int:
    if not hasattr(os, "copy_file_range"):  # macOS
        return 0
    try:
        return os.copy_file_range(source, target, length, offset, at)
    except OSError as error:
        if error.errno in _CANNOT:
            return 0
        raise


def _by_hand(source: int, target: int, length: int, offset: int, at: int) -> int:
    data = memoryview(os.pread(source, min(length, _PIECE), offset))
    written = 0
    while written < len(data):
        written += os.pwrite(target, data[written:], at + written)
    return written
