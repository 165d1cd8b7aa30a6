"""What a block's header says of types: of this block and its schema alone, and whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format import block, proved_types, types

LINES = b'{"type":"SCHEMA"}\n{"type":"RECORD"}\n'
HASH = "NFSHXeX"


@pytest.mark.parametrize("made_of", [None, block.Origin(7, (11, 2**63))])
@pytest.mark.parametrize("bounds", [None, {"ST": (1, 2)}])
def test_what_is_said_is_read_again(
    made_of: block.Origin | None, bounds: dict[str, tuple[int, int]] | None
) -> None:
    data = block.encode(LINES, 1, 5, made_of, bounds, HASH)  # type: ignore[arg-type]
    crc = block.checksum(data)
    assert block.proved_in(data, HASH, crc, len(LINES))
    assert block.proved_in(data[: block.noted_bytes(data)], HASH, crc, len(LINES))
    assert block.bounds_in(data, crc, len(LINES)) == (bounds or {})
    assert block.origin(data, "it") == made_of
    assert block.decode(data, len(LINES), "it") == LINES
    assert block.header(data, "it") == block.Header(len(data), 1, 5)
    # Of another block, and under another schema, it says nothing.
    assert not block.proved_in(data, HASH, crc ^ 1, len(LINES))
    assert not block.proved_in(data, HASH, crc, len(LINES) + 1)
    assert not block.proved_in(data, "NFSHXeY", crc, len(LINES))
    pieces = block.encode_pieces([LINES[:9], LINES[9:]], 1, 5, None, HASH)
    assert block.proved_in(pieces, HASH, crc, len(LINES))


def test_where_nothing_is_said_nothing_is_proved() -> None:
    data = block.encode(LINES, 1, 5, None, {"id": (1, 2)})
    assert not block.proved_in(data, HASH, block.checksum(data), len(LINES))
    assert not block.proved_in(data, "", block.checksum(data), len(LINES))
    assert not block.says_proved(data)


@settings(deadline=None)
@given(st.data())
def test_what_is_damaged_says_nothing(data: st.DataObject) -> None:
    good = block.encode(LINES, 1, 5, None, {"id": (1, 25_000)}, HASH)
    begin = block.HEADER_BYTES
    place = data.draw(st.integers(begin, begin + len(proved_types.encode(HASH, 0, 0)) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda one: one != good[place]))
    altered = good[:place] + bytes([value]) + good[place + 1 :]
    assert not block.proved_in(altered, HASH, block.checksum(good), len(LINES))


def test_another_proof_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proved_types, "PROVER", 2)
    data = block.encode(LINES, 1, 5, None, None, HASH)
    monkeypatch.undo()
    assert block.says_proved(data)
    assert not block.proved_in(data, HASH, block.checksum(data), len(LINES))


def test_proof_is_of_types_that_the_present_rules_have() -> None:
    """Other rules need another proof, unless they give a value in JSON the same type."""
    assert types.RULES in {1: (2, 3)}[proved_types.PROVER]
