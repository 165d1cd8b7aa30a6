"""singerlake drop and undrop: what they say, and what other commands say of a dropped table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from singerlake.ops import freeze as freezes
from tests.build import commit_rows
from tests.cli.call import run, run_json

TABLE = "tap-shop.orders"
ID: dict[str, Any] = {"id": {"type": "integer"}}


@pytest.fixture
def shop(lake: Lake) -> Lake:
    for table in (TABLE, "tap-shop.other"):
        commit_rows(lake, table, ID, ["id"], [{"id": 1}, {"id": 2}])
    head = lake.table(TABLE).snapshot()
    freezes.commit_version(
        lake.store, head, freezes.plan(head, label="q3"), rows=2, fingerprint="x"
    )
    return lake


def test_from_a_drop_to_the_undrop(shop: Lake) -> None:
    refused = run(shop, "drop", TABLE, "--yes")
    assert refused.exit_code == 2
    assert "a frozen version" in refused.stderr
    args = ("drop", TABLE, "--with-versions", "--comment", "moved", "--metadata", "ticket=7")
    planned = run_json(shop, *args, "--dry-run")
    assert planned == {
        "table": TABLE,
        "transaction": None,
        "rows": 2,
        "bytes": planned["bytes"],
        "versions": 1,
        "dry_run": True,
    }
    assert "add --yes" in run(shop, "--output", "json", *args).stderr
    unanswered = run(shop, *args, input="")
    assert (unanswered.exit_code, "input: add --yes" in unanswered.stderr) == (2, True)
    asked = run(shop, *args, input="n\n")
    assert asked.exit_code == 1
    assert "Drop tap-shop.orders (2 records, " in asked.stderr
    assert run_json(shop, "ls")[0]["table"] == TABLE
    said = run(shop, *args, input="y\n")
    assert said.exit_code == 0
    assert "is dropped (transaction 3)" in said.stdout
    assert "singerlake undrop tap-shop.orders" in said.stdout
    entry = run_json(shop, "history", TABLE)[0]
    assert (entry["operation"], entry["readable"]) == ("drop", False)
    assert (entry["metadata"]["comment"], entry["metadata"]["ticket"]) == ("moved", "7")
    back = run_json(shop, "undrop", TABLE, "--comment", "needed after all")
    assert back == {**planned, "transaction": 4, "dry_run": False}
    assert run_json(shop, "versions", TABLE)[0]["label"] == "q3"
    assert run_json(shop, "history", TABLE)[0]["metadata"]["comment"] == "needed after all"


def test_who_does_not_see_a_dropped_table(shop: Lake) -> None:
    run_json(shop, "drop", TABLE, "--with-versions", "--yes")
    listed = run(shop, "ls")
    assert [t["table"] for t in run_json(shop, "ls")] == ["tap-shop.other"]
    assert "1 table dropped: singerlake ls --dropped" in listed.stdout
    assert TABLE not in listed.stdout
    for command in (
        ["versions", TABLE],
        ["data-files", TABLE],
        ["data-files", f"{TABLE}.1"],
        ["show", f"{TABLE}.1"],
        ["freeze", TABLE],
        ["revert", TABLE, "--to", "1"],
        ["alter", TABLE, "retype", "id", "text"],
        ["drop", TABLE, "--yes"],
        ["verify", TABLE, "--version", "1"],
    ):
        result = run(shop, "--output", "json", *command)
        assert result.exit_code == 3, (command, result.output)
        error = json.loads(result.stderr.splitlines()[-1])["error"]
        assert error["kind"] == "dropped"
        assert f"singerlake undrop {TABLE}" in error["message"]


def test_a_list_of_nothing_has_no_headings(shop: Lake) -> None:
    assert run(shop, "ls", "--dropped").stdout == "there are no dropped tables\n"
    for table in (TABLE, "tap-shop.other"):
        run_json(shop, "drop", table, "--with-versions", "--yes")
    for args in (["ls"], ["ls", "--sizes"]):
        assert run(shop, *args).stdout == "2 tables dropped: singerlake ls --dropped\n"


def test_who_says_what_is_so(shop: Lake) -> None:
    run_json(shop, "drop", TABLE, "--with-versions", "--yes", "--comment", "moved")
    (gone,) = run_json(shop, "ls", "--dropped")
    assert (gone["table"], gone["transaction"], gone["records"]) == (TABLE, 3, 2)
    assert (gone["comment"], gone["versions"]) == ("moved", 1)
    assert gone["by"]
    assert gone["until"] > gone["dropped"]
    assert run_json(shop, "show", TABLE) == gone
    assert "moved" in run(shop, "ls", "--dropped").stdout
    shown = run(shop, "show", TABLE).stdout
    assert "until the first vacuum after" in shown
    assert "transaction 3, by " in shown
    assert "singerlake undrop tap-shop.orders restores it" in run(shop, "history", TABLE).stdout
    assert run_json(shop, "rebuild", TABLE)[0]["dropped"]
    assert "it is dropped, and stays so" in run(shop, "rebuild", TABLE).stdout
    assert run_json(shop, "locks", TABLE) == []
    plan = run(shop, "vacuum", TABLE, "--dry-run").stdout
    assert "dropped by transaction 3" in plan
    assert "within the retention" in plan
    assert run(shop, "ls", "--dropped", "--sizes").exit_code == 2


def test_after_a_vacuum_and_with_a_new_table(shop: Lake) -> None:
    run_json(shop, "drop", TABLE, "--with-versions", "--yes")
    run_json(shop, "vacuum", TABLE, "--retain", "0", "--no-retention-guard", "--wait", "0s")
    assert not list(Path(shop.store.uri, "raw/tap-shop/orders").rglob("*.singer.gz"))
    (gone,) = run_json(shop, "ls", "--dropped")
    assert (gone["until"], gone["records"], gone["versions"]) == (None, 0, 1)
    assert "gone" in run(shop, "ls", "--dropped").stdout
    assert "too late" in run(shop, "show", TABLE).stdout
    assert "is too late" in run(shop, "history", TABLE).stdout
    result = run(shop, "undrop", TABLE)
    assert (result.exit_code, "cannot be restored" in result.stderr) == (3, True)
    commit_rows(shop, TABLE, ID, ["id"], [{"id": 3}])
    assert run_json(shop, "ls", "--dropped") == []
    shown = run_json(shop, "show", TABLE)
    assert (shown["records"], shown["versions"], shown["transaction"]) == (1, 0, 6)
    assert shown["recent"] == [1]
    text = run(shop, "history", TABLE).stdout
    assert "began with transaction 6" in text
    assert "1 q3" in text
    result = run(shop, "show", f"{TABLE}.1")
    assert result.exit_code == 3
    readable = [entry["readable"] for entry in run_json(shop, "history", TABLE)]
    assert readable == [True, False, False, False, False, False]


def test_a_script_gets_what_it_asked_for_or_a_conflict(shop: Lake) -> None:
    result = run(shop, "drop", TABLE, "--with-versions", "--yes", "--if-transaction", "1")
    assert result.exit_code == 4
    assert "is at transaction 2, not 1" in result.stderr
    run_json(shop, "drop", TABLE, "--with-versions", "--yes", "--if-transaction", "2")
    assert run(shop, "undrop", TABLE, "--if-transaction", "2").exit_code == 4
    assert (
        run_json(shop, "undrop", TABLE, "--if-transaction", "3", "--dry-run")["transaction"] is None
    )
    run_json(shop, "undrop", TABLE, "--if-transaction", "3")
    for command in ("drop", "undrop"):
        assert run(shop, command, f"{TABLE}.1", "--dry-run").exit_code == 2


def test_a_site_has_no_page_of_a_dropped_table(shop: Lake, tmp_path: Path) -> None:
    run_json(shop, "drop", TABLE, "--with-versions", "--yes")
    result = run(shop, "docs", "--out", str(tmp_path / "site"))
    assert result.exit_code == 0, result.output
    pages = [p for p in (tmp_path / "site").rglob("*.html") if "orders" in p.read_text("utf-8")]
    assert pages == []


def test_who_uses_the_name_again_is_told_what_that_ends(shop: Lake) -> None:
    run_json(shop, "drop", TABLE, "--with-versions", "--yes")
    made = run(shop, "create-table", TABLE, "--columns", "id integer", "--key", "id")
    assert made.exit_code == 0
    assert f"`singerlake undrop {TABLE}` cannot restore the old one" in made.stderr
    assert "lock" not in made.stderr
    assert run(shop, "undrop", TABLE).exit_code == 2
    other = run(shop, "create-table", "tap-shop.new", "--columns", "id integer")
    assert other.stderr == ""
