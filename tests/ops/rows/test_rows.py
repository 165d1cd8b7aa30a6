"""A row's versions are found alike on both engines, by a key as a person writes it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import NotFoundError, UsageError
from singerlake.lake import Lake, Table
from singerlake.ops.rows import RowsOptions, row_history
from singerlake.rows.blocks import block_tasks
from tests.build import commit_rows
from tests.ops.rows_back import histories
from tests.ops.rows_back.histories import NAME

ROOT = Path(__file__).parents[3]
HERE = EngineChoice(LOCAL)
FIRST = {
    "moment": "2026-01-02T03:04:05Z",
    "amount": "0",
    "price": "1.1",
    "inner": '{"x": 0}',
    "flag": "f",
}


def told(table: Table, choice: EngineChoice, **key: str) -> list[tuple[int, str, Any]]:
    found = row_history(table, RowsOptions(key), choice)
    return [(one.row_version, one.operation, one.values.get("n")) for one in found]


def test_versions_of_a_row_with_what_removed_them(engine: EngineChoice, lake: Lake) -> None:
    def row(n: int, **more: Any) -> dict[str, Any]:
        return {"id": 1, "n": n, **more}

    some: list[Any] = [(row(1), 1), ({"id": 2}, 1), (row(2), 1), 2]
    commit_rows(lake, NAME, histories.ROW, ["id"], some)
    commit_rows(lake, NAME, histories.WIDER, ["id"], [(row(3, more=1.5), 2)], block_rows=1)
    commit_rows(
        lake, NAME, histories.WIDER, ["id"], [(row(3, **{histories.GONE: histories.AT}), 2)]
    )
    table = lake.find(NAME)[0]
    assert told(table, engine, id=" 1") == [
        (1, "insert", 1),
        (1, "update", 2),
        (1, "remove", None),
        (2, "insert", 3),
        (3, "delete", 3),
    ]
    assert told(table, engine, id="2") == [(1, "insert", None), (1, "remove", None)]
    with pytest.raises(NotFoundError, match="tap.s never had a row id=3"):
        told(table, engine, id="3")


def test_keys_of_all_kinds(engine: EngineChoice, lake: Lake) -> None:
    table = histories.keys_of_all_kinds(lake)
    found = row_history(table, RowsOptions(FIRST), engine)
    assert [(one.row_version, one.operation) for one in found] == [(1, "insert"), (6, "update")]
    assert found[0].values == {
        "moment": datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
        "amount": 0.0,
        "price": Decimal("1.10"),
        "inner": {"x": 0},
        "flag": False,
        "v": 1,
    }


@pytest.mark.parametrize(
    ("column", "text"),
    [("moment", "2026-13-01"), ("amount", "inf"), ("price", "1.111"), ("inner", "{"), ("flag", "")],
)
def test_values_that_no_key_can_have(lake: Lake, column: str, text: str) -> None:
    table = histories.keys_of_all_kinds(lake)
    with pytest.raises(UsageError, match=f"the key column '{column}' of tap.s is .* is not"):
        row_history(table, RowsOptions({**FIRST, column: text}), HERE)


@pytest.mark.usefixtures("each_operation")
def test_both_engines_answer_alike(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_tasks, "TASK_BYTES", 2_000)
    monkeypatch.setattr(block_tasks, "_WORTHWHILE", 1)
    table = histories.random_messages(lake, 31, ["id"])
    found = []
    for choice in (HERE, EngineChoice.of(spark=spark)):
        history = row_history(table, RowsOptions({"id": "1"}), choice)
        found.append([asdict(one) for one in history])
    assert found[0] == found[1]
    assert len(found[0]) > 3


def test_large_tables_are_for_spark(lake: Lake) -> None:
    def started() -> NoReturn:
        raise UsageError("Java starts")

    table = histories.random_messages(lake, 32, ["id"])
    small = EngineChoice(start=started, limit=Work())
    with pytest.raises(UsageError, match="Java starts"):
        row_history(table, RowsOptions({"id": "1"}), small)
    with pytest.raises(UsageError, match="which 'x' is not"):
        row_history(table, RowsOptions({"id": "x"}), small)


@pytest.mark.usefixtures("processes")
def test_rows_need_no_pyspark(lake: Lake) -> None:
    table = histories.random_messages(lake, 33, ["id"])
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from singerlake_cli.main import main\n"
        f"sys.argv = ['singerlake', '--lake', {table.store.uri!r}, 'rows', {NAME!r}, '--key', '1',"
        " '--history']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "insert" in done.stdout
