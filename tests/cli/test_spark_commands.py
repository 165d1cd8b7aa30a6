"""The commands that run on Spark, through the command line, on one shared session."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from singerlake.engine.work import Work
from singerlake.lake import Lake
from tests.build import commit_rows
from tests.cli.call import run, run_json

pytestmark = pytest.mark.usefixtures("each_operation")
PROPERTIES = {
    "id": {"type": "integer"},
    "name": {"type": "string"},
    "at": {"type": "string", "format": "date-time"},
    "price": {"type": "number", "multipleOf": 0.01},
}
AT = "2026-03-01T01:20:00Z"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    first = [{"id": n, "name": f"n{n}", "at": AT, "price": 1.1} for n in range(1, 6)]
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], first)
    later = [{"id": 2, "name": "new"}, {"id": 3, "name": "n3", "_sdc_deleted_at": AT}]
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], later)
    return lake


def test_freeze_then_query_head_version_label_and_transaction(shop: Lake) -> None:
    version = run_json(shop, "freeze", "tap-shop.orders", "--transaction", "1", "--label", "first")
    assert (version["number"], version["transaction"], version["rows"]) == (1, 1, 5)
    for table, count in (
        ("tap_shop.orders", 4),
        ("tap_shop.orders.1", 5),
        ("`tap-shop`.orders.first", 5),
        ("tap_shop.orders version as of 'first'", 5),
        ("tap_shop.orders.`@1`", 5),
        ("tap_shop.orders version as of '@2'", 4),
    ):
        answer = run_json(shop, "query", f"select count(*) as n from {table}")
        assert answer["rows"] == [[count]], table
    read = run_json(shop, "query", "select * from tap_shop.orders.first limit 1")["read"]
    assert read == [{"table": "tap-shop.orders", "version": 1, "transaction": 1, "misfits": {}}]
    text = run(shop, "freeze", "tap-shop.orders", "--label", "second").stdout
    assert "version 2 (second): 4 rows" in text
    assert run(shop, "freeze", "tap-shop.orders", "--label", "first").exit_code == 2


def test_every_form_holds_the_same_rows(shop: Lake, tmp_path: Path) -> None:
    sql = "select id, name, at, price from tap_shop.orders order by id"
    rows = run_json(shop, "query", sql)["rows"]
    assert rows[0] == [1, "n1", "2026-03-01T01:20:00.000000Z", "1.10"]
    assert rows[1] == [2, "new", None, None]
    lines = run(shop, "query", sql, "--format", "jsonl").stdout.splitlines()
    assert [list(json.loads(line).values()) for line in lines] == rows
    cells = list(csv.reader(io.StringIO(run(shop, "query", sql, "--format", "csv").stdout)))
    assert cells[0] == ["id", "name", "at", "price"]
    assert cells[1] == [str(cell) for cell in rows[0]]
    assert cells[2] == ["2", "new", "", ""]
    path = tmp_path / "orders.parquet"
    assert run(shop, "query", sql, "--format", "parquet", "--out", str(path)).exit_code == 0
    assert pq.read_table(path).column("id").to_pylist() == [1, 2, 4, 5]
    text = tmp_path / "orders.tsv"
    assert run(shop, "query", sql, "--format", "tsv", "--out", str(text)).exit_code == 0
    assert text.read_text().splitlines()[2] == "2\tnew\t\t"
    table = run(shop, "query", sql).stdout
    assert "read tap-shop.orders at transaction 2" in table


def test_an_empty_answer_still_has_its_columns(shop: Lake, tmp_path: Path) -> None:
    sql = "select id, at from tap_shop.orders where id > 99"
    path = tmp_path / "none.parquet"
    assert run(shop, "query", sql, "--format", "parquet", "--out", str(path)).exit_code == 0
    assert pq.read_table(path).schema.names == ["id", "at"]
    assert run_json(shop, "query", sql)["rows"] == []
    assert run(shop, "query", sql, "--format", "csv").stdout == "id,at\n"


def test_two_columns_of_one_name_are_not_made_one(shop: Lake, tmp_path: Path) -> None:
    sql = "select id, id from tap_shop.orders"
    for form in ("jsonl", "parquet"):
        result = run(shop, "query", sql, "--format", form, "--out", str(tmp_path / "x"))
        assert result.exit_code == 2
        assert "two columns named 'id'" in result.stderr
    assert run(shop, "query", sql, "--format", "csv").stdout.startswith("id,id\n")


def test_values_that_json_has_no_word_for(shop: Lake) -> None:
    result = run(shop, "query", "select X'41' as b, map('a', 1) as m", "--format", "jsonl")
    assert json.loads(result.stdout) == {"b": "QQ==", "m": {"a": 1}}
    assert result.stderr == ""


def test_provenance(shop: Lake) -> None:
    sql = "select _row_id, _row_version, _transaction, name from tap_shop.orders order by id"
    rows = run_json(shop, "query", sql, "--row-metadata")["rows"]
    assert rows == [["1", 1, 1, "n1"], ["2", 2, 2, "new"], ["4", 1, 1, "n4"], ["5", 1, 1, "n5"]]


def test_provenance_without_a_key_and_with_two(lake: Lake) -> None:
    properties = {"a": {"type": "integer"}, "b": {"type": "string"}, "_row_id": {}}
    commit_rows(lake, "tap.keyless", properties, [], [{"a": 1}, {"a": 2}])
    commit_rows(lake, "tap.two", properties, ["a", "b"], [{"a": 1, "b": 'x"y'}])
    ids = run_json(lake, "query", "select __row_id from tap.keyless", "--row-metadata")["rows"]
    assert sorted(ids) == [["1:0"], ["1:1"]]
    ids = run_json(lake, "query", "select __row_id from tap.two", "--row-metadata")["rows"]
    assert ids == [['["1","x\\"y"]']]


def test_if_transaction_fails_once_the_table_has_moved(shop: Lake) -> None:
    sql = "select count(*) from tap_shop.orders"
    head = run_json(shop, "query", sql)["read"][0]["transaction"]
    assert run(shop, "query", sql, "--if-transaction", str(head)).exit_code == 0
    commit_rows(shop, "tap-shop.orders", PROPERTIES, ["id"], [{"id": 9}])
    for given in (str(head), f"tap-shop.orders={head}"):
        result = run(shop, "query", sql, "--if-transaction", given)
        assert result.exit_code == 4
        assert "is at transaction 3, not 2 any more" in result.stderr
    assert run(shop, "query", sql, "--if-transaction", "tap-shop.other=1").exit_code == 0
    assert (
        run(shop, "query", sql.replace("orders", "orders.`@1`"), "--if-transaction", "2").exit_code
        == 0
    )


def test_a_row_version_is_no_transaction(lake: Lake) -> None:
    """A transaction brings as many blocks as it likes."""
    for start in (0, 10):
        rows = [{"id": start + n} for n in range(4)]
        commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [*rows], 2)
        run(lake, "freeze", "tap.s")  # a transaction without a block
    sql = "select id, _row_version, _transaction from tap.s{} where id % 10 in (0, 3) order by id"
    found = run_json(lake, "query", sql.format(""), "--row-metadata")["rows"]
    assert found == [[0, 1, 1], [3, 2, 1], [10, 3, 3], [13, 4, 3]]
    found = run_json(lake, "query", sql.format(".1"), "--row-metadata")["rows"]
    assert found == [[0, 1, 1], [3, 2, 1]]
    (row,) = run_json(lake, "rows", "tap.s", "--key", "13")
    assert (row["row_version"], row["transaction"]) == (4, 3)
    shown = run(lake, "rows", "tap.s", "--key", "13").stdout
    assert "row version: the number of the row's block, as in --row-version" in shown


def test_a_file_is_of_the_format_that_its_name_says(shop: Lake, tmp_path: Path) -> None:
    sql = "select id, name from tap_shop.orders order by id"
    texts = {
        "csv": "id,name\n1,n1\n",
        "tsv": "id\tname\n1\tn1\n",
        "jsonl": '{"id": 1, "name": "n1"}',
    }
    for suffix in ("csv", "tsv", "jsonl", "json", "parquet"):
        path = tmp_path / f"q3.{suffix}"
        result = run(shop, "query", sql, "--out", str(path))
        assert (result.exit_code, result.stdout) == (0, "")
        assert f"wrote 4 rows to {path}\n" in result.stderr
        assert "read tap-shop.orders at transaction 2" in result.stderr
        assert path.read_bytes().startswith(texts.get(suffix, "").encode())
    assert run(shop, "query", sql, "--out", str(tmp_path / "q3.csv")).exit_code == 2
    assert len(json.loads((tmp_path / "q3.json").read_text())["rows"]) == 4
    assert pq.read_table(tmp_path / "q3.parquet").num_rows == 4
    few = run(shop, "query", f"{sql} limit 1", "--out", str(tmp_path / "q3.csv"), "--force")
    assert "wrote 1 row to" in few.stderr
    assert (tmp_path / "q3.csv").read_text() == texts["csv"]
    assert len(list(tmp_path.glob(".*"))) == 0


def test_a_query_that_fails_leaves_no_file(shop: Lake, tmp_path: Path) -> None:
    path = tmp_path / "q3.csv"
    sql = "select 1 / (id - 5) from tap_shop.orders order by id"
    assert run(shop, "query", sql, "--out", str(path)).exit_code == 2
    assert [one.name for one in tmp_path.iterdir()] == ["lake"]


def test_rows(shop: Lake) -> None:
    history = run_json(shop, "rows", "tap-shop.orders", "--key", "3", "--history")
    assert [(v["row_version"], v["operation"]) for v in history] == [(1, "insert"), (2, "delete")]
    (then,) = run_json(shop, "rows", "tap-shop.orders", "--key", "id=2", "--row-version", "1")
    assert then["values"]["name"] == "n2"
    (now,) = run_json(shop, "rows", "tap-shop.orders", "--key", "2")
    assert (now["operation"], now["values"]["name"]) == ("update", "new")
    gone = run(shop, "rows", "tap-shop.orders", "--key", "3")
    assert gone.exit_code == 3
    assert "transaction 2 deleted it" in gone.stderr
    assert run(shop, "rows", "tap-shop.orders", "--key", "77").exit_code == 3
    wrong = run(shop, "rows", "tap-shop.orders", "--key", "id=2", "--key", "nr=2")
    assert wrong.exit_code == 2
    assert "--key id=" in wrong.stderr


def test_rows_reads_round_values_that_do_not_fit(lake: Lake) -> None:
    """A version of a row that had one does not hide the others, nor the row as it is now."""
    for price in ("1.1", "1.005", "2"):
        rows = [f'{{"id": 1, "name": "n", "price": {price}}}']
        commit_rows(lake, "tap.s", PROPERTIES, ["id"], [*rows])
    now = run(lake, "rows", "tap.s", "--key", "1")
    assert (now.exit_code, now.stderr) == (0, "")
    history = run_json(lake, "rows", "tap.s", "--key", "1", "--history")
    assert [v["values"]["price"] for v in history] == ["1.10", None, "2.00"]
    assert [list(v["misfits"]) for v in history] == [[], ["price"], []]
    then = run(lake, "rows", "tap.s", "--key", "1", "--row-version", "2")
    assert then.exit_code == 0
    assert "row version 2: row 0 of block 2 of tap.s: the value 1.005" in then.stderr
    assert then.stderr.endswith("read as null\n")


def test_a_freeze_lists_what_does_not_fit_line_by_line(lake: Lake) -> None:
    properties = {**PROPERTIES, "a\nb": {"type": "integer"}}
    commit_rows(
        lake,
        "tap.s",
        properties,
        ["id"],
        ['{"id": 1, "price": 1.005, "a\\nb": 9223372036854775808}'],
    )
    result = run(lake, "freeze", "tap.s")
    assert result.exit_code == 5
    said = [line for line in result.stderr.splitlines() if line.strip()]
    head = next(n for n, line in enumerate(said) if "nothing was frozen:" in line)
    assert said[head].startswith("error: ")
    assert said[head + 1].startswith("  column 'price' (decimal(38,2)) has 1 value")
    assert said[head + 2].startswith("  column 'a")
    assert "singerlake alter tap.s retype price text, and likewise of" in said[head + 3]
    assert len(said) == head + 4


def test_rows_sees_what_an_activation_removed(lake: Lake) -> None:
    messages: list[Any] = [({"id": 1}, 1), ({"id": 2}, 1), 2, ({"id": 1}, 2)]
    commit_rows(lake, "tap.t", {"id": {"type": "integer"}}, ["id"], messages)
    operations = [
        v["operation"] for v in run_json(lake, "rows", "tap.t", "--key", "1", "--history")
    ]
    assert operations == ["insert", "remove", "insert"]
    assert run(lake, "rows", "tap.t", "--key", "2").exit_code == 3


def test_revert(shop: Lake) -> None:
    would = run(shop, "revert", "tap-shop.orders", "--to-transaction", "1", "--dry-run")
    assert "note: this would undo 1 later transaction: sync 2 (20" in would.stderr
    assert "bookmark is not reset, so the tap resends these records only" in would.stderr
    assert "(dry run): 2 rows put back, 0 deleted, 3 unchanged" in would.stdout
    run(shop, "freeze", "tap-shop.orders", "--transaction", "1", "--label", "first")
    said = ("--comment", "wrong prices", "--metadata", "ticket=7")
    head = shop.table("tap-shop.orders").snapshot().number
    done = run_json(
        shop, "revert", "tap-shop.orders", "--to", "first", *said, "--if-transaction", str(head)
    )
    *_, entry = shop.table("tap-shop.orders").entries()
    assert entry.metadata.items() >= {"comment": "wrong prices", "ticket": "7"}.items()
    assert (done["put_back"], done["deleted"], done["transaction"]) == (2, 0, 4)
    assert run_json(shop, "query", "select count(*) from tap_shop.orders")["rows"] == [[5]]
    time = run_json(shop, "history", "tap-shop.orders")[2]["time"]
    done = run_json(shop, "revert", "tap-shop.orders", "--to-time", time)
    assert (done["put_back"], done["deleted"]) == (1, 1)
    assert run(shop, "revert", "tap-shop.orders").exit_code == 2
    assert run(shop, "revert", "tap-shop.orders", "--to", "nothing").exit_code == 3


def test_a_revert_names_what_came_while_java_started(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(*_args: object) -> None:
        commit_rows(shop, "tap-shop.orders", PROPERTIES, ["id"], [{"id": next(ids)}])

    ids = iter((98, 99))
    monkeypatch.setattr("singerlake.engine.choice.SMALL", Work())
    monkeypatch.setattr("singerlake_cli.shared.begin_spark", meanwhile)
    done = run(shop, "revert", "tap-shop.orders", "--to-transaction", "1")
    assert "in the meantime:\nnote: this undoes 1 later transaction: sync 3 (20" in done.stderr
    undone = run_json(shop, "revert", "tap-shop.orders", "--to-transaction", "2")["undoes"]
    assert [one["transaction"] for one in undone] == [5, 4, 3]


def test_a_revert_without_a_key_says_what_others_may_do_with_it(lake: Lake) -> None:
    for n in (1, 2):
        commit_rows(lake, "tap.events", {"n": {"type": "integer"}}, [], [{"n": n}])
    for more in (["--dry-run"], []):
        done = run(lake, "revert", "tap.events", "--to-transaction", "1", *more)
        assert done.exit_code == 0
        assert "ignores this message (pipelinewise-target-postgres does)" in done.stderr
        assert "1 row put back instead of all current rows" in done.stdout
        assert "deleted" not in done.stdout
        assert "all rows written again, after ACTIVATE_VERSION" in done.stdout
    assert run_json(lake, "query", "select n from tap.events")["rows"] == [[1]]
    assert "written again," not in run(lake, "revert", "tap.events", "--to-transaction", "3").stdout


@pytest.mark.parametrize(
    ("sql", "code", "says"),
    [
        ("select nope from tap_shop.orders", 2, "has id, name"),
        ("select nmae from tap_shop.orders", 2, "no column `nmae`: did you mean name of tap-shop"),
        ("select o.pric from tap_shop.orders o", 2, "did you mean price of tap-shop.orders?"),
        ("select * from tap_shop.nothing", 3, "it has tap-shop.orders"),
        ("select * from tap_shop.ordres", 3, "did you mean tap-shop.orders?"),
        ("select * from tap_shop.orders timestamp as of 'yesterday'", 2, "is not a time"),
        ("select * from tap_shop.orders.7", 3, "has no version"),
        ("delete from tap_shop.orders", 2, "SELECT"),
        ("select * from parquet.`/etc`", 2, ""),
    ],
)
def test_errors_of_queries_are_one_line(shop: Lake, sql: str, code: int, says: str) -> None:
    result = run(shop, "query", sql)
    assert result.exit_code in {code, 3}
    assert any(part in result.stderr for part in says.split("|"))
    assert "Traceback" not in result.output
    assert "at org.apache" not in result.output


def test_a_lake_that_cannot_be_written_can_be_asked(
    shop: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from singerlake.errors import StoreError
    from singerlake.snapshot import building

    def refuse(*_: object, **__: object) -> None:
        raise StoreError("the lake is on a read-only file system")

    monkeypatch.setattr(building, "ensure", refuse)
    assert run_json(shop, "query", "select count(*) from tap_shop.orders")["rows"] == [[4]]
