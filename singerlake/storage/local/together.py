"""Many files made durable by one wait for the disk instead of two for each.

Each fsync of a file and of its folder waits for the disk's journal: ten thousand files waited
longer than they took to be read, hashed and written. ``syncfs`` waits once for all that the file
system has. It says that the disk failed only to a descriptor that was open before, and only since
Linux 5.8; elsewhere, and where few files are to be settled, each gets its own fsync.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from singerlake.errors import DamagedError, NotDurableError
from singerlake.storage.local import files
from singerlake.storage.local.os_errors import map_os_errors
from singerlake.storage.together import Publishable, Together

WORTHWHILE = 32
"""Files from which on the whole file system is settled, whatever else it has to write."""
_TELLS_ERRORS = (5, 8)
_SIDE_BY_SIDE = 8


class LocalTogether(Together):
    """Waits for the disk once for many files.

    Args:
        root: The lake's folder.
        names: Sees to the names of folders, where each file gets its own fsync.
        link: Gives what lies under one key another, not durable yet.
    """

    def __init__(
        self, root: Path, names: files.DurableNames, link: Callable[[str, str], None]
    ) -> None:
        self._root = root
        self._names = names
        self._link = link
        self._mutex = threading.Lock()
        self._waiting: list[str] = []
        self._sync_all = syncfs()
        self._handle = -1

    def begin(self) -> None:
        """Open the lake's folder; what the disk fails to do from then on is told to it."""
        with self._mutex:
            if self._handle < 0:
                with map_os_errors("write to the lake at", self._root):
                    self._handle = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)

    def publish(self, staged: Publishable, key: str) -> None:
        """Give a file its name; see :class:`Together`."""
        self.begin()  # its bytes are there, so the folder is
        # Before: the name may be an earlier run's that died before it settled.
        with self._mutex:
            # To wait for the whole file system takes no names, of which there may be a million.
            if len(self._waiting) < WORTHWHILE or self._sync_all is None:
                self._waiting.append(key)
        self._link(staged.share(), key)

    def settle(self) -> None:
        """Make durable all that was published; see :class:`Together`."""
        with self._mutex:
            waiting, self._waiting = self._waiting, []
        try:
            if len(waiting) >= WORTHWHILE and self._sync_all is not None:
                self._sync_all(self._handle)
                return
            with ThreadPoolExecutor(_SIDE_BY_SIDE, "fsync") as pool:
                for done in [pool.submit(self._settle, key.split("/")) for key in waiting]:
                    done.result()
        except (OSError, DamagedError) as error:
            raise NotDurableError(
                f"the disk of {self._root} failed to store what was written ({error}): do not rely "
                "on any of it; check the disk first"
            ) from error

    def close(self) -> None:
        """Let go of the lake's folder."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _settle(self, parts: Sequence[str]) -> None:
        handle = files.open_file(self._root, parts)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        with files.folder(self._root, parts[:-1], make=self._names, durable=True) as inner:
            files.sync(inner)


def syncfs() -> Callable[[int], None] | None:
    """Return what settles a whole file system and tells errors; None where nothing does."""
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    known = release is not None and tuple(map(int, release.groups())) >= _TELLS_ERRORS
    if sys.platform != "linux" or not known:
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None

    def settle(handle: int) -> None:
        if call(handle):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return settle
