"""Files on their way to a bucket: whole on this machine's disk first, then uploaded."""

from __future__ import annotations

import os
import tempfile
import uuid
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from singerlake.errors import SingerlakeError, StoreError
from singerlake.format.names import STAGING
from singerlake.storage.base import Staged


class SpooledFile(Staged):
    """A temporary file on this machine's disk.

    Args:
        upload: Publishes a local file of a size under a key.
    """

    def __init__(
        self, upload: Callable[[Path, int, str], None], delete: Callable[[str], None]
    ) -> None:
        self._upload = upload
        self._delete = delete
        self._shared = ""
        try:
            handle, name = tempfile.mkstemp(prefix="singerlake-", suffix=".staged")
        except OSError as error:
            raise self._disk_error(error) from error
        os.close(handle)
        self._path = Path(name)
        # A run that fails before it discards leaves nothing on the disk.
        self._remove = weakref.finalize(self, self._path.unlink, missing_ok=True)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        try:
            # Opened anew for each block: a run with thousands of streams holds no descriptors.
            with self._path.open("r+b") as file:
                # Not to the file's end: a write that failed half-way may be repeated.
                file.seek(self.size)
                file.write(data)
        except OSError as error:
            raise self._disk_error(error) from error
        self.size += len(data)

    def reader(self) -> BinaryIO:
        """Open what was written so far; see :meth:`Staged.reader`."""
        try:
            return self._path.open("rb")
        except OSError as error:
            raise self._disk_error(error) from error

    def publish(self, key: str) -> None:
        """Upload the file; see :meth:`Staged.publish`."""
        try:
            if self._path.stat().st_size > self.size:  # of a write that failed half-way
                os.truncate(self._path, self.size)
            self._upload(self._path, self.size, key)
        except OSError as error:
            raise self._disk_error(error) from error

    def share(self) -> str:
        """Upload the file to the staging folder; see :meth:`Staged.share`."""
        if not self._shared:
            key = f"{STAGING}{uuid.uuid4().hex}"
            self.publish(key)
            self._shared = key
        return self._shared

    def discard(self) -> None:
        """Remove the file, and what was shared of it."""
        with suppress(OSError):
            self._remove()
        if self._shared:
            with suppress(SingerlakeError):
                self._delete(self._shared)

    @staticmethod
    def _disk_error(error: OSError) -> StoreError:
        return StoreError(
            f"cannot stage a file in {tempfile.gettempdir()}: {error.strerror}: check "
            "that folder and its free space, or set TMPDIR to another"
        )
