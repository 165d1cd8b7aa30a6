"""What the target says of itself while it works: on stderr, every few seconds."""

from __future__ import annotations

import logging
import threading
import time

from singerlake.quantities import count, size

EVERY_SECONDS = 5.0


class Progress:
    """Counts, and logs the counts now and then.

    Args:
        logger: The plugin's logger; the SDK's settings for level and structure apply.

    Attributes:
        mended: Records that held what JSON has not.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._mutex = threading.Lock()
        self._started = self._logged = time.monotonic()
        self.lines = 0
        self.records = 0
        self.mended = 0
        self.bytes = 0
        self.stored_rows = 0
        self.stored_bytes = 0
        self.deletions = 0
        self.refused = 0

    def advance(self, read: int) -> None:
        """Count input bytes and say how far it is, if it has been a while."""
        self.bytes += read
        now = time.monotonic()
        if now - self._logged >= EVERY_SECONDS:
            self._logged = now
            self._logger.info("%s", self._so_far(now))

    def committed(self, rows: int, compressed: int, deletions: int = 0) -> None:
        """Count what a commit stored. Called from any thread."""
        with self._mutex:
            self.stored_rows += rows
            self.stored_bytes += compressed
            self.deletions += deletions

    def put_aside(self, lines: int) -> None:
        """Count refused lines that a commit stored. Called from any thread."""
        with self._mutex:
            self.refused += lines

    def summary(self, tables: int) -> None:
        """Say what the whole run did."""
        self._logger.info(
            "%s; committed %s to %s%s, %s compressed%s",
            self._so_far(time.monotonic()),
            count(self.stored_rows, "record"),
            count(tables, "table"),
            f", {count(self.deletions, 'deletion')} among them" if self.deletions else "",
            size(self.stored_bytes),
            f"; rejected {count(self.refused, 'line')}" if self.refused else "",
        )

    def _so_far(self, now: float) -> str:
        seconds = max(now - self._started, 1e-6)
        return (
            f"{count(self.records, 'record')}, {size(self.bytes)} in {seconds:,.1f} s "
            f"({self.records / seconds:,.0f} records/s)"
        )
