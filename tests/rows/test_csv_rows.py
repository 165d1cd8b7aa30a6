"""Rows of CSV files for a table: headers, what rows say of themselves, and every bad input."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from singerlake.errors import RejectedRowsError, UsageError
from singerlake.format.types import DATE, INTEGER, STRING, Columns, Kind, Type
from singerlake.rows.batches.problems import Problems, decode
from singerlake.rows.given.csv.dialect import Dialect
from singerlake.rows.given.csv.file import open_csv
from singerlake.rows.given.csv.rows import CsvRows, layouts
from tests.rows.csv_cases import InMemory, cut, opened

MONEY = Type(Kind.DECIMAL, scale=2)
ORDERS: Columns = (("id", INTEGER), ("name", STRING), ("total", MONEY), ("day", DATE))


def read(
    text: str | bytes, dialect: Dialect | None = None, columns: Columns = ORDERS, step: int = 0
) -> tuple[list[dict[str, Any]], Problems]:
    """Read a file, in ranges of some bytes."""
    file = opened(text.encode() if isinstance(text, str) else text, dialect)
    parts = cut(file, step)
    rows_of = CsvRows([file], layouts([file], columns), parts, columns)
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(parts)))})
    rows, problems = [], Problems()
    for batch in rows_of(iter([numbers])):
        for row in batch.to_pylist():
            if row["problems"] is not None:
                problems.merge(decode(row["problems"]))
            else:
                rows.append({key: value for key, value in row.items() if key != "problems"})
    return rows, problems


def said(text: str | bytes, dialect: Dialect | None = None, step: int = 0) -> list[str]:
    return [str(problem) for problem in read(text, dialect, step=step)[1].first]


def test_columns_are_found_by_name_and_the_rest_is_what_rows_say_of_themselves() -> None:
    rows, problems = read(
        "_row_id,_row_version,_transaction,total,id,_delete\n7,3,2,1.50,7,\n8,,,,8,TRUE\n"
    )
    assert problems.total == 0
    first, second = rows
    assert (first["c0"], first["c2"], str(first["c2"])) == (7, first["c2"], "1.50")
    assert "c1" not in first  # a column that the file does not name
    assert (first["row_id"], first["row_version"], first["deleted"]) == ("7", 3, None)
    assert (second["row_version"], second["deleted"], second["c2"]) == (None, True, None)
    assert [row["line"] for row in rows] == [2, 3]
    assert all(row["omitted"] is None and row["source"] == 0 for row in rows)


def test_a_table_that_has_such_columns_itself_keeps_them() -> None:
    columns = (*ORDERS, ("_row_id", STRING), ("_delete", STRING))
    rows, _ = read("id,_row_id,__row_id,_delete,__delete\n1,own,1,own,t\n", columns=columns)
    assert (rows[0]["c4"], rows[0]["c5"]) == ("own", "own")
    assert (rows[0]["row_id"], rows[0]["deleted"]) == ("1", True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "id,totl\n1,2\n",
            "a.csv, line 1, column 'totl': is not a column of the table: did you mean",
        ),
        (
            "id;total\n1;2\n",
            "column 'id;total': is not a column of the table: specify --delimiter ';'",
        ),
        ("id,id\n1,2\n", "a.csv, line 1, column 'id': is there twice"),
        ("id,\n1,2\n", "a.csv, line 1: column 2 has no name: name all columns with --skip 1"),
        ("total\n2\n", "a.csv, line 1, column 'id': is part of the table's key, and must exist"),
        ("", "a.csv, line 1: the file is empty"),
        ("\ufeff", "a.csv, line 1: the file is empty"),
        ("\nid\n", "a.csv, line 1: is blank, and should name the columns"),
        ('i"d\n', "a.csv, line 1: 'i\"d' has a quote in it"),
        ('"id\n1\n', "a.csv, line 1: '\"id' begins with an unclosed quote"),
        (b"i\xe9d\n", "a.csv, line 1: 'i\\\\xe9d' is not in utf-8: set its encoding"),
        ("id\n1\n".encode("utf-16-le"), "contains zero bytes, as UTF-16 does:"),
    ],
)
def test_a_header_that_is_no_good_is_one_plain_error(text: str | bytes, message: str) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(RejectedRowsError) as caught:
        layouts([opened(data)], ORDERS, keys=["id"])
    assert message in str(caught.value)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,name\n1,a\n2\n", "a.csv, line 3: has 1 cell, where the header has 2"),
        ("id,name\n1,a,b\n", "a.csv, line 2: has 3 cells, where the header has 2"),
        ("id,name\n\n1,a\n", "a.csv, line 2: is blank, where the header has 2"),
        ('id,name\n1,"a\nb"\n2\n', "a.csv, line 4: has 1 cell, where the header has 2"),
        ('id,name\n1,5" pipe\n', "line 2, column 'name': '5\" pipe' has a quote in it"),
        (
            'id,name\n1,"a"b\n2,c\n',
            "line 2, column 'name': '\"a\"b' continues after its closing quote",
        ),
        (
            'id,name\n1,a\n2,"b\n3,c\n',
            "line 3, column 'name': '\"b' begins with an unclosed quote",
        ),
        (b"id,name\n1,caf\xe9\n", "a.csv, line 2, column 'name': 'caf\\\\xe9' is not in utf-8"),
        ("id,name\n1,a\rb\n", "a.csv, line 2, column 'name': 'a\\rb' has a carriage return in it"),
        ("id,name\n1,a\n12.5,b\n", "a.csv, line 3, column 'id': '12.5' is not a valid integer"),
        ("id,day\n1,31.12.2020\n", "a.csv, line 2, column 'day': '31.12.2020' is not a valid date"),
        (
            "id,_row_version\n1,x\n",
            "line 2, column '_row_version': 'x' is not a valid integer",
        ),
        (
            "id,_delete\n1,maybe\n",
            "a.csv, line 2, column '_delete': 'maybe' is not a valid boolean: use",
        ),
    ],
)
def test_each_bad_row_is_named_by_file_line_column_and_value(
    text: str | bytes, message: str
) -> None:
    assert [message in one for one in said(text)] == [True]
    assert said(text, step=5)[:1] == said(text)


def test_all_bad_cells_are_named_among_many_good_ones() -> None:
    lines = ["id,name,total,day"]
    for number in range(20_000):
        total = "12,5" if number % 5_000 == 7 else f"{number}.25"
        lines.append(f'{number},"n, {number}","{total}",2020-01-01')
    rows, problems = read("\r\n".join(lines))
    assert [problem.line for problem in problems.first] == [9, 5_009, 10_009, 15_009]
    assert {problem.value for problem in problems.first} == {"12,5"}
    assert len(rows) == 20_000
    assert rows[-1]["line"] == 20_001


def test_bad_records_are_found_among_many_good_ones_whose_quotes_hold_lines() -> None:
    lines = ["id,name"]
    bad = {}
    for number in range(6_000):
        name = '"x' + "\n" * (number % 4) + f'y, {number}"'
        if number % 1_500 == 700:
            bad["\n".join(lines).count("\n") + 2] = number
            name += ",more"
        lines.append(f"{number},{name}")
    rows, problems = read("\n".join(lines))
    assert [problem.line for problem in problems.first] == list(bad)
    assert [row["c0"] for row in rows] == [n for n in range(6_000) if n not in bad.values()]
    assert rows[-1]["line"] == "\n".join(lines[:-1]).count("\n") + 2
    # And with a quote out of place in the midst of them.
    lines[2_997] = '2996,5" pipe'
    rows, problems = read("\n".join(lines))
    place = "\n".join(lines[:2_997]).count("\n") + 2
    assert [problem.line for problem in problems.first] == sorted([*bad, place])
    assert len(rows) == 6_000 - 5


def test_behind_a_quote_out_of_place_only_what_is_certain_is_said() -> None:
    text = 'id,name\n1,5" pipe\n' + "".join(f'{n},"a, {n}"\n' for n in range(2, 40)) + "x,y\n"
    assert said(text) == [
        "a.csv, line 2, column 'name': '5\" pipe' has a quote in it: put the cell in quotes, and "
        "double those within",
        "a.csv, line 41, column 'id': 'x' is not a valid integer",
    ]
    # Ranges behind it begin in or out of quotes, nobody can tell: their problems are none.
    problems = read(text, step=40)[1]
    assert [problem.line for problem in problems.first] == [2]
    assert problems.unchecked == ["a.csv"]


def test_null_text_and_columns_that_are_given() -> None:
    dialect = Dialect(delimiter="\t", null="NULL", names=("id", "name"))
    rows, problems = read('1\tNULL\n2\t"NULL"\n3\t\n', dialect)
    assert problems.total == 0
    assert [row["c1"] for row in rows] == [None, "NULL", ""]
    assert [row["line"] for row in rows] == [1, 2, 3]
    with pytest.raises(UsageError, match="'nme' is not a column of the table: did you mean name"):
        read("1\ta\n", Dialect(delimiter="\t", names=("id", "nme")))


@pytest.mark.parametrize(
    "encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "shift_jis", "utf-8-sig"]
)
def test_other_encodings(encoding: str) -> None:
    word = "表" if encoding == "shift_jis" else "é"
    text = f'id,name\r\n1,"{word}\r\n"\r\n2,{word}"'[:-1] + "\r\n"
    rows, problems = read(text.encode(encoding), Dialect(encoding=encoding))
    assert problems.total == 0
    assert [(row["line"], row["c1"]) for row in rows] == [(2, f"{word}\r\n"), (4, word)]
    if Dialect(encoding=encoding).splittable:
        for step in (1, 2, 3, 7):
            assert read(text.encode(encoding), Dialect(encoding=encoding), step=step)[0] == rows


def test_bytes_that_an_encoding_does_not_have_are_named() -> None:
    bad = "id,name\n1,a\n2,b\n".encode("utf-16-le").replace(b"b\0", b"\x00\xd8")
    assert "line 3, column 'name'" in said(bad, Dialect(encoding="utf-16-le"))[0]
    assert said(b"id,name\n1,\x81\n", Dialect(encoding="cp1252")) == [
        "a.csv, line 2, column 'name': '\\\\x81' is not in cp1252: set its encoding with --encoding"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": ";;"}, "is not one character"),
        ({"delimiter": '"'}, "is not one character"),
        ({"delimiter": "é"}, "is not one character"),
        ({"encoding": "utf-9"}, "there is no encoding 'utf-9'"),
        ({"encoding": "rot13"}, "there is no encoding 'rot13'"),
        ({"null": "a,b"}, "cannot mean null"),
        ({"null": "∅", "encoding": "latin-1"}, "cannot stand in a file in latin-1"),
        ({"names": ()}, "needs --columns"),
    ],
)
def test_a_dialect_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Dialect(**options)


def test_several_files_name_the_same_columns_in_any_order() -> None:
    files = [open_csv(InMemory(b"id,name\n1,a\n"), Dialect()), opened(b"name,id\na,1\n")]
    assert [layout.cells for layout in layouts(files, ORDERS)] == [{0: 0, 1: 1}, {0: 1, 1: 0}]
    with pytest.raises(UsageError, match="'name' is in one of them only"):
        layouts([files[0], opened(b"id\n1\n")], ORDERS)
