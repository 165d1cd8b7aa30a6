"""The page that says which commands start Java, held to what they do with a small table."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

import singerlake_cli
from singerlake.engine.work import Work
from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake_cli import shared
from singerlake_cli.main import COMMANDS
from tests.build import commit_rows
from tests.cli.call import run

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "spark-and-java.md"
ID = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}
EXAMPLES = {
    "ls": [],
    "show": ["tap.s"],
    "history": ["tap.s"],
    "versions": ["tap.s"],
    "point": ["tap.s"],
    "sign": ["tap.s.1"],
    "bookmark": ["get", "dev:tap-to-target"],
    "cite": ["tap.s.1"],
    "data-files": ["tap.s"],
    "locks": [],
    "unlock": ["tap.s", "--yes"],
    "metrics": [],
    "doctor": [],
    "alter": ["tap.s", "add-column", "more", "string"],
    "drop": ["tap.s", "--yes"],
    "undrop": ["tap.gone"],
    "annotate": ["tap.s", "--description", "all of it"],
    "docs": ["--out", "{folder}/site"],
    "projections": ["--projections", "{folder}/projections.yml"],
    "copy": ["{folder}/lake", "{folder}/copy"],
    "rebuild": ["tap.s"],
    "create-table --columns": ["tap.made", "--columns", "id integer"],
    "create-table --from-query": ["tap.made", "--from-query", "select id from tap.s where id > 1"],
    "files": ["ls", "tap.s"],
    "vacuum": ["tap.s", "--expire-history", "--retain", "0s", "--no-retention-guard"],
    "freeze": ["--all"],
    "revert": ["tap.s", "--to-transaction", "1"],
    "undo": ["tap.s", "2"],
    "verify": ["--all"],
    "publish": ["--all", "--projections", "{folder}/projections.yml"],
    "query": ["select * from tap.s"],
    "upload": ["tap.s", "{folder}/rows.csv"],
    "update": ["tap.s", "--set", "name = 'x'", "--key", "1"],
    "update --where": ["tap.s", "--set", "name = concat(name, '!')", "--where", "id = 1"],
    "delete": ["tap.s", "--key", "1"],
    "delete --where": ["tap.s", "--where", "id = 1"],
    "rows": ["tap.s", "--key", "1"],
    "rejected": ["tap.s", "--replay"],
    "diff": ["tap.s", "@1"],
    "erase": ["tap.s", "--key", "1", "--reason", "asked"],
}
"""A use of each that is in the table."""
NOTHING_THERE = {"cite": 3, "sign": 3, "unlock": 3, "files": 2, "rejected": 3}
"""What finds nothing to do here, with its exit code."""
PROJECTIONS = """version: 1
projections:
- {name: s, from: tap.s, to: published/s}
- {name: n, sql: "select upper(name) as name from tap.s where id > 1", to: published/n}
- {name: t, sql: "select id, upper(name) as name from tap.s", stage: staging.t, key: id,
   to: published/t}
"""
OTHERS = {"completion", "demo", "shell", "unpublish"}
"""What runs other commands, or takes what is published away."""


def rows() -> Iterator[tuple[str, str]]:
    text = PAGE.read_text("utf-8")
    table = text[text.index("| command | Java |") : text.index("\n\nWith `--engine")]
    for line in table.splitlines()[2:]:
        names, java, _ = (cell.strip() for cell in line.strip("|").split("|"))
        for name in re.findall(r"`([a-z][\w -]*)`", names):
            if not name.endswith("-singerlake"):
                yield name, java


ROWS = dict(rows())


@pytest.fixture
def small(lake: Lake, tmp_path: Path) -> Lake:
    for name in (1, 2):
        commit_rows(lake, "tap.s", ID, ["id"], [{"id": name, "name": "a"}])
    commit_rows(lake, "tap.gone", ID, ["id"], [{"id": 1, "name": "a"}])
    assert run(lake, "drop", "tap.gone", "--yes").exit_code == 0
    (tmp_path / "rows.csv").write_text("id,name\n7,b\n")
    (tmp_path / "projections.yml").write_text(PROJECTIONS)
    return lake


def test_every_command_is_on_the_page() -> None:
    assert {name.split()[0] for name in ROWS} | OTHERS == set(COMMANDS)
    assert set(ROWS) == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_command_starts_java_as_the_page_says(
    small: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    started: list[str] = []

    def start(*_: object) -> NoReturn:
        started.append(name)
        raise AssertionError("Java starts")

    for info in pkgutil.walk_packages(singerlake_cli.__path__, "singerlake_cli."):
        module = importlib.import_module(info.name)
        for function in ("begin_spark", "start_spark"):
            if hasattr(module, function):
                monkeypatch.setattr(module, function, start)
    args = [word.format(folder=tmp_path) for word in EXAMPLES[name]]
    done = run(small, name.split(maxsplit=1)[0], *args)
    assert bool(started) == ROWS[name].startswith("yes"), done.output
    if not started:
        assert done.exit_code == NOTHING_THERE.get(name, 0), done.output


@pytest.mark.parametrize(
    "name",
    [
        "freeze",
        "verify",
        "revert",
        "undo",
        "rows",
        "vacuum",
        "diff",
        "upload",
        "delete",
        "erase",
        "publish",
        "update",
        "query",
    ],
)
def test_engine_spark_starts_it_and_engine_local_does_not(
    small: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    started: list[str] = []
    args = [word.format(folder=tmp_path) for word in EXAMPLES[name]]

    def start(*_: object) -> NoReturn:
        started.append(name)
        raise UsageError("Java starts")

    monkeypatch.setattr(shared, "begin_spark", start)
    monkeypatch.setattr("singerlake.engine.choice.SMALL", Work())
    assert run(small, name, *args, "--engine", "local").exit_code == 0
    assert not started
    if name != "vacuum":  # which this process does up to 256 MiB
        commit_rows(small, "tap.s", ID, ["id"], [{"id": 3, "name": "a"}])
        one = run(small, name, *args)
        assert "Java starts" in one.stderr, one.output
    monkeypatch.setenv("SINGERLAKE_ENGINE", "spark")
    commit_rows(small, "tap.s", ID, ["id"], [{"id": 4, "name": "a"}])
    commit_rows(small, "tap.s", ID, ["id"], [{"id": 5, "name": "a"}])
    assert "Java starts" in run(small, name, *args).stderr
