"""Objects beside a table's log that know keys of erased rows: the log itself names none of these.

A *notice* has the keys themselves, for readers that are behind, and only for a time.
"""

from __future__ import annotations

import gzip
import re
import secrets
import zlib
from collections.abc import Mapping, Sequence

import msgspec

from singerlake.errors import DamagedError

NOTICES = "erased/notices/"
"""Where notices lie, within the table's folder."""
MOST_BYTES = 1 << 26
"""Bytes of a notice's lines, at most: nobody inflates more."""

_NOTICE = re.compile(r"erased/notices/[0-9a-f]{32}\.gz")
_KEY = msgspec.json.Decoder(dict[str, msgspec.Raw])


def new_id() -> str:
    """Give an object a name that nobody has had, and that says nothing."""
    return secrets.token_hex(16)


def notice(unique: str) -> str:
    """Return a notice's path within the table's folder."""
    return f"{NOTICES}{unique}.gz"


def is_notice(path: str) -> bool:
    """Whether a path within a table's folder is one of a notice."""
    return _NOTICE.fullmatch(path) is not None


def encode_notice(lines: bytes) -> bytes:
    """Pack the keys of a notice.

    Args:
        lines: Each a JSON object with the members of a key, ended by a newline.
    """
    return gzip.compress(lines, mtime=0)


def decode_notice(data: bytes, where: str) -> Sequence[Mapping[str, msgspec.Raw]]:
    """Read the keys of a notice.

    Args:
        data: The object's bytes.
        where: What to call it in an error.

    Raises:
        DamagedError: They are not what was written.
    """
    inflate = zlib.decompressobj(31)
    try:
        lines = inflate.decompress(data, MOST_BYTES)
        if not inflate.eof or inflate.unused_data:
            raise DamagedError(f"{where} is cut off, or larger than a notice can be")
        return [_KEY.decode(line) for line in lines.splitlines()]
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError(f"{where} cannot be read: {error}") from error
