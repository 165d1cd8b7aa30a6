"""What the log's own module works out."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.format.log import (
    Entry,
    decode_entry,
    joined,
    seal_entry,
)
from singerlake.format.overlay import AddedColumn, ColumnOverlay, Constraint, Overlay


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        ([(3, 3)], [(3, 3)]),
        ([(1, 1), (2, 2), (4, 6), (7, 7), (9, 9)], [(1, 2), (4, 7), (9, 9)]),
    ],
)
def test_ranges_that_meet_are_one(
    ranges: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert joined(ranges) == expected


def entry(**content: Any) -> Entry:
    return Entry(
        number=2,
        commit="c",
        stream="orders",
        time="",
        previous="p" * 64,
        **{"format": 2, "operation": "alter", **content},
    )


BEYOND = [
    Overlay(columns={"a": ColumnOverlay(type={"type": "integer"})}),
    Overlay(columns={"a": ColumnOverlay(type="text", name="b")}),
    Overlay(columns={"a": ColumnOverlay(dropped=True)}),
    Overlay(added={"a": AddedColumn({"type": "string"}, [(0, None), (3, "x")])}),
    Overlay(key=["a"]),
    Overlay(constraints={"c": Constraint("not-null", ["a"])}),
]


@pytest.mark.parametrize("overlay", BEYOND)
def test_an_overlay_reads_as_it_was_written(overlay: Overlay) -> None:
    written, data = seal_entry(entry(format=3, overlay=overlay))
    assert decode_entry(data, 2, "it") == written
