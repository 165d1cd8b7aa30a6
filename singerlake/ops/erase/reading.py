"""The bytes of anything in a store, read and inflated piece by piece, and cut into lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from singerlake.rows.given.byte_sources import DAMAGE
from singerlake.storage.base import Store, StoredCopy

PIECE_BYTES = 4 << 20
"""Read, or inflated, at a time."""
MAX_LINE = 64 << 20
"""What is longer without a line's end is searched in parts that overlap."""
OVERLAP = 1 << 20
GZIP = b"\x1f\x8b"
_GZIP_FORM = 31
"""isal's number for gzip with header and trailer."""
_FIXED_BYTES = 10
"""Of a gzip member's header; the rest is there where its flags say so."""
_CHECKSUM, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16
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


def pieces(source: CopySource, at: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Read all of it, piece by piece, also of what grows meanwhile; or from a byte up to another.

    Args:
        source: What is read.
        at: Where to begin.
        end: Where to end; None for all that there is.
    """
    while end is None or at < end:
        length = PIECE_BYTES if end is None else min(PIECE_BYTES, end - at)
        data = source.read(at, length)
        if data:
            yield data
        at += len(data)
        if len(data) < length:
            return


def inflated(
    packed: Iterator[bytes], where: str, on_header: Callable[[bytes], None] = lambda _: None
) -> Iterator[bytes]:
    """Inflate gzip members, one behind the other, as far as they go.

    What is cut off ends there, and then what a block's header says of its keys is given, which its
    lines may not say any more. Bytes behind the last member are given as they are. Zeros between
    members are skipped, as gzip itself does it: tapes and some programs pad with them.

    Args:
        packed: The members.
        where: What messages call them.
        on_header: Told the header of each member: it may have a file's name, a comment, and more.

    Raises:
        DamagedError: A member cannot be inflated: what follows it was not looked at.
    """
    inflater = isal_zlib.decompressobj(_GZIP_FORM)
    head = _Header(where, on_header)
    waiting = b""
    for piece in packed:
        waiting += piece
        while waiting and head.is_in(waiting):
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
                head = _Header(where, on_header)
                inflater = isal_zlib.decompressobj(_GZIP_FORM)
                continue
            try:
                data = inflater.decompress(waiting, PIECE_BYTES)
            except DAMAGE as error:
                raise DamagedError(f"{where} cannot be decompressed after some byte") from error
            waiting = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if data:
                yield data
            elif not inflater.eof:
                break
        yield from _held_back(inflater)
    if not inflater.eof:
        yield from head.of_cut_off()


class _Header:
    """The header of a gzip member, as far as it has come.

    Args:
        where: What messages call the member.
        on_header: Told of it once, when it is whole.
    """

    def __init__(self, where: str, on_header: Callable[[bytes], None]) -> None:
        self._where = where
        self._on_header = on_header
        self._data = b""
        self._is_whole = False

    def is_in(self, data: bytes) -> bool:
        """Tell whether it came before, or is whole in what the member begins with.

        Raises:
            DamagedError: It has no end.
        """
        if not self._is_whole:
            self._data = data[: header_bytes(data)]
            self._is_whole = len(self._data) < len(data)
            if self._is_whole:
                self._on_header(self._data)
            elif len(data) > MAX_LINE:
                raise DamagedError(f"{self._where} has a gzip header without an end")
        return self._is_whole

    def of_cut_off(self) -> Iterator[bytes]:
        """Give what the header of a member that was cut off says of its keys."""
        if not self._is_whole:
            self._on_header(self._data)
        if of_keys := said(self._data):
            yield b"\n" + of_keys


def header_bytes(data: bytes) -> int:
    """Tell how long the header of a gzip member is; all that there is where it has no end."""
    if len(data) < _FIXED_BYTES:
        return len(data)
    flags, end = data[3], _FIXED_BYTES
    if flags & _EXTRA:
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            end = data.find(b"\0", end) + 1 or len(data)
    return min(len(data), end + 2 * bool(flags & _CHECKSUM))


def _held_back(inflater: Any) -> Iterator[bytes]:
    """What an inflater has of that it was asked for no more of."""
    while not inflater.eof and (data := inflater.decompress(b"", PIECE_BYTES)):
        yield data


def said(head: bytes, *, alone: bool = False) -> bytes:
    """What a block's header says of its keys, as it stands, and as the lines of such records.

    Args:
        head: The header, or its beginning.
        alone: Only where it is of one column: the ends of several need not be of one row.
    """
    try:
        format_block.header(head, "it")
    except DamagedError:
        return b""
    fields = head[format_block.HEADER_BYTES : format_block.noted_bytes(head)]
    _, _, noted = fields.partition(key_bounds.ID)
    # These letters, and a brace, may stand in a hash or a checksum before it.
    _, brace, rest = noted.partition(b'{"')
    text = brace + rest
    try:
        found = _BOUNDS.decode(text)
    except UNREADABLE:
        return text
    if alone and len(found) != 1:
        return b""
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
