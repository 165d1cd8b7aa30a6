"""Lines that say where they came from: nothing else of them changes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format import rewritten
from singerlake.format.log import Block

SCHEMA = b'{"type":"SCHEMA","stream":"s","schema":{}}\n'
ODD = b'{"type": "RECORD" , "record": {"id": 1.10, "n":1e5,"t":"\\u00e9 }"}, "version":7 } '


def test_a_line_gets_two_members_and_keeps_its_bytes() -> None:
    placed = rewritten.with_position(ODD, 3, 14)
    assert placed == ODD[: ODD.rindex(b"}")] + b', "row_version": 3, "row_ordinal": 14}'


def test_a_column_of_such_a_name_changes_nothing() -> None:
    line = b'{"type":"RECORD",  "record":{"row_version": 9, "row_count":1.0} }'
    assert (
        rewritten.with_position(line, 3, 4) == line[:-1] + b', "row_version": 3, "row_ordinal": 4}'
    )


@pytest.mark.parametrize(
    "members", ['"row_version": 9', '"row_ordinal":9', '"row\\u005fversion":9']
)
def test_what_another_lake_said_gives_way(members: str) -> None:
    line = ODD.replace(b'"version":7', members.encode())
    twice = rewritten.with_position(rewritten.with_position(line, 1, 2), 3, 4)
    found = json.loads(twice)
    assert (found["row_version"], found["row_ordinal"]) == (3, 4)
    assert b'{"id": 1.10, "n":1e5,"t":"\\u00e9 }"}' in twice
    assert twice.count(b'"row_version"') == twice.count(b'"row_ordinal"') == 1


def block_of(
    places: list[tuple[int, int]], number: int, first: int, activations: list[int]
) -> tuple[bytes, Block]:
    lines = [rewritten.with_position(b'{"type":"RECORD","record":{}}', *place) for place in places]
    lines += [b'{"type":"ACTIVATE_VERSION","stream":"s","version":%d}' % v for v in activations]
    text = SCHEMA + b"".join(line + b"\n" for line in lines)
    return text, Block(number, "h/f", 0, 1, len(places), len(text), first_version=first)


positions = st.lists(st.tuples(st.integers(2, 5), st.integers(0, 3)), unique=True).map(sorted)


@given(positions, st.integers(0, 6), st.lists(st.integers(0, 3), max_size=2))
def test_who_goes_on_from_the_middle_gets_the_later_rows(
    places: list[tuple[int, int]], seen: int, activations: list[int]
) -> None:
    text, block = block_of(places, 5, 2, activations)
    assert rewritten.positions(text, block) == places
    left, rows = rewritten.lines_after(text, block, seen)
    later = [place for place in places if place[0] > seen]
    assert rows == len(later)
    found = [json.loads(line) for line in left.splitlines()[1:]]
    assert [(m["row_version"], m["row_ordinal"]) for m in found if m["type"] == "RECORD"] == later
    assert [m["version"] for m in found if m["type"] != "RECORD"] == activations
    assert left.startswith(SCHEMA)
    assert left.endswith(b"\n")


@pytest.mark.parametrize(
    "places",
    [[(1, 0)], [(6, 0)], [(3, 1), (3, 1)], [(3, 2), (3, 1)], [(4, 0), (3, 0)], [(3, -1)]],
)
def test_places_that_cannot_be_are_damage(places: list[tuple[int, int]]) -> None:
    text, block = block_of(places, 5, 2, [])
    with pytest.raises(DamagedError, match="block 5, which a vacuum compacted"):
        rewritten.positions(text, block)


def test_lines_that_say_nothing_are_damage() -> None:
    text, block = block_of([], 5, 2, [])
    block = Block(5, "h/f", 0, 1, 1, 1, first_version=2)
    with pytest.raises(DamagedError, match="their origin,"):
        rewritten.positions(text + b'{"type":"RECORD","record":{}}\n', block)


def test_a_block_says_what_it_replaces() -> None:
    made_of = format_block.Origin(7, (11, 12, 2**63))
    data = format_block.encode(SCHEMA, 0, 12, made_of)
    head = format_block.header(data, "it")
    assert (head.length, head.rows, head.written) == (len(data), 0, 12)
    assert format_block.origin(data, "it") == made_of
    assert format_block.decode(data, len(SCHEMA), "it") == SCHEMA
    plain = format_block.encode(SCHEMA, 0, 12)
    assert format_block.origin(plain, "it") is None
    most = format_block.Origin(1, tuple(range(format_block.MAX_REPLACED)))
    data = format_block.encode(SCHEMA, 0, 12, most)
    assert format_block.origin(data, "it") == most
    with pytest.raises(DamagedError, match="does not begin with a Singerlake block"):
        format_block.origin(data[:100], "it")
