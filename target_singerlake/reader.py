"""Standard input as bytes, in large chunks, cut at the last line end."""

from __future__ import annotations

import fcntl
import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import IO, Any

from singer_sdk.io_base import GenericSingerReader

from target_singerlake.errors import InvalidLineError

CHUNK = 256 * 1024
"""Bytes taken at once. What larger ones decode to falls out of the processor's caches, which
cost up to a third of the speed; smaller ones cost more calls."""

LINE_BYTES = 512 * 1024 * 1024
"""A line must be held whole. One that is longer is no message, and would fill the memory; a
block of it would be larger than readers take."""

BOM = b"\xef\xbb\xbf"
"""What Windows' programs put before UTF-8; it is no part of the text."""

PIPE = 1024 * 1024
"""Bytes a pipe is asked to hold, so that the tap can work ahead."""


class ChunkReader(GenericSingerReader[str]):
    """Gives the target whole chunks of lines where the SDK's readers give it dictionaries.

    Args:
        interruptible: Entered while waiting for input.
    """

    def __init__(
        self, interruptible: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        super().__init__()
        self._interruptible = interruptible

    @property
    def default_input(self) -> IO[str]:
        """Standard input."""
        return sys.stdin

    def deserialize_json(self, line: str) -> dict[str, Any]:
        """Not needed: lines are decoded by ``target_singerlake.messages``."""
        raise AssertionError(f"a line was read on its own: {line[:80]}")

    def chunks(self, file_input: IO[str] | IO[bytes] | None) -> Iterator[bytes]:
        """Whole lines, about ``CHUNK`` bytes at a time; the last gets its newline if it has none.

        Args:
            file_input: Text or binary; None for standard input. A byte order mark at its start is
                left out.

        Raises:
            InvalidLineError: A line is longer than ``LINE_BYTES``.
        """
        lines = self._whole_lines(file_input or sys.stdin)
        if first := next(lines, b"").removeprefix(BOM):
            yield first
        del first
        yield from lines

    def _whole_lines(self, source: IO[str] | IO[bytes]) -> Iterator[bytes]:
        tail: list[bytes] = []
        waiting = 0
        for data in self._pieces(source):
            end = data.rfind(b"\n") + 1
            if not end:
                tail.append(data)
                waiting += len(data)
                if waiting > LINE_BYTES:
                    raise InvalidLineError(
                        f"a line is longer than {LINE_BYTES >> 20} MiB, the maximum: "
                        f"{tail[0][:80].decode('utf-8', 'replace')}…"
                    )
                continue
            chunk = b"".join((*tail, data[:end]))
            tail = [data[end:]] if end < len(data) else []
            waiting = sum(map(len, tail))
            del data  # a line may be large: no copy of it is kept while it is worked on
            yield chunk
            del chunk
        if tail:
            yield b"".join(tail) + b"\n"

    def _pieces(self, source: IO[str] | IO[bytes]) -> Iterator[bytes]:
        binary = getattr(source, "buffer", source)
        try:
            descriptor = binary.fileno()
        except (AttributeError, OSError, io.UnsupportedOperation):
            while piece := source.read(CHUNK):
                yield piece.encode("utf-8") if isinstance(piece, str) else piece
            return
        _widen(descriptor)
        while piece := self._read(descriptor):
            yield piece

    def _read(self, descriptor: int) -> bytes:
        """Read what there is, up to ``CHUNK``; wait only while there is nothing."""
        pieces: list[bytes] = []
        size = 0
        while size < CHUNK and (not pieces or select.select([descriptor], [], [], 0)[0]):
            with self._interruptible():
                piece = os.read(descriptor, CHUNK - size)
            if not piece:
                break  # the end, which reads as such the next time too
            pieces.append(piece)
            size += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _widen(descriptor: int) -> None:
    """Let a pipe hold whole chunks, where it would hold 64 KiB."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # not a pipe, or more than this system allows
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE)
