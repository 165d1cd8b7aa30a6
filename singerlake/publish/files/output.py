"""A staged file of a store as a file object, which is what writers of formats ask for."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from singerlake.storage.base import Staged

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE = 4 << 20
"""Bytes that go to the store's file at once."""


class StagedOutput(io.RawIOBase):
    """Writes into a staged file, in large pieces. Closing it publishes nothing."""

    def __init__(self, staged: Staged) -> None:
        self._staged = staged
        self._pieces: list[bytes] = []
        self._held = 0
        self.size = 0

    def writable(self) -> bool:
        """Return true."""
        return True

    def write(self, data: Buffer) -> int:
        """Append bytes."""
        piece = bytes(data)
        self._pieces.append(piece)
        self._held += len(piece)
        self.size += len(piece)
        if self._held >= PIECE:
            self.flush()
        return len(piece)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.size

    def flush(self) -> None:
        """Hand over what is held."""
        if self._pieces:
            self._staged.write(b"".join(self._pieces))
            self._pieces, self._held = [], 0

    def __del__(self) -> None:
        """Write nothing: the file was abandoned, and its staged file may be gone."""
