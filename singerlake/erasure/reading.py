"""The bytes of anything in a store, read and inflated piece by piece, and cut into lines."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from threading import Event

from isal import isal_zlib

from singerlake.errors import DamagedError
from singerlake.records.given.byte_sources import DAMAGE
from singerlake.storage.base import Store, StoredCopy

PIECE_BYTES = 4 << 20
"""Read, or inflated, at a time."""
MAX_LINE = 64 << 20
"""What is longer without a line's end is searched in parts that overlap."""
OVERLAP = 1 << 20
GZIP = b"\x1f\x8b"
_GZIP_FORM = 31
"""isal's number for gzip with header and trailer."""


@dataclass(frozen=True)
class CopySource:
    """A stored copy as a source of bytes; see ``records.byte_sources.ByteSource``.

    Attributes:
        store: Where it is.
        copy: Which.
        stopped: Set when nobody wants it any more.
    """

    store: Store
    copy: StoredCopy
    stopped: Event = field(default_factory=Event)

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.copy.key

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self.copy.size

    def read(self, start: int, length: int) -> bytes:
        """Read a range.

        Raises:
            KeyMissingError: It was deleted meanwhile.
            CancelledError: Nobody wants it any more.
        """
        if self.stopped.is_set():
            raise CancelledError
        return self.store.read_copy(self.copy, start, length)


def pieces(source: CopySource) -> Iterator[bytes]:
    """Read all of it, piece by piece, also of what grows meanwhile."""
    at = 0
    while data := source.read(at, PIECE_BYTES):
        yield data
        at += len(data)
        if len(data) < PIECE_BYTES:
            return


def inflated(packed: Iterator[bytes], where: str) -> Iterator[bytes]:
    """Inflate gzip members, one behind the other, as far as they go.

    What is cut off ends there; bytes behind the last member are given as they are. Zeros between
    members are skipped, as gzip itself does it: tapes and some programs pad with them.

    Raises:
        DamagedError: A member cannot be inflated: what follows it was not looked at.
    """
    inflater = isal_zlib.decompressobj(_GZIP_FORM)
    waiting = b""
    for piece in packed:
        waiting += piece
        while waiting:
            if inflater.eof:
                following = waiting.lstrip(b"\0")
                if not GZIP.startswith(following[: len(GZIP)]):
                    yield waiting
                    yield from packed
                    return
                if len(following) < len(GZIP):
                    waiting = waiting[-len(GZIP) :]
                    break
                waiting = following
                inflater = isal_zlib.decompressobj(_GZIP_FORM)
            try:
                data = inflater.decompress(waiting, PIECE_BYTES)
            except DAMAGE as error:
                raise DamagedError(f"{where} cannot be inflated from some byte on") from error
            waiting = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if data:
                yield data
            elif not inflater.eof:
                break
        # It may hold back some of what it was asked for no more of.
        while not inflater.eof and (data := inflater.decompress(b"", PIECE_BYTES)):
            yield data


def batches(data: Iterator[bytes]) -> Iterator[bytes]:
    """Cut what comes in pieces at the ends of lines, so that no line is in two batches."""
    rest = b""
    for piece in data:
        end = piece.rfind(b"\n") + 1
        if end:
            yield rest + piece[:end]
            rest = piece[end:]
        else:
            rest += piece
        if len(rest) > MAX_LINE:
            yield rest
            rest = rest[-OVERLAP:]
    if rest:
        yield rest
