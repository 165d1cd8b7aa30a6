"""Columns of rows are set to literals without SQL, and to what SQL says by Spark."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import ConflictError, RejectedRowsError, SingerlakeError, UsageError
from singerlake.format.assignments import Literal, assignments, literal
from singerlake.lake import Lake, Table
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.ops.update import UpdateOptions, update
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.histories import here
from tests.needs import MORE
from tests.ops.rows_back.written import written_untimed

ROOT = Path(__file__).parents[3]
NAME = "tap.s"
COLUMNS: dict[str, Any] = {
    "id": {"type": "integer"},
    "n": {"type": ["null", "integer"]},
    "x": {"type": ["null", "number"]},
    "d": {"type": ["null", "number"], "format": "singer.decimal", "scale": 2},
    "b": {"type": ["null", "boolean"]},
    "s": {"type": ["null", "string"]},
    "day": {"type": ["null", "string"], "format": "date"},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "tags": {"type": ["null", "array"], "items": {"type": "string"}},
}
ROWS: list[Any] = [
    {"id": 1, "n": 5, "s": "a", "unknown": 1.50},
    {"id": 2, "s": "b", "tags": ["x"]},
    {"id": 3, "n": 7, "s": "c"},
]
LITERALS = {
    "n": ["0", "-12", "2147483648", "9223372036854775807", "null"],
    "x": ["1", "-2147483647", "1.5", "-.25", "123456789.123456", "1.0e3", "-2.5E-3", "null"],
    "d": ["7", "-7.1", "0.25", "3000000000", "null"],
    "b": ["true", "FALSE", "null"],
    "s": ["'paid'", "''", "'ünï, = `x` \"y\"'", "'-- x'", "null"],
    "day": ["date'2026-11-20'", "DATE '0001-01-01'", "null"],
    "at": ["timestamp'2026-11-20T12:00:00Z'", "timestamp '2026-11-20 12:00:00.250Z'", "null"],
    "tags": ["null"],
}
EXPRESSIONS = {
    "n": ["1.5", "'1'", "9223372036854775808", "1 + 1", "1L", "true", "n"],
    "x": ["2147483648", "1234567890.1234567", "'1'", "1.5D", "nan", "1e3", "1.0e400"],
    "d": ["0.125", "1e2", "'1'"],
    "b": ["1", "'true'", "not b"],
    "s": ["1", '"x"', "'it''s'", "'a\\n'", "r'x'", "'a' 'b'", "upper('x')", "s"],
    "day": ["'2026-11-20'", "date'2026-02-30'", "date'2026-1-2'", "date'now'", "current_date"],
    "at": ["'2026-11-20T12:00:00Z'", "timestamp'2026-11-20 12:00:00'", "timestamp'today'"],
    "tags": ["'x'", "array('x')"],
}


def lake_of(lake: Lake, keys: list[str]) -> Table:
    commit_rows(lake, NAME, COLUMNS, keys, [*ROWS])
    return lake.find(NAME)[0]


@pytest.fixture(params=[["id"], []], ids=["key", "no key"])
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    return lake_of(lake, request.param)


def test_only_what_spark_reads_alike_is_a_literal(table: Table) -> None:
    types = dict(table.snapshot().columns)
    for name, texts in LITERALS.items():
        for text in texts:
            assert isinstance(literal(text, types[name]), Literal), (name, text)
    for name, texts in EXPRESSIONS.items():
        for text in texts:
            assert literal(text, types[name]) is None, (name, text)


@MORE
@pytest.mark.usefixtures("each_operation")
def test_literals_are_set_as_sql_sets_them(spark: SparkSession, lake: Lake) -> None:
    lake_of(lake, ["id"])
    other = Lake.open(str(shutil.copytree(lake.store.uri, f"{lake.store.uri}-spark")))
    tables = [one.find(NAME)[0] for one in (lake, other)]
    rounds = max(map(len, LITERALS.values()))
    for number in range(rounds):
        values = {name: texts[number] for name, texts in LITERALS.items() if number < len(texts)}
        found = []
        for one, where, choice in (
            (tables[0], None, EngineChoice(LOCAL)),
            (tables[1], "1 = 1", EngineChoice.of(spark=spark)),
        ):
            done = update(Lake(one.store), one, UpdateOptions(values, where=where), choice)
            assert done.transaction is not None
            found.append((done, written_untimed(one, done.transaction)))
        assert found[0] == found[1], values
    prints = [freeze(one, FreezeOptions(again=True)).version.fingerprint for one in tables]
    assert prints[0] == prints[1]


@pytest.mark.usefixtures("each_operation")
def test_a_condition_may_be_a_column(spark: SparkSession, lake: Lake) -> None:
    table = lake_of(lake, ["id"])
    choice = EngineChoice.of(spark=spark)
    assert update(lake, table, UpdateOptions({"b": "true"}, ["1", "3"]), choice).updated == 2
    assert update(lake, table, UpdateOptions({"n": "n + 1"}, where="b"), choice).updated == 2


def test_rows_are_set_by_key(table: Table, engine: EngineChoice) -> None:
    lake, keyed = Lake(table.store), bool(table.snapshot().key)
    ids = ["1", "3"] if keyed else ["1:0", "1:2"]
    values = assignments(["n = -1, s = 'x'", "at = null"])
    dry = UpdateOptions(values, ids, change=ChangeOptions(dry_run=True))
    assert update(lake, table, dry, engine).updated == 2
    done = update(lake, table, UpdateOptions(values, ids, change=ChangeOptions("why")), engine)
    assert (done.transaction, done.updated, done.whole) == (2, 2, not keyed)
    rows = sorted((row["id"], row["n"], row["s"]) for row in here.rows(table, table.snapshot()))
    assert rows == [(1, -1, "x"), (2, None, "b"), (3, -1, "x")]
    texts = [table.read_block(block) for block in table.snapshot().blocks]
    assert any(b'"unknown": 1.5' in text or b'"unknown":1.5' in text for text in texts[1:])


def test_all_rows_are_set(table: Table, engine: EngineChoice) -> None:
    done = update(Lake(table.store), table, UpdateOptions({"s": "'b'", "b": "true"}), engine)
    assert (done.updated, done.unchanged) == (3, 0)
    again = update(Lake(table.store), table, UpdateOptions({"s": "'b'", "b": "true"}), engine)
    assert (again.transaction, again.unchanged) == (None, 3)
    assert {(row["s"], row["b"]) for row in here.rows(table, table.snapshot())} == {("b", True)}


def test_a_key_that_is_not_there_is_refused(table: Table, engine: EngineChoice) -> None:
    ids = ["1", "9"] if table.snapshot().key else ["1:0", "7:0"]
    with pytest.raises(RejectedRowsError, match=ids[1]):
        update(Lake(table.store), table, UpdateOptions({"n": "1"}, ids), engine)
    assert table.snapshot().number == 1


def test_what_is_refused_or_small_starts_no_java(table: Table, no_java: EngineChoice) -> None:
    lake = Lake(table.store)

    def refused(error: type[SingerlakeError], words: str, options: UpdateOptions) -> None:
        with pytest.raises(error, match=words):
            update(lake, table, options, no_java)

    refused(UsageError, "did you mean id", UpdateOptions({"idd": "1"}))
    if table.snapshot().key:
        refused(UsageError, "is part of the key of", UpdateOptions({"id": "1"}))
    refused(UsageError, "--key and --where each", UpdateOptions({"n": "1"}, ["1"], "id = 1"))
    refused(UsageError, "takes values that are written out", UpdateOptions({"n": "n + 1"}, ["1"]))
    refused(UsageError, "Java starts", UpdateOptions({"n": "n / 1"}))
    refused(UsageError, "Java starts", UpdateOptions({"n": "1"}, where="id + 1 = 2"))
    late = ChangeOptions(if_transaction=9)
    refused(ConflictError, "has no 9 yet", UpdateOptions({"n": "n + 1"}, change=late))
    bytes_ = sum(block.bytes for block in table.snapshot().blocks)
    few = EngineChoice(start=no_java.start, limit=Work(bytes_, 1_000))
    with pytest.raises(UsageError, match="Java starts"):
        update(lake, table, UpdateOptions({"n": "1"}), few)  # which reads all rows, and compares
    ids = ["2"] if table.snapshot().key else ["1:1"]
    assert update(lake, table, UpdateOptions({"n": "1"}, ids), few).updated == 1


def test_command_takes_keys(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake_of(lake, ["id"])
    sets = ("--set", "s = 'paid'")
    done = run_json(lake, "update", NAME, *sets, "--key", "1", "--key", "2", "--engine", "local")
    assert (done["transaction"], done["updated"]) == (2, 2)
    refused = run(lake, "update", NAME, "--set", "s = reverse(s)", "--engine", "local")
    assert (refused.exit_code, "needs Spark" in refused.stderr) == (2, True)
    both = run(lake, "update", NAME, *sets, "--key", "1", "--where", "id = 1")
    assert (both.exit_code, "each select rows" in both.stderr) == (2, True)


@pytest.mark.usefixtures("processes")
def test_update_needs_no_pyspark(lake: Lake) -> None:
    table = lake_of(lake, ["id"])
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "from singerlake_cli.main import main\n"
        f"main(['--lake', {table.store.uri!r}, 'update', {NAME!r}, *sys.argv[1:]])\n"
    )
    for said in (["--set", "n = 3"], ["--set", "s = 'x'", "--key", "2"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *said],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert table.snapshot().number == 3
