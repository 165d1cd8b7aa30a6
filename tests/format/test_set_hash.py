"""The hash of a set: as the page says, in any order, and not to be forged as a sum is."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.set_hash import LANES, SetHash, digest

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "fingerprints.md"
texts = st.lists(st.binary(max_size=20), max_size=6)


def of(*strings: bytes) -> SetHash:
    found = SetHash()
    found.add(strings)
    return found


def by_the_page(strings: list[bytes]) -> bytes:
    lanes = [0] * 1024
    for string in strings:
        numbers = struct.unpack("<1024H", blake3(string).digest(length=2048))
        lanes = [(lane + number) % 2**32 for lane, number in zip(lanes, numbers, strict=True)]
    return struct.pack("<1024I", *lanes)


def test_the_published_vectors() -> None:
    page = PAGE.read_text("utf-8")
    row, record = b'{"id":1,"name":"a"}', b'{"id": 1, "name": "a"}'
    said = dict(re.findall(r"^\| (.+?) \| `(lt1:[0-9a-f]{64})` \|$", page, re.MULTILINE))
    assert said == {
        "no row": of().text,
        'the row `{"id":1,"name":"a"}`': of(row).text,
        "the same row twice": of(row, row).text,
        'the record `{"id": 1, "name": "a"}`': of(digest(record)).text,
    }
    assert f"`{digest(record).hex()}`" in page


@given(texts)
def test_it_is_what_the_page_says(strings: list[bytes]) -> None:
    data = by_the_page(strings)
    assert of(*strings).data == data
    assert of(*strings).text == f"lt1:{blake3(data).hexdigest()}"


@given(texts, texts, st.randoms())
def test_order_does_not_matter_and_sets_add_up(a: list[bytes], b: list[bytes], chance) -> None:  # type: ignore[no-untyped-def]
    mixed = [*a, *b]
    chance.shuffle(mixed)
    assert of(*a) + of(*b) == of(*mixed)
    assert of(*mixed) - of(*b) == of(*a)
    assert of(*a) * 3 == of(*a, *a, *a)
    assert (of(*a) == of(*b)) == (sorted(a) == sorted(b))
    assert SetHash.of_encoded(of(*a).encoded) == of(*a)


def test_a_row_that_is_there_very_often_does_not_vanish() -> None:
    """Lanes of 16 bits would: 65,536 rows of one kind would be as good as those of another."""
    one, other = of(b"one") * 65_536, of(b"other") * 65_536
    assert len({one.text, other.text, of().text}) == 3
    assert (one.lanes.astype(np.uint16) == other.lanes.astype(np.uint16)).all()


@pytest.mark.parametrize("text", ["", "AAAA", "no base", of().encoded[:-4]])
def test_lanes_of_another_make_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        SetHash.of_encoded(text)


BITS = 24


def number(text: bytes) -> int:
    return int.from_bytes(blake3(text).digest()[:16], "big") % (1 << BITS)


def test_what_forges_a_sum_does_not_forge_it() -> None:
    """Wagner's attack on a sum of numbers, at a size that takes no time.

    Of each of four rows there are many harmless spellings. Pairs whose sums agree in the low
    half are found first, then two pairs that agree in the rest: far fewer tries than the sum
    has values, and at 128 bits still no more than a machine makes in minutes.
    """
    spellings = [[b"row %d, spelling %d" % (row, n) for n in range(3000)] for row in range(4)]
    honest = [b"pay 10", *(some[0] for some in spellings)]
    wanted = (_sum(honest) - number(b"pay 9999")) % (1 << BITS)
    half = (1 << BITS // 2) - 1
    second = {_sum(pair): pair for pair in _pairs(*spellings[2:], wanted & half, half)}
    met = (
        (pair, second.get((wanted - _sum(pair)) % (1 << BITS)))
        for pair in _pairs(*spellings[:2], 0, half)
    )
    forged = next([b"pay 9999", *first, *others] for first, others in met if others)
    assert len(forged) == len(honest)
    assert _sum(forged) == _sum(honest)
    assert of(*forged) != of(*honest)
    assert len(of(*forged).lanes) == LANES


def _sum(strings: Iterable[bytes]) -> int:
    return sum(map(number, strings)) % (1 << BITS)


def _pairs(a: list[bytes], b: list[bytes], low: int, half: int) -> list[tuple[bytes, bytes]]:
    """Pairs whose sum ends in some bits."""
    by_low = {(low - number(text)) & half: text for text in a}
    return [(by_low[number(text) & half], text) for text in b if number(text) & half in by_low]
