"""A lake version's own table versions are told from those that others made meanwhile."""

from __future__ import annotations

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.freeze import freeze
from singerlake.ops.freeze_lake import LakeFreezeOptions, freeze_lake, plan
from tests.build import commit_rows

A, B = TableName("tap", "a"), TableName("tap", "b")
HERE = EngineChoice(LOCAL)


def test_a_version_that_another_made_meanwhile_is_not_told_as_made_now(lake: Lake) -> None:
    for name in (A, B):
        commit_rows(lake, str(name), {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    options = LakeFreezeOptions()
    wanted = plan(lake, lake.tables, options)
    assert wanted.missing == [A, B]
    others = freeze(lake.table(A), choice=HERE)
    told = []
    done = freeze_lake(
        lake, wanted, options, HERE, done=lambda name, version: told.append((name, version.number))
    )
    assert told == [(B, 1)]
    assert list(done.made) == [B]
    assert done.tables[A] == others.version
    assert done.version is not None
    assert done.new
