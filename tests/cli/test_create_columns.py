"""singerlake create-table --columns: an empty table, made without Java."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.errors import ConflictError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import commit as commits
from singerlake.ops.create import create as plans
from tests.build import commit_rows
from tests.cli.call import run, run_json

COLUMNS = "id integer, name string not null, total decimal(12,2) default 0 comment 'in euros'"
MAKE = ("create-table", "shop.orders", "--key", "id", "--columns", COLUMNS)


def test_an_empty_table(lake: Lake) -> None:
    planned = run_json(lake, *MAKE, "--dry-run")
    assert (planned["transaction"], planned["dry_run"]) == (None, True)
    assert lake.tables() == []
    made = run_json(lake, *MAKE, "--comment", "by hand")
    assert made == {**planned, "transaction": 1, "dry_run": False}
    assert made["columns"] == [
        {"name": "id", "type": "int64"},
        {"name": "name", "type": "string"},
        {"name": "total", "type": "decimal(38,2)"},
    ]
    (entry,) = lake.table("shop.orders").entries()
    assert (entry.operation, entry.blocks) == ("create", [])
    assert entry.metadata["comment"] == "by hand"
    assert entry.schemas[made["schema_hash"]].schema == made["schema"]
    shown = run(lake, "show", "shop.orders").stdout
    assert "0 records in 0 blocks" in shown
    assert "in euros" in shown
    assert "null or number (decimal(12,2))" in shown
    assert [t["table"] for t in run_json(lake, "ls")] == ["shop.orders"]
    catalogue = lake.catalogue("shop")
    assert catalogue is not None
    assert [stream.key_properties for stream in catalogue.streams] == [["id"]]


def test_what_people_see(lake: Lake) -> None:
    said = run(lake, *MAKE).stdout.splitlines()
    assert said[0] == "shop.orders: no rows yet, transaction 1"
    assert [line.split() for line in said if line.startswith(" ")][1:] == [
        ["─" * len(said[3].strip())],
        ["id", "int64", "key", "not", "null", "–", "–"],
        ["name", "string", "not", "null", "–", "–"],
        ["total", "decimal(12,2)", "0", "in", "euros"],
    ]


def test_it_begins_a_lake(tmp_path: Path) -> None:
    result = run(str(tmp_path / "new"), *MAKE)
    assert result.exit_code == 0, result.output
    assert "no lake" in result.stderr
    assert Lake.open(str(tmp_path / "new")).tables() == [TableName("shop", "orders")]


def test_rows_go_into_it(lake: Lake) -> None:
    run_json(lake, *MAKE)
    properties: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": "string"}}
    after = commit_rows(lake, "shop.orders", properties, ["id"], [{"id": 1, "name": "a"}])
    assert (after.number, after.last_block, len(after.schemas)) == (2, 1, 2)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["shop.orders", "--columns", "id integr"], 2, "did you mean integer or int?"),
        (["shop.orders", "--columns", "id int", "--key", "ID"], 2, "did you mean id?"),
        (["orders", "--columns", "id int"], 2, "write it as tap.stream"),
        (["shop.orders.2", "--columns", "id int"], 2, "cannot end in a part of digits"),
        (["tap-shop.orders", "--columns", "id int"], 2, "already"),
        (["tap_shop.orders", "--columns", "id int"], 2, "also means in SQL:"),
        (["shop.orders"], 2, "either --from-query or --columns"),
        (["shop.o", "--columns", "a int", "--from-query", "select 1"], 2, "either"),
        ([*MAKE[1:], "--new-version"], 2, "--new-version requires --from-query"),
        ([*MAKE[1:], "--label", "x"], 2, "with --new-version"),
        ([*MAKE[1:], "--metadata", "by=x"], 2, "rename it"),
    ],
)
def test_what_it_refuses(lake: Lake, args: list[str], code: int, said: str) -> None:
    commit_rows(lake, "tap-shop.orders", {"id": {"type": "integer"}}, ["id"], [])
    before = lake.tables()
    result = run(lake, "create-table", *args)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert lake.tables() == before


def test_somebody_else_is_sooner(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    rivals = ["rival"]
    draft = commits.stamped

    def late(*args: Any, **more: Any) -> Any:
        if rivals:
            rivals.pop()
            commit_rows(lake, "shop.orders", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
        return draft(*args, **more)

    monkeypatch.setattr(commits, "stamped", late)
    from singerlake.format.column_list import parse_columns, schema_of_columns

    schema = schema_of_columns(parse_columns(COLUMNS), ["id"])
    with pytest.raises(ConflictError, match="another process created"):
        plans.create_empty(lake.store, TableName("shop", "orders"), schema)
    assert [e.operation for e in lake.table("shop.orders").entries()] == ["sync"]


@pytest.mark.usefixtures("processes")
def test_it_needs_no_spark(lake: Lake) -> None:
    code = (
        "import sys; from singerlake_cli.main import cli\n"
        f"cli({['--lake', lake.store.uri, *MAKE]!r}, standalone_mode=False)\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j', 'pyarrow')]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("each_operation")
def test_a_query_answers_that_there_is_nothing(lake: Lake, spark: SparkSession) -> None:
    from singerlake.sql.queries.query import query

    run_json(lake, *MAKE)
    with query(spark, lake, "select * from shop.orders") as result:
        assert [(f.name, f.dataType.simpleString()) for f in result.frame.schema.fields] == [
            ("id", "bigint"),
            ("name", "string"),
            ("total", "decimal(38,2)"),
        ]
        assert result.frame.count() == 0
