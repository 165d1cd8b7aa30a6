"""Increments of Iceberg and Delta tables, as their own libraries read them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from singerlake.errors import DamagedError
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.projection import Format, OrderKey, PartitionKey, Transform
from tests.ops.publish.test_published_files import (
    Place,
    Row,
    changed,
    check,
    damaged,
    opened,  # noqa: F401  # a fixture
    state_of,
)

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")


def read(place: Place) -> list[Row]:
    assert place.projection.target is not None
    uri = place.projection.target.uri
    if place.projection.target.format is Format.DELTA:
        from deltalake import DeltaTable

        found = DeltaTable(uri).to_pyarrow_table()
    else:
        from pyiceberg.table import StaticTable

        found = StaticTable.from_metadata(uri).scan().to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]  # type: ignore[misc]


@pytest.mark.parametrize("format_", [Format.ICEBERG, Format.DELTA])
def test_increments_of_a_table(
    opened: Callable[..., Place],  # noqa: F811
    format_: Format,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Place, "rows", read)
    chance = random.Random(7)
    said: dict[str, Any] = {
        "order_by": (OrderKey("at"),),
        "partition_by": (PartitionKey("country"), PartitionKey("id", Transform.BUCKET, 2)),
    }
    place = opened(format_, **said)
    state = state_of(120, 7)
    place.build(state)
    check(place, state)
    state = changed(state, chance)
    # As another process finds it: bounds and files are those of the table's own log.
    place.destination = open_destination(place.projection)
    place.base = place.destination.published()
    before = {file.path for file in place.base.files}  # type: ignore[union-attr]
    assert not place.refresh(state).full_build
    check(place, state)
    assert before & {file.path for file in place.base.files}  # type: ignore[union-attr]
    path = damaged(place, "cut" if format_ is Format.ICEBERG else "gone")
    with pytest.raises(DamagedError, match=rf"{path} is .*: publish with --full-refresh"):
        place.refresh({number: (*row[:3], "other") for number, row in state.items()})
