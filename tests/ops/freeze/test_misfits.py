"""What is said of values that fit no column can be done as it is printed."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.errors import DamagedError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.rows_back import revert_plan as revert
from singerlake.rows.blocks.misfits import (
    key_ways_out,
    reader_ways_out,
    retype_command,
    ways_out,
)
from singerlake.snapshot import from_blocks
from singerlake_cli.main import cli
from tests.build import commit_rows
from tests.cli.call import run

NAMES = ["amount", "a b", "-v", "--help", "it's", "$(id)", "*"]


@pytest.mark.parametrize("column", NAMES)
@pytest.mark.parametrize("stream", ["orders", "orders.2", "o rders", "o;ders"])
def test_the_command_runs_as_printed(lake: Lake, stream: str, column: str) -> None:
    commit_rows(lake, "w.orders", {"x": {"type": "integer"}}, [], [{"x": 1}])
    properties = {"id": {"type": "integer"}, column: {"type": "integer"}}
    commit_rows(lake, f"w.{stream}", properties, ["id"], [{"id": 1, column: 1}])
    table = TableName("w", stream)
    command = retype_command(table, column)
    program, *words = shlex.split(command)
    assert program == "singerlake"
    done = CliRunner().invoke(cli, ["--lake", lake.store.uri, *words])
    assert done.exit_code == 0, done.output
    assert lake.table(table).snapshot().retyped == {column}
    assert not any(c in shlex.split(command)[2:] for c in (";", "&&"))


def test_the_simplest_is_printed_without_quotes() -> None:
    assert (
        retype_command(TableName("w", "orders"), "n") == "singerlake alter w.orders retype n text"
    )


def test_what_can_be_done_is_said() -> None:
    table = TableName("w", "orders")
    several = ways_out(table, ["a", "b", "c"], keyed=True)
    assert "sync these rows again" in several
    assert several.endswith("retype a text, and likewise of 'b', 'c'")
    assert "no key" in ways_out(table, ["a"], keyed=False)
    assert retype_command(table, "a") in reader_ways_out(table, "a", keyed=True)
    assert retype_command(table, "a") in key_ways_out(table, "a")


def test_lost_files_are_listed_line_by_line(lake: Lake) -> None:
    for n in (1, 2, 3):
        commit_rows(lake, "w.orders", {"id": {"type": "integer"}}, ["id"], [{"id": n}])
    table = lake.find("w.orders")[0]
    head = table.snapshot()
    files = [block.file for block in head.blocks[:2]]
    for file in files:
        table.store.delete(head.table.data(file))
    with pytest.raises(DamagedError) as caught:
        revert.plan(table.store, head, 2)
    first, *others = caught.value.lines
    assert "2 of its files are missing or truncated" in first
    assert others == [f"  {file}" for file in files]
    assert str(caught.value).splitlines() == [first, *others]


STRING = {"type": "string"}
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(("before", "value"), [(STRING, '"abc"'), (OBJECT, '{"a": 1}')])
def test_way_out_of_a_key_of_two_types_makes_the_table_readable(
    lake: Lake, before: dict[str, Any], value: str
) -> None:
    commit_rows(lake, "w.t", {"key": before}, ["key"], [f'{{"key": {value}}}'])
    commit_rows(lake, "w.t", {"key": {"type": "integer"}}, ["key"], ['{"key": 2}'])
    assert run(lake, "alter", "w.t", "rename-column", "key", "id").exit_code == 0
    table = lake.find("w.t")[0]
    with pytest.raises(DamagedError, match="column 'id' .* so no query can read the table") as told:
        list(from_blocks.local_rows(table, table.snapshot()))
    refused = run(lake, "alter", "w.t", "retype", "id", "text")
    assert refused.exit_code == 2
    for words in (str(told.value), refused.stderr):
        assert """declare it as {"type": "string"} in the tap's schema and sync""" in words
    commit_rows(lake, "w.t", {"key": STRING}, ["key"], [])
    assert sum(map(len, from_blocks.local_rows(table, table.snapshot()))) == 2


def test_key_that_does_not_fit_is_told_by_the_name_that_alter_takes(lake: Lake) -> None:
    commit_rows(lake, "w.t", {"key": {"type": "integer"}}, ["key"], ['{"key": "abc"}'])
    assert run(lake, "alter", "w.t", "rename-column", "key", "id").exit_code == 0
    table = lake.find("w.t")[0]
    with pytest.raises(DamagedError, match="singerlake alter w.t retype id text"):
        list(from_blocks.local_rows(table, table.snapshot()))
