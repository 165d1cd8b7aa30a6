"""``singerlake diff``: what it prints, in every form, and what it refuses before Java starts."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.parquet as pq
import pytest

from singerlake.engine.choice import LOCAL, SPARK, VARIABLE
from singerlake.lake import Lake
from singerlake.ops.freeze import commit_version
from singerlake.ops.freeze import plan as plan_freeze
from singerlake_cli import shared
from tests.build import commit_rows
from tests.cli.call import run, run_json

TABLE = "tap-shop.orders"
OLD: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "price": {"type": "number", "multipleOf": 0.01},
}
NEW: dict[str, Any] = {**OLD, "note": {"type": "string"}}
AT = "2026-03-01T01:20:00Z"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """Version 1, of transaction 1; what came since is transaction 3."""
    first: list[Any] = [{"id": n, "name": f"n{n}", "price": 1.1} for n in range(1, 6)]
    commit_rows(lake, TABLE, OLD, ["id"], first)
    head = lake.find(TABLE)[0].snapshot()
    wanted = plan_freeze(head, label="monday")
    commit_version(lake.store, head, wanted, rows=5, fingerprint="0" * 32)
    later: list[Any] = [
        {"id": 2, "name": "=new, and longer", "price": 1.1, "note": "two\nlines"},
        {"id": 3, "_sdc_deleted_at": AT},
        {"id": 4, "name": None, "price": 2},
        {"id": 9, "name": ""},
    ]
    commit_rows(lake, TABLE, NEW, ["id"], later)
    return lake


@pytest.fixture(params=[LOCAL, SPARK])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command runs on if it names no engine."""
    monkeypatch.setenv(VARIABLE, request.param)
    if request.param == SPARK:
        request.getfixturevalue("spark")


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> NoReturn:
        raise AssertionError("Java starts")

    for name in ("begin_spark", "start_spark"):
        monkeypatch.setattr(shared, name, started)


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["tap-shop.order", "1"], 3, "did you mean tap-shop.orders?"),
        ([TABLE, "tuesday"], 3, "has no version 'tuesday': it has 1 (monday)"),
        ([TABLE, "3"], 3, "transaction 3 is written @3"),
        ([TABLE, "1", "@8"], 3, "has no transaction 8: its last is 3"),
        ([f"{TABLE}.1"], 2, "Missing argument 'FROM'"),
        ([f"{TABLE}.1", "@3"], 2, "name the table alone, and then what to compare"),
        ([TABLE, "1", "--stat", "--format", "csv"], 2, "--stat prints no rows"),
        ([TABLE, "1", "--stat", "--out", "x.csv"], 2, "--stat prints no rows"),
        ([TABLE, "1", "--force"], 2, "--force requires --out"),
        ([TABLE, "1", "--format", "parquet"], 2, "name a file with --out"),
        ([TABLE, "1", "--out", "x.txt"], 2, "end it in .csv, .tsv"),
        ([TABLE, "1", "--safe-cells"], 2, "for spreadsheets"),
        ([TABLE, "1", "--limit", "0"], 2, "0 is not in the range x>=1"),
    ],
)
def test_what_is_wrong_is_said_at_once(
    shop: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(shop, "diff", *args)
    assert result.exit_code == code, result.output
    assert says in result.stderr


def test_engine_local_takes_no_settings_of_spark(shop: Lake) -> None:
    for more in (["--master", "local[1]"], ["--conf", "spark.x=y"]):
        result = run(shop, "diff", TABLE, "1", "--engine", "local", *more)
        assert result.exit_code == 2
        assert "--master and --conf need Spark" in result.stderr


@pytest.mark.usefixtures("no_java")
def test_states_of_the_same_rows_need_no_java(shop: Lake) -> None:
    result = run(shop, "diff", TABLE, "monday", "@2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"{TABLE} from version 1 (monday, transaction 1) to transaction 2\n"
        "no row differs: none was written in between\n"
    )


@pytest.mark.usefixtures("engine")
def test_tables_for_people(shop: Lake) -> None:
    text = run(shop, "diff", TABLE, "monday").stdout
    lines = [line.split() for line in text.splitlines() if line.strip("─ ")]
    title = f"{TABLE} from version 1 (monday, transaction 1) to the head (transaction 3)"
    assert lines == [
        title.split(),
        ["schema", "column", "before", "after"],
        ["added", "note", "–", "string"],
        ["change", "id", "column", "before", "after"],
        ["changed", "2", "name", "n2", "=new,", "and", "longer"],
        ["changed", "2", "note", "–", r"two\nlines"],
        ["removed", "3", "name", "n3", "–"],
        ["removed", "3", "price", "1.10", "–"],
        ["changed", "4", "name", "n4", "–"],
        ["changed", "4", "price", "1.10", "2.00"],
        ["added", "9", "name", "–"],
        ["1", "row", "added,", "2", "changed,", "1", "removed,", "2", "unchanged"],
    ]
    few = run(shop, "diff", TABLE, "monday", "--limit", "1").stdout
    assert "the first 1 rows that differ; --format csv gives all" in few
    assert "removed  3" not in few
    stat = run(shop, "diff", TABLE, "monday", "--stat").stdout
    cells = [line.split() for line in stat.splitlines() if line.strip("─ ")][4:]
    assert cells == [["column", "cells", "changed"], ["name", "2"], ["price", "1"], ["note", "1"]]


@pytest.mark.usefixtures("engine")
def test_every_form_holds_the_same(shop: Lake, tmp_path: Path) -> None:
    document = run_json(shop, "diff", TABLE, "monday")
    counts = {"added": 1, "changed": 2, "removed": 1, "unchanged": 2, "respelled": 0}
    head = {
        "table": TABLE,
        "from": {"version": 1, "label": "monday", "transaction": 1},
        "to": {"version": None, "label": None, "transaction": 3},
        "matched_by": "key",
        "schema": [{"change": "added", "column": "note", "before": None, "after": "string"}],
        **counts,
        "cells": {"name": 2, "price": 1, "note": 1},
        "misfits": {},
    }
    rows = document.pop("rows")
    assert document == head
    assert run_json(shop, "diff", TABLE, "monday", "--stat") == head
    assert rows[0] == {
        "change": "changed",
        "key": {"id": 2},
        "changed": ["name", "note"],
        "before": {"id": 2, "name": "n2", "price": "1.10", "note": None},
        "after": {"id": 2, "name": "=new, and longer", "price": "1.10", "note": "two\nlines"},
    }
    assert rows[1]["after"] is None
    assert [row["change"] for row in rows] == ["changed", "removed", "changed", "added"]
    lines = run(shop, "diff", TABLE, "monday", "--format", "jsonl")
    assert [json.loads(line) for line in lines.stdout.splitlines()] == rows
    assert "note: the schema: column 'note' was added (string)" in lines.stderr
    assert f"compared {TABLE} from version 1" in lines.stderr
    cells = run(shop, "diff", TABLE, "monday", "--format", "csv", "--safe-cells").stdout
    table = list(csv.reader(io.StringIO(cells)))
    assert table[0] == [
        *("change", "key.id", "changed", "before.name", "after.name", "before.price"),
        *("after.price", "before.note", "after.note"),
    ]
    named = '["name", "note"]'
    assert table[1] == [
        *("changed", "2", named, "n2", "'=new, and longer", "1.10", "1.10", "", "two\nlines")
    ]
    assert [row[0] for row in table[1:]] == [row["change"] for row in rows]
    for suffix in ("parquet", "tsv", "json"):
        path = tmp_path / f"changes.{suffix}"
        result = run(shop, "diff", TABLE, "monday", "--out", str(path))
        assert (result.exit_code, result.stdout) == (0, "")
        assert f"wrote 4 rows to {path}" in result.stderr
    kept = pq.read_table(tmp_path / "changes.parquet")
    assert kept.column_names == ["change", "key", "changed", "before", "after"]
    assert kept.column("key").to_pylist() == [row["key"] for row in rows]
    assert kept.column("after").to_pylist()[3] == {**rows[3]["after"], "price": None}
    assert (tmp_path / "changes.tsv").read_text().startswith("change\tkey.id\tchanged\tbefore.name")
    assert json.loads((tmp_path / "changes.json").read_text()) == {**head, "rows": rows}


@pytest.mark.usefixtures("engine")
def test_without_a_key(lake: Lake) -> None:
    commit_rows(lake, "tap.s", {"n": {"type": "integer"}}, [], [{"n": 1}])
    commit_rows(lake, "tap.s", {"n": {"type": "integer"}}, [], [{"n": 2}, {"n": 1}])
    result = run(lake, "diff", "tap.s", "@1", "--format", "csv")
    assert result.stdout == (
        "change,row_id,changed,before.n,after.n\nadded,2:0,,,2\nadded,2:1,,,1\n"
    )
    assert "tap.s has no key at the head (transaction 2): rows are matched by" in result.stderr
    document = run_json(lake, "diff", "tap.s", "@2", "@1")
    assert (document["matched_by"], document["removed"]) == ("position", 2)
    assert document["rows"][0] == {
        "change": "removed",
        "row_id": "2:0",
        "changed": None,
        "before": {"n": 2},
        "after": None,
    }
    commit_rows(lake, "tap.s", {"n": {"type": "integer"}}, [], ['{"n": "x"}'])
    assert run(lake, "diff", "tap.s", "@2").exit_code == 5
    for how, cell in (("null", None), ("text", "x")):
        rows = run_json(lake, "diff", "tap.s", "@2", "--on-type-mismatch", how)["rows"]
        assert [row["after"]["n"] for row in rows] == [cell]
