"""`singerlake data-files`: DuckDB reads what it prints, and gets the table's rows."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from singerlake.format.log import Block
from singerlake.lake import Lake
from singerlake.log.state_files import StateFile, state_files
from singerlake.rows.batches.row_columns import PROVENANCE
from singerlake.snapshot import building
from singerlake_cli import duckdb_sql
from tests.build import commit_rows
from tests.cli.call import run, run_json

PROPERTIES = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "NAME": {"type": "string"},
    'a"b': {"type": "string", "format": "date-time"},
    "price": {"type": "number", "multipleOf": 0.01},
}
GONE = "2026-03-01T01:20:00Z"
TABLE = "tap-shop.orders"


def record(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": f"n{number}", "NAME": "N", 'a"b': GONE, "price": 1.5, **more}


@pytest.fixture
def odd_lake(tmp_path: Path) -> Lake:
    """A lake in a folder whose name means a pattern to DuckDB, and has a quote in it."""
    lake = Lake.open(str(tmp_path / "l[a]k*e's"), create=True)
    commit_rows(lake, TABLE, PROPERTIES, ["id"], [record(n) for n in range(2000)], 500)
    later = [record(1, name=None), record(2, _sdc_deleted_at=GONE), record(5000)]
    commit_rows(lake, TABLE, PROPERTIES, ["id"], [*later])
    return lake


def asked(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return sorted(connection.execute(sql).fetchall(), key=repr)


def sql_of(lake: Lake, *args: str) -> str:
    result = run(lake, "data-files", *args, "--format", "duckdb")
    assert result.exit_code == 0, result.output
    return result.stdout


def rows_of(lake: Lake, sql: str) -> list[tuple[Any, ...]]:
    answer = run_json(lake, "query", sql)
    return sorted(map(tuple, answer["rows"]), key=repr)


def same(lake: Lake, printed: str, table: str) -> None:
    ours = rows_of(lake, f"select id, name, `NAME`, cast(price as string) from {table}")
    # DuckDB knows one of two names that differ only in case.
    columns = "id, name, upper_name, changed, price"
    theirs = asked(f"SELECT id, name, upper_name, price::VARCHAR FROM ({printed}) AS t({columns})")
    assert theirs == ours
    assert len({row[0] for row in ours}) == len(ours) > 1990


@pytest.mark.usefixtures("each_operation")
def test_duckdb_gets_the_rows_of_a_version_of_the_head_and_of_a_layer(
    odd_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "LEAST_ROWS", 1000)
    missing = run(odd_lake, "data-files", TABLE, "--format", "duckdb")
    assert missing.exit_code == 3
    assert "has no materialized snapshot of transaction 2 yet: add --build" in missing.stderr
    assert run(odd_lake, "freeze", TABLE, "--transaction", "1").exit_code == 0
    same(odd_lake, sql_of(odd_lake, f"{TABLE}.1"), "tap_shop.orders.1")
    # What changed since is little: the index of the head is a layer on that of the version.
    built = sql_of(odd_lake, TABLE, "--build")
    assert "WHERE NOT EXISTS" in built
    same(odd_lake, built, "tap_shop.orders")
    assert sql_of(odd_lake, "tap_shop.orders") == built
    document = run_json(odd_lake, "data-files", TABLE, "--of", "index")
    assert {file["layer"] for file in document["files"]} == {True, False}
    assert all(Path(file["path"]).is_file() for file in document["files"])
    assert "replace" in run(odd_lake, "data-files", TABLE, "--of", "index").stderr


def zcat(paths: Sequence[str]) -> int:
    done = subprocess.run(["zcat", *paths], capture_output=True, check=True)
    return done.stdout.count(b'"type": "RECORD"')


@pytest.mark.usefixtures("processes")
@pytest.mark.usefixtures("each_operation")
def test_raw_files_count_each_row_once_after_a_vacuum(odd_lake: Lake) -> None:
    before = run(odd_lake, "data-files", TABLE).stdout.splitlines()
    assert zcat(before) == 2003
    assert run(odd_lake, "vacuum", TABLE).exit_code == 0
    every = [str(path) for path in Path(odd_lake.store.uri).rglob("*.singer.gz")]
    assert zcat(every) == 2 * 2003  # which is why
    now = run(odd_lake, "data-files", "tap_shop.orders").stdout.splitlines()
    assert zcat(now) == 2003
    assert set(now).isdisjoint(before)
    sql = run(odd_lake, "data-files", TABLE, "--of", "raw", "--format", "duckdb").stdout
    assert asked(f"SELECT count(*), count(DISTINCT record->>'id') FROM ({sql})") == [(2003, 2001)]
    first = run(odd_lake, "data-files", f"{TABLE}.@1")
    assert first.stdout.splitlines() == now
    assert "1 file of these also contain rows of other snapshots" in first.stderr
    (file,) = run_json(odd_lake, "data-files", f"{TABLE}.@1")["files"]
    assert sum(block["rows"] for block in file["blocks"]) == 2000


def test_a_file_that_is_gone_is_damage(odd_lake: Lake) -> None:
    table = odd_lake.find(TABLE)[0]
    first = state_files(odd_lake.store, table.snapshot())[0]
    Path(odd_lake.store.uri, first.key).unlink()
    result = run(odd_lake, "data-files", TABLE)
    assert (result.exit_code, result.stdout) == (5, "")
    assert "singerlake verify tap-shop.orders" in result.stderr


def test_nothing_at_all_has_no_rows_and_all_columns() -> None:
    with duckdb.connect() as connection:
        found = connection.execute(duckdb_sql.of_rows(["id", "ID"], [0], [], []))
        assert [column[0] for column in found.description or []] == ["id", "ID"]
        assert found.fetchall() == []
        assert connection.execute(duckdb_sql.of_messages([], 0)).fetchall() == []


def test_a_folder_above_the_lake_named_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    root = tmp_path / "c1=prod" / "type=prod"
    lake = Lake.open(str(root / "lake"), create=True)
    commit_rows(lake, TABLE, {"id": {"type": "integer"}}, ["id"], [{"id": 7}])
    raw = sql_of(lake, TABLE, "--of", "raw")
    assert asked(f"SELECT record->>'id' FROM ({raw})") == [("7",)]
    part = root / "part.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 7 AS id, 'open' AS status) TO '{part}'")
    rows = duckdb_sql.of_rows(["id", "status"], [0], [str(part)], [])
    assert asked(rows) == [(7, "open")]


def test_raw_files_are_read_in_little_memory_and_long_lines_too(lake: Lake) -> None:
    text = {"id": {"type": "integer"}, "text": {"type": "string"}}
    commit_rows(lake, TABLE, text, ["id"], [{"id": 1, "text": "a"}])
    long = "tap-shop.long"
    commit_rows(lake, long, text, ["id"], [{"id": 1, "text": "x" * (17 << 20)}])
    for table, length in ((TABLE, 1), (long, 17 << 20)):
        sql = sql_of(lake, table, "--of", "raw")
        with duckdb.connect(config={"memory_limit": "1GB", "threads": 2}) as connection:
            found = connection.execute(f"SELECT length(record->>'text') FROM ({sql})").fetchall()
        assert found == [(length,)]


def test_a_file_with_other_states_blocks_says_the_longest_line_that_they_can_have() -> None:
    block = Block(
        number=1, file="h/f", offset=0, length=100, rows=1, bytes=500, first=GONE, last=GONE
    )
    assert StateFile("f", 100, [block]).longest_line == 500
    zeros = b"0" * (64 << 20)
    others = len(gzip.compress(zeros))
    assert StateFile("f", 100 + others, [block]).longest_line >= len(zeros)


def test_the_columns_behind_a_tables_own_are_all_counted() -> None:
    assert len(PROVENANCE) == duckdb_sql.PROVENANCE_COLUMNS
