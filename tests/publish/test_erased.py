"""Rows that were erased from what a projection reads: no later block tells of that."""

from __future__ import annotations

import json
from pathlib import Path

from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.publish import refreshes
from singerlake.publish.positions import behind, state_of
from singerlake.publish.projection import Format, Projection, Target
from singerlake.publish.published import Position
from singerlake.publish.status import status
from tests.ops.erase import by_hand
from tests.publish import standing


def test_what_was_read_before_an_erasure_is_behind(lake: Lake) -> None:
    """At its head and at a version, whose transaction is long before the erasure; and but once."""
    table = lake.table(TableName("tap", "t"))
    by_hand.write(lake, table, {"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"})
    by_hand.freeze(table)
    before = [state_of(table.snapshot_at(at)) for at in (None, "1")]
    by_hand.erase(table, 2)
    now = [table.snapshot_at(at) for at in (None, "1")]
    for state, head in zip(before, now, strict=True):
        assert behind(state, head) == "rows of tap.t were erased since it was read"
        assert behind(state_of(head), head) is None
    position = Position("p", "d", "l", tuple(map(state_of, now)))
    assert Position.from_json(position.to_json(), "here") == position
    assert refreshes._position(refreshes.metadata_of(position), "l") == position


def test_positions_of_before_are_read_as_before_any_erasure() -> None:
    said = {"table": "tap.t", "transaction": 1, "commit": "c", "version": None}
    whole = {"projection": "p", "definition": "d", "lake": "l", "sources": [said]}
    assert Position.from_json(json.dumps(whole), "here").sources[0].erased == 0
    found = refreshes._position(whole, "l")
    assert found is not None and found.sources[0].erased == 0


def test_what_is_published_of_it_is_out_of_date(lake: Lake, tmp_path: Path) -> None:
    table = lake.table(TableName("tap", "t"))
    by_hand.write(lake, table, {"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"})
    target = Target(str(tmp_path / "p"), Format.PARQUET)
    one = Projection("p", "select id from tap.t", ("tap.t",), key=("id",), target=target)
    standing.publish(lake, one, "tap.t")
    assert status(lake, [one])[0].up_to_date
    by_hand.erase(table, 2)
    (found,) = status(lake, [one])
    assert [reason.table for reason in found.reasons] == ["tap.t"]
