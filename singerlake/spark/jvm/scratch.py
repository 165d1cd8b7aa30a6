"""The folder for all files of Spark and Java; those of killed processes go with the next start.

A folder holds a file that its process keeps locked for as long as it lives. The system lets go
of the lock however the process ends, so a folder whose file anybody can lock is a dead one's.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "singerlake-spark-"
ALIVE = "alive"
_LOCKING = 60.0
"""Seconds within which a process has surely locked the file that it made."""
_WITHOUT = 86_400.0
"""Seconds after which a folder without such a file is a dead one's, too: its process was killed
before it made the file, or is of a release that made none."""


def folder() -> Path:
    """Make a fresh folder for this process, deleted at exit. Removes those that were left."""
    parent = Path(tempfile.gettempdir())
    _remove_left(parent)
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    handle = os.open(made / ALIVE, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)  # never closed: the lock is the liveness marker
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _remove_left(parent: Path) -> None:
    """Remove dead processes' folders of this user. Never raises: no job depends on it."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    if _is_left(Path(entry.path), entry.stat(follow_symlinks=False)):
                        shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(path: Path, status: os.stat_result) -> bool:
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return False
    try:
        handle = os.open(path / ALIVE, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return time.time() - status.st_mtime > _WITHOUT
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return time.time() - os.fstat(handle).st_mtime > _LOCKING
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
