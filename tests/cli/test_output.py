"""The two outputs, for people and for scripts, and how they are asked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from singerlake import safe_text
from singerlake.errors import SingerlakeError, StoreError
from singerlake.lake import Lake, Table
from singerlake_cli.main import COMMANDS, NOT_SHARED, OF_TWO_LAKES, cli
from tests.build import commit_rows
from tests.cli.call import run, run_json

ID = {"id": {"type": "integer"}}


@pytest.fixture
def shop(lake: Lake) -> Lake:
    commit_rows(lake, "tap-shop.orders", ID, ["id"], [{"id": 1}])
    return lake


def error_of(text: str) -> dict[str, str]:
    """The one error on standard error, and nothing beside it."""
    (document,) = [json.loads(line) for line in text.splitlines()]
    assert list(document) == ["error"]
    error: dict[str, str] = document["error"]
    return error


@pytest.mark.parametrize(
    ("args", "kind", "code"),
    [
        (["show", "tap-shop.nothing"], "not_found", 3),
        (["show", "orders"], "invalid_name", 2),
        (["show"], "usage", 2),
        (["nonsense"], "usage", 2),
        (["ls", "--nonsense"], "usage", 2),
        (["history", "tap-shop.orders", "--limit", "none"], "usage", 2),
        (["vacuum"], "usage", 2),
        ([], "usage", 2),
    ],
)
def test_an_error_for_scripts_is_one_document(
    shop: Lake, args: list[str], kind: str, code: int
) -> None:
    for before, after in ((["--output", "json"], []), ([], ["--output=json"])):
        result = run(shop, *before, *args, *after)
        assert (result.exit_code, result.stdout) == (code, "")
        error = error_of(result.stderr)
        assert error["kind"] == kind
        assert error["message"]
        assert list(error) == ["kind", "message"]


def test_errors_of_several_tables_say_which(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "snapshot", failing(StoreError("the disk is full: make room")))
    result = run(shop, "--output", "json", "vacuum", "--all")
    assert result.exit_code == 1
    assert error_of(result.stderr) == {
        "kind": "store",
        "message": "the disk is full: make room",
        "table": "tap-shop.orders",
    }
    assert json.loads(result.stdout)[0]["staging"] == []


def test_what_nobody_expected(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "snapshot", failing(ValueError("what?")))
    result = run(shop, "show", "tap-shop.orders")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "unexpected: ValueError: what?"
    result = run(shop, "show", "tap-shop.orders", "--output", "json")
    first, second = map(json.loads, result.stderr.splitlines())
    assert first == {"error": {"kind": "unexpected", "message": "ValueError: what?"}}
    assert "SINGERLAKE_DEBUG" in second["note"]["message"]


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
def test_output_that_a_full_disk_does_not_take(shop: Lake) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "singerlake_cli", "--lake", shop.store.uri, "ls"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
            text=True,
        )
    assert done.returncode == 1
    [said] = done.stderr.splitlines()
    assert said.startswith("error: cannot write: No space left on device: free some space")


def test_what_nobody_expected_and_says_nothing(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "snapshot", failing(AssertionError()))
    said = run(shop, "show", "tap-shop.orders").stderr.splitlines()[0]
    assert re.fullmatch(r"unexpected: AssertionError at singerlake(_cli)?/[a-z_/]+\.py:\d+", said)


def test_an_error_for_scripts_has_all_lines_and_no_secret(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SeveralLinesError(SingerlakeError):
        lines = ("these are gone:", "  one\udc80", "  aws_secret_access_key=abcdefgh0123")

    monkeypatch.setattr(Table, "snapshot", failing(SeveralLinesError("")))
    said = error_of(run(shop, "--output", "json", "show", "tap-shop.orders").stderr)["message"]
    assert said.splitlines()[:2] == ["these are gone:", "  one\udc80"]
    assert safe_text.HIDDEN in said
    assert "abcdefgh" not in said


def test_a_wrong_command_line_says_how_it_is_called(shop: Lake) -> None:
    result = run(shop, "freeze", "--lable", "x", "tap-shop.orders")
    first, second = result.stderr.splitlines()
    assert first.startswith("error: No such option")
    assert "--label" in first
    assert second.endswith("freeze --help")


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in NOT_SHARED])
def test_lake_and_output_are_taken_behind_every_command(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    leaves = [command]
    for one in leaves:
        if isinstance(one, click.Group):
            leaves += one.commands.values()
            continue
        options = [option for param in one.params for option in param.opts]
        assert options.count("--lake") == (name not in OF_TWO_LAKES), one.name
        assert options.count("--output") == 1, one.name


def test_the_later_lake_and_output_count(shop: Lake, tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    args = ["--lake", none, "--output", "json", "ls", "--lake", shop.store.uri]
    assert json.loads(CliRunner().invoke(cli, args).stdout)[0]["table"] == "tap-shop.orders"
    text = CliRunner().invoke(cli, [*args, "--output", "table"]).stdout
    assert "tap-shop.orders" in text
    assert not text.startswith("[")
    result = run(shop, "ls", "--lake", none, "--output", "json")
    assert result.exit_code == 3
    assert none in error_of(result.stderr)["message"]


def test_one_form_is_never_made_for_the_other(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is dear to make, and what could fail, is made where it was asked for."""
    monkeypatch.setattr("singerlake_cli.commands.history._in_full", failing(ValueError("made")))
    assert run(shop, "history", "tap-shop.orders").exit_code == 0
    monkeypatch.undo()
    monkeypatch.setattr("singerlake_cli.output.print_table", failing(ValueError("made")))
    assert len(run_json(shop, "history", "tap-shop.orders")) == 1


def failing(error: Exception) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail
