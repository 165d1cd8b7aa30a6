"""What the system says of a disk, in words that say what to do."""

from __future__ import annotations

import errno
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
    errno.ENAMETOOLONG: "the path is longer than this file system accepts",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
}


class map_os_errors:  # noqa: N801
    """Say what an operation could not do, and to what.

    A class, as each operation on a disk begins with it: a generator takes three times as long.

    Args:
        action: What it does, for example ``read``.
        path: To what.

    Raises:
        KeyMissingError: It was to be read, and is not there.
        StoreError: The system refused.
    """

    def __init__(self, action: str, path: Path | str) -> None:
        self._action = action
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, _trace: object) -> None:
        if not isinstance(error, OSError):
            return
        if self._action == "read" and error.errno == errno.ENOENT:
            raise KeyMissingError(f"{self._path} does not exist") from error
        words = _OS_ERRORS.get(error.errno or 0, error.strerror or str(error))
        raise StoreError(f"cannot {self._action} {self._path}: {words}") from error
