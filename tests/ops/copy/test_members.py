"""A file is checked while it goes by, in whatever pieces, and whatever it claims to hold."""

from __future__ import annotations

import gzip
import random

import pytest

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format.log import Block
from singerlake.ops.copy.members import MemberCheck

TEXTS = [b'{"type": "SCHEMA"}\n' + b"x" * n + b"\n" for n in (10, 3_000_000, 500)]


def file() -> tuple[bytes, list[Block]]:
    data, blocks = b"", []
    for number, text in enumerate(TEXTS, 1):
        member = format_block.encode(text, number, 0)
        crc = format_block.checksum(member)
        blocks.append(Block(number, "f", len(data), len(member), number, len(text), crc=crc))
        data += member
    return data, blocks


def check(data: bytes, blocks: list[Block], piece: int) -> None:
    checking = MemberCheck("f", blocks)
    for start in range(0, len(data), piece):
        checking.feed(data[start : start + piece])
    checking.end()


@pytest.mark.parametrize("piece", [1, 13, 1000, 1 << 20])
def test_a_file_is_what_the_log_says(piece: int) -> None:
    data, blocks = file()
    check(data, blocks, piece)
    check(data, blocks[1:], piece)  # of one that a vacuum has moved the log says nothing any more


def test_every_bit_counts_that_changes_a_row() -> None:
    data, blocks = file()
    rows = gzip.decompress(data)
    chance = random.Random(1)
    for _ in range(300):
        at, bit = chance.randrange(len(data)), 1 << chance.randrange(8)
        flipped = data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
        within = at - max(b.offset for b in blocks if b.offset <= at)
        if 4 <= within < 10 or 28 <= within < 36:
            continue  # gzip's time and system, and when the block was made: no log has them
        try:
            check(flipped, blocks, 4096)
        except DamagedError:
            continue
        assert gzip.decompress(flipped) == rows, "some bits of deflate have no meaning, no others"


def test_what_is_missing_or_another_is_found() -> None:
    data, blocks = file()
    for cut in (1, 9, blocks[0].length, len(data) // 2, len(data) - 1):
        with pytest.raises(DamagedError, match="cut"):
            check(data[:cut], blocks, 100)
    for more in (b"more", gzip.compress(b"more")):
        with pytest.raises(DamagedError):
            check(data + more, blocks, 100)
    other = [*blocks[:2], Block(3, "f", blocks[2].offset, blocks[2].length, 3, 519, crc=1)]
    with pytest.raises(DamagedError, match="not block 3"):
        check(data, other, 100)
