"""Commands that look at all tables of a remote lake: side by side, in order, past broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from singerlake import lake as lakes
from singerlake.engine.work import Work
from singerlake.errors import RuntimeMissingError
from singerlake.lake import Lake, Table
from singerlake.ops.verify.problems import Report
from singerlake.storage.local.store import LocalStore
from singerlake_cli.main import cli
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.cli.terminal import on_a_terminal
from tests.far_store import FarStore
from tests.frozen import verify_here

COUNT = 40
BROKEN = 17


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Lake.open(str(tmp_path_factory.mktemp("many") / "lake"), create=True)
    for number in range(COUNT):
        name = f"tap-{number % 3}.s{number:02}"
        commit_rows(made, name, {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    broken = made.find(f"tap-{BROKEN % 3}.s{BROKEN}")[0].name
    path = Path(made.store.uri)
    (path / broken.manifest).write_text("{")
    (path / broken.transaction(1)).write_text("{")
    assert run(made, "drop", "tap-0.s00", "--yes").exit_code == 0
    return path


ALL = (["ls"], ["ls", "--sizes"], ["ls", "--dropped"], ["metrics"], ["vacuum", "--all"])


@pytest.mark.parametrize("args", ALL, ids=" ".join)
def test_what_is_seen_is_what_one_after_the_other_sees(
    root: Path, args: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    near = run(str(root), "--output", "json", *args)
    far = FarStore(root)
    monkeypatch.setattr(lakes, "open_store", lambda *_: far)
    seen = run("s3://bucket", "--output", "json", *args)
    assert far.most > 4
    assert (seen.exit_code, seen.exit_code) == (near.exit_code, 5)
    assert sorted(seen.stdout.replace("s3://bucket", str(root))) == sorted(near.stdout)
    documents = json.loads(seen.stdout)
    names = [one["table"] for one in documents if "table" in one]
    assert names == sorted(names)
    assert f"s{BROKEN}" in seen.stderr


@pytest.mark.parametrize("most", [1 << 20, 1])
def test_many_are_verified_as_one_after_the_other_is(
    root: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Those that are too large to be read side by side follow in their turn."""
    args = ["--output", "json", "verify", "--all"]
    near = run(str(root), *args)
    far = FarStore(root)
    monkeypatch.setattr(lakes, "open_store", lambda *_: far)
    monkeypatch.setattr("singerlake.ops.verify.verify.SIDE", Work(most, 1_000))
    seen = run("s3://bucket", *args)
    assert far.most > 4
    assert (seen.exit_code, near.exit_code) == (5, 5)
    assert seen.stdout == near.stdout
    tables = [one for one in json.loads(seen.stdout) if one["table"]]
    assert len(tables) == COUNT
    assert [one["table"] for one in tables if one["problems"]] == [f"tap-2.s{BROKEN}"]
    assert [one["table"] for one in tables if one["dropped"]] == ["tap-0.s00"]


def test_spark_verifies_what_is_large_and_what_is_asked_of_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def begun(*asked: object) -> NoReturn:
        started.append(asked)
        raise RuntimeMissingError("no Java")

    monkeypatch.setattr("singerlake_cli.shared.begin_spark", begun)
    table = ["verify", "tap-1.s01"]
    assert run(str(root), *table).exit_code == 0
    assert started == []
    assert run(str(root), *table, "--master", "local[1]").exit_code == 1
    monkeypatch.setattr("singerlake.engine.choice.SMALL", Work(10, 1_000))
    for args in (table, ["verify", "--all"]):
        assert "no Java" in run(str(root), *args).stderr
    assert started == [("local[1]", ()), (None, ()), (None, ())]


@pytest.fixture
def uneven(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake whose first table is verified elsewhere, where that takes long."""
    for name, count in (("a", 100), ("b", 1), ("c", 1)):
        rows: list[Any] = [{"id": n} for n in range(count)]
        commit_rows(lake, f"tap.{name}", {"id": {"type": "integer"}}, ["id"], rows)
    monkeypatch.setattr("singerlake.engine.choice.SMALL", Work(4_000, 1_000))

    def larger(table: Table, version: str | None, *_: object) -> Report:
        assert table.name.stream == "a"
        return verify_here(table, version)

    monkeypatch.setattr("singerlake.ops.verify.verify._on_spark", larger)
    return lake


def test_small_tables_do_not_wait_for_a_large_one(uneven: Lake) -> None:
    """On a terminal a line comes when its table is done; a script has them in order."""

    def names(text: str) -> list[str]:
        lines = [line for line in text.splitlines() if line.startswith("tap.")]
        assert all(line.endswith("no problems found") for line in lines), text
        return [line.partition(":")[0] for line in lines]

    def show() -> None:
        cli.main(args=["--lake", uneven.store.uri, "verify", "--all"], standalone_mode=False)

    assert names(on_a_terminal(120, show)) == ["tap.b", "tap.c", "tap.a"]
    assert names(run(uneven, "verify", "--all").stdout) == ["tap.a", "tap.b", "tap.c"]
    assert names(run(uneven, "verify", "tap.c", "tap.a").stdout) == ["tap.c", "tap.a"]
    found = run_json(uneven, "verify", "--all")
    assert [one["table"] for one in found] == ["tap.a", "tap.b", "tap.c"]


def test_small_tables_are_told_of_where_java_is_missing(
    uneven: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def larger(*_: object) -> NoReturn:
        raise RuntimeMissingError("no Java")

    monkeypatch.setattr("singerlake.ops.verify.verify._on_spark", larger)
    result = run(uneven, "verify", "--all")
    assert "no Java" in result.stderr and result.exit_code == 1
    assert [line[:5] for line in result.stdout.splitlines()] == ["tap.b", "tap.c"]


@pytest.mark.parametrize(
    "args",
    [
        ["verify", "tap.b", "tap.c", "tap.b"],
        ["verify", "tap.b.1", "tap.b.1"],
        ["vacuum", "tap.b", "tap.b", "--dry-run"],
        ["rebuild", "tap.b", "tap.b"],
    ],
    ids=" ".join,
)
def test_a_table_that_is_named_twice_is_looked_at_once(lake: Lake, args: list[str]) -> None:
    for name in "bc":
        commit_rows(lake, f"tap.{name}", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    assert run(lake, "freeze", "tap.b", "tap.b").stdout.startswith("tap.b version 1: ")
    assert lake.lake_versions() == []
    twice, once = run(lake, *args), run(lake, *dict.fromkeys(args))
    assert (twice.exit_code, twice.stdout) == (0, once.stdout), twice.output


def test_taps_are_listed_side_by_side(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near = Lake(LocalStore(root))
    assert Lake(FarStore(root)).tables() == near.tables()
    assert len(near.tables()) == COUNT
