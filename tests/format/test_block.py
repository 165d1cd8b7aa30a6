"""Blocks: gzip members that any reader reads, and that cannot be cut or forged unseen."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import DamagedError
from singerlake.format import block

LINES = b'{"type":"SCHEMA"}\n{"type":"RECORD"}\n{"type":"RECORD"}\n'
texts = st.binary(max_size=300) | st.binary(min_size=1, max_size=5).map(lambda b: b * 5000)


@settings(max_examples=100, deadline=None)
@given(texts, st.integers(0, 2**32 - 1), st.integers(0, 2**63))
def test_a_block_reads_back_here_and_everywhere(text: bytes, rows: int, written: int) -> None:
    data = block.encode(text, rows, written)
    assert block.decode(data, len(text), "x") == text
    assert block.header(data, "x") == block.Header(len(data), rows, written)
    assert block.inflated_size(data) == len(text)
    assert gzip.decompress(data) == text
    inflater = zlib.decompressobj(wbits=31)
    assert inflater.decompress(data) == text
    assert inflater.eof
    assert gzip.GzipFile(fileobj=io.BytesIO(data + data)).read() == text * 2


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_block_cut_or_altered_is_damaged(data: st.DataObject) -> None:
    good = block.encode(LINES, 2, 5)
    place = data.draw(st.integers(0, len(good) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda v: v != good[place]))
    altered = good[:place] + bytes([value]) + good[place + 1 :]
    try:
        # Header fields that gzip skips may differ, and codes that stand for no byte in it;
        # what is inside may not.
        assert block.decode(altered, len(LINES), "x") == LINES
        assert place < len(good) - 8, "checksum and length do not count"
    except DamagedError:
        pass
    with pytest.raises(DamagedError):
        block.decode(good[:place], len(LINES), "x")


@pytest.mark.parametrize("size", [0, 1, len(LINES) - 1, len(LINES) + 1, 10**9])
def test_a_block_of_another_size_is_damaged(size: int) -> None:
    with pytest.raises(DamagedError):
        block.decode(block.encode(LINES, 2, 5), size, "x")


def test_a_block_with_something_behind_it_is_damaged() -> None:
    good = block.encode(LINES, 2, 5)
    with pytest.raises(DamagedError):
        block.decode(good + b"x", len(LINES), "x")


def test_a_forged_block_cannot_fill_the_memory() -> None:
    bomb = block.encode(bytes(200 << 20), 1, 1)
    assert len(bomb) < 4 << 20
    tracemalloc.start()
    with pytest.raises(DamagedError):
        block.decode(bomb, 1000, "x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


@given(st.binary(max_size=60) | st.just(gzip.compress(b"x")))
def test_what_is_no_block_has_no_header(data: bytes) -> None:
    with pytest.raises(DamagedError, match="here"):
        block.header(data, "here")


def test_walking_from_block_to_block() -> None:
    blocks = [block.encode(LINES * n, n, n) for n in (1, 2, 3)]
    file = b"".join(blocks)

    def headers(places: list[int]) -> list[bytes]:
        return [file[place : place + block.HEADER_BYTES] for place in places]

    offsets = [0, len(blocks[0]), len(blocks[0]) + len(blocks[1])]
    walked = list(block.walk(iter(headers(offsets)), "x"))
    assert [offset for offset, _ in walked] == offsets
    assert [head.rows for _, head in walked] == [1, 2, 3]


def test_the_header_is_what_the_format_says() -> None:
    """RFC 1952 with one extra subfield, byte by byte."""
    data = block.encode(LINES, 2, 5)
    assert data[:4] == b"\x1f\x8b\x08\x04"
    assert struct.unpack_from("<IBBH", data, 4) == (0, 0, 255, 24)
    assert data[12:14] == b"SL"
    assert struct.unpack_from("<HQIQ", data, 14) == (20, len(data), 2, 5)
    assert struct.unpack("<II", data[-8:]) == (zlib.crc32(LINES), len(LINES))


def test_the_schema_line_and_the_rest() -> None:
    assert block.lines(LINES) == (LINES[:18], LINES[18:])
