"""Blocks: at most 25,000 rows of one stream under one schema, one gzip member each.

A member's gzip header carries an extra field ``SL`` with the member's length, its number of
rows and the time it was written, so that a file can be walked from block to block without
inflating anything, and put in order again should the log be lost. Any gzip reader skips it.

A block that a vacuum put together from several has a second one, ``SR``: its number, and when
each block that it replaces was made. By that a lost log can be made again although the old
blocks may still be there. ``ST`` says that its values have the types of its schema
(``proved_types.py``). The last, ``SK``, has the bounds of its keys (``key_bounds.py``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isal import igzip_lib, isal_zlib

from singerlake.errors import DamagedError
from singerlake.format import key_bounds, proved_types
from singerlake.format.key_bounds import Bounds

LEVEL = 2
"""isal's level 2: 840 MB/s a core at a ratio of 0.17, where zlib's 6 makes 69 MB/s at 0.12."""

BLOCK_BYTES = 16 * 1024 * 1024
"""A block is also closed at this many bytes, so that long lines do not fill the memory."""

MAX_BLOCK_BYTES = 1 << 31
"""No writer makes a block that is longer, or inflates to more; what says so is forged."""

MAX_ROWS = 25_000
"""Rows in a block unless a setting says less."""

# magic, deflate, FEXTRA, no mtime, no extra flags, unknown system (RFC 1952, section 2.3);
# then XLEN and one subfield: "SL", its length, member length, rows, written.
_HEADER = struct.Struct("<4sIBBH2sHQIQ")
_TRAILER = struct.Struct("<II")
HEADER_BYTES = _HEADER.size
TRAILER_BYTES = _TRAILER.size
_XLEN_END = 12
_MAGIC = b"\x1f\x8b\x08\x04"
_FIXED = bytes((0, 0, 0, 0, 0, 255))
"""No time, no flags, and an unknown system."""
_ID = b"SL"
_PAYLOAD = 20
_ORIGIN = struct.Struct("<2sHQ")
_ORIGIN_ID = b"SR"
_KNOWN = {_ORIGIN_ID, proved_types.ID, key_bounds.ID}
MAX_REPLACED = 4096
"""Blocks that one block may replace: gzip's extra field holds 64 KiB."""


@dataclass(frozen=True)
class Header:
    """What a block's own header says.

    Attributes:
        length: Bytes of the whole member, header and trailer included.
        rows: RECORD lines in it.
        written: When it was made, in microseconds since 1970, never falling in one writer.
    """

    length: int
    rows: int
    written: int


@dataclass(frozen=True)
class Origin:
    """What a block says that was put together from others.

    Attributes:
        number: Its number.
        replaced: When each block that it replaces was made.
    """

    number: int
    replaced: tuple[int, ...]


def encode(
    text: bytes,
    rows: int,
    written: int,
    origin: Origin | None = None,
    bounds: Bounds | None = None,
    proved: str = "",
) -> bytes:
    """Make a block.

    Args:
        text: A SCHEMA line, then RECORD and ACTIVATE_VERSION lines, each ended by a newline.
        rows: How many of them are RECORD lines.
        written: Microseconds since 1970.
        origin: For a block put together from others.
        bounds: Those of its keys, as far as they are known.
        proved: The hash of its schema, where its values are certain to have the types of it.
    """
    body = isal_zlib.compress(text, LEVEL, -15)
    crc, size = isal_zlib.crc32(text), len(text)
    noted = _noted((crc, size), origin, bounds, proved)
    return _member([body], (crc, size), (rows, written), noted)


def encode_pieces(
    pieces: Sequence[bytes | memoryview],
    rows: int,
    written: int,
    bounds: Bounds | None = None,
    proved: str = "",
) -> bytes:
    """Make a block of a text that lies in several places: to join it first would copy all of it.

    Args:
        pieces: The text's parts, in order.
        rows: As for :func:`encode`.
        written: As there.
        bounds: As there.
        proved: As there.
    """
    crc = size = 0
    deflater = isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, -15)
    body: list[bytes] = []
    for piece in pieces:
        body.append(deflater.compress(piece))
        crc, size = isal_zlib.crc32(piece, crc), size + len(piece)
    noted = _noted((crc, size), None, bounds, proved)
    return _member([*body, deflater.flush()], (crc, size), (rows, written), noted)


def _noted(
    checks: tuple[int, int], origin: Origin | None, bounds: Bounds | None, proved: str
) -> bytes:
    """The subfields of a header behind the first."""
    replaced = b""
    if origin is not None:
        stamps = struct.pack(f"<{len(origin.replaced)}Q", *origin.replaced)
        replaced = _ORIGIN.pack(_ORIGIN_ID, 8 + len(stamps), origin.number) + stamps
    return b"".join(
        (replaced, proved_types.encode(proved, *checks), key_bounds.encode(bounds or {}, *checks))
    )


def _member(
    body: Sequence[bytes], checks: tuple[int, int], said: tuple[int, int], noted: bytes
) -> bytes:
    crc, size = checks
    extra = 4 + _PAYLOAD + len(noted)
    length = HEADER_BYTES + len(noted) + sum(map(len, body)) + _TRAILER.size
    header = _HEADER.pack(_MAGIC, 0, 0, 255, extra, _ID, _PAYLOAD, length, *said)
    trailer = _TRAILER.pack(crc, size & 0xFFFFFFFF)
    return b"".join((header, noted, *body, trailer))


def header(data: bytes, where: str) -> Header:
    """Read a block's header.

    Args:
        data: At least the first ``HEADER_BYTES`` of the block.
        where: What to call the place in an error.

    Raises:
        DamagedError: These are not the first bytes of a block.
    """
    if len(data) >= HEADER_BYTES:
        magic, *_, extra, name, payload, length, rows, written = _HEADER.unpack_from(data)
        if (magic, name, payload) == (_MAGIC, _ID, _PAYLOAD) and extra >= 4 + _PAYLOAD:
            return Header(length, rows, written)
    raise DamagedError(f"{where} does not begin with a Singerlake block")


def is_fixed(data: bytes) -> bool:
    """Tell whether the fields of gzip's own header say nothing, as every writer makes them."""
    return data[len(_MAGIC) : len(_MAGIC) + len(_FIXED)] == _FIXED


def origin(data: bytes, where: str) -> Origin | None:
    """What a whole block says of the blocks it was put together from; None for any other.

    Raises:
        DamagedError: Its header is altered.
    """
    header(data, where)
    fields = _subfields(data)
    if fields is None or not fields.keys() <= _KNOWN:
        raise DamagedError(f"{where} does not begin with a Singerlake block")
    field = fields.get(_ORIGIN_ID)
    if field is None:
        return None
    count, rest = divmod(len(field) - _ORIGIN.size, 8)
    if count < 0 or rest:
        raise DamagedError(f"{where} does not begin with a Singerlake block")
    _, _, number = _ORIGIN.unpack_from(field)
    return Origin(number, struct.unpack_from(f"<{count}Q", field, _ORIGIN.size))


def bounds_in(data: bytes, crc: int, size: int) -> Bounds:
    """What a block says of its keys; nothing where it does not, or cannot be trusted.

    Args:
        data: The block, or at least :func:`noted_bytes` of it.
        crc: The CRC-32 that the log has for it.
        size: The bytes that it has for it.
    """
    field = (_subfields(data) or {}).get(key_bounds.ID)
    return {} if field is None else key_bounds.decode(field, crc, size)


def has_bounds(data: bytes) -> bool:
    """Tell whether a block says anything of its keys, trusted or not."""
    return key_bounds.ID in (_subfields(data) or {})


def proved_in(data: bytes, schema_hash: str, crc: int, size: int) -> bool:
    """Tell whether a block says that its types are proved, and can be trusted.

    Args:
        data: As for :func:`bounds_in`.
        schema_hash: Of the schema that the log has it under.
        crc: As there.
        size: As there.
    """
    field = (_subfields(data) or {}).get(proved_types.ID)
    return field is not None and proved_types.holds(field, schema_hash, crc, size)


def says_proved(data: bytes) -> bool:
    """Tell whether a block says anything of its types, trusted or not."""
    return proved_types.ID in (_subfields(data) or {})


def noted_bytes(data: bytes) -> int:
    """Bytes of a block's header with all that it says, by its first twelve."""
    return _XLEN_END + int.from_bytes(data[_XLEN_END - 2 : _XLEN_END], "little")


def _subfields(data: bytes) -> dict[bytes, bytes] | None:
    """The subfields behind the first, each whole, by what they are; None if they are damaged."""
    end = noted_bytes(data)
    fields: dict[bytes, bytes] = {}
    at = HEADER_BYTES
    while at < end:
        following = at + 4 + int.from_bytes(data[at + 2 : at + 4], "little")
        name = data[at : at + 2]
        if following > min(end, len(data)) or name in fields:
            return None
        fields[name] = data[at:following]
        at = following
    return fields


def decode(data: bytes, size: int, where: str) -> bytes:
    """Inflate one block and check it.

    Args:
        data: The whole member.
        size: Bytes it must inflate to, as the log has it. Nothing beyond is ever made, so
            a forged block cannot fill the memory.
        where: What to call the place in an error.

    Raises:
        DamagedError: It is cut, altered, or longer or shorter than it should be.
    """
    try:
        # A third faster than isal_zlib's, and checks the trailer's CRC as well.
        inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        text: bytes = inflater.decompress(data, size + 1)
    except (igzip_lib.error, EOFError) as error:  # type: ignore[misc]  # not a class to its stubs
        raise DamagedError(f"{where} is damaged: {error}") from error
    if len(text) != size or not inflater.eof or inflater.unused_data:
        raise DamagedError(f"{where} is damaged: it does not contain the {size} bytes it should")
    return text


def inflated_size(data: bytes) -> int:
    """Bytes a whole member inflates to, by its trailer (for blocks below 4 GiB)."""
    size: int = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)[1]
    return size


def checksum(data: bytes) -> int:
    """The CRC-32 of what a whole member inflates to, by its trailer."""
    crc: int = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)[0]
    return crc


def check_is(data: bytes, rows: int, crc: int | None, where: str) -> None:
    """Make sure that a whole member is the one that the log means, by its first and last bytes.

    Args:
        data: The member.
        rows: The RECORD lines that the log says it has.
        crc: The CRC-32 that the log gives it; None where it gives none.
        where: What to call the place in an error.

    Raises:
        DamagedError: It is another block.
    """
    head = header(data, where)
    if head.length != len(data) or head.rows != rows or crc not in (None, checksum(data)):
        raise DamagedError(f"{where} is not the block in the log: it is damaged, or another block")


def lines(text: bytes) -> tuple[bytes, bytes]:
    """Split an inflated block into its SCHEMA line and the rest, both without loss.

    Returns:
        The SCHEMA line with its newline, and all later lines.
    """
    end = text.find(b"\n") + 1
    return text[:end], text[end:]


def after_schema(text: bytes) -> memoryview:
    """What follows the SCHEMA line, where it is: to copy it takes half as long as to inflate it."""
    return memoryview(text)[text.find(b"\n") + 1 :]


def line_ends(text: bytes) -> int:
    """How many lines end in a text; ``bytes.count`` takes three times as long."""
    return len(text) - len(text.replace(b"\n", b""))


def walk(headers: Iterator[bytes], where: str) -> Iterator[tuple[int, Header]]:
    """Pair each header read at the right place with the offset it lies at.

    Args:
        headers: Yields the bytes at offset 0, then at each offset that the one before names.
        where: What to call the file in an error.
    """
    offset = 0
    for data in headers:
        head = header(data, f"{where} at byte {offset}")
        yield offset, head
        offset += head.length
