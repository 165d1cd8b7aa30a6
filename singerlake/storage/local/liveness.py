"""A liveness marker beside staged files, by which a vacuum tells a live writer from a dead one.

While a store has anything staged, a file ``<session>.alive`` lies in the staging folder, held
by ``flock``; staged files are named ``<session>-<id>``. The system lets go of the lock however
the process ends, so what lies beside a file that anybody can lock was left by the dead.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from singerlake.errors import DamagedError
from singerlake.storage.local.files import folder, open_file, readable
from singerlake.storage.unfinished import Leftover

ALIVE = ".alive"

_LOCKING = 60.0
"""Seconds from which on a marker that nobody holds, with no file beside it, is a dead one's."""


class Session:
    """Names staged files for one store in one process.

    Args:
        staging: The name of the staging folder in it; there already.
    """

    def __init__(self, root: Path, staging: str) -> None:
        self.process = os.getpid()
        self._root = root
        self._staging = staging
        self._id = uuid.uuid4().hex
        self._mutex = threading.Lock()
        self._staged: set[str] = set()
        self._handle = -1

    def begin(self) -> str:
        """Name a new staged file, once the liveness marker is there."""
        with self._mutex:
            if not self._staged:
                self._create_marker()
            name = f"{self._id}-{uuid.uuid4().hex}"
            self._staged.add(name)
        return name

    def end(self, name: str) -> None:
        """Forget a staged file; with the last of them the liveness marker goes."""
        with self._mutex:
            if name not in self._staged:
                return
            self._staged.remove(name)
            if not self._staged:
                with (
                    suppress(OSError, DamagedError),
                    folder(self._root, [self._staging]) as staging,
                ):
                    os.unlink(self._alive, dir_fd=staging)
                os.close(self._handle)

    @property
    def _alive(self) -> str:
        return f"{self._id}{ALIVE}"

    def _create_marker(self) -> None:
        parts = [self._staging, self._alive]
        while True:
            handle = open_file(self._root, parts, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                # A vacuum that came between the two calls has taken it for a dead one's.
                with folder(self._root, parts[:-1]) as staging:
                    there = os.stat(self._alive, dir_fd=staging, follow_symlinks=False)
                if os.fstat(handle).st_ino == there.st_ino:
                    self._handle = handle
                    return
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)


def abandoned_files(root: Path, staging: str, keep: str) -> Iterator[Leftover]:
    """List what lies in a staging folder and belongs to no live process.

    Args:
        staging: The name of the staging folder.
        keep: The name of a file that belongs to nobody.

    Raises:
        DamagedError: The staging folder is a symbolic link: what it points to is not the lake's.
    """
    sessions: dict[str, list[str]] = {}
    try:
        with folder(root, [staging]) as handle, readable(handle) as names:
            with os.scandir(names) as entries:
                present = sorted(entry.name for entry in entries)
            for name in present:
                if name != keep:
                    session = name.partition("-")[0].removesuffix(ALIVE)
                    sessions.setdefault(session, []).append(name)
            for session, files in sessions.items():
                if not _is_alive(root, [staging, f"{session}{ALIVE}"]):
                    yield from _left(names, staging, files)
    except FileNotFoundError:
        return


def _left(names: int, staging: str, files: list[str]) -> Iterator[Leftover]:
    """List a session's files that are there, its marker last."""
    dead = False
    for name in sorted(files, key=lambda name: name.endswith(ALIVE)):
        with suppress(FileNotFoundError):
            about = os.stat(name, dir_fd=names, follow_symlinks=False)
            # A marker alone may be of a writer at work, which makes it before it can lock it. A
            # staged file that is there now was there when nobody held the lock.
            sure = dead or not name.endswith(ALIVE) or about.st_mtime < time.time() - _LOCKING
            if sure and not stat.S_ISDIR(about.st_mode):  # never one of ours
                dead = True
                yield Leftover(f"{staging}/{name}", about.st_size, about.st_mtime)


def _is_alive(root: Path, parts: list[str]) -> bool:
    try:
        handle = open_file(root, parts, os.O_RDWR)
    except (FileNotFoundError, DamagedError):
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
