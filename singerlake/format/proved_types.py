"""The proof of a block's types, in its gzip header: by whom, and for which schema.

Who says it has decoded every line. A reader may then take a parser that would make 1 of ``1.5`` or
``"1"`` in a column of whole numbers, for there is none. It is no part of the log, whose entries
earlier releases would refuse with a member they do not know; of a header they skip it.
"""

from __future__ import annotations

import struct
import zlib

ID = b"ST"
PROVER = 1
"""What is proved (``rows/blocks/type_prover.py``): types by the rules 2 and 3, which differ only
in what a key may be. Another number is another proof, and so are other rules (``types.RULES``), for
a block says only that it has the types of its time."""
_HEAD = struct.Struct("<2sHI")
_TRAILER = struct.Struct("<II")


def encode(schema_hash: str, crc: int, size: int) -> bytes:
    """Make the subfield of a gzip header.

    Args:
        schema_hash: Of the schema whose types the values have; empty where nothing is proved.
        crc: The CRC-32 of the block's lines, and
        size: their number of bytes: by these it belongs to no other block.
    """
    if not schema_hash:
        return b""
    said = bytes([PROVER]) + schema_hash.encode()
    return _HEAD.pack(ID, 4 + len(said), _sum(said, crc, size)) + said


def holds(field: bytes, schema_hash: str, crc: int, size: int) -> bool:
    """Tell whether such a subfield says that types are proved; not where it is damaged.

    Args:
        field: The subfield, whole.
        schema_hash: Of the schema that the block was written under.
        crc: The CRC-32 that the log has for the block.
        size: The bytes that it has for it.
    """
    return bool(schema_hash) and field == encode(schema_hash, crc, size)


def _sum(said: bytes, crc: int, size: int) -> int:
    return zlib.crc32(said, zlib.crc32(_TRAILER.pack(crc, size & 0xFFFFFFFF)))
