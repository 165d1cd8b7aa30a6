"""What a block's header says of its keys: whole, of this block alone, and never too narrow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format import block, key_bounds
from singerlake.format.key_bounds import Bounds
from singerlake.rows.blocks import bounded_keys
from tests.build import activate_line, record_line, schema_line

LINES = b'{"type":"SCHEMA"}\n{"type":"RECORD"}\n'
numbers = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
values = st.lists(numbers, max_size=9) | st.lists(texts, max_size=9)
spans = values.map(lambda some: key_bounds.span([*some])).filter(bool)


@given(st.dictionaries(texts, spans, max_size=3), st.booleans())
def test_what_is_said_is_read_again(bounds: Bounds, replaces: bool) -> None:
    made_of = block.Origin(7, (11, 2**63)) if replaces else None
    data = block.encode(LINES, 1, 5, made_of, bounds)
    crc = block.checksum(data)
    assert block.bounds_in(data, crc, len(LINES)) == bounds
    assert block.bounds_in(data[: block.noted_bytes(data)], crc, len(LINES)) == bounds
    assert block.has_bounds(data) == bool(bounds)
    assert block.origin(data, "it") == made_of
    assert block.decode(data, len(LINES), "it") == LINES
    assert block.header(data, "it") == block.Header(len(data), 1, 5)
    # Of another block it says nothing.
    assert not block.bounds_in(data, crc ^ 1, len(LINES))
    assert not block.bounds_in(data, crc, len(LINES) + 1)


@given(st.data())
def test_what_is_damaged_says_nothing(data: st.DataObject) -> None:
    bounds: Bounds = {"id": (1, 25_000), "name": ("Ada", "Zoë")}
    good = block.encode(LINES, 1, 5, None, bounds)
    place = data.draw(st.integers(10, block.noted_bytes(good) - 1))
    value = data.draw(st.integers(0, 255))
    altered = good[:place] + bytes([value]) + good[place + 1 :]
    said = block.bounds_in(altered, block.checksum(good), len(LINES))
    assert said in ({}, bounds)
    if place >= block.HEADER_BYTES + 4 and altered != good:
        assert said == {}
    cut = data.draw(st.integers(12, block.noted_bytes(good) - 1))
    assert block.bounds_in(good[:cut], block.checksum(good), len(LINES)) == {}


@given(values, st.sets(st.integers(0, 8)))
def test_bounds_hold_all_values_but_nulls(some: list[Any], nulls: set[int]) -> None:
    mixed = [*some]
    for at in sorted(nulls):
        mixed.insert(at, None)
    found = key_bounds.span(mixed)
    assert (found is None) == (not some)
    if found is not None:
        least, most = found
        cut = [key_bounds.cut(one) for one in some]
        assert all(least <= one <= most for one in cut)
        assert least in cut
        assert most in cut


def test_too_much_is_not_said() -> None:
    name = "x" * key_bounds.MOST_BYTES
    assert key_bounds.encode({name: (1, 2)}, 0, 0) == b""
    assert key_bounds.encode({}, 0, 0) == b""
    assert key_bounds.encode({"s": ("\ud800", "\ud801")}, 0, 0) == b""


PROPERTIES: dict[str, Any] = {
    "n": {"type": "integer"},
    "s": {"type": ["null", "string"]},
    "d": {"type": "number"},
    "id": {"type": "integer"},
}


def bounds_of(keys: list[str], *records: Any) -> Bounds:
    lines = [record_line("t", one) for one in records]
    return bounded_keys.of_block(
        b"".join([schema_line("t", PROPERTIES, keys), lines[0], activate_line("t", 3), *lines[1:]])
    )


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["id"], {"id": (-5, 1 << 62)}),
        (["s", "d", "id"], {"s": ("A", "b"), "id": (-5, 1 << 62)}),
        (["n", "s", "id"], {"n": (0, 2), "s": ("A", "b")}),
        (["d"], {}),
        (["no"], {}),
        ([], {}),
    ],
)
def test_whole_numbers_and_strings_have_bounds(keys: list[str], expected: Bounds) -> None:
    first = {"n": 0, "s": "b", "d": 1.5, "id": 7}
    others = [{"n": 2, "s": None, "id": 1 << 62}, {"n": 1, "id": -5}, '{"n": 1, "s": "\\u0041"}']
    assert bounds_of(keys, first, *others) == expected


@pytest.mark.parametrize("odd", ['{"id": 1.0}', '{"id": "1"}', '{"id": 1e2}', "[]"])
def test_what_is_spelled_otherwise_leaves_them_out(odd: str) -> None:
    assert bounds_of(["id"], {"id": 1}, odd, {"id": 3}) == {}
