"""Files that people name and that are read whole: not one that never ends, such as /dev/zero."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from singerlake.errors import UsageError
from singerlake.quantities import size

MOST = 256_000_000
"""Bytes that such a file may have, unless somebody says otherwise."""


def read(path: Path, these: str, most: int = MOST) -> bytes:
    """Read a file, which may be a pipe.

    Args:
        these: What is to be in it, for the message: ``annotations``.
        most: How many bytes it may have.

    Raises:
        UsageError: It has more.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return read_open(file, str(path), these, most)


def read_open(file: BinaryIO, where: str, these: str, most: int = MOST) -> bytes:
    """Read an open file as :func:`read` does.

    Raises:
        UsageError: It has more.
        OSError: It cannot be read.
    """
    parts, left = [], most + 1  # what it says of its size is not asked: of pipes it is 0
    while left > 0 and (part := file.read(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise UsageError(f"{where} has more than {size(most)}: these are no {these}")
    return b"".join(parts)
