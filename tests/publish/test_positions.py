"""How far a table is from a state that was read."""

from __future__ import annotations

from dataclasses import replace

from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.drop import drop_table
from singerlake.overlay.alter import AlterOptions
from singerlake.publish.positions import behind, is_same_table, state_of, table_of
from tests.build import commit_rows

ID = {"id": {"type": "integer"}}
NAME = {"name": {"type": "string"}}


def test_a_table_moves_on(lake: Lake) -> None:
    def sync(properties: object = ID) -> None:
        commit_rows(lake, "tap-a.b", properties, ["id"], [{"id": 1}])  # type: ignore[arg-type]

    sync()
    table = lake.table(TableName("tap-a", "b"))
    state = state_of(table.snapshot())
    assert table_of(state) == table.name
    assert behind(state, table.snapshot()) is None
    sync()
    assert behind(state, table.snapshot()) == "it is 1 transaction behind tap-a.b"
    sync({**ID, **NAME})
    assert behind(state, table.snapshot()) == "it is 2 transactions behind tap-a.b"
    assert behind(state, table.snapshot().at(1)) is None
    other = replace(state, commit="another")
    assert not is_same_table(other, table.snapshot())
    assert "not the same table" in str(behind(other, table.snapshot()))
    assert "not the same table" in str(behind(replace(state, transaction=9), table.snapshot()))


def test_a_table_begun_anew_is_another(lake: Lake) -> None:
    commit_rows(lake, "tap-a.b", ID, ["id"], [{"id": 1}])
    table = lake.table(TableName("tap-a", "b"))
    state = state_of(table.snapshot())
    drop_table(lake.store, table.snapshot(), AlterOptions())
    commit_rows(lake, "tap-a.b", ID, ["id"], [{"id": 1}])
    assert "not the same table" in str(behind(state, table.snapshot()))
