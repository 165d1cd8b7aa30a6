"""Tables of many columns: every command takes them, and asks Java as often as for few."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import GatewayClient

from singerlake.lake import Lake
from tests.build import commit_rows
from tests.cli.call import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]
TABLE = "tap-w.wide"
ALL = "select * from tap_w.wide"
TEXT: dict[str, Any] = {"type": ["null", "string"]}
MANY = 600
"""Texts, and as many within an object: of some 500 Spark's parser and Java's stack had enough."""


def made(folder: Path, columns: int) -> Lake:
    """A table of so many columns, and an object of so many members, in two states."""
    lake = Lake.open(str(folder / f"lake{columns}"), create=True)
    names = [f"f{number}" for number in range(columns)]
    members = dict.fromkeys(names, TEXT)
    inner = {"o": {"type": ["null", "object"], "properties": members}}
    properties = {"id": {"type": "integer"}, **members, **inner}
    for state in "ab":
        texts = {name: f"{state} {name}" for name in names}
        commit_rows(lake, TABLE, properties, ["id"], [{"id": 1, **texts, "o": texts}, {"id": 2}])
    return lake


@pytest.fixture(scope="module")
def lakes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Lake]:
    del spark
    folder = tmp_path_factory.mktemp("wide")
    return {columns: made(folder, columns) for columns in (10, 40, MANY)}


READING = [
    ("query", ALL),
    ("query", ALL, "--format", "csv"),
    ("query", ALL, "--format", "jsonl"),
    ("query", ALL, "--to", "rows.parquet"),
    ("query", ALL, "--provenance", "--format", "csv"),
    ("rows", TABLE, "--key", "1", "--history"),
    ("diff", TABLE, "@1", "@2", "--stat"),
    ("diff", TABLE, "@1", "@2", "--format", "csv"),
    ("diff", TABLE, "@1", "@2", "--format", "jsonl"),
    ("publish", "--from", "tap_w.wide", "--to", "published"),
    ("publish", "--from", "tap_w.wide", "--to", "as-lines", "--format", "jsonl"),
    ("create-table", "w.made", "--from-query", ALL, "--dry-run"),
]


def called(lake: Lake, folder: Path, *args: str) -> str:
    paths = ("rows.parquet", "published", "as-lines")
    result = run(lake, *(str(folder / arg) if arg in paths else arg for arg in args))
    assert result.exit_code == 0, result.output[-500:]
    return result.stdout


@pytest.mark.parametrize("args", READING, ids=lambda args: " ".join(args[:1] + args[-2:])[:40])
def test_a_table_of_many_columns_is_read(
    lakes: dict[int, Lake], tmp_path: Path, args: tuple[str, ...]
) -> None:
    printed = called(lakes[MANY], tmp_path, *args)
    if args[-1] == "jsonl" and args[0] == "query":
        (first, second) = map(json.loads, printed.splitlines())
        assert first["o"]["f599"] == first["f599"] == "b f599"
        assert len(second) == MANY + 2
    if args[0] == "diff" and args[-1] == "jsonl":
        (only,) = map(json.loads, printed.splitlines())
        assert only["changed"] == [*(f"f{number}" for number in range(MANY)), "o"]


@pytest.mark.parametrize("form", ["avro", "csv", "delta", "iceberg"])
def test_a_flat_table_of_many_columns_is_published(
    lakes: dict[int, Lake], tmp_path: Path, form: str
) -> None:
    names = ", ".join(["id", *(f"f{number}" for number in range(MANY))])
    sql = f"select {names} from tap_w.wide"
    called(lakes[10], tmp_path, "ls")
    to = str(tmp_path / "out")
    result = run(lakes[MANY], "publish", "--sql", sql, "--key", "id", "--to", to, "--format", form)
    assert result.exit_code == 0, result.output[-500:]


def test_a_table_of_many_columns_is_changed(lakes: dict[int, Lake], tmp_path: Path) -> None:
    lake = lakes[MANY]
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"id": 3, **{f"f{number}": "c" for number in range(MANY)}}) + "\n")
    called(lake, tmp_path, "upload", TABLE, str(rows))
    called(lake, tmp_path, "update", TABLE, "--set", "f1 = 'd'", "--where", "id = 3")
    called(lake, tmp_path, "revert", TABLE, "--only", "4")
    called(lake, tmp_path, "revert", TABLE, "--to-transaction", "2")
    assert len(called(lake, tmp_path, "query", ALL, "--format", "jsonl").splitlines()) == 2


def asked(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """Count how often Java is asked, but for what is given back to it."""
    counts = [0]
    send = GatewayClient.send_command

    def counted(self: GatewayClient, command: str, *args: Any, **more: Any) -> Any:
        counts[0] += not command.startswith("m\n")
        return send(self, command, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(GatewayClient, "send_command", counted)
        work()
    return counts[0]


@pytest.mark.parametrize(
    ("args", "a_column"),
    [
        (("query", ALL), 0),
        (("query", ALL, "--format", "csv"), 0),
        (("query", ALL, "--provenance", "--format", "csv"), 0),
        (("diff", TABLE, "@1", "@2", "--stat"), 0),
        (("diff", TABLE, "@1", "@2", "--format", "csv"), 0),
        # PySpark itself names each column that it sends to Python.
        (("query", ALL, "--to", "rows.parquet"), 4),
        (("publish", "--from", "tap_w.wide", "--to", "published"), 4),
        (("create-table", "w.made", "--from-query", ALL, "--dry-run"), 8),
    ],
    ids=lambda value: " ".join(value[:1] + value[-2:])[:40] if isinstance(value, tuple) else None,
)
def test_java_is_asked_as_often_for_many_columns_as_for_few(
    lakes: dict[int, Lake],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    a_column: int,
) -> None:
    counts = []
    for columns in (10, 10, 40):  # the first time, more is asked once
        folder = tmp_path / f"{len(counts)}"
        folder.mkdir()
        counts.append(asked(monkeypatch, lambda f=folder, c=columns: called(lakes[c], f, *args)))
    # Progress is asked for as often as a job takes; it was 40 to 200 a column.
    assert counts[2] - counts[1] <= 30 * a_column + 90, counts
