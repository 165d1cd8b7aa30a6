"""Rows are changed under the names of their members: what columns are called later is free."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import SparkSession

import singerlake
from singerlake.errors import RejectedRowsError
from singerlake.format.overlay import Constraint
from singerlake.log.outgoing import outgoing_overlay
from singerlake.overlay.alter import alter
from singerlake.overlay.overlay_changes import (
    with_column,
    with_constraint,
    with_name,
    with_restored,
    without_column,
)
from singerlake.rows.lines.laid_lines import LaidLines
from tests.build import commit_rows
from tests.ops.change.test_change_on_spark import rows

TEXT: dict[str, Any] = {"type": ["null", "string"]}
INTEGER: dict[str, Any] = {"type": ["null", "integer"]}
COLUMNS = {"id": {"type": "integer"}, "a": TEXT, "o": TEXT}
Said: TypeAlias = tuple[Any, ...]


def made(path: Path, records: list[dict[str, Any]], **more: Any) -> singerlake.Table:
    lake = singerlake.open(path / "lake", create=True)
    commit_rows(lake, "tap.t", {**COLUMNS, **more}, ["id"], records)
    return lake.table("tap.t")


def altered(table: singerlake.Table, change: Callable[..., Any], *args: Any, **said: Any) -> None:
    alter(table.store, table.snapshot(), lambda head: change(head, *args, **said))


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        ([(with_name, "a", "b")], [(with_name, "b", "a")], "id"),
        ([(with_name, "a", "b")], [(with_name, "b", "c"), (with_name, "c", "a")], "id"),
        ([(without_column, "a")], [(with_restored, "a")], "id"),
        ([(with_name, "id", "pk")], [(with_name, "pk", "id")], "pk"),
    ],
)
def test_a_change_outlasts_what_columns_were_called_then(
    spark: SparkSession, tmp_path: Path, before: list[Said], after: list[Said], key: str
) -> None:
    table = made(tmp_path, [{"id": 1, "a": "A", "o": "x"}])
    for change, *args in before:
        altered(table, change, *args)
    with table.change() as written:
        written.update([{key: 1, "o": "y"}])
        written.insert([{key: 2, "o": "z"}])
    lines = b"".join(map(table.read_block, table.snapshot().blocks_after(1)))
    assert b'{"id": 1, "a": "A", "o": "y"}' in lines
    # Whoever reads the stream elsewhere gets them as people see them.
    head = table.snapshot()
    goes_out = LaidLines(head, outgoing_overlay(head))
    sent = [goes_out.block(block, table.read_block(block)) for block in head.blocks_after(1)]
    seen = {name for name, _ in head.columns}
    for text in sent:
        schema, *records = [json.loads(line) for line in text.splitlines()]
        assert schema["schema"]["properties"].keys() == seen
        assert all(record["record"].keys() <= seen for record in records)
    for change, *args in after:
        altered(table, change, *args)
    assert [(row["id"], row["a"], row["o"]) for row in rows(spark, table)] == [
        (1, "A", "y"),
        (2, None, "z"),
    ]


def test_an_added_column_is_renamed_twice_and_keeps_what_was_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = made(tmp_path, [{"id": 1, "a": "A", "o": "x"}])
    altered(table, with_column, "n", INTEGER, default=0)
    altered(table, with_name, "n", "m")
    altered(table, with_name, "a", "b")
    altered(table, with_constraint, "some", Constraint("enum", ["b"], values=["A", "B"]))
    with table.change() as written:
        written.upsert([{"id": 1, "m": 5}, {"id": 2, "b": "B", "m": 6}, {"id": 3}])
    with pytest.raises(RejectedRowsError, match=r"column 'b'.*'C'"), table.change() as refused:
        refused.upsert([{"id": 1, "b": "C"}])
    altered(table, with_name, "m", "k")
    assert [(row["id"], row["b"], row["k"]) for row in rows(spark, table)] == [
        (1, "A", 5),
        (2, "B", 6),
        (3, None, 0),
    ]


def test_a_column_that_is_added_again_has_nothing_of_the_one_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = made(tmp_path, [{"id": n, "o": "x"} for n in (1, 2)])
    altered(table, with_column, "n", INTEGER, default=0)
    with table.change() as written:
        written.update([{"id": 1, "n": 5}])
    altered(table, without_column, "n")
    altered(table, with_column, "n", INTEGER, default=0, initial=7)
    with table.change() as written:
        written.update([{"id": 1, "o": "y"}, {"id": 2, "o": "y"}])
    assert [(row["id"], row["n"]) for row in rows(spark, table)] == [(1, 7), (2, 7)]
