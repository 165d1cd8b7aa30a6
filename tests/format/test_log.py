"""What the log's own module works out."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.errors import DamagedError
from singerlake.format.log import (
    Entry,
    FrozenVersion,
    Operation,
    decode_entry,
    joined,
    needed_format,
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


def test_only_what_needs_it_is_of_the_newer_format() -> None:
    texts = Overlay(columns={"a": ColumnOverlay(type="text")})
    assert needed_format(entry(overlay=texts)) == needed_format(entry()) == 2
    assert [needed_format(entry(overlay=one)) for one in BEYOND] == [3] * len(BEYOND)
    version = FrozenVersion(number=1, transaction=2, schema_hash="h", rows=0, fingerprint="")
    for operation, form in ((Operation.FREEZE, 2), (Operation.CHANGE, 3)):
        assert needed_format(entry(operation=operation.value, version=version)) == form


@pytest.mark.parametrize("overlay", BEYOND)
def test_an_overlay_reads_as_it_was_written(overlay: Overlay) -> None:
    written, data = seal_entry(entry(format=3, overlay=overlay))
    assert decode_entry(data, 2, "it") == written


def test_an_entry_that_says_more_than_its_format_knows_is_damaged() -> None:
    _, data = seal_entry(entry(overlay=Overlay(key=["a"])))
    with pytest.raises(DamagedError, match="cannot say what needs 3"):
        decode_entry(data, 2, "it")
