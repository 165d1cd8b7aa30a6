"""singerlake alter: what it says, and where it shows."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.lake import Lake
from tests.build import commit_rows
from tests.cli.call import run, run_json

PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "amount": {"type": ["null", "number"]}}


@pytest.fixture
def shop(lake: Lake) -> Lake:
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 1, "amount": 1}])
    return lake


def test_what_it_says_and_where_it_shows(shop: Lake) -> None:
    args = ("alter", "tap-shop.orders", "retype", "amount", "text")
    planned = run_json(shop, *args, "--dry-run")
    assert planned == {
        "table": "tap-shop.orders",
        "column": "amount",
        "before": "double",
        "after": "text",
        "transaction": None,
        "version": None,
        "dry_run": True,
    }
    said = run(shop, *args, "--comment", "n/a comes").stdout
    assert said == (
        "tap-shop.orders: column 'amount', until now double, is text, from transaction 2 on\n"
    )
    assert "text already: nothing was done" in run(shop, *args).stdout
    assert run_json(shop, *args)["transaction"] is None
    assert (
        "text, by alter (the tap declares null or number)"
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
        (["tap-shop.orders", "retype", "amonut", "text"], 3, "did you mean amount?"),
        (["tap-shop.orders", "retype", "amount", "numbr"], 2, "did you mean number"),
        (["tap-shop.orders.@1", "retype", "amount", "text"], 2, "alter the table itself"),
        (["tap-shop.nothing", "retype", "amount", "text"], 3, "no table"),
    ],
)
def test_what_it_refuses(shop: Lake, args: list[str], code: int, said: str) -> None:
    result = run(shop, "alter", *args)
    assert result.exit_code == code
    assert said in result.stderr


def alter(shop: Lake, *args: str) -> str:
    result = run(shop, "alter", "tap-shop.orders", *args)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_each_way_to_alter_a_table(shop: Lake) -> None:
    said = alter(shop, "add-column", "region", "string", "--default", "EU", "--initial", "null")
    assert said == "tap-shop.orders: added region (string), from transaction 2 on\n"
    total = ("total", "decimal(12,2) not null", "--default", "0.10", "--description", "In euros")
    alter(shop, "add-column", *total)
    alter(shop, "set-default", "total", "1.50", "--comment", "as agreed")
    alter(shop, "set-default", "region")
    alter(shop, "rename-column", "region", "area", "--metadata", "ticket=7")
    alter(shop, "describe", "area", "Where it was sold")
    alter(shop, "drop-column", "amount")
    shown = run_json(shop, "show", "tap-shop.orders")
    assert list(shown["schema"]["properties"]) == ["id", "area", "total"]
    described = {
        name: one.get("description") for name, one in shown["schema"]["properties"].items()
    }
    assert described == {"id": None, "area": "Where it was sold", "total": "In euros"}
    assert shown["overlay"]["added"]["total"]["defaults"] == [[0, 0.1], [2, 1.5]]
    assert shown["overlay"]["added"]["region"]["defaults"] == [[0, None], [2, None]]
    assert "Where it was sold" in run(shop, "show", "tap-shop.orders").stdout
    newest = run_json(shop, "history", "tap-shop.orders")
    assert newest[2]["metadata"]["ticket"] == "7"
    assert newest[4]["metadata"]["comment"] == "as agreed"
    planned = run_json(shop, "alter", "tap-shop.orders", "restore-column", "amount", "--dry-run")
    assert planned == {
        "table": "tap-shop.orders",
        "changes": ["restored amount"],
        "transaction": None,
        "rows": None,
        "version": None,
        "dry_run": True,
    }
    restore = ("restore-column", "amount")
    assert "would be altered: restored amount" in alter(shop, *restore, "--dry-run")
    assert run_json(shop, "alter", "tap-shop.orders", *restore)["transaction"] == 9
    assert "nothing was done" in alter(shop, "describe", "area", "Where it was sold")


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["add-column", "x", "intger"], 2, "did you mean integer"),
        (["add-column", "x", "integer, y integer"], 2, "more than one type"),
        (["add-column", "x", "integer not null"], 2, "set the value of rows that have none"),
        (
            ["add-column", "x", "integer", "--default", "a"],
            2,
            "'a' is not a valid value for a column",
        ),
        (["add-column", "amount", "integer"], 2, "has a column 'amount' already"),
        (["retype", "amount", "integer not null"], 2, "add-constraint NAME --not-null amount"),
        (["drop-column", "id"], 2, "part of the key"),
        (["rename-column", "amonut", "sum"], 3, "did you mean amount"),
        (
            ["describe", "amount", "x", "--if-transaction", "7"],
            4,
            "is at transaction 1, and has no 7 yet",
        ),
        (["describe", "amount", "x", "--metadata", "by=me"], 2, "rename it"),
        (["drop-colunm", "amount"], 2, "No such command"),
        (["describe", "amount", "x", "--label", "q"], 2, "with --new-version"),
        (
            ["retype", "amount", "integer", "--allow-type-mismatches", "--new-version"],
            2,
            "exclude each other",
        ),
    ],
)
def test_what_cannot_be_altered(shop: Lake, args: list[str], code: int, said: str) -> None:
    result = run(shop, "alter", "tap-shop.orders", *args)
    assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
    assert run_json(shop, "show", "tap-shop.orders")["transaction"] == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["c"], "use one of --not-null"),
        (["c", "--not-null", "id", "--unique", "id"], "use one of --not-null"),
        (["c", "--range", "id", "a", ""], "'a' is not valid JSON"),
        (["c", "--range", "id", "", ""], "has neither end"),
        (["c", "--enum", "id", "1"], "not a JSON array"),
        (["c", "--pattern", "id", "x"], "pattern is about texts"),
        (["c", "--pattern", "id", "x", "--check", "id > 0"], "--pattern, --check"),
        (["c", "--check", "id > 0", "--metadata", "by=me"], "rename it"),
        (["c", "--range", "amount", "", "0.12345678901234567890"], "more digits than a double"),
        (["c", "--enum", "id", "[1.00000000000000000001]"], "1.00000000000000000001"),
    ],
)
def test_what_cannot_be_asked_of_rows(shop: Lake, args: list[str], said: str) -> None:
    result = run(shop, "alter", "tap-shop.orders", "add-constraint", *args)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


@pytest.mark.usefixtures("each_operation")
def test_what_is_said_and_a_version_are_one_transaction(shop: Lake) -> None:
    table = "tap-shop.orders"
    rule = ("alter", table, "add-constraint", "paid", "--check", "amount > 0.5 -- euros")
    planned = run_json(shop, *rule, "--new-version", "--dry-run")
    assert (planned["changes"], planned["transaction"], planned["version"]) == (
        ["constraint paid: `amount` > 0.5 -- euros"], None, None
    )  # fmt: skip
    done = run_json(shop, *rule, "--new-version", "--label", "q3", "--comment", "as agreed")
    assert (done["transaction"], done["rows"]) == (2, None)
    assert (done["version"]["number"], done["version"]["label"]) == (1, "q3")
    newest = run_json(shop, "history", table)[0]
    assert (newest["operation"], newest["metadata"]["comment"]) == ("change", "as agreed")
    assert list(newest["overlay"]["constraints"]) == ["paid"]
    shown = run(shop, "show", table).stdout
    assert " constraint  asks for" in shown
    assert " paid        `amount` > 0.5 -- euros" in shown
    renamed = run(shop, "alter", table, "rename-column", "amount", "sum", "--new-version").stdout
    assert "renamed amount to sum" in renamed
    assert "frozen as version 2: " in renamed
    refused = run(shop, "update", table, "--set", "sum = 0")
    assert (refused.exit_code, "breaks paid (`sum` > 0.5 -- euros)" in refused.stderr) == (5, True)
    refused = run(shop, "revert", table, "--to-transaction", "1", "--allow-violations")
    assert "is already at the snapshot of transaction 1" in refused.stdout


@pytest.mark.usefixtures("each_operation")
def test_a_table_of_a_query_and_its_version_are_one_transaction(shop: Lake) -> None:
    make = (
        "create-table",
        "views.v",
        "--key",
        "id",
        "--from-query",
        "select id from tap_shop.orders",
    )
    said = ("--new-version", "--label", "first", "--metadata", "ticket=7", "--comment", "for Ada")
    planned = run(shop, *make, *said, "--dry-run")
    assert "views.v: would be created with" in planned.stdout
    assert [str(name) for name in shop.tables()] == ["tap-shop.orders"]
    made = run_json(shop, *make, *said)
    assert (made["transaction"], made["version"]["label"]) == (1, "first")
    (entry,) = run_json(shop, "history", "views.v")
    assert (entry["metadata"]["ticket"], entry["metadata"]["comment"]) == ("7", "for Ada")


@pytest.mark.usefixtures("each_operation")
def test_a_key_and_constraints_come_and_go(lake: Lake) -> None:
    table = "tap-shop.events"
    columns: dict[str, Any] = {"n": {"type": "integer"}, "kind": {"type": "string"}}
    commit_rows(lake, table, columns, [], [{"n": 1, "kind": "open"}, {"n": 2, "kind": "open"}])
    refused = run(lake, "alter", table, "set-key", "kind")
    assert (refused.exit_code, "open: 2 rows" in refused.stderr) == (5, True), refused.stderr
    planned = run_json(lake, "alter", table, "set-key", "n", "--dry-run")
    assert (planned["transaction"], planned["dry_run"]) == (None, True)
    done = run_json(lake, "alter", table, "set-key", "n", "--comment", "it was unique all along")
    assert done["transaction"] == 2
    assert lake.find(table)[0].snapshot().schema.key_properties == ["n"]
    kinds = {
        "filled": (["--not-null", "kind"], "kind = null"),
        "one": (["--unique", "kind"], None),
        "known": (["--enum", "kind", '["open", "done"]'], "kind = 'lost'"),
        "few": (["--range", "n", "1", ""], None),
        "short": (["--length", "kind", "3", "5"], "kind = 'closed'"),
        "small": (["--pattern", "kind", "^[a-z]+$"], "kind = 'Open'"),
        "sane": (["--check", "n < 100"], None),
    }
    for name, (args, breaks) in kinds.items():
        result = run(lake, "alter", table, "add-constraint", name, *args)
        if name == "one":
            assert (result.exit_code, "open: 2 rows" in result.stderr) == (5, True), result.stderr
            continue
        assert result.exit_code == 0, result.stderr
        if breaks is not None:
            refused = run(lake, "update", table, "--set", breaks, "--where", "n = 1")
            assert (refused.exit_code, "nothing was changed" in refused.stderr) == (5, True), name
        assert run_json(lake, "alter", table, "drop-constraint", name)["changes"], name
    assert not lake.find(table)[0].snapshot().overlay.constraints
    assert run_json(lake, "update", table, "--set", "kind = 'Closed'", "--where", "n = 1")[
        "updated"
    ]
