"""A store as one look at a small table sees it: what was read once is not asked for again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from singerlake.storage.base import Listed, Staged, Store, StoredObject

AHEAD_BYTES = 1 << 20
"""So much of a file is read at once: its next blocks are in it."""


class Remembered(Store):
    """Reads from another store, and keeps what it has read. It writes nothing.

    A block is so held against its checksums, and read as rows, by the very same bytes.

    Args:
        store: Where the lake lies.
    """

    def __init__(self, store: Store) -> None:
        self.uri = store.uri
        self._store = store
        self._objects: dict[str, StoredObject] = {}
        self._pieces: dict[str, tuple[int, bytes]] = {}
        self._listings: dict[str, list[Listed]] = {}

    def get(self, key: str) -> StoredObject:  # noqa: D102
        if key not in self._objects:
            self._objects[key] = self._store.get(key)
        return self._objects[key]

    def get_range(self, key: str, offset: int, length: int) -> bytes:  # noqa: D102
        start, piece = self._pieces.get(key, (0, b""))
        if not start <= offset <= offset + length <= start + len(piece):
            start, piece = offset, self._store.get_range(key, offset, max(length, AHEAD_BYTES))
            self._pieces[key] = start, piece
        return piece[offset - start : offset - start + length]

    def list(self, prefix: str) -> Iterator[Listed]:  # noqa: D102
        if prefix not in self._listings:
            self._listings[prefix] = [*self._store.list(prefix)]
        return iter(self._listings[prefix])

    def folders(self, prefix: str) -> Sequence[str]:  # noqa: D102
        return self._store.folders(prefix)

    def local_path(self, key: str) -> Path | None:  # noqa: D102
        return self._store.local_path(key)

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> NoReturn:  # noqa: ARG002, D102
        self._refuse(key)

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> NoReturn:  # noqa: ARG002, D102
        self._refuse(key)

    def delete(self, key: str) -> NoReturn:  # noqa: D102
        self._refuse(key)

    def stage(self) -> Staged:  # noqa: D102
        self._refuse("a file")

    def _refuse(self, what: str) -> NoReturn:
        raise AssertionError(f"{what} was to be written through a store that is only looked at")
