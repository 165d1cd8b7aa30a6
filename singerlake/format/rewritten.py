"""Lines of a block that a vacuum put together: each says where it was first.

Such a line is the tap's own, with two members spliced in before its last ``}``:
``row_version``, the number of the block that it came in, and ``row_ordinal``, its place among
that block's RECORD lines. So a row keeps its position, by which rows are ordered and referred
to, when the rows around it go. Only a block that the log calls rewritten is read so: a line
that came from another lake may have such members too, and they mean nothing here.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import msgspec

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format.log import Block

VERSION = "row_version"
ORDINAL = "row_ordinal"


class PositionedLine(Protocol):
    """A decoded RECORD line that may say where it was first."""

    row_version: int | None
    row_ordinal: int | None


class _Line(msgspec.Struct):
    type: str
    row_version: int | None = None
    row_ordinal: int | None = None


_LINES = msgspec.json.Decoder(_Line)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def with_position(line: bytes, version: int, ordinal: int) -> bytes:
    """Return a RECORD line (without newline) that says where it came from."""
    if b'"row_' in line:  # it may say so already: of another lake, or by an earlier vacuum
        members = _MEMBERS.decode(line)
        if VERSION in members or ORDINAL in members:
            members.pop(VERSION, None)
            members.pop(ORDINAL, None)
            line = msgspec.json.encode(members)
    end = line.rindex(b"}")
    return b'%b, "row_version": %d, "row_ordinal": %d}' % (line[:end], version, ordinal)


def lines_after(text: bytes, block: Block, version: int) -> tuple[bytes, int]:
    """Return a rewritten block's text without the rows of some version or an earlier one.

    For a reader that goes on from a transaction in the middle of what was put together.

    Returns:
        The text, and how many rows it has.
    """
    schema_line, rest = format_block.lines(text)
    places = iter(positions(text, block))
    kept = [schema_line]
    rows = 0
    for line, message in zip(rest.split(b"\n"), _LINES.decode_lines(rest), strict=False):
        if message.type == "RECORD":
            if next(places)[0] <= version:
                continue
            rows += 1
        kept.append(line + b"\n")
    return b"".join(kept), rows


def positions(text: bytes, block: Block) -> list[tuple[int, int]]:
    """Return the position of each row of an inflated block: its first block, and its place there.

    Raises:
        DamagedError: It has other rows than the log says, or a line does not say its place.
    """
    if not block.rewritten:
        return [(block.number, ordinal) for ordinal in range(block.rows)]
    try:
        lines = _LINES.decode_lines(format_block.lines(text)[1])
    except msgspec.DecodeError as error:
        raise DamagedError(f"block {block.number} holds a line of another kind: {error}") from error
    stated = [
        position(line, block.number, 0, rewritten=True) for line in lines if line.type == "RECORD"
    ]
    check_positions(stated, block)
    return stated


def position(
    line: PositionedLine, number: int, ordinal: int, *, rewritten: bool
) -> tuple[int, int]:
    """Return a RECORD line's position; an impossible one where it should say its own but does not.

    Args:
        line: What it says.
        number: Its block's number.
        ordinal: Its place among the block's RECORD lines.
        rewritten: Whether a vacuum put the block together, so that the line tells.
    """
    if not rewritten:
        return number, ordinal
    return line.row_version or 0, -1 if line.row_ordinal is None else line.row_ordinal


def check_positions(stated: list[tuple[int, int]], block: Block) -> None:
    """Hold the positions that a rewritten block's lines say against the log.

    Raises:
        DamagedError: There are more or fewer, they do not rise, or lie outside the block.
    """
    inside = all(
        block.first_version <= version <= block.number and ordinal >= 0
        for version, ordinal in stated
    )
    rising = all(a < b for a, b in pairwise(stated))
    if len(stated) != block.rows or not inside or not rising:
        raise DamagedError(
            f"block {block.number}, which a vacuum compacted, has lines without their origin, or "
            "out of order"
        )


def activation_positions(
    lines: list[tuple[int, int] | int], number: int
) -> list[tuple[int, int | None, int]]:
    """Return where the activations of a rewritten block may have stood among its rows.

    Rows around them may be gone, so it is known only between which places; all of these mean
    the same. Only the last block that went in can have had activations.

    Args:
        lines: In order, the position of each row, and the version of each activation.
        number: The block's number.

    Returns:
        For each activation the least number of rows before it, the greatest (None for any),
        and its version.
    """
    activations: list[tuple[int, int | None, int]] = []
    for index, line in enumerate(lines):
        if isinstance(line, int):
            rows = [item for item in lines[:index] if isinstance(item, tuple)]
            least = rows[-1][1] + 1 if rows and rows[-1][0] == number else 0
            after = (item[1] for item in lines[index:] if isinstance(item, tuple))
            activations.append((least, next(after, None), line))
    return activations
