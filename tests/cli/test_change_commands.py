"""update and delete: what people see, and what is refused before Java starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.build import commit_rows
from tests.cli.call import run, run_json

PROPERTIES = {
    "id": {"type": "integer"},
    "status": {"type": ["null", "string"], "maxLength": 9},
    "total": {"type": "number", "multipleOf": 0.01},
    "n": {"type": "integer"},
}


@pytest.fixture
def shop(lake: Lake) -> Lake:
    rows = [{"id": n, "status": "new", "total": n + 0.5, "n": n} for n in range(1, 6)]
    commit_rows(lake, "tap-shop.orders", PROPERTIES, ["id"], rows)
    return lake


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["update", "tap-shop.orders"], 2, "--set"),
        (["update", "tap-shop.nope", "--set", "a=1"], 3, "tap-shop.nope"),
        (["update", "tap-shop.orders.1", "--set", "a=1"], 2, "is frozen and never changes"),
        (
            ["update", "tap-shop.orders", "--set", "a=1", "--if-transaction", "9"],
            4,
            "and has no 9 yet",
        ),
        (["update", "tap-shop.orders", "--set", "a=1", "--label", "x"], 2, "with --new-version"),
        (["update", "tap-shop.orders", "--set", "a=1", "--metadata", "x"], 2, "not KEY=VALUE"),
        (["update", "tap-shop.orders", "--set", "a=1", "--metadata", "by=x"], 2, "rename it"),
        (["delete", "tap-shop.orders"], 2, "with --key, --where or --from"),
        (
            ["delete", "tap-shop.orders", "--key", "1", "--where", "true"],
            2,
            "--key and --where each select rows: use one of them",
        ),
        (
            ["delete", "tap-shop.orders", "--key", "1", "--from", "x", "--where", "true"],
            2,
            "--key, --where and --from each select",
        ),
        (["delete", "tap-shop.orders", "--key", "1", "--null", "x"], 2, "need --from"),
        (["delete", "tap-shop.orders", "--where", "true", "--overwrite"], 2, "need --from"),
        (["delete", "tap-shop.orders", "--from", "nope.csv"], 3, "nope.csv"),
    ],
)
def test_what_needs_no_java_to_be_refused(
    shop: Lake, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int, words: str
) -> None:
    monkeypatch.setattr("singerlake_cli.shared.begin_spark", None)
    result = run(shop, *args)
    assert result.exit_code == code, result.stderr
    assert words in result.stderr


@pytest.mark.usefixtures("each_operation")
def test_rows_are_set_and_deleted_by_sql(shop: Lake) -> None:
    def statuses() -> list[list[object]]:
        sql = "select id, status, cast(total as string), n from tap_shop.orders order by id"
        rows: list[list[object]] = run_json(shop, "query", sql)["rows"]
        return rows

    sets = ["--set", "status = upper(status), total = 7.25", "--set", "n = id + 10"]
    where = ["--where", "id in (1, 2) -- these two"]
    dry = run_json(shop, "update", "tap-shop.orders", *sets, *where, "--dry-run")
    assert (dry["transaction"], dry["updated"], dry["dry_run"]) == (None, 2, True)
    said = run(
        shop,
        "update",
        "tap-shop.orders",
        *sets,
        *where,
        "--comment",
        "why",
        "--if-transaction",
        "1",
    )
    assert said.stdout == (
        "tap-shop.orders, transaction 2: 0 rows inserted, 2 updated, 0 deleted, 0 unchanged\n"
    )
    assert statuses()[:3] == [
        [1, "NEW", "7.25", 11], [2, "NEW", "7.25", 12], [3, "new", "3.50", 3]
    ]  # fmt: skip
    again = run(shop, "update", "tap-shop.orders", *sets[:2], *where)
    assert "nothing to change, and nothing was committed" in again.stdout
    done = run_json(shop, "delete", "tap-shop.orders", "--key", "5", "--key", "77")
    assert (done["deleted"], done["absent"]) == (1, 1)
    frozen = ["--new-version", "--label", "q3"]
    done = run_json(shop, "delete", "tap-shop.orders", "--where", "status = 'NEW'", *frozen)
    assert (done["deleted"], done["version"]["label"], done["version"]["rows"]) == (2, "q3", 2)
    assert [row[0] for row in statuses()] == [3, 4]
    for args, words in (
        (["update", "--set", "status = 1"], "is string, and its new value is int: write text in"),
        (["update", "--set", "n = '1'"], "is bigint, and its new value is string"),
        (["update", "--set", "n = 1.5"], "its new value is decimal(2,1)"),
        (["update", "--set", "total = 1.005"], "its new value is decimal(4,3)"),
        (["update", "--set", "id = 1"], "is part of the key of tap-shop.orders"),
        (["update", "--set", "statsu = 'x'"], "did you mean status?"),
        (["update", "--set", "status"], "is not an assignment: write COLUMN = VALUE"),
        (["update", "--set", "n = 1, n = 2"], "'n' is set twice"),
        (
            ["update", "--set", "status = 'far too long'", "--where", "id = 4"],
            "  tap-shop.orders, row '4', column 'status': 'far too long' ",
        ),
        (["update", "--set", "n = 1) from x --"], "is no expression of SQL"),
        (["update", "--set", "status = java_method('a', 'b')"], "a query may not call"),
        (["delete", "--where", "nope = 1"], "there is no column"),
        (["delete", "--where", "1) or (1"], "is no expression of SQL"),
        (["delete", "--key", "x"], "'x' is not the id of a row of this table"),
    ):
        result = run(shop, args[0], "tap-shop.orders", *args[1:])
        assert result.exit_code in (2, 5), (args, result.stderr)
        assert words in result.stderr, args


@pytest.mark.usefixtures("each_operation", "engine")
def test_rows_are_deleted_that_a_file_names(shop: Lake, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text("id;status\n1;other\n77;\n")
    delete = ["delete", "tap-shop.orders", "--from", str(keys), "--delimiter", ";"]
    dry = run_json(shop, *delete, "--dry-run")
    assert (dry["transaction"], dry["deleted"], dry["absent"]) == (None, 1, 1)
    done = run_json(shop, *delete, "--comment", "gone")
    assert (done["transaction"], done["deleted"], done["absent"]) == (2, 1, 1)
    entry = list(shop.table("tap-shop.orders").entries())[-1]
    assert entry.metadata["files"][0]["name"] == "keys.csv"
    # In the version in which they were read, or whatever it is now.
    keys.write_text("_row_id,_row_version\n2,7\n")
    refused = run(shop, *delete[:4])
    assert (refused.exit_code, "id 2: was row version 7 when read" in refused.stderr) == (
        4,
        True,
    )
    assert run_json(shop, *delete[:4], "--overwrite")["deleted"] == 1
    keys.write_text("id\n3\nx\n")
    rejects = tmp_path / "rejects.csv"
    result = run(shop, *delete[:4], "--rejects", str(rejects))
    assert (result.exit_code, "keys.csv, line 3, column 'id'" in result.stderr) == (5, True)
    assert len(rejects.read_text().splitlines()) == 2
    sql = "select id from tap_shop.orders order by id"
    assert run_json(shop, "query", sql)["rows"] == [[3], [4], [5]]
    tabs = tmp_path / "keys.txt"
    tabs.write_bytes("4\tfür dich\n".encode("latin-1"))
    how = ["--format", "tsv", "--encoding", "latin-1", "--columns", "id,status"]
    done = run_json(shop, "delete", "tap-shop.orders", "--from", str(tabs), *how, "--new-version")
    assert (done["deleted"], done["version"]["number"]) == (1, 1)
