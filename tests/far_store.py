"""A folder in the place of a bucket, for tests of what waits for a network."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from singerlake.storage.base import StoredObject
from singerlake.storage.local.store import LocalStore


class FarStore(LocalStore):
    """A folder that says it is a bucket, and counts what is asked of it, and how much at once."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.place = root
        self.uri = "s3://bucket"
        self.asked: list[str] = []
        self.now = self.most = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> StoredObject:
        with self._lock:
            self.asked.append(key)
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            time.sleep(0.002)
            return super().get(key)
        finally:
            with self._lock:
                self.now -= 1

    def in_vain(self) -> int:
        """How many entries were asked for that are not there."""
        return sum(not (self.place / key).exists() for key in self.asked)
