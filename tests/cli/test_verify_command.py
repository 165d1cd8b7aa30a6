"""`singerlake verify` and `singerlake create-table`: what they print, and how they exit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log.commit import current_user
from tests.build import commit_rows
from tests.cli.call import run, run_json

pytestmark = pytest.mark.usefixtures("each_operation")
PROPERTIES = {"id": {"type": "integer"}, "name": {"type": "string"}}


@pytest.fixture
def shop(lake: Lake) -> Lake:
    commit_rows(lake, "tap.orders", PROPERTIES, ["id"], [{"id": n} for n in range(5)], 2)
    commit_rows(lake, "tap.items", PROPERTIES, [], [{"id": 1}])
    return lake


def damage(lake: Lake, table: str) -> None:
    found = lake.find(table)[0]
    block = found.snapshot().blocks[0]
    target = Path(lake.store.uri, found.name.data(block.file))
    data = bytearray(target.read_bytes())
    data[block.offset + block.length // 2] ^= 1
    target.write_bytes(data)


def test_a_clean_lake_is_a_line_a_table(shop: Lake) -> None:
    run(shop, "freeze", "tap.orders")
    result = run(shop, "verify", "--all")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "tap.items: 1 transaction, 1 block, 0 versions: no problems found",
        "tap.orders: 2 transactions, 3 blocks, 1 version: no problems found",
    ]
    (report,) = run_json(shop, "verify", "tap.orders.1")
    size = sum(block.length for block in shop.find("tap.orders")[0].snapshot().blocks)
    expected = {"table": "tap.orders", "transactions": 2, "blocks": 3, "files": 1, "bytes": size}
    fine = {"problems": [], "more_problems": 0, "notes": [], "misfits": [], "stored": 0}
    fine["signatures"] = []
    assert report == {**expected, "versions": 1, "dropped": False, **fine}


def test_damage_is_listed_and_the_rest_is_still_verified(shop: Lake) -> None:
    damage(shop, "tap.items")
    result = run(shop, "verify", "--all")
    assert result.exit_code == 5
    first, problem, last = result.stdout.splitlines()
    assert first == "tap.items: 1 transaction, 1 block, 0 versions: 1 problem"
    assert problem.startswith("  block: block 1, raw/tap/items/")
    assert "expected a whole block that inflates to" in problem
    assert last.endswith("no problems found")
    items, orders = run_json(shop, "verify", "--all", code=5)
    assert [p["what"] for p in items["problems"]] == ["block"]
    assert set(items["problems"][0]) == {"what", "where", "expected", "found", "hint"}
    assert orders["problems"] == []
    assert run(shop, "verify", "tap.orders").exit_code == 0


def test_a_table_that_cannot_even_be_listed_does_not_end_it(shop: Lake) -> None:
    folder = Path(shop.store.uri, TableName("tap", "items").log)
    for path in folder.iterdir():
        path.write_text("{")
    Path(shop.store.uri, TableName("tap", "items").manifest).unlink()
    result = run(shop, "verify", "--all")
    assert result.exit_code == 5
    assert "log: raw/tap/items/transactions/000000000001.json" in result.stdout
    assert "tap.orders: 1 transaction" in result.stdout


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ([], 2, "--all"),
        (["tap.orders", "--all"], 2, "--all"),
        (["--all", "--version", "1"], 2, "one table"),
        (["tap.orders.1", "--version", "1"], 2, "names a version already"),
        (["tap.none"], 3, "no table tap.none"),
        (["tap.orders", "--version", "x"], 3, "no version 'x'"),
    ],
)
def test_what_is_asked_wrongly(shop: Lake, args: list[str], code: int, says: str) -> None:
    result = run(shop, "verify", *args)
    assert result.exit_code == code
    assert says in result.stderr


def test_a_table_from_a_query(shop: Lake, spark: SparkSession) -> None:
    sql = "select id, id * 1.50 as price from tap.orders where id > 1"
    made = run_json(shop, "create-table", "views.big", "--from-query", sql, "--key", "id")
    assert (made["table"], made["rows"], made["transaction"]) == ("views.big", 3, 1)
    sources = [{"table": "tap.orders", "version": None, "transaction": 1}]
    assert made["sources"] == sources
    version = run_json(shop, "freeze", "views.big")
    assert version["fingerprint"] == made["fingerprint"]
    history = run_json(shop, "history", "views.big")
    assert [entry["operation"] for entry in history] == ["freeze", "create"]
    sources[0]["commit"] = shop.find("tap.orders")[0].snapshot().at(1).commit
    assert history[1]["metadata"] == {"by": current_user(), "query": sql, "sources": sources}
    assert run(shop, "verify", "views.big").exit_code == 0
    again = run(shop, "create-table", "views.big", "--from-query", sql)
    assert again.exit_code == 2
    assert "views.big already" in again.stderr
    text = run(shop, "create-table", "views.other", "--from-query", sql).stdout
    assert text.startswith("views.other: 3 rows, transaction 1, fingerprint ")
    assert "read tap.orders at transaction 1" in text


def test_a_table_that_has_lost_its_folder_is_a_problem_of_all(shop: Lake) -> None:
    shutil.rmtree(Path(shop.store.uri, TableName("tap", "items").folder))
    commit_rows(shop, "gone.t", PROPERTIES, ["id"], [{"id": 1}])
    shutil.rmtree(Path(shop.store.uri, "raw/gone"))
    result = run(shop, "verify", "--all")
    assert result.exit_code == 5
    said = result.stdout
    assert "tap.items: 0 transactions, 0 blocks, 0 versions: 1 problem" in said
    lost = "table: raw/tap/items/: expected what raw/tap/catalogue.json lists, found nothing"
    assert lost in said
    assert "the lake's own lists and versions: 1 problem" in said
    assert "tap: raw/gone/: expected what raw/singerlake.json lists, found nothing" in said
    items, orders, lists = run_json(shop, "verify", "--all", code=5)
    assert [p["what"] for p in items["problems"]] == ["table"]
    assert orders["problems"] == []
    assert (lists["table"], [p["what"] for p in lists["problems"]]) == (None, ["tap"])
    assert run(shop, "verify", "tap.items").exit_code == 5


def test_a_table_that_no_catalogue_lists_is_noted(shop: Lake) -> None:
    Path(shop.store.uri, "raw/tap/catalogue.json").unlink()
    result = run(shop, "verify", "--all")
    assert result.exit_code == 0
    assert "note: raw/tap/catalogue.json is missing, and can be derived" in result.stdout
    assert (
        "note: no catalog lists tap.orders: singerlake rebuild tap.orders adds it" in result.stdout
    )
