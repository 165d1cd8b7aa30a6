"""Lines on their way into a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from singerlake.format import block as format_block
from singerlake.format import times
from singerlake.format.log import Block
from singerlake.rows.blocks import bounded_keys, type_prover


class _Envelope(msgspec.Struct):
    time_extracted: str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)


@dataclass
class BlockBuilder:
    """Lines under one schema.

    Attributes:
        schema_line: The schema's SCHEMA line.
        lines: RECORD lines, each with its newline.
        size: Their bytes.
        deleted: How many of them delete their row.
        origin: The position of the first one's row, before it was written here.
    """

    schema_line: bytes
    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    deleted: int = 0
    origin: tuple[int, int] = (0, 0)

    def add(self, line: bytes) -> None:
        """Add a line, without its newline."""
        self.lines.append(line + b"\n")
        self.size += len(line) + 1

    def extend(self, lines: Sequence[bytes]) -> int:
        """Add lines with their newlines until there are enough bytes; gives how many."""
        size = sum(map(len, lines))
        if self.size + size < format_block.BLOCK_BYTES:
            self.lines += lines
            self.size += size
            return len(lines)
        for count, line in enumerate(lines, start=1):
            self.lines.append(line)
            self.size += len(line)
            if self.size >= format_block.BLOCK_BYTES:
                return count
        return len(lines)

    def full(self, most_rows: int) -> bool:
        """Tell whether it makes a block."""
        return len(self.lines) >= most_rows or self.size >= format_block.BLOCK_BYTES

    def block(self) -> tuple[bytes, Block]:
        """Make the block: its gzip member, and its description without number and place."""
        text = b"".join((self.schema_line, *self.lines))
        rows = len(self.lines)
        bounds = bounded_keys.of_block(text)
        proved = type_prover.proved_by(self.schema_line, self.lines)
        now = times.micros(times.now())
        data = format_block.encode(text, rows, now, bounds=bounds, proved=proved)
        first, last = _stamp(self.lines[0]), _stamp(self.lines[-1])
        return data, Block(0, "", 0, len(data), rows, len(text), first, last)


def _stamp(line: bytes) -> str:
    text = _ENVELOPE.decode(line).time_extracted
    instant = times.parse(text) if text else None
    return times.iso(instant or times.now())
