"""Several statements in one `singerlake query`, on the shared session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from tests.build import commit_rows
from tests.cli.call import run, run_json

pytestmark = pytest.mark.usefixtures("each_operation")
ONE, TWO = "select count(*) as n from tap_shop.orders", "select max(id) as m from tap_shop.orders"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    commit_rows(lake, "tap-shop.orders", {"id": {"type": "integer"}}, ["id"], [{"id": 7}])
    return lake


def write(folder: Path, text: str) -> str:
    path = folder / "report.sql"
    path.write_text(text)
    return str(path)


def test_answers_come_one_after_another(shop: Lake, tmp_path: Path) -> None:
    file = write(tmp_path, f"-- two; of them\n{ONE};\n\n{TWO} -- the last\n")
    asked: tuple[tuple[list[str], Any], ...] = (
        ([ONE, TWO], {}),
        ([f"{ONE}; {TWO};"], {}),
        (["--file", file], {}),
        (["-f", "-"], {"input": Path(file).read_text()}),
    )
    for args, more in asked:
        done = run(shop, "query", *args, **more)
        assert (done.exit_code, done.stderr) == (0, ""), args
        assert done.stdout == (
            " n\n ──\n 1\n\nread tap-shop.orders at transaction 1\n"
            "\n m\n ──\n 7\n\nread tap-shop.orders at transaction 1\n"
        ), args


def test_for_scripts_they_are_an_array(shop: Lake, tmp_path: Path) -> None:
    assert [one["rows"] for one in run_json(shop, "query", ONE, TWO)] == [[[1]], [[7]]]
    assert run_json(shop, "query", f"{TWO};")["rows"] == [[7]]
    file = write(tmp_path, TWO)
    assert [one["rows"] for one in run_json(shop, "query", "-f", file)] == [[[7]]]


def test_one_statement_of_a_file_is_taken_in_every_form(shop: Lake, tmp_path: Path) -> None:
    file = write(tmp_path, f"\ufeff/* a comment; */ {TWO};\n")
    assert run(shop, "query", "-f", file, "--format", "csv").stdout == "m\n7\n"
    to = tmp_path / "answer.json"
    assert run(shop, "query", "-f", file, "--out", str(to)).exit_code == 0
    assert json.loads(to.read_text())["rows"] == [[7]]


def test_an_error_says_which_statement_it_is_of_and_ends_them(shop: Lake, tmp_path: Path) -> None:
    wrong = "select nope from tap_shop.orders"
    done = run(shop, "query", ONE, wrong, TWO)
    assert done.exit_code == 2
    assert " n\n" in done.stdout
    assert " m\n" not in done.stdout
    assert done.stderr == (
        "error: statement 2 of 3: there is no column `nope`: tap-shop.orders: it has id\n"
    )
    file = write(tmp_path, f"{ONE};\n\n{wrong}")
    said = run(shop, "query", "-f", file).stderr
    assert said.startswith(f"error: {file}, line 3: there is no column `nope`")
    said = run(shop, "--output", "json", "query", "-f", file).stderr
    assert json.loads(said)["error"]["message"].startswith(f"{file}, line 3: there is no column")
    late = "select 1 / (id - 7) from tap_shop.orders"
    for form in ("table", "json"):
        done = run(shop, "--output", form, "query", ONE, late)
        assert "statement 2 of 2: " in done.stderr
        assert done.exit_code == 2
    assert run(shop, "query", wrong).stderr.startswith("error: there is no column")
