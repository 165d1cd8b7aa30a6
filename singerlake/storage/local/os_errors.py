"""What the system says of a disk, in words that say what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from singerlake.errors import StoreError
from singerlake.storage.base import KeyMissingError

_OS_ERRORS = {
    errno.ENOSPC: "the disk is full: free some space and run it again",
    errno.EFBIG: "the file would be larger than the system allows (ulimit -f): raise the limit",
    errno.EDQUOT: "the disk quota is used up: free some space and run it again",
    errno.EROFS: "the lake is on a read-only file system",
    errno.EACCES: "permission denied: this user may not do that there",
    errno.EPERM: "the file system does not allow it (a lake needs hard links)",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EISDIR: "a folder stands where a file is needed",
    errno.ENAMETOOLONG: "the path is longer than this file system takes",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
}


@contextmanager
def map_os_errors(action: str, path: Path | str) -> Iterator[None]:
    """Say what an operation could not do, and to what.

    Args:
        action: What it does, for example ``read``.
        path: To what.

    Raises:
        KeyMissingError: It was to be read, and is not there.
        StoreError: The system refused.
    """
    try:
        yield
    except OSError as error:
        if action == "read" and error.errno == errno.ENOENT:
            raise KeyMissingError(f"{path} is not there") from error
        words = _OS_ERRORS.get(error.errno or 0, error.strerror or str(error))
        raise StoreError(f"cannot {action} {path}: {words}") from error
