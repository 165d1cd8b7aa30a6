"""What makes a table: nothing for an empty one; for the rows of a query, what answers that."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import UsageError
from singerlake.format.column_list import parse_columns, schema_of_columns
from singerlake.lake import Lake
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.create.table import CreateOptions, create, plan
from tests.build import commit_rows

SCHEMA = schema_of_columns(parse_columns("id integer, total decimal(12,2) default 0"), ["id"])


def test_an_empty_table_needs_no_java(lake: Lake, no_java: EngineChoice) -> None:
    change = ChangeOptions(comment="why", metadata={"run": "7"})
    dry = ChangeOptions(dry_run=True)
    would = create(lake, "made.t", CreateOptions(schema=SCHEMA, change=dry), no_java)
    assert (would.transaction, [*lake.tables()]) == (None, [])
    made = create(lake, "made.t", CreateOptions(schema=SCHEMA, change=change), no_java)
    assert (made.transaction, made.rows, made.key_properties) == (1, 0, ["id"])
    (entry,) = lake.find("made.t")[0].entries()
    assert (entry.metadata["comment"], entry.metadata["run"]) == ("why", "7")
    assert entry.schema_hash == made.schema_hash


def test_a_query_outside_the_set_is_asked_of_spark(lake: Lake, no_java: EngineChoice) -> None:
    asked = CreateOptions("select 1 as a")
    with pytest.raises(UsageError, match="Java starts"):
        create(lake, "made.t", asked, no_java)
    with pytest.raises(UsageError, match="create-table --from-query with .* needs Spark"):
        create(lake, "made.t", asked, EngineChoice(LOCAL))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("tap-shop.orders", CreateOptions("select 1"), "the table tap-shop.orders already exists"),
        ("tap_shop.orders", CreateOptions("select 1"), "which tap_shop.orders also means in SQL"),
        ("made.t", CreateOptions(), "either a query or a schema"),
        ("made.t", CreateOptions("select 1", schema=SCHEMA), "either a query or a schema"),
        (
            "made.t",
            CreateOptions("select 1", change=ChangeOptions(label="x")),
            "a label needs a version",
        ),
        (
            "made.t",
            CreateOptions(schema=SCHEMA, change=ChangeOptions(new_version=True)),
            "has nothing to freeze",
        ),
    ],
)
def test_what_is_refused_starts_no_java(
    lake: Lake, no_java: EngineChoice, name: str, options: CreateOptions, words: str
) -> None:
    rows: list[Any] = [{"id": 1}]
    commit_rows(lake, "tap-shop.orders", {"id": {"type": "integer"}}, ["id"], rows)
    with pytest.raises(UsageError, match=words):
        create(lake, name, options, no_java)
    assert [str(one) for one in lake.tables()] == ["tap-shop.orders"]


def test_a_name_that_is_free_is_planned(lake: Lake) -> None:
    assert plan(lake, "made.t").number == 0
