"""A first operation that was refused, failed or killed leaves nothing that anybody else minds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log.scan import is_table
from singerlake_cli.main import cli
from tests.build import commit_rows
from tests.cli.call import run
from tests.prefixes import prefixes, shapes, write_tree
from tests.tap import run as tap
from tests.target import harness

pytestmark = pytest.mark.usefixtures("processes")

GOOD = "id,n\n1,2\n3,3\n"
FILE = "good.csv"
OTHER = {"id": {"type": "integer"}}


def upload(*more: str, text: str = GOOD) -> Callable[[str], int]:
    """Upload a file as ``w.one``."""

    def work(uri: str) -> int:
        Path("one.csv").write_text(text)
        return run(uri, "upload", "w.one", "one.csv", *more).exit_code

    return work


def create(uri: str) -> int:
    return run(uri, "create-table", "w.one", "--columns", "id bigint").exit_code


def sync(uri: str, **more: float) -> int:
    lines = [harness.schema("one", keys=["id"]), harness.record("one", {"id": 1})]
    harness.run(uri, [*lines, harness.state({"at": 1})], tap_id="w", **more)
    return 0


def copy(uri: str) -> int:
    commit_rows(Lake.open("source", create=True), "w.one", OTHER, ["id"], [{"id": 1}])
    return CliRunner().invoke(cli, ["copy", "source", uri]).exit_code


def folder(uri: str) -> int:
    Path("files").mkdir()
    Path("files", "a.txt").write_text("a")
    return run(uri, "upload", "w.one", "files").exit_code


OPERATIONS = {
    "key twice": (upload("--key", "id", text="id\n1\n1\n"), 5),
    "other types": (upload("--types", "n boolean"), 5),
    "upload": (upload("--key", "id"), 0),
    "create-table": (create, 0),
    "sync": (sync, 0),
    "copy": (copy, 0),
    "folder": (folder, 0),
}
LIKE = {"other types", "create-table", "copy", "folder"}
"""Those that write as one of the others does."""
COMMANDS = (
    ("ls",),
    ("ls", "w"),
    ("ls", "--dropped"),
    ("metrics",),
    ("verify", "--all"),
    ("vacuum", "--all", "--dry-run"),
    ("versions",),
    ("docs", "--out", "site"),
    ("copy",),
    ("upload", "w.two", FILE, "--key", "id"),
    ("rebuild", "--all"),
    ("vacuum", "--all"),
    ("create-table", "w.o-ne", "--columns", "id bigint"),
    ("freeze", "--all"),
)
"""What others do, the first before there is any table but perhaps ``w.one``."""


def others_work(uri: str, *, there: bool) -> None:
    """Make sure that all works that is not about ``w.one``; ``there``: it was committed."""
    empty = not there
    for command in COMMANDS:
        if command == ("copy",):
            result = CliRunner().invoke(cli, ["copy", uri, f"{uri}-copy"])
        else:
            result = run(uri, *command)
        empty &= command[0] != "upload"
        said = f"{' '.join(command)}: {result.output}{result.exception!r}"
        assert result.exit_code in ((0, 3) if empty else (0,)), said
        if not there:
            assert "backup" not in result.output, said
            assert "w.one" not in result.stdout, said


@pytest.mark.parametrize("age", [pytest.param(0.0, marks=pytest.mark.variant), 3600.0])
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.variant] * (one in LIKE)) for one in OPERATIONS]
)
def test_first_operation_killed_bars_no_other_table(
    name: str, age: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two of its writes, or refused at its end."""
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_text(GOOD)
    work, code = OPERATIONS[name]
    codes: list[int] = []
    trees = prefixes(tmp_path / "lake", lambda: codes.append(work("lake")))
    assert codes == [code]
    for number, tree in enumerate(shapes(trees)):
        place = f"lake-{number}"
        write_tree(Path(place), tree, age)
        there = is_table(Lake.open(place, create=True).store, TableName("w", "one"))
        others_work(place, there=there)
        lake = Lake.open(place)
        assert {table.stream for table in tap_of(lake)} == {"two", "o-ne", *["one"] * there}


def test_first_sync_killed_is_run_again(tmp_path: Path) -> None:
    """An hour later, when nobody refreshes its lock."""
    lake = tmp_path / "lake"
    for number, tree in enumerate(shapes(prefixes(lake, lambda: sync(str(lake))))):
        place = tmp_path / f"lake-{number}"
        write_tree(place, tree, 3600)
        sync(str(place), lock_stale_seconds=1)
        verified = run(str(place), "verify", "--all")
        assert verified.exit_code == 0, verified.output
        assert verified.stdout.startswith("w.one: "), verified.output


def tap_of(lake: Lake) -> list[TableName]:
    """The tables of the tap that the tap finds."""
    streams = tap.catalog_of(lake, tap_id="w")["streams"]
    return [TableName("w", one["tap_stream_id"]) for one in streams]
