"""One stream's lines until they are a block, and the threads that compress blocks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from typing import TypeAlias

from msgspec import UNSET

from singerlake.format import block as format_block
from singerlake.format import key_bounds, times
from singerlake.format.key_bounds import Bound, Bounds
from singerlake.format.log import Block
from singerlake.format.types import Columns
from singerlake.rows.blocks import bounded_keys, type_prover
from singerlake.rows.blocks.bounded_keys import Members
from target_singerlake.messages import Record, decode_line

PENDING_BYTES = 24 * 1024 * 1024
"""Uncompressed bytes that may wait for the compressing threads."""
KEYS_SHARE = 16
"""A block's keys are looked for in lines that came without them, if these are no more than this
part of it: to decode all of them again would cost a tenth of the target's rate."""
KEYS_BYTES = 64 * 1024
"""Or no more than that."""

Keys: TypeAlias = "dict[str, list[Bound | None]]"
"""What records have in members that are of their key, by these."""


def some(keys: Keys | None, at: int, count: int) -> Keys | None:
    """Return what some of the records have, from one of them on."""
    return keys and {name: values[at : at + count] for name, values in keys.items()}


def pieces(text: bytes, rows: int, room: int, most: int) -> Iterator[tuple[bytes, int]]:
    """Cut lines where blocks are full.

    Args:
        room: How many the present block takes.
        most: How many the others take.

    Yields:
        Lines, and how many.
    """
    if rows <= room:
        yield text, rows
        return
    lines, at = BytesIO(text).readlines(), 0
    while at < rows:
        piece = lines[at : at + room]
        yield b"".join(piece), len(piece)
        at, room = at + len(piece), most


@dataclass
class StreamBuffer:
    """Lines of one stream under one SCHEMA line, up to a block's worth.

    Attributes:
        schema_line: Begins every block; with its newline.
        parts: Stretches of lines, each line ended by a newline.
        rows: RECORD lines in them.
        size: Bytes in them.
        first: The part whose first line is the first RECORD.
        last: The part whose last line is the last RECORD.
        members: Of records, those whose bounds a block has.
        bounds: Those of the records whose keys are known.
        unknown: Parts whose keys are not.
        types: The hash of the schema whose types its records are proved to have; empty where none
            are to be.
        unproved: Parts whose types are not proved yet.
    """

    schema_line: bytes
    parts: list[bytes] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    activations: list[tuple[int, int]] = field(default_factory=list)
    first: bytes = b""
    last: bytes = b""
    members: Members = ()
    bounds: Bounds = field(default_factory=dict)
    unknown: list[bytes] = field(default_factory=list)
    types: str = ""
    columns: Columns = ()
    unproved: list[bytes] = field(default_factory=list)

    def add_records(
        self, text: bytes, rows: int, keys: Keys | None = None, *, proved: bool = False
    ) -> None:
        """Append RECORD lines, each with its newline; the caller sees to the block's limits.

        Args:
            rows: How many.
            keys: What they have in all :attr:`members`, if somebody knows.
            proved: Whether their types are.
        """
        if self.types and not proved:
            self.unproved.append(text)
        if keys is None or len(keys) < len(self.members):
            self.unknown.append(text)
        else:
            for name, values in keys.items():
                key_bounds.widened(self.bounds, name, key_bounds.span(values))
        if not self.rows:
            self.first = text
        self.last = text
        self.parts.append(text)
        self.rows += rows
        self.size += len(text)

    def add_activation(self, line: bytes, version: int) -> None:
        """Append an ACTIVATE_VERSION line."""
        self.parts.append(line)
        self.activations.append((self.rows, version))
        self.size += len(line)

    def cut(self, written: int) -> Callable[[], tuple[bytes, Block]]:
        """Take everything out as one block.

        Args:
            written: The block's time, in microseconds since 1970.

        Returns:
            The work of compressing it, for another thread.
        """
        parts, rows, activations = self.parts, self.rows, self.activations
        schema_line, first, last = self.schema_line, self.first, self.last
        bounds, proved = self._bounds(), self._proved()
        self.parts, self.rows, self.size, self.activations = [], 0, 0, []
        self.first = self.last = b""
        self.bounds, self.unknown, self.unproved = {}, [], []

        def compress() -> tuple[bytes, Block]:
            text = b"".join((schema_line, *parts))
            data = format_block.encode(text, rows, written, bounds=bounds, proved=proved)
            block = Block(
                number=0,
                file="",
                offset=0,
                length=len(data),
                rows=rows,
                bytes=len(text),
                first=_stamp(first[: first.find(b"\n")], written) if rows else "",
                last=_stamp(last[last.rfind(b"\n", 0, -1) + 1 : -1], written) if rows else "",
                activations=activations,
            )
            return data, block

        return compress

    def _bounds(self) -> Bounds:
        """The bounds of the keys; none unless they are of all lines."""
        if not self.unknown or not self.members:
            return self.bounds
        if sum(map(len, self.unknown)) > max(KEYS_BYTES, self.size // KEYS_SHARE):
            return {}
        # Here, and not where blocks are compressed: types are built by one thread.
        found = bounded_keys.of_lines(self.unknown, self.members)
        if found is None:
            return {}
        for name, both in self.bounds.items():
            key_bounds.widened(found, name, both)
        return found

    def _proved(self) -> str:
        """The schema whose types all lines are certain to have; empty if they are not."""
        if not self.types or not self.unproved:
            return self.types
        # Of a small block nobody has any use for it, and of many lines it would cost too much.
        worth = max(type_prover.LEAST_BYTES, KEYS_SHARE * sum(map(len, self.unproved)))
        if self.size < worth or not type_prover.proves(self.unproved, self.columns):
            return ""
        return self.types


def _stamp(line: bytes, written: int) -> str:
    """Read a RECORD line's ``time_extracted``; where that is no time, when the block was cut."""
    message = decode_line(line, 0)
    text = message.time_extracted if isinstance(message, Record) else UNSET
    instant = times.parse(text) if isinstance(text, str) else None
    return times.iso(instant or times.from_micros(written))


class Compressor:
    """Compresses blocks on worker threads; isal lets go of Python's lock while it works.

    There are as many threads as processors, at most four.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1), "compress")
        self._pending: deque[
            tuple[int, Future[tuple[bytes, Block]], Callable[[bytes, Block], None]]
        ] = deque()
        self._bytes = 0

    def submit(
        self,
        size: int,
        work: Callable[[], tuple[bytes, Block]],
        done: Callable[[bytes, Block], None],
    ) -> None:
        """Hand over a block.

        Args:
            size: Its bytes before compression.
            work: Makes the block, on another thread.
            done: Takes it, on this thread, in the order of submission.
        """
        self._pending.append((size, self._pool.submit(work), done))
        self._bytes += size
        while self._pending and (self._bytes > PENDING_BYTES or self._pending[0][1].done()):
            self._take_first()

    def drain(self) -> None:
        """Wait for all blocks."""
        while self._pending:
            self._take_first()

    def close(self) -> None:
        """Drop what is pending."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pending.clear()

    def _take_first(self) -> None:
        size, future, done = self._pending.popleft()
        self._bytes -= size
        done(*future.result())
