"""What a table's log says of its refreshes, found without Spark."""

from __future__ import annotations

from typing import Any

from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.create.create import create_empty
from singerlake.publish.published import Position, SourceState
from singerlake.publish.refreshes import last_refresh, metadata_of
from tests.build import commit_rows

ID: dict[str, Any] = {"id": {"type": "integer"}}


def test_a_refresh_is_found_with_what_came_since(lake: Lake) -> None:
    sources = (SourceState("tap.orders", 3, "c3"), SourceState("tap.items", 2, "c2", version=1))
    position = Position("orders", "d" * 64, lake.store.uri, sources)
    table = lake.table(TableName("staging", "orders"))
    create_empty(lake.store, table.name, SchemaEntry(ID, ["id"]), metadata=metadata_of(position))
    found = last_refresh(lake.store, table.snapshot())
    assert found is not None
    assert (found.transaction, found.position, found.touched) == (1, position, None)
    for _ in range(2):
        commit_rows(lake, str(table.name), ID, ["id"], [{"id": 1}])
    found = last_refresh(lake.store, table.snapshot())
    assert found is not None
    assert (found.transaction, found.touched) == (1, 3)


def test_what_no_projection_made_has_none(lake: Lake) -> None:
    table = lake.table(TableName("tap", "orders"))
    commit_rows(lake, str(table.name), ID, ["id"], [{"id": 1}])
    assert last_refresh(lake.store, table.snapshot()) is None
    for number, sources in enumerate(([{"table": "tap.x"}], "x", [1], None)):
        other = TableName("tap", f"x{number}x")
        said = {"projection": "p", "definition": "d", "sources": sources}
        create_empty(lake.store, other, SchemaEntry(ID, []), metadata=said)
        assert last_refresh(lake.store, lake.table(other).snapshot()) is None
