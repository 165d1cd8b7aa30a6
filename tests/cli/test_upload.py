"""singerlake upload: what is asked wrongly, what is in a file wrongly, and every option."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from singerlake.format.overlay import Constraint
from singerlake.lake import Lake
from singerlake.new_file import NewFile
from singerlake.overlay.alter import alter
from singerlake.overlay.overlay_changes import with_constraint
from singerlake.rows.batches.problems import Problem, Problems
from singerlake.rows.input.csv import guess as csv_guess
from singerlake.rows.input.csv.file import CsvFile
from singerlake.rows.input.csv.guess import Summed
from singerlake.rows.input.csv.ranges import Range
from singerlake.rows.input.csv.reader import CsvReader
from singerlake.rows.input.values.inference import Summary
from singerlake_cli.rejects import write_rejects
from tests.build import commit_rows
from tests.cli.call import run, run_json

PROPERTIES = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "total": {"type": ["null", "number"], "format": "singer.decimal", "scale": 2},
    "day": {"type": ["null", "string"], "format": "date"},
}
ORDERS = "tap-shop.orders"


@pytest.fixture
def shop(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Three orders, and a folder to write files into."""
    rows: list[Any] = [
        {"id": n, "name": f"n{n}", "total": 1.10, "day": "2026-01-01"} for n in (1, 2, 3)
    ]
    commit_rows(lake, ORDERS, PROPERTIES, ["id"], rows)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return lake


def files_of(lake: Lake) -> dict[str, int]:
    """All that is in the lake, but for indexes, which are a cache, and what holds no data."""
    root = Path(lake.store.uri)
    found = (path for path in root.rglob("*") if path.is_file())
    names = ((str(path.relative_to(root)), path.stat().st_size) for path in found)
    return {
        name: size
        for name, size in names
        if not name.startswith(("index/", ".staging/replace.lock"))
    }


def write(name: str, content: str | bytes | pa.Table) -> None:
    if isinstance(content, pa.Table):
        pq.write_table(content, name)
    else:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


def rows_of(lake: Lake | str, table: str = "tap_shop.orders") -> list[list[Any]]:
    found: list[list[Any]] = run_json(lake, "query", f"select * from {table} order by 1")["rows"]
    return found


BEFORE_JAVA: list[tuple[str, str | bytes | pa.Table, list[str], int, str]] = [
    ("a.csv", "", [], 5, "a.csv is empty: there is nothing to upload"),
    ("a.csv", "id,name\n", [], 5, "a.csv has a header and no row"),
    ("a.jsonl", "\n \n", [], 5, "a.jsonl has blank lines only"),
    ("a.parquet", pa.table({"id": pa.array([], pa.int64())}), [], 5, "has columns and no row"),
    ("a.csv", "id,nmae\n1,x\n", [], 5, "column 'nmae'|did you mean name?"),
    ("a.csv", "id,id\n1,2\n", [], 5, "line 1, column 'id'|twice"),
    ("a.csv", "name\nx\n", [], 5, "line 1, column 'id'|key"),
    ("a.csv", "id;name\n1;x\n", ["--delimiter", ","], 5, "specify --delimiter ';'"),
    ("a.csv", "id;na|me\n1;x\n", [], 2, "a.csv has one column|specify --delimiter"),
    ("a.csv", "\n", ["--skip", "2"], 5, "line 3: the file ends there: skip fewer than 2"),
    ("a.csv", ",id\n1,2\n", [], 5, "write the file without it, with index=False in pandas"),
    ("a.csv", ",id\n1,2\n", [], 5, "row.names=FALSE in R"),
    (
        "a.csv",
        "t\nid,id\n1,2\n",
        ["--skip", "1"],
        5,
        "line 2|twice: name|--skip 2 --columns id,id_2",
    ),
    ("a.jsonl", "{}", ["--decimal", ","], 2, "--decimal is for CSV"),
    ("a.jsonl", "{}", ["--skip", "1"], 2, "--skip is for CSV"),
    ("a.csv", "id,nam\xe9\n1,x\n".encode("latin-1"), [], 5, "a.csv, line 1|is not in utf-8"),
    ("a.csv", "id,name\n1,x\n", ["--delimiter", "::"], 2, "is not one character"),
    ("a.csv", "id,name\n1,x\n", ["--encoding", "klingon"], 2, "there is no encoding 'klingon'"),
    ("a.csv", "1,x\n", ["--columns", "id,nmae"], 2, "'nmae'|did you mean name?"),
    ("a.csv", "id\n1\n", ["--types", "id:integer"], 2, "--types needs a new table"),
    ("a.csv", "id\n1\n", ["--key", "name"], 2, "--key needs a new table|its key: id"),
    ("a.csv", "id\n1\n", ["--if-transaction", "7"], 4, "7"),
    ("a.csv", "id\n1\n", ["--label", "q3"], 2, "--new-version"),
    ("a.csv", "id\n1\n", ["--rejects", "r.txt"], 2, "end it in .csv or .jsonl"),
    ("a.csv", "id\n1\n", ["--rejects", "a.csv"], 2, "a.csv already exists"),
    ("a.jsonl", '{"id": 1}', ["--null", "x"], 2, "--null is for CSV, and this is jsonl"),
    ("a.jsonl", '{"id": 1}', ["--columns", "id"], 2, "--columns is for CSV"),
    ("a.parquet", "id\n1\n", [], 5, "a.parquet is not a complete Parquet file"),
    (
        "a.parquet",
        pa.table({"id": [1], "name": [b"x"]}),
        [],
        5,
        "which a lake cannot store",
    ),
    ("a.parquet", pa.table({"id": ["x"]}), [], 5, "type string in the file, and int64 in the"),
    ("a.parquet", pa.table({"id": [1], "nmae": [1]}), [], 5, "'nmae'|did you mean name?"),
    ("a.parquet", pa.table({"name": ["x"]}), [], 5, "lacks the column 'id'"),
    ("a.txt", "id\n1\n", [], 2, "--format csv|tsv|jsonl|parquet"),
    (
        "a.csv.gz",
        gzip.compress(b"id\n1\n", mtime=0)[:-9],
        [],
        5,
        "a.csv.gz is not a complete gzip file",
    ),
]


@pytest.mark.parametrize(("name", "content", "options", "code", "says"), BEFORE_JAVA)
def test_what_is_wrong_with_a_file_as_a_whole_is_said_before_java_starts(
    shop: Lake,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: str | bytes | pa.Table,
    options: list[str],
    code: int,
    says: str,
) -> None:
    forbid_java(monkeypatch)
    write(name, content)
    before = files_of(shop)
    check_refused(run(shop, "upload", ORDERS, name, *options), code, says)
    assert files_of(shop) == before


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ([ORDERS, "none.csv"], 3, "none.csv"),
        ([ORDERS, "-"], 2, "standard input has no file name: set its format with --format"),
        ([ORDERS, "a.csv", "a.csv"], 2, "a.csv is named twice"),
        ([ORDERS, "a.csv", "--metadata", "files=3"], 2, "'files' is written by Singerlake itself"),
        ([ORDERS, "s3://b/a.tsv.gz"], 2, "aws s3 cp s3://b/a.tsv.gz -|… - --format tsv"),
        ([ORDERS, "https://h/a?b=1"], 2, "curl -fsS 'https://h/a?b=1'"),
        ([f"{ORDERS}.@1", "a.csv"], 2, "is a past snapshot: upload into the table itself"),
        (["tap-shop.order", "a.csv", "--mode", "update"], 3, "tap-shop.orders"),
        (["tap-shop.order", "a.csv", "--if-transaction", "1"], 2, "this one is new"),
        (["tap-shop.order", "a.csv", "--types", "id:intger"], 2, "did you mean integer"),
        (["orders", "a.csv"], 2, "tap.stream"),
        (["tap-shop.new.2", "a.csv"], 2, "cannot end in a part of digits"),
    ],
)
def test_what_is_asked_wrongly_is_said_before_java_starts(
    shop: Lake, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int, says: str
) -> None:
    forbid_java(monkeypatch)
    write("a.csv", "id,name\n1,x\n")
    before = files_of(shop)
    check_refused(run(shop, "upload", *args), code, says)
    assert files_of(shop) == before


def forbid_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> NoReturn:
        raise AssertionError("Java starts")

    monkeypatch.setenv("SINGERLAKE_ENGINE", "spark")
    monkeypatch.setattr("singerlake_cli.shared.begin_spark", started)


def check_refused(result: Result, code: int, says: str) -> None:
    assert result.exit_code == code, result.output
    told = " ".join(result.stderr.split())
    for words in says.split("|") if "csv|tsv" not in says else [says]:
        assert words in told


@pytest.mark.usefixtures("each_operation", "engine")
def test_what_is_wrong_with_rows_is_said_with_line_and_value_and_nothing_changes(
    shop: Lake,
) -> None:
    before = files_of(shop)
    for content, says in (
        ("id,name\n1,x,y\n", "a.csv, line 2: has 3 cells, where the header has 2"),
        ("id,name\n1,x\n2\n", "a.csv, line 3: has 1 cell, where the header has 2"),
        ('id,name\n1,"x\n', "a.csv, line 2, column 'name'|unclosed quote"),
        ('id,name\n1,x"y\n', "a.csv, line 2, column 'name'|has a quote in it"),
        (b"id,name\n1,\xe9\n", "a.csv, line 2, column 'name'|is not in utf-8"),
        ("id,name\n,x\n", "a.csv, line 2, column 'id'"),
        ("id,name\n1,x\n2,y\n1,z\n", "a.csv, line 4|'1'|line 2"),
        (
            "id,total\n1,1.005\n",
            "a.csv, line 2, column 'total': '1.005' is not a valid decimal of at most 2",
        ),
        (
            'id,day\n1,2026-01-01\n4,"2026-02-30"\n',
            "column 'day': '2026-02-30' is not a valid date",
        ),
    ):
        write("a.csv", content)
        check_refused(run(shop, "upload", ORDERS, "a.csv"), 5, says)
    write("a.jsonl", '{"id": 1, "name": 5}\n{"id": 1')
    result = run(shop, "upload", ORDERS, "a.jsonl", "--rejects", "r.jsonl")
    check_refused(
        result,
        5,
        "2 problems|line 1, column 'name': '5' is not a valid string|line 2: '{\"id\": 1'",
    )
    listed = [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]
    assert [(one["line"], one["column"]) for one in listed] == [(1, "name"), (2, None)]
    write("a.csv", "id,total\n" + "".join(f"{n},x\n" for n in range(20)))
    result = run(shop, "upload", ORDERS, "a.csv", "--rejects", "r.csv")
    check_refused(result, 5, "20 problems|and 10 more|r.csv lists 20 problems")
    with Path("r.csv").open(newline="") as file:
        told = list(csv.DictReader(file))
    assert [(one["line"], one["value"]) for one in told] == [(str(n + 2), "x") for n in range(20)]
    write("b.csv", "id,name\n9,x\n")
    write("c.csv", "id,name\n8,x\n9,y\n")
    check_refused(run(shop, "upload", ORDERS, "b.csv", "c.csv"), 5, "c.csv, line 3|b.csv")
    assert files_of(shop) == before


@pytest.mark.usefixtures("each_operation", "engine")
def test_rejects_lists_what_every_stage_finds(shop: Lake) -> None:
    """Values, keys, versions and constraints, though a file fails for the first of them."""
    table = shop.find(ORDERS)[0]
    small = partial(
        with_constraint, name="small", constraint=Constraint("range", ["total"], maximum=100)
    )
    alter(table.store, table.snapshot(), small)
    before = files_of(shop)

    def listed(table: str, *args: str) -> list[tuple[str, str, str]]:
        result = run(shop, "upload", table, "a.csv", "--rejects", "r.csv", "--force", *args)
        assert result.exit_code in (4, 5), result.output
        with Path("r.csv").open(newline="") as file:
            found = [(one["line"], one["column"], one["value"]) for one in csv.DictReader(file)]
        assert f"r.csv lists {len(found)} problem" in result.stderr
        return found

    write(
        "a.csv",
        "id,name,total,day,_row_version\n"
        "1,read long ago,1,2026-01-01,9\n"
        "2,too much,5000,2026-01-01,\n"
        "2,twice,1,2026-02-30,\n"
        ",no key,1,2026-01-01,\n"
        "x,no number,5000,2026-01-01,9\n",
    )
    wanted = [
        ("2", "_row_version", "9"),
        ("3", "total", "5000"),
        ("4", "day", "2026-02-30"),
        ("4", "id", "2"),
        ("5", "id", ""),
        ("6", "id", "x"),
    ]
    assert listed(ORDERS) == wanted
    write("a.csv", "id,name,_row_version\n1,x,9\n2,y,8\n3,z,1\n")
    assert listed(ORDERS) == [("2", "_row_version", "9"), ("3", "_row_version", "8")]
    write("a.csv", "id,n\n1,1\n1,x\n,2\n")
    wanted = [("3", "n", "x"), ("3", "id", "1"), ("4", "id", "")]
    assert listed("views.a", "--key", "id", "--types", "n:integer") == wanted
    after = files_of(shop)
    assert after == before, "nothing is changed by any"


def test_rejects_say_that_they_are_not_all(tmp_path: Path) -> None:
    found = [Problem("a.csv", 2, "id", "x", "is not a valid integer")]
    for name, last in (
        ("r.csv", ',,,,"and 9 more, not listed: correct these first"'),
        ("r.jsonl", "and 9 more, not listed: correct these first"),
    ):
        file = NewFile(tmp_path / name, force=False)
        assert write_rejects(file, Problems(10, found)).endswith("1 problem, the first of 10")
        assert last in file.path.read_text().splitlines()[-1]


@pytest.mark.usefixtures("each_operation", "engine")
def test_modes(shop: Lake) -> None:
    def counts(*args: str) -> tuple[int, ...]:
        done = run_json(shop, "upload", ORDERS, "a.csv", *args)
        found: tuple[int, ...] = tuple(
            done[name] for name in ("inserted", "updated", "deleted", "unchanged", "absent")
        )
        return found

    write("a.csv", "id,name\n1,new\n2,n2\n4,\n")
    assert counts("--dry-run") == (1, 1, 0, 1, 0)
    assert len(rows_of(shop)) == 3
    assert counts("--comment", "as the shop called", "--metadata", "ticket=7") == (1, 1, 0, 1, 0)
    assert counts() == (0, 0, 0, 3, 0)
    assert rows_of(shop) == [
        [1, "new", "1.10", "2026-01-01"],
        [2, "n2", "1.10", "2026-01-01"],
        [3, "n3", "1.10", "2026-01-01"],
        [4, None, None, None],
    ]
    (entry,) = [one for one in shop.find(ORDERS)[0].entries() if one.operation == "change"]
    assert entry.metadata["comment"] == "as the shop called"
    assert entry.metadata["ticket"] == "7"
    assert [file["name"] for file in entry.metadata["files"]] == ["a.csv"]
    check_refused(run(shop, "upload", ORDERS, "a.csv", "--mode", "insert"), 5, "line 2|'1'")
    write("a.csv", "id,name\n9,x\n")
    check_refused(run(shop, "upload", ORDERS, "a.csv", "--mode", "update"), 5, "line 2|'9'")
    write("a.csv", "id\n4\n9\n")
    assert counts("--mode", "delete") == (0, 0, 1, 0, 1)
    write("a.csv", "id,name,_delete\n1,,t\n2,x,\n7,y,no\n")
    assert counts("--new-version", "--label", "q3") == (1, 1, 1, 0, 0)
    assert [row[0] for row in rows_of(shop, "tap_shop.orders.q3")] == [2, 3, 7]
    write("a.csv", "id,name,total,day\n2,x,1.10,2026-01-01\n5,z,,\n")
    assert counts("--mode", "replace") == (1, 0, 2, 1, 0)
    assert [row[0] for row in rows_of(shop)] == [2, 5]


@pytest.mark.usefixtures("each_operation", "engine")
def test_what_was_read_before_somebody_else_changed_it_is_refused(shop: Lake) -> None:
    query = ["query", "select * from tap_shop.orders order by id", "--row-metadata", "--out"]
    assert run(shop, *query, "x.csv").exit_code == 0
    assert run_json(shop, "upload", ORDERS, "x.csv")["transaction"] is None
    write("y.csv", "id,name\n2,theirs\n")
    assert run(shop, "upload", ORDERS, "y.csv").exit_code == 0
    header, one, two, three = Path("x.csv").read_text().splitlines()
    write("x.csv", "\n".join([header, one, three.replace("n3", "mine")]))
    done = run_json(shop, "upload", ORDERS, "x.csv")
    assert (done["updated"], done["unchanged"]) == (1, 1)
    write("x.csv", "\n".join([header, one, two.replace("n2", "mine")]))
    check_refused(run(shop, "upload", ORDERS, "x.csv"), 4, "id 2|--overwrite")
    assert run_json(shop, "upload", ORDERS, "x.csv", "--overwrite")["updated"] == 1
    assert [row[1] for row in rows_of(shop)] == ["n1", "mine", "mine"]


@pytest.mark.usefixtures("each_operation", "engine")
def test_how_files_are_written(shop: Lake) -> None:
    write("a.csv", "1;\xe4;NULL\r\n2;'NULL';5\r\n".encode("cp1252"))
    options = ["--delimiter", ";", "--encoding", "cp1252", "--null", "NULL"]
    done = run(shop, "upload", ORDERS, "a.csv", *options, "--columns", "id,name,total")
    assert done.exit_code == 0, done.output
    assert [row[1:3] for row in rows_of(shop)][:2] == [["ä", None], ["'NULL'", "5.00"]]
    result = run(shop, "upload", ORDERS, "-", "--format", "tsv", input="id\tname\n1\tx y\n")
    assert result.exit_code == 0, result.output
    write("b.jsonl.zst", pa.compress(b'{"id": 2, "total": 7.5}\n', "zstd", asbytes=True))
    assert run(shop, "upload", ORDERS, "b.jsonl.zst").exit_code == 0
    write("c.parquet", pa.table({"id": [3.0], "day": pa.array([20_000], pa.date32())}))
    assert run(shop, "upload", ORDERS, "c.parquet").exit_code == 0
    assert rows_of(shop) == [
        [1, "x y", None, "2026-01-01"],
        [2, "'NULL'", "7.50", "2026-01-01"],
        [3, "n3", "1.10", "2024-10-04"],
    ]


@pytest.mark.usefixtures("each_operation", "engine")
def test_a_new_table_is_shown_before_it_is_made(shop: Lake) -> None:
    write("a.csv", 'id,zip,price,at,note\n1,007,1.5,2026-01-01T10:00:00Z,\n2,5,2,,"{}"\n')
    nowhere = str(Path("nowhere").absolute())
    result = run(nowhere, "upload", "views.prices", "a.csv", "--key", "id", "--dry-run")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    for line in (["id", "int64", "key", "0"], ["zip", "string", "0"], ["price", "double", "0"]):
        assert line in lines
    assert ["at", "timestamp", "1"] in lines
    assert "(dry run): 2 rows inserted" in result.stdout
    assert "note" not in lines[2]
    assert not Path(nowhere).exists()
    types = "price:decimal(12,2),note:json"
    args = ["views.prices", "a.csv", "--key", "id", "--types", types]
    done = run_json(shop, "upload", *args, "--new-version", "--label", "first")
    assert (done["transaction"], done["inserted"], done["created"]) == (1, 2, True)
    assert done["version"]["number"] == 1
    assert {one["name"]: one["type"] for one in done["columns"]} == {
        "id": "int64",
        "zip": "string",
        "price": "decimal(38,2)",
        "at": "timestamp",
        "note": "text",
    }
    wanted = [
        [1, "007", "1.50", "2026-01-01T10:00:00.000000Z", None],
        [2, "5", "2.00", None, "{}"],
    ]
    assert rows_of(shop, "views.prices") == rows_of(shop, "views.prices.first") == wanted
    (entry,) = shop.find("views.prices")[0].entries()
    assert entry.operation == "create"
    assert entry.metadata["files"] == done["files"]
    for table, content, options, says in (
        ("views.a", "id,n\n1,x\n2,y\n1,z\n", ["--key", "id"], "line 4|'1'|line 2"),
        ("views.a", "id,n\n1,x\n,y\n", ["--key", "id"], "line 3, column 'id': cannot be null"),
        (
            "views.a",
            "id\nx\n",
            ["--types", "id:integer"],
            "column 'id': 'x' is not a valid integer",
        ),
        ("views.a", "id,n\n1\n", [], "line 2: has 1 cell"),
    ):
        write("b.csv", content)
        check_refused(run(shop, "upload", table, "b.csv", *options), 5, says)
    for options, says in (
        (["--key", "idd"], "--key names the column 'idd'|did you mean id?"),
        (["--types", "idd:string"], "--types names the column 'idd'"),
    ):
        check_refused(run(shop, "upload", "views.a", "a.csv", *options), 2, says)
    assert [*Path(shop.store.uri, "raw/views/a").rglob("*.gz")] == []
    write("b.csv", "id,_row_version\n1,1\n")
    check_refused(run(shop, "upload", "views.a", "b.csv"), 2, "check the table's name")
    assert [one["table"] for one in run_json(shop, "ls")] == [ORDERS, "views.prices"]


@pytest.mark.usefixtures("each_operation", "engine")
def test_upload_shows_nulls_and_why_columns_of_numbers_are_text(shop: Lake) -> None:
    write("a.csv", 'id,n,v,x\n1,"",0.30000000000000004,nan\n2,"5",,1\n3,,5e-324,2\n')
    result = run(shop, "upload", "views.a", "a.csv", "--key", "id", "--dry-run")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["n", "int64", "2"] in lines
    assert ["v", "double", "1"] in lines
    assert "note: x is a string: 'nan' is not a number" in result.stderr
    done = run_json(shop, "upload", "views.a", "a.csv", "--key", "id")
    (note,) = filter(None, (one.get("note") for one in done["columns"]))
    assert note == "'nan' is not a number: add --null nan if it means null"
    answer = run_json(shop, "query", "select max(v) from views.a where n is null")
    assert answer["rows"] == [[0.30000000000000004]]
    done = run_json(shop, "upload", "views.b", "a.csv", "--types", "n:string,x:string", "--dry-run")
    assert not any("note" in one for one in done["columns"])


@pytest.mark.usefixtures("each_operation", "engine")
def test_upload_reads_files_as_other_programs_write_them(shop: Lake) -> None:
    write("excel.csv", "a report\r\nid;amount;name\r\n1;3,5;Zoë\r\n2;4,25;x,y\r\n".encode("utf-16"))
    args = ["excel.csv", "--skip", "1", "--key", "id"]
    done = run(shop, "upload", "views.a", *args, "--dry-run")
    assert "note: the columns of excel.csv are separated by semicolons" in done.stderr
    assert "amount is a string: '3,5' is not a number: add --decimal ," in done.stderr
    uploaded = run_json(shop, "upload", "views.a", *args, "--decimal", ",")
    assert [one["type"] for one in uploaded["columns"]] == ["int64", "double", "string"]
    assert rows_of(shop, "views.a") == [[1, 3.5, "Zoë"], [2, 4.25, "x,y"]]
    write("more.csv", "id|amount\n2|1,5\n")
    assert run_json(shop, "upload", "views.a", "more.csv", "--decimal", ",")["updated"] == 1
    assert rows_of(shop, "views.a")[1] == [2, 1.5, "x,y"]
    write("gone.tsv", "# gone\nid\n1\n")
    assert run_json(shop, "delete", "views.a", "--from", "gone.tsv", "--skip", "1")["deleted"] == 1
    write("r.csv", '"","len","ok"\n"1",1e+05,NA\n"2",NA,TRUE\n')
    named = ["--skip", "1", "--columns", "row,len,ok", "--null", "NA", "--key", "row"]
    done = run_json(shop, "upload", "views.r", "r.csv", *named)
    assert [one["type"] for one in done["columns"]] == ["int64", "double", "boolean"]
    assert rows_of(shop, "views.r") == [[1, 100000.0, None], [2, None, True]]


@pytest.mark.usefixtures("each_operation", "engine")
def test_a_file_that_is_not_what_its_first_rows_seem(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[int] = []

    def guess(files: list[CsvFile], parts: list[Range]) -> list[Summary] | None:
        first.append(len(parts))
        (row,) = CsvReader(files[0], replace(parts[0], stop=parts[0].start + 1))
        summed = Summed([Summary() for _ in files[0].names])
        summed.take(row, files[0], files[0].names)
        return summed.summaries

    monkeypatch.setattr(csv_guess, "guess", guess)
    write("a.csv", "id,n,note\n1,1,\n2,2.5,x\n3,3,\n")
    write("b.csv", "note,n,id\n,,4\ny,,5\n")
    done = run_json(shop, "upload", "views.a", "a.csv", "b.csv", "--key", "id")
    assert [column["type"] for column in done["columns"]] == ["int64", "double", "string"]
    assert (done["inserted"], len(first)) == (5, 1)
    wanted = [[1, 1.0, None], [2, 2.5, "x"], [3, 3.0, None], [4, None, None], [5, None, "y"]]
    assert rows_of(shop, "views.a") == wanted
    (entry,) = shop.find("views.a")[0].entries()
    files = {f"raw/views/a/{block.file}" for block in entry.blocks}
    assert {name for name in files_of(shop) if "views" in name and "gz" in name} == files
    for content, says in (
        ("id,n\n2,1\n1,1\n2,2\n", "line 4|'2'|line 2"),
        ("id,n\n1,1\n,1\n", "line 3, column 'id': cannot be null"),
        ("id,n\n1,1\n2\n", "line 3: has 1 cell"),
    ):
        write("c.csv", content)
        check_refused(run(shop, "upload", "views.b", "c.csv", "--key", "id"), 5, says)
    assert not [name for name in files_of(shop) if "views/b" in name]


@pytest.mark.usefixtures("each_operation", "engine")
def test_every_format_makes_the_same_table(shop: Lake, tmp_path: Path) -> None:
    text = "id,name,price\n1,a,1.5\n2,,0.25\n"
    write("a.csv", text)
    write("b.tsv.gz", gzip.compress(text.replace(",", "\t").encode()))
    write("c.jsonl", '{"id": 1, "name": "a", "price": 1.5}\n{"id": 2, "price": 0.25}\n')
    options = pv.ConvertOptions(strings_can_be_null=True)
    write("d.parquet", pv.read_csv("a.csv", convert_options=options))
    for name in ("a.csv", "b.tsv.gz", "c.jsonl", "d.parquet"):
        table = f"views.{name[0]}"
        lake = shop if name != "a.csv" else str(tmp_path / "new")  # which an upload makes, too
        done = run_json(lake, "upload", table, name, "--key", "id")
        assert {one["name"]: one["type"] for one in done["columns"]} == {
            "id": "int64",
            "name": "string",
            "price": "double",
        }
        assert rows_of(lake, table) == [[1, "a", 1.5], [2, None, 0.25]]


@pytest.mark.usefixtures("spark", "engine")
def test_mark_of_deletions_is_no_column_of_a_new_table(lake: Lake, tmp_path: Path) -> None:
    given = tmp_path / "given.csv"
    given.write_text("id,v,_sdc_deleted_at\n1,a,2024-01-01T00:00:00Z\n2,b,\n")
    result = run(lake, "upload", "w.new", str(given), "--key", "id")
    assert result.exit_code == 2
    assert "'_sdc_deleted_at', which marks rows that a source deleted" in result.stderr


@pytest.mark.usefixtures("spark", "engine")
def test_mark_of_deletions_is_refused_row_by_row_where_a_table_has_it(
    lake: Lake, tmp_path: Path
) -> None:
    """A source's table has the column; rows that a query has given have nothing in it."""
    mark = {"type": ["null", "string"], "format": "date-time"}
    properties = {"id": {"type": "integer"}, "_sdc_deleted_at": mark}
    commit_rows(lake, "tap.t", properties, ["id"], [{"id": 1}, {"id": 2}])
    given = tmp_path / "given.csv"
    given.write_text("id,_sdc_deleted_at\n1,2024-01-01T00:00:00Z\n3,\n")
    result = run(lake, "upload", "tap.t", str(given))
    assert result.exit_code == 5
    assert "line 2, column '_sdc_deleted_at'" in result.stderr
    given.write_text("id,_sdc_deleted_at\n1,\n3,\n")
    said = run_json(lake, "upload", "tap.t", str(given))
    assert (said["inserted"], said["deleted"], said["unchanged"]) == (1, 0, 1)
