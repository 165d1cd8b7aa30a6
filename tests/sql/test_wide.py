"""Tables of many columns: every command takes them, and asks Java as often as for few."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import GatewayClient

from singerlake.lake import Lake
from singerlake.spark import diff
from tests.build import commit_rows
from tests.cli.call import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]
TABLE = "tap-w.wide"
ALL = "select * from tap_w.wide"
TEXT: dict[str, Any] = {"type": ["null", "string"]}
MANY = 2000
"""Texts, in columns or within an object: of some 500 Spark's parser and Java's stack had enough."""
FLAT, NESTED = "flat", "nested"
SHAPES = (FLAT, NESTED)


def names(columns: int) -> list[str]:
    return [f"f{number}" for number in range(columns)]


def record(shape: str, columns: int, number: int, word: str) -> dict[str, Any]:
    cells = {name: f"{word} {name}" for name in names(columns)}
    return {"id": number, **({"o": cells} if shape == NESTED else cells)}


def made(folder: Path, shape: str, columns: int) -> Lake:
    """A table of so many columns, or an object of so many members, in two states."""
    lake = Lake.open(str(folder / f"{shape}{columns}"), create=True)
    members: dict[str, Any] = dict.fromkeys(names(columns), TEXT)
    inner = {"o": {"type": ["null", "object"], "properties": members}}
    properties = {"id": {"type": "integer"}, **(inner if shape == NESTED else members)}
    for word in "ab":
        rows: list[Any] = [record(shape, columns, 1, word), {"id": 2}]
        commit_rows(lake, TABLE, properties, ["id"], rows)
    return lake


@pytest.fixture(scope="module")
def lakes(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, int], Lake]:
    del spark
    folder = tmp_path_factory.mktemp("wide")
    wide = {(shape, MANY): made(folder, shape, MANY) for shape in SHAPES}
    return wide | {(FLAT, columns): made(folder, FLAT, columns) for columns in (10, 40)}


Lakes = dict[tuple[str, int], Lake]


def called(lake: Lake, *args: str | Path) -> str:
    result = run(lake, *map(str, args))
    assert result.exit_code == 0, result.output[-500:]
    return result.stdout


def as_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("shape", SHAPES)
def test_many_columns_are_queried(lakes: Lakes, tmp_path: Path, shape: str) -> None:
    lake, last = lakes[shape, MANY], f"b f{MANY - 1}"
    (first, _) = as_lines(called(lake, "query", ALL, "--format", "jsonl"))
    assert first == record(shape, MANY, 1, "b")
    assert last in called(lake, "query", ALL)
    if shape == FLAT:
        assert last in called(lake, "query", ALL, "--row-metadata", "--format", "csv")
    called(lake, "query", ALL, "--out", tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").stat().st_size > MANY
    assert last in called(lake, "rows", TABLE, "--key", "1", "--history")


@pytest.mark.parametrize("shape", SHAPES)
def test_many_columns_are_compared(lakes: Lakes, shape: str) -> None:
    lake, args = lakes[shape, MANY], ("diff", TABLE, "@1", "@2")
    (only,) = as_lines(called(lake, *args, "--format", "jsonl"))
    assert only["changed"] == (["o"] if shape == NESTED else names(MANY))
    assert (only["before"], only["after"]) == tuple(record(shape, MANY, 1, w) for w in "ab")
    for more in ((), ("--format", "csv"), ("--stat",)):
        assert ("o" if shape == NESTED else f"f{MANY - 1}") in called(lake, *args, *more)


@pytest.mark.parametrize("form", ["parquet", "jsonl", "csv", "avro", "delta", "iceberg"])
@pytest.mark.parametrize("shape", SHAPES)
def test_many_columns_are_published(lakes: Lakes, tmp_path: Path, shape: str, form: str) -> None:
    to = ("--key", "id", "--to", tmp_path / "out", "--format", form)
    called(lakes[shape, MANY], "publish", "--table", "tap_w.wide", *to)
    assert sum(path.stat().st_size for path in (tmp_path / "out").rglob("*")) > MANY


@pytest.mark.parametrize("shape", SHAPES)
def test_many_columns_are_changed_and_brought_back(
    tmp_path: Path, spark: SparkSession, shape: str
) -> None:
    del spark
    lake = made(tmp_path, shape, MANY)
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(record(shape, MANY, 3, "c")) + "\n")
    called(lake, "upload", TABLE, rows)
    (_, _, third) = as_lines(called(lake, "query", f"{ALL} order by id", "--format", "jsonl"))
    assert third == record(shape, MANY, 3, "c")
    called(lake, "undo", TABLE, "3")
    called(lake, "revert", TABLE, "--to-transaction", "1")
    (first, _) = as_lines(called(lake, "query", f"{ALL} order by id", "--format", "jsonl"))
    assert first == record(shape, MANY, 1, "a")


def test_a_diff_has_as_many_expressions_for_many_columns_as_for_few(
    spark: SparkSession, lakes: Lakes
) -> None:
    counts = []
    for columns in (10, 40):
        with diff(spark, lakes[FLAT, columns].find(TABLE)[0], "@1", "@2") as found:
            plan = found.frame._jdf.queryExecution().optimizedPlan().toJSON()
        # Files are read by their columns; each is named once.
        kinds = re.findall(r'"class":"org\.apache\.spark\.sql\.catalyst\.expressions\.(\w+)', plan)
        counts.append(len([kind for kind in kinds if kind != "AttributeReference"]))
    assert counts[0] == counts[1] > 10


def asked(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """Count how often Java is asked, but for what is given back to it."""
    counts = [0]
    send = GatewayClient.send_command

    def counted(self: GatewayClient, command: str, *args: Any, **more: Any) -> Any:
        # Progress is looked at by another thread, as often as a job takes.
        mine = threading.current_thread() is threading.main_thread()
        counts[0] += mine and not command.startswith("m\n")
        return send(self, command, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(GatewayClient, "send_command", counted)
        work()
    return counts[0]


PATHS = ("rows.parquet", "published")


@pytest.mark.parametrize(
    ("args", "a_column"),
    [
        (("query", ALL), 0),
        (("query", ALL, "--format", "csv"), 0),
        (("query", ALL, "--row-metadata", "--format", "csv"), 0),
        (("diff", TABLE, "@1", "@2", "--stat"), 0),
        (("diff", TABLE, "@1", "@2", "--format", "csv"), 0),
        # PySpark itself names each column that it sends to Python.
        (("query", ALL, "--out", "rows.parquet"), 4),
        (("publish", "--table", "tap_w.wide", "--to", "published"), 4),
        (("create-table", "w.made", "--from-query", ALL, "--dry-run"), 8),
    ],
    ids=lambda value: " ".join(value[:1] + value[-2:])[:40] if isinstance(value, tuple) else None,
)
def test_java_is_asked_as_often_for_many_columns_as_for_few(
    lakes: Lakes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    a_column: int,
) -> None:
    counts = []
    for columns in (10, 10, 40):  # the first time, more is asked once
        folder = tmp_path / f"{len(counts)}"
        folder.mkdir()
        counts.append(
            asked(
                monkeypatch,
                lambda f=folder, c=columns: called(
                    lakes[FLAT, c], *(f / arg if arg in PATHS else arg for arg in args)
                ),
            )
        )
    # The first on a lake reads its keys, too. It was 40 to 200 a column.
    assert counts[2] - counts[1] <= 30 * a_column + 60, counts
