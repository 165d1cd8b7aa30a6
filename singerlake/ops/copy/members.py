"""Checking a data file while its bytes go by: every block against the log, in flat memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from isal import igzip_lib, isal_zlib

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format.log import Block

PIECE = 1 << 20
"""What is inflated at a time, whatever a block claims to hold."""
SLICE = 1 << 18
"""What is given to the inflater at a time: what it leaves of it is copied at each member's end."""


class MemberCheck:
    """Inflates the members of a file one after the other, and keeps nothing of them.

    Args:
        where: What to call the file in an error.
        blocks: What the log says lies in it. What else lies there, of blocks that a vacuum has
            moved or dropped since, need only be blocks, and whole.
    """

    def __init__(self, where: str, blocks: Iterable[Block]) -> None:
        self._where = where
        self._wanted = {block.offset: block for block in blocks}
        self._at = 0
        self._begin()

    def _begin(self) -> None:
        self._inflater: Any = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        self._start, self._fed = self._at, 0
        self._head = b""
        self._size = self._crc = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the file.

        Raises:
            DamagedError: A block in them is not what the log says.
        """
        view = memoryview(data)
        for start in range(0, len(data), SLICE):
            self._feed(bytes(view[start : start + SLICE]))

    def _feed(self, data: bytes) -> None:
        while data:
            if len(self._head) < format_block.HEADER_BYTES:
                self._head += data[: format_block.HEADER_BYTES - len(self._head)]
            self._fed += len(data)
            self._inflate(data)
            data = b""
            if self._inflater.eof:
                data = self._inflater.unused_data
                self._end_member(self._fed - len(data))

    def end(self) -> None:
        """Make sure, at the file's end, that nothing is missing.

        Raises:
            DamagedError: The file ends within a block, or before one that the log names.
        """
        if self._fed or self._wanted:
            raise DamagedError(f"{self._where} is cut: it ends early, at byte {self._at:,}")

    def _inflate(self, data: bytes) -> None:
        try:
            while True:
                text = self._inflater.decompress(data, PIECE)
                self._size += len(text)
                self._crc = isal_zlib.crc32(text, self._crc)
                data = b""
                if self._inflater.eof or self._inflater.needs_input:
                    return
        except (igzip_lib.error, EOFError) as error:  # type: ignore[misc]  # not a class to its stubs
            raise self._damaged(str(error)) from error

    def _end_member(self, length: int) -> None:
        block = self._wanted.pop(self._start, None)
        head = format_block.header(self._head, f"{self._where} at byte {self._start:,}")
        if block is not None:
            found = (length, head.length, head.rows, self._size)
            if found != (block.length, block.length, block.rows, block.bytes) or (
                block.crc not in (None, self._crc)
            ):
                raise self._damaged(f"it is not block {block.number} in the log")
        self._at += length
        self._begin()

    def _damaged(self, why: str) -> DamagedError:
        return DamagedError(f"{self._where} is damaged at byte {self._start:,}: {why}")
