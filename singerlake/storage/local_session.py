"""A sign of life beside staged files, so that a vacuum can tell a writer at work from a dead one.

While a store has anything staged, a file ``<session>.alive`` lies in the staging folder, held
by ``flock``; staged files are named ``<session>-<id>``. The system lets go of the lock however
the process ends, so what lies beside a file that anybody can lock was left by the dead.
"""

from __future__ import annotations

import fcntl
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from singerlake.storage.base import Leftover

ALIVE = ".alive"


class Session:
    """Names staged files for one store in one process.

    Args:
        folder: The staging folder; there already.
    """

    def __init__(self, folder: Path) -> None:
        self.process = os.getpid()
        self._folder = folder
        self._id = uuid.uuid4().hex
        self._mutex = threading.Lock()
        self._staged: set[Path] = set()
        self._handle = -1

    def begin(self) -> Path:
        """The path of a new staged file, once the sign of life is there."""
        with self._mutex:
            if not self._staged:
                self._show_life()
            path = self._folder / f"{self._id}-{uuid.uuid4().hex}"
            self._staged.add(path)
        return path

    def end(self, path: Path) -> None:
        """A staged file is gone; with the last of them goes the sign of life."""
        with self._mutex:
            if path not in self._staged:
                return
            self._staged.remove(path)
            if not self._staged:
                with suppress(OSError):
                    self._alive.unlink(missing_ok=True)
                os.close(self._handle)

    @property
    def _alive(self) -> Path:
        return self._folder / f"{self._id}{ALIVE}"

    def _show_life(self) -> None:
        while True:
            handle = os.open(self._alive, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                # A vacuum that came between the two calls has taken it for a dead one's.
                if os.fstat(handle).st_ino == self._alive.stat().st_ino:
                    self._handle = handle
                    return
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)


def left_by_the_dead(folder: Path, keep: str) -> Iterator[Leftover]:
    """What lies in a staging folder and belongs to no process that lives.

    Args:
        folder: The staging folder.
        keep: The name of a file that belongs to nobody.
    """
    sessions: dict[str, list[Path]] = {}
    with suppress(FileNotFoundError):
        for path in sorted(folder.iterdir()):
            session = path.name.partition("-")[0].removesuffix(ALIVE)
            if path.name != keep:
                sessions.setdefault(session, []).append(path)
    for session, paths in sessions.items():
        if _lives(folder / f"{session}{ALIVE}"):
            continue
        for path in paths:
            with suppress(FileNotFoundError):
                stat = path.stat()
                yield Leftover(f"{folder.name}/{path.name}", stat.st_size, stat.st_mtime)


def _lives(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
