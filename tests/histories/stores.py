"""Stores that show what is read, or hide that they are local."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyspark import cloudpickle

from singerlake.storage.base import Listed, Staged, Store, StoredObject
from singerlake.storage.local.store import LocalStore

# Executors must not need the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class WatchedStore(LocalStore):
    """Notes in a file which ranges are read, by whatever process."""

    def __init__(self, root: Path, notes: Path) -> None:
        super().__init__(root)
        self.notes = notes
        notes.touch()

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        if key.endswith(".gz"):
            with self.notes.open("a") as file:
                file.write(f"{key}:{offset}\n")
        return super().get_range(key, offset, length)

    def taken(self) -> list[str]:
        """What was read since the last call."""
        text = self.notes.read_text()
        self.notes.write_text("")
        return text.split()


class FarStore(Store):
    """A store that Spark cannot reach by itself, as S3 is without Hadoop's jars."""

    def __init__(self, near: LocalStore) -> None:
        self.near = near
        self.uri = "far://"

    def get(self, key: str) -> StoredObject:
        return self.near.get(key)

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        return self.near.get_range(key, offset, length)

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
        return self.near.put_if_absent(key, data, durable=durable)

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        return self.near.replace(key, data, etag, durable=durable)

    def delete(self, key: str) -> None:
        self.near.delete(key)

    def list(self, prefix: str) -> Iterator[Listed]:
        return self.near.list(prefix)

    def folders(self, prefix: str) -> Sequence[str]:
        return self.near.folders(prefix)

    def stage(self) -> Staged:
        return self.near.stage()
