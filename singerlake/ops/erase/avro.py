"""Unpacks the blocks of an Avro file, by Avro's own specification and the codecs that are there."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa

from singerlake.errors import DamagedError

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CHECKSUM_BYTES = 4
"""Behind a block that Snappy packed."""
_MOST = 1 << 28
"""Bytes of a block, packed or not: no writer makes larger ones, and a wrong length may say so."""
_LONGEST = 10
"""Bytes of a whole number of 64 bits."""


def parts(data: Iterator[bytes], where: str) -> Iterator[tuple[bool, bytes, bytes]]:
    """Give the parts of a file one by one: its header, and each block.

    Args:
        data: Its bytes, piece by piece.
        where: What messages call it.

    Yields:
        Whether the part is a block, its bytes as they stand, and those that it unpacks to.

    Raises:
        DamagedError: It is no whole Avro file, or is packed in a way that is not known here.
    """
    file = _Bytes(data, where)
    codec = _header(file)
    sync = file.take(_SYNC_BYTES)
    yield False, file.taken(), b""
    while not file.is_over():
        file.number()
        length = file.number()
        packed = file.take(length)
        if file.take(_SYNC_BYTES) != sync:
            raise file.damaged()
        yield True, file.taken(), _unpacked(codec, packed, where)


class _Bytes:
    """The bytes of a file, read one after the other.

    Args:
        data: They, piece by piece.
        where: What messages call the file.
    """

    def __init__(self, data: Iterator[bytes], where: str) -> None:
        self._data = data
        self._where = where
        self._waiting = bytearray()
        self._at = 0

    def take(self, length: int) -> bytes:
        """Read so many bytes.

        Raises:
            DamagedError: There are not as many.
        """
        if not 0 <= length <= _MOST:
            raise self.damaged()
        end = self._at + length
        while len(self._waiting) < end:
            piece = next(self._data, None)
            if piece is None:
                raise self.damaged()
            self._waiting += piece
        found = bytes(self._waiting[self._at : end])
        self._at = end
        return found

    def number(self) -> int:
        """Read a whole number: seven bits a byte, the lowest first, and its sign the lowest bit."""
        value = 0
        for n in range(_LONGEST):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << 7 * n
            if byte < 0x80:  # noqa: PLR2004  # the last byte of a number
                return (value >> 1) ^ -(value & 1)
        raise self.damaged()

    def taken(self) -> bytes:
        """Give all that was read since, and forget it."""
        found = bytes(self._waiting[: self._at])
        del self._waiting[: self._at]
        self._at = 0
        return found

    def is_over(self) -> bool:
        """Tell whether nothing follows."""
        while len(self._waiting) == self._at:
            if (piece := next(self._data, None)) is None:
                return True
            self._waiting += piece
        return False

    def damaged(self) -> DamagedError:
        """Return the error that the file is cut off, or is no Avro."""
        return DamagedError(
            f"{self._where} is not a complete Avro file: its compressed content was not searched"
        )


def _header(file: _Bytes) -> str:
    """Read what the file says of itself, and give its codec."""
    if file.take(len(MAGIC)) != MAGIC:
        raise file.damaged()
    codec = b"null"
    while count := file.number():
        if count < 0:  # then the bytes of these entries are told, too
            file.number()
        for _ in range(abs(count)):
            name = file.take(file.number())
            value = file.take(file.number())
            if name == b"avro.codec":
                codec = value
    return codec.decode("utf-8", "replace")


def _unpacked(codec: str, packed: bytes, where: str) -> bytes:
    if (unpack := _CODECS.get(codec)) is None:
        raise DamagedError(
            f"{where} is Avro packed with {codec!r}, which cannot be unpacked here: it was not "
            "searched"
        )
    try:
        return unpack(packed)
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, pa.ArrowException) as error:
        raise DamagedError(f"{where} has an Avro block that cannot be decompressed") from error


def _deflate(packed: bytes) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    data = inflater.decompress(packed, _MOST)
    return _within(data, b"" if inflater.eof else packed)


def _bzip2(packed: bytes) -> bytes:
    inflater = bz2.BZ2Decompressor()
    data = inflater.decompress(packed, _MOST)
    return _within(data, b"" if inflater.eof else packed)


def _xz(packed: bytes) -> bytes:
    inflater = lzma.LZMADecompressor()
    data = inflater.decompress(packed, _MOST)
    return _within(data, b"" if inflater.eof else packed)


def _snappy(packed: bytes) -> bytes:
    """Unpack what begins with its length, and has a checksum behind it."""
    body = packed[:-_CHECKSUM_BYTES]
    length = shift = 0
    for byte in body[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004  # the last byte of a number
            break
    return _arrow("snappy", body, length)


def _lz4(packed: bytes) -> bytes:
    return _arrow("lz4_raw", packed[4:], int.from_bytes(packed[:4], "little"))


def _zstandard(packed: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        data: bytes = stream.read(_MOST)
        return _within(data, stream.read(1))


def _arrow(codec: str, packed: bytes, length: int) -> bytes:
    if length > _MOST:
        raise ValueError(length)
    data: bytes = pa.Codec(codec).decompress(packed, length, asbytes=True)
    return data


def _within(data: bytes, rest: bytes) -> bytes:
    """Refuse a block that has more than may be unpacked, or that is cut off."""
    if rest:
        raise ValueError(len(data))
    return data


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "bzip2": _bzip2,
    "xz": _xz,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "lz4": _lz4,
}
