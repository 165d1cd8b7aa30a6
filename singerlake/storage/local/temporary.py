"""Files in a lake's staging folder, which nobody sees until links give them names."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from singerlake.errors import DamagedError
from singerlake.format.names import STAGING
from singerlake.storage.local import files
from singerlake.storage.local.liveness import Session
from singerlake.storage.local.os_errors import map_os_errors

STAGING_FOLDER = STAGING.rstrip("/")


class TemporaryFiles:
    """The temporary files of one store in one process."""

    def __init__(self, root: Path, names: files.DurableNames) -> None:
        self._root = root
        self._names = names
        self._own: Session | None = None
        self._mutex = threading.Lock()

    def folder(self) -> AbstractContextManager[int]:
        """Open the staging folder, which is there as long as one of the files is."""
        return files.folder(self._root, [STAGING_FOLDER])

    def path(self, name: str) -> str:
        """Return where a file lies, for messages."""
        return f"{self._root}/{STAGING_FOLDER}/{name}"

    def create(self) -> str:
        """Make a fresh, empty file, and return its name.

        Raises:
            StoreError: The disk takes none.
        """
        with map_os_errors("write to the lake at", self._root):
            name = self._named()
            try:
                with self.folder() as staging:
                    os.close(_created(staging, name))
            except BaseException:
                self.remove(name)
                raise
        return name

    @contextmanager
    def holding(self, data: bytes, *, durable: bool) -> Iterator[tuple[int, str]]:
        """Have a file for as long as it takes to give it another name.

        The folder stays open meanwhile: it is the one that was found not to be a link, wherever
        somebody may move it.

        Args:
            durable: Whether that must outlast a power cut.

        Yields:
            A descriptor of the staging folder, and the file's name in it.

        Raises:
            StoreError: The disk does not take it.
        """
        with map_os_errors("write to the lake at", self._root):
            name = self._named()
        try:
            with ExitStack() as stack:
                with map_os_errors("write to the lake at", self._root):
                    staging = stack.enter_context(self.folder())
                    handle = _created(staging, name)
                    stack.callback(_unlink, staging, name)
                with map_os_errors("write", self.path(name)):
                    _fill(handle, data, durable=durable)
                yield staging, name
        finally:
            self._session().end(name)

    def opened(self, name: str, flags: int) -> io.FileIO:
        """Open a file.

        Args:
            flags: As for ``os.open``.

        Raises:
            OSError: It cannot be opened.
        """
        handle = files.open_file(self._root, [STAGING_FOLDER, name], flags)
        return io.FileIO(handle, "r" if flags == os.O_RDONLY else "r+")

    def remove(self, name: str) -> None:
        """Remove a file. Never raises: a leftover harms nobody."""
        with suppress(OSError, DamagedError), self.folder() as staging:
            os.unlink(name, dir_fd=staging)
        self._session().end(name)

    def _named(self) -> str:
        """Name a new file, in a staging folder that is there."""
        try:
            return self._session().begin()
        except FileNotFoundError:
            with files.folder(self._root, [STAGING_FOLDER], make=self._names):
                return self._session().begin()

    def _session(self) -> Session:
        with self._mutex:
            if self._own is None or self._own.process != os.getpid():
                self._own = Session(self._root, STAGING_FOLDER)
            return self._own


def _created(staging: int, name: str) -> int:
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=staging)


def _fill(handle: int, data: bytes, *, durable: bool) -> None:
    try:
        files.write_all(handle, data)
        if durable:
            os.fsync(handle)
    finally:
        os.close(handle)


def _unlink(staging: int, name: str) -> None:
    with suppress(OSError):  # what was made of it must not look failed
        os.unlink(name, dir_fd=staging)
