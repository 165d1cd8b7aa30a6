"""Deletes files of records once what they hold is committed and acknowledged, never before."""

from __future__ import annotations

import logging

from singerlake.errors import SingerlakeError
from singerlake.quantities import count
from target_singerlake.batches.files import BatchFile


class CleanUp:
    """Remembers the files that a run has read since it last committed.

    A run that dies after the commit leaves the files: nobody but their tap can know that no other
    wants them.

    Args:
        wanted: Whether files are deleted at all.
        logger: For what cannot be deleted, which fails no run: the records are safe.
    """

    def __init__(self, wanted: bool, logger: logging.Logger) -> None:
        self._wanted = wanted
        self._logger = logger
        self._read: dict[object, BatchFile] = {}

    def read(self, file: BatchFile) -> None:
        """Note a file that was read to its end, and of which nothing is committed yet."""
        if self._wanted:
            self._read[file.place] = file

    def committed(self) -> None:
        """Delete the files: all that was taken of them is committed, and the STATE is out."""
        files, self._read = self._read, {}
        changed, failed, first = 0, 0, ""
        for file in files.values():
            try:
                if file.remove():
                    changed += 1
                    first = first or f"{file.name} was changed since it was read"
            except SingerlakeError as error:
                failed += 1
                first = first or str(error)
        if changed or failed:
            self._logger.warning(
                "%s could not be deleted, although their records are committed: %s",
                count(changed + failed, "file of a BATCH", "files of BATCHes"),
                first,
            )
