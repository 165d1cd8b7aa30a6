"""A store that accepts conditions and ignores them, and lists new objects only later."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from singerlake.storage.base import Listed, Staged, Store, StoredObject
from singerlake.storage.local.store import LocalStore


class NonConditionalStore(Store):
    """A folder that writes whatever it is told to, over whatever is there.

    Args:
        root: The folder.
        settle: Seconds after which writers trust a write.
        lag: Seconds until a new object shows in a listing.
    """

    def __init__(self, root: Path, settle: float = 0.2, lag: float = 0.0) -> None:
        self.inner = LocalStore(root)
        self.uri = self.inner.uri
        self._capabilities = None
        self.default_settle_seconds = settle
        self.lag = lag

    def get(self, key: str) -> StoredObject:
        return self.inner.get(key)

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        return self.inner.get_range(key, offset, length)

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
        return self.inner.replace(key, data, None, durable=durable)

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        return self.inner.replace(key, data, None, durable=durable)

    def delete(self, key: str) -> None:
        self.inner.delete(key)

    def list(self, prefix: str) -> Iterator[Listed]:
        shown = time.time() - self.lag
        return (item for item in self.inner.list(prefix) if item.modified <= shown)

    def folders(self, prefix: str) -> Sequence[str]:
        below = (item.key[len(prefix) :].split("/") for item in self.list(prefix))
        return sorted({parts[0] for parts in below if len(parts) > 1})

    def stage(self) -> Staged:
        return _NonConditionalStaged(self.inner)


class _NonConditionalStaged(Staged):
    def __init__(self, inner: LocalStore) -> None:
        self._inner = inner
        self._data = b""

    def write(self, data: bytes) -> None:
        self._data += data
        self.size = len(self._data)

    def publish(self, key: str) -> None:
        self._inner.replace(key, self._data, None)

    def discard(self) -> None:
        pass
