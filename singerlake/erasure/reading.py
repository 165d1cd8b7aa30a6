"""The bytes of anything in a store, read and inflated piece by piece, and cut into lines."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import msgspec
from isal import isal_zlib

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format import key_bounds
from singerlake.format.sealed import UNREADABLE
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
_MAX_HEADER = 12 + 0xFFFF
"""A block's header is not longer."""
_BOUNDS = msgspec.json.Decoder(dict[str, tuple[msgspec.Raw, msgspec.Raw]])


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

    What is cut off ends there, and then its header is given, which may say what its lines do not
    say any more. Bytes behind the last member are given as they are. Zeros between members are
    skipped, as gzip itself does it: tapes and some programs pad with them.

    Raises:
        DamagedError: A member cannot be inflated: what follows it was not looked at.
    """
    inflater = isal_zlib.decompressobj(_GZIP_FORM)
    waiting = head = b""
    for piece in packed:
        head = (head + piece)[:_MAX_HEADER]
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
                head = waiting[:_MAX_HEADER]
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
        yield from _held_back(inflater)
    if not inflater.eof and (said := _said(head)):
        yield b"\n" + said


def _held_back(inflater: Any) -> Iterator[bytes]:
    """What an inflater has of that it was asked for no more of."""
    while not inflater.eof and (data := inflater.decompress(b"", PIECE_BYTES)):
        yield data


def _said(head: bytes) -> bytes:
    """What a block's header says of its keys, as it stands, and as the lines of such records."""
    try:
        format_block.header(head, "it")
    except DamagedError:
        return b""
    fields = head[format_block.HEADER_BYTES : format_block.noted_bytes(head)]
    _, _, said = fields.partition(key_bounds.ID)
    # These letters, and a brace, may stand in a hash or a checksum before it.
    _, brace, rest = said.partition(b'{"')
    text = brace + rest
    try:
        found = _BOUNDS.decode(text)
    except UNREADABLE:
        return text
    ends = ({name: both[n] for name, both in found.items()} for n in (0, 1))
    records = (b'{"type":"RECORD","record":%b}' % msgspec.json.encode(one) for one in ends)
    return b"\n".join((text, *records, b""))


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
