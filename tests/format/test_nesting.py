"""How deeply JSON may be nested: one limit on every Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format import nesting
from singerlake.format.nesting import MAX_LEVELS, has_deep_record, too_deep

TEXTS = st.text(alphabet='[]{}"\\,:a\n', max_size=8)
VALUES = st.recursive(
    TEXTS | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


def levels(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(levels, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(levels, value), default=0)
    return 0


def nested(depth: int) -> bytes:
    """Objects and arrays in turn, with brackets in their names and in strings beside them."""
    text = b"1"
    for level in range(depth):
        text = b'["]",%b]' % text if level % 2 else b'{"[\\"{":%b}' % text
    return text


@given(VALUES, st.integers(0, 9))
def test_levels_are_counted_outside_strings(value: Any, most: int) -> None:
    text = json.dumps(value).encode()
    assert too_deep(text, MAX_LEVELS - most) == (levels(value) > most)


@pytest.mark.parametrize("outside", [0, 1, 2])
def test_limit_is_exact(outside: int) -> None:
    most = MAX_LEVELS - outside
    assert not too_deep(nested(most), outside)
    assert too_deep(nested(most + 1), outside)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    wide = json.dumps({f"c{n}": [{"a": [n, "[" * 9]}] for n in range(2000)}).encode()
    assert not too_deep(wide)


@pytest.mark.parametrize("end", [b"\n", b""])
def test_deep_record_is_found_among_short_lines(end: bytes) -> None:
    short, long = b'{"id":1}\n', b'{"id":"' + b"[" * 9000 + b'"}\n'
    lines = short * 300 + long + short * 300
    assert not has_deep_record(lines + nested(MAX_LEVELS - 1) + end)
    assert has_deep_record(lines + nested(MAX_LEVELS) + end)
    assert has_deep_record(nested(MAX_LEVELS) + b"\n" + lines)
    assert not has_deep_record(b"")


def test_shortest_deep_line_is_looked_at() -> None:
    """The search passes over short lines, and so must know which is the shortest."""
    line = b"[" * MAX_LEVELS + b"]" * MAX_LEVELS
    assert len(line) == nesting._SHORT
    assert has_deep_record(line + b"\n")
