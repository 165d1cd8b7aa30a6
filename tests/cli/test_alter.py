"""singerlake alter: what it says, and where it shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from singerlake.lake import Lake
from singerlake_cli.main import cli
from tests.build import commit_rows

PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "amount": {"type": ["null", "number"]}}


@pytest.fixture
def shop(lake: Lake) -> Lake:
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 1, "amount": 1}])
    return lake


def run(lake: Lake, *args: str) -> Result:
    return CliRunner().invoke(cli, ["--lake", lake.store.uri, *args])


def run_json(lake: Lake, *args: str) -> Any:
    result = run(lake, "--output", "json", *args)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_what_it_says_and_where_it_shows(shop: Lake) -> None:
    args = ("alter", "tap-shop.orders", "retype", "amount", "text")
    planned = run_json(shop, *args, "--dry-run")
    assert planned == {
        "table": "tap-shop.orders",
        "column": "amount",
        "before": "double",
        "after": "text",
        "transaction": None,
        "dry_run": True,
    }
    said = run(shop, *args, "--comment", "n/a comes").stdout
    assert said == (
        "tap-shop.orders: column 'amount', until now double, is text, from transaction 2 on\n"
    )
    assert "text already: nothing was done" in run(shop, *args).stdout
    assert run_json(shop, *args)["transaction"] is None
    assert (
        "text, by alter (the tap says null or number)"
        in run(shop, "show", "tap-shop.orders").stdout
    )
    shown = run_json(shop, "show", "tap-shop.orders")
    assert shown["overlay"] == {"columns": {"amount": {"type": "text"}}}
    newest = run_json(shop, "history", "tap-shop.orders")[0]
    assert (newest["operation"], newest["overlay"]) == ("alter", shown["overlay"])
    assert newest["metadata"]["comment"] == "n/a comes"
    assert "alter" in run(shop, "history", "tap-shop.orders").stdout


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["tap-shop.orders", "retype", "amonut", "text"], 3, "did you mean 'amount'?"),
        (["tap-shop.orders", "retype", "amount", "number"], 2, "'number' is not 'text'"),
        (["tap-shop.orders.@1", "retype", "amount", "text"], 2, "alter the table itself"),
        (["tap-shop.nothing", "retype", "amount", "text"], 3, "no table"),
    ],
)
def test_what_it_refuses(shop: Lake, args: list[str], code: int, said: str) -> None:
    result = run(shop, "alter", *args)
    assert result.exit_code == code
    assert said in result.stderr
