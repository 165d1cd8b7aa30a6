"""Gzip members are read as far as they go, in pieces of any size; lines stay whole."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import DamagedError
from singerlake.format import block
from singerlake.ops.erase import reading

TEXTS = st.lists(st.binary(max_size=50).map(lambda one: one * 40), min_size=1, max_size=4)


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@given(TEXTS, st.integers(1, 40), st.integers(16, 200))
def test_members_in_pieces_of_any_size(texts: list[bytes], size: int, most: int) -> None:
    packed = b"".join(gzip.compress(text) for text in texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "PIECE_BYTES", most)
        pieces = [*reading.inflated(cut(packed, size), "x")]
    assert b"".join(pieces) == b"".join(texts)
    assert max(map(len, pieces), default=0) <= most


@given(st.binary(min_size=200, max_size=400), st.integers(1, 40), st.integers(0, 100))
def test_what_was_cut_off_is_read_as_far_as_it_goes(text: bytes, size: int, lost: int) -> None:
    packed = gzip.compress(b"whole\n") + gzip.compress(text)
    part = packed[: len(packed) - lost]
    expected = b"whole\n" + zlib.decompressobj(31).decompress(
        part[len(gzip.compress(b"whole\n")) :]
    )
    assert b"".join(reading.inflated(cut(part, size), "x")) == expected


def test_bytes_behind_the_last_member_are_given_too() -> None:
    data = gzip.compress(b"a\n") + b"Ada Lovelace"
    assert b"".join(reading.inflated(cut(data, 7), "x")) == b"a\nAda Lovelace"


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 9))
def test_zeros_between_members_are_skipped(zeros: int, more: int, size: int) -> None:
    first, second = gzip.compress(b"a\n"), gzip.compress(b"Ada\n")
    data = first + bytes(zeros) + second + bytes(more)
    assert b"".join(reading.inflated(cut(data, size), "x")) == b"a\nAda\n" == gzip.decompress(data)
    data = first + "Ada".encode("utf-16-be")
    assert b"".join(reading.inflated(cut(data, size), "x")).endswith("Ada".encode("utf-16-be"))


def test_damage_is_said() -> None:
    damaged = bytearray(gzip.compress(bytes(range(256)) * 9))
    damaged[14] ^= 255
    with pytest.raises(DamagedError, match="x cannot be decompressed"):
        b"".join(reading.inflated(iter([bytes(damaged)]), "x"))


@given(st.lists(st.binary(max_size=9).map(lambda one: one.replace(b"\x00", b"\n")), max_size=9))
def test_lines_stay_whole(pieces: list[bytes]) -> None:
    batches = [*reading.batches(iter(pieces))]
    assert b"".join(batches) == b"".join(pieces)
    assert all(batch.endswith(b"\n") for batch in batches[:-1])


def test_a_line_without_end_is_searched_in_parts_that_overlap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE", 10)
    monkeypatch.setattr(reading, "OVERLAP", 4)
    assert [*reading.batches(cut(b"0123456789abcdef", 3))] == [b"0123456789ab", b"89abcdef"]


def test_what_a_header_says_is_seen_where_the_lines_are_cut_off() -> None:
    """A writer that was killed may leave the header of a block whose lines it has not written."""
    text = b'{"type":"SCHEMA"}\n' + b'{"type":"RECORD","record":{"id":4711,"name":"Zo\xc3\xab"}}\n'
    whole = block.encode(text, 1, 1, None, {"id": (4711, 4712), "name": ("Zoë", "Zoë")})
    assert b"".join(reading.inflated(cut(whole * 2, 7), "x")) == text * 2
    for size in (1, 7, 10_000):
        part = whole + whole[: block.noted_bytes(whole)]
        found = b"".join(reading.inflated(cut(part, size), "x"))
        assert found.startswith(text)
        raw, *records = found.removeprefix(text).split(b"\n")[1:-1]
        assert raw == '{"id":[4711,4712],"name":["Zoë","Zoë"]}'.encode()
        assert [json.loads(line)["record"] for line in records] == [
            {"id": 4711, "name": "Zoë"},
            {"id": 4712, "name": "Zoë"},
        ]
    # Not even the header is whole: then what is there of it.
    torn = whole[: block.noted_bytes(whole) - 9]
    assert "Zoë".encode() in b"".join(reading.inflated(cut(torn, 9), "x"))
