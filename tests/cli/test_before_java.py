"""What is asked wrongly is known before Java starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import Result

from singerlake.errors import UsageError
from singerlake.format.log import Operation
from singerlake.lake import Lake
from singerlake.log import commit as commits
from singerlake.new_file import NewFile
from singerlake.ops.freeze import commit_version, plan
from singerlake.ops.rows_back.revert_plan import undone_by
from singerlake.rows.state.row_key import check_key
from singerlake_cli.main import cli
from tests.build import commit_rows
from tests.cli.call import run
from tests.cli.terminal import on_a_terminal

PROPERTIES = {"id": {"type": "integer"}, "name": {"type": "string"}}


@pytest.fixture
def shop(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 1, "name": "a"}])
    commit_rows(lake, "tap-shop.items", PROPERTIES, [], [{"id": 1}])
    table = lake.find("tap-shop.orders")[0]
    commit_version(
        lake.store,
        table.snapshot(),
        plan(table.snapshot(), label="q3"),
        rows=1,
        fingerprint="0" * 32,
    )

    def started(*_: object) -> NoReturn:
        raise AssertionError("Java starts")

    for name in ("begin_spark", "start_spark"):
        monkeypatch.setattr(f"singerlake_cli.shared.{name}", started)
    return lake


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["rows", "tap-shop.orders", "--key", "nope=3"], 2, "id is int64|'nope=3' is not"),
        (["rows", "tap-shop.orders", "--key", "nope=3", "--key", "x=1"], 2, "use --key id=…"),
        (["rows", "tap-shop.orders", "--key", "abc"], 2, "'abc' is not"),
        (["rows", "tap-shop.items", "--key", "id=1"], 2, "has no key properties"),
        (["freeze", "tap-shop.orders", "--label", "q3"], 2, "has the label 'q3' already"),
        (["freeze", "tap-shop.orders", "--label", "7"], 2, "looks like a version's number"),
        (["freeze", "tap-shop.orders", "--transaction", "9"], 3, "its last is 2"),
        (["freeze", "tap-shop.orders", "--time", "2001-01-01"], 3, "no transaction by 2001-01-01T"),
        (["freeze", "tap-shop.orders", "--time", "soon"], 2, "'soon' is not a time"),
        (["freeze", "tap-shop.orders", "--time", ""], 2, "--time is empty"),
        (
            ["freeze", "tap-shop.orders", "--time", "2999-01-01", "--transaction", "1"],
            2,
            "specify one snapshot: --transaction and --time are given",
        ),
        (["create-table", "tap-shop.orders", "--from-query", "select 1"], 2, "already"),
        (["create-table", "tap_shop.orders", "--from-query", "select 1"], 2, "also means in SQL:"),
        (["create-table", "new", "--from-query", "select 1"], 2, "write it as tap.stream"),
        (["revert", "tap-shop.orders", "--to", "q4"], 3, "it has 1 (q3)"),
        (["revert", "tap-shop.orders", "--to", "q3", "--if-transaction", "1"], 4, "not 1 any more"),
        (["revert", "tap-shop.orders", "--to", "q3", "--metadata", "by=me"], 2, "rename it"),
        (["verify", "tap-shop.orders", "--version", "q4"], 3, "it has 1 (q3)"),
        (["query", "select 1", "--out", "x.txt"], 2, "end it in .csv, .tsv"),
        (["query", "select 1", "--out", "x/y.csv"], 2, "there is no folder x"),
        (["query", "select 1", "--out", "."], 2, "is a folder"),
        (["query", "select 1", "--force"], 2, "--force requires"),
        (["query", "select 1", "--format", "parquet"], 2, "name a file with --out"),
        (["query", "select 1", "--safe-cells", "--out", "x.jsonl"], 2, "for spreadsheets"),
        (["query"], 2, "Missing argument 'SQL', or --file"),
        (["query", "select 1", "--file", __file__], 2, "two ways to ask: take one"),
        (["query", "--file", "gone.sql"], 2, "'gone.sql' does not exist"),
        (["query", "--file", sys.executable], 2, "is not UTF-8 text"),
        (["query", " ; -- select 1"], 2, "there is no statement, only"),
        (["query", "select 1; select 2", "--format", "csv"], 2, "--format csv takes one statement"),
        (["query", "select 1", "select 2", "--out", "x.csv"], 2, "--out takes one statement"),
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
    result = run(shop, *args)
    assert result.exit_code == code, result.output
    assert any(part in result.stderr for part in says.split("|")), result.stderr


def test_a_file_is_never_replaced_unasked(
    shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q3.csv").write_text("precious")
    result = run(shop, "query", "select 1", "--out", "q3.csv")
    assert result.exit_code == 2
    assert "q3.csv already exists: name another, or replace it with --force" in result.stderr
    assert Path("q3.csv").read_text() == "precious"


def test_a_dropped_table_is_frozen_by_nobody(shop: Lake) -> None:
    assert run(shop, "drop", "tap-shop.items", "--yes").exit_code == 0
    result = run(shop, "freeze", "tap-shop.items")
    assert (result.exit_code, "singerlake undrop tap-shop.items" in result.output) == (3, True)


def test_a_lake_without_tables_has_nothing_to_verify(
    shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty" / "raw").mkdir(parents=True)
    Lake.open(str(tmp_path / "empty"), create=True)
    (tmp_path / "empty/raw/singerlake.json").write_text('{"format": 1, "taps": {}}')
    result = run(str(tmp_path / "empty"), "verify", "--all")
    assert (result.exit_code, "nothing to verify" in result.stdout) == (0, True), result.output


def test_a_new_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "q3.csv"
    with pytest.raises(KeyboardInterrupt), NewFile(path, force=False).writing() as place:
        place.write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with NewFile(path, force=False).writing() as place:
        place.write_text("whole")
    assert [one.name for one in tmp_path.iterdir()] == ["q3.csv"]
    with pytest.raises(KeyboardInterrupt), NewFile(path, force=True).writing() as place:
        place.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "whole"
    with NewFile(path, force=True).writing() as place:
        place.write_text("another")
    assert path.read_text() == "another"


def test_a_file_that_somebody_else_makes_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "q3.csv"
    with pytest.raises(UsageError, match="already exists"):  # noqa: SIM117
        with NewFile(path, force=False).writing() as place:
            place.write_text("ours")
            path.write_text("theirs")
    assert path.read_text() == "theirs"
    assert [one.name for one in tmp_path.iterdir()] == ["q3.csv"]


def test_a_device_is_written_to(tmp_path: Path) -> None:
    with NewFile(Path("/dev/null"), force=False).writing() as place:
        assert place == Path("/dev/null")


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"type": "integer"},
            ["17", "-3", " 4 ", "+5", "007"],
            ["x", "1.5", "", "9" * 5000],
        ),
        ({"type": "number"}, ["1", "1.5", "-2e9", ".5", "NaN", "-Infinity"], ["x", "1,5", ""]),
        ({"type": "number", "multipleOf": 0.01}, ["1", "1.50"], ["nan", "x"]),
        ({"type": "boolean"}, ["true", "F", "0"], ["maybe", "2"]),
        ({"type": "string", "format": "date"}, ["2026-11-22", "2026-1-2"], ["today", "1.1.26"]),
        (
            {"type": "string", "format": "date-time"},
            ["2026-11-22T10:00Z", "2026-11-22"],
            ["now"],
        ),
        ({"type": "string"}, ["anything", ""], []),
    ],
)
def test_values_of_keys(
    lake: Lake, schema: dict[str, str], good: list[str], bad: list[str]
) -> None:
    commit_rows(lake, "t.s", {"k": schema}, ["k"], [])
    snapshot = lake.find("t.s")[0].snapshot()
    for value in good:
        check_key(snapshot, {"k": value})
    for value in bad:
        with pytest.raises(UsageError, match="is not"):
            check_key(snapshot, {"k": value})


def test_day_of_a_key_has_no_time_of_day(lake: Lake) -> None:
    commit_rows(lake, "t.s", {"k": {"type": "string", "format": "date"}}, ["k"], [])
    snapshot = lake.find("t.s")[0].snapshot()
    check_key(snapshot, {"k": "2026-11-22T00:00:00.000Z"})
    for value in ("2026-11-22T10:00:00Z", "2026-11-22T00:00:00.0000001Z"):
        with pytest.raises(UsageError, match="would round"):
            check_key(snapshot, {"k": value})


def test_a_revert_to_the_present_state_needs_no_java(shop: Lake) -> None:
    for more in ([], ["--dry-run"]):
        result = run(shop, "revert", "tap-shop.orders", "--to", "q3", *more)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        said = "tap-shop.orders is already at the snapshot of transaction 1: nothing to do\n"
        assert result.stdout == said


def test_what_a_revert_undoes(shop: Lake) -> None:
    commit_rows(shop, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 2}])
    commit_rows(shop, "tap-shop.orders", {**PROPERTIES, "x": {}}, ["id"], [])
    head = shop.find("tap-shop.orders")[0].snapshot()
    assert [one.number for one in undone_by(head, 1)] == [4, 3]  # 2 is the freeze
    assert [one.number for one in undone_by(head, 3)] == [4]
    assert undone_by(head, 4) == []


def test_the_state_that_a_transaction_acknowledged(shop: Lake) -> None:
    """It is that of the state which the table had then, whatever was turned back in between."""
    table = shop.find("tap-shop.orders")[0]
    for n in (3, 4):
        said = {"tap_state": f'{{"bookmark": {n}.10}}'}
        commit_rows(shop, "tap-shop.orders", PROPERTIES, ["id"], [{"id": n}], metadata=said)
    for said in ({"reverted_to": 3}, {"undone": [4, 5]}):
        draft = commits.draft_entry(table.name, Operation.REVERT, writer="w", metadata=said)
        commits.commit(shop.store, table.snapshot(), lambda _, draft=draft: draft)
    commit_rows(shop, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 7}])  # put none out
    long = {"tap_state_bytes": 9}
    commit_rows(shop, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 8}], metadata=long)

    def printed(to: int, *more: str) -> Result:
        wanted = ["--to-transaction", str(to), "--print-state"]
        return run(shop, *more, "revert", "tap-shop.orders", *wanted)

    for to, bookmark in ((3, 3), (4, 4), (5, 3), (6, 3), (7, 3)):
        result = printed(to)
        assert result.stdout == f'{{"bookmark": {bookmark}.10}}\n', to
        assert "meltano state set --force dev:tap-shop-to-target-singerlake" in result.stderr
    assert '"bookmark": 4.10' in printed(4, "--output", "json").stdout
    for to, why in ((1, "no run emitted one,"), (8, "it has 9 bytes")):
        result = printed(to)
        assert (result.exit_code, result.stdout) == (3, "")
        assert why in result.stderr
    for said in (["--dry-run"], ["--comment", "why"], ["--metadata", "a=b"]):
        wanted = ["--to-transaction", "3", "--print-state", *said]
        result = run(shop, "revert", "tap-shop.orders", *wanted)
        assert (result.exit_code, result.stdout) == (2, ""), said
    assert table.snapshot().number == 8


def test_a_wrong_key_shows_no_bar(shop: Lake) -> None:
    args = ["--lake", shop.store.uri, "rows", "tap-shop.orders", "--key", "abc"]
    shown = on_a_terminal(80, lambda: cli.main(args, standalone_mode=False))
    assert "'abc' is not" in shown
    assert "searching" not in shown
