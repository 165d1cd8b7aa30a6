"""CSV as programs write it: delimiters, encodings, decimal marks, and lines before a header."""

from __future__ import annotations

import codecs
from concurrent.futures import Future
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import RejectedRowsError, UsageError
from singerlake.format.types import DATE, INTEGER, NUMBER, STRING, Columns, Kind, Type, type_of
from singerlake.rows.input.checks import check_for_table
from singerlake.rows.input.csv.decimals import as_written, comma_advice, pointed
from singerlake.rows.input.csv.dialect import Dialect
from singerlake.rows.input.csv.file import CsvFile, open_csv
from singerlake.rows.input.csv.reader import CsvReader
from singerlake.rows.input.csv.rows import (
    CsvSummarizer,
    check_names,
    decode_summaries,
    layouts,
)
from singerlake.rows.input.files import CSV, GivenFile
from singerlake.rows.input.values.inference import cell_spec
from tests.rows.csv_cases import InMemory
from tests.rows.test_csv_rows import read

FOUND = Dialect(told=False)
DECIMAL = Type(Kind.DECIMAL, scale=2)


def opened(text: str | bytes, dialect: Dialect = FOUND) -> CsvFile:
    return open_csv(InMemory(text if isinstance(text, bytes) else text.encode()), dialect)


def cells(file: CsvFile) -> list[list[str | None]]:
    rows = [
        row for block in CsvReader(file, file.place(0)) for row in zip(*block.cells, strict=True)
    ]
    return [[cell.as_py() for cell in row] for row in rows]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("id;name;amount\n1;a;3,5\n", ";"),
        ('"id";"name"\n1;"a,b"\n', ";"),
        ("id\tname\n1\ta;b\n", "\t"),
        ("id|name\n1|a\n", "|"),
        ("id,a;b\n1,2\n", ","),  # several columns by the comma
        ("id\n1\n", ","),
        ('"a;b"\n1\n', ","),  # in quotes it separates nothing
        ("a b\n1;2\n", ","),
        ('Land;Ort\r\nChina;"35,9;104,2"\r\n', ";"),
    ],
)
def test_open_csv_finds_the_delimiter_of_a_header(text: str, delimiter: str) -> None:
    assert opened(text).dialect.delimiter == delimiter
    assert all(len(row) == len(opened(text).names) for row in cells(opened(text)))


def test_open_csv_leaves_a_delimiter_that_was_specified() -> None:
    assert opened("id;name\n1;2\n", Dialect()).names == ("id;name",)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [";", ",", "\t", "|", ":"])
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_open_csv_takes_the_delimiter_from_the_line_for_spreadsheets(
    delimiter: str, end: str, codec: str
) -> None:
    lines = [f"sep={delimiter}", f"id{delimiter}name", f"1{delimiter}a"]
    for skipped, dialect in enumerate((FOUND, Dialect(delimiter, told=True), Dialect(skip=1))):
        text = "".join(one + end for one in lines).encode(codec)
        file = opened(text, dialect)
        if skipped < 2:
            assert file.names == ("id", "name")
            assert (file.line, file.dialect.delimiter) == (3, delimiter)
            assert cells(file) == [["1", "a"]]
        else:  # the line was skipped by hand
            assert file.line == 3


def test_open_csv_takes_a_specified_delimiter_before_that_of_the_line_for_spreadsheets() -> None:
    assert opened("sep=;\nid,a;b\n1,2\n", Dialect()).names == ("id", "a;b")
    assert opened("sep=;\n1;2\n", Dialect(told=False, names=("a", "b"))).line == 2


@pytest.mark.parametrize("text", ["sep=\n1\n", "sep\n;\n", "sep=;x\n1;2\n", "a\nsep=;\n"])
def test_open_csv_takes_other_first_lines_for_a_header(text: str) -> None:
    assert opened(text, Dialect()).names == (text.partition("\n")[0],)


def test_header_of_one_column_that_looks_like_several_names_the_way_out() -> None:
    columns: Columns = (("a;b", STRING),)
    with pytest.raises(RejectedRowsError, match="'a;b' is one: specify --delimiter ,"):
        layouts([opened("a;b\n1\n")], columns)
    given = GivenFile(InMemory(b"a;b\n1;2\n"), CSV, 8, Future())
    (note,) = check_for_table([given], FOUND, (("a", STRING), ("b", STRING)), ())
    assert note.endswith("; if that is one column, specify --delimiter ,")


def test_open_csv_asks_where_several_delimiters_would_do() -> None:
    with pytest.raises(UsageError, match="several with each of ';', '|': specify --delimiter"):
        opened("a;b|c\n1;2|3\n")


@pytest.mark.parametrize(
    ("text", "delimiter"), [("1;2\n", ";"), ("1;2;3\n", ","), ("1|a;b;c\n", "|"), ("1\n", ",")]
)
def test_open_csv_finds_the_delimiter_of_rows_by_the_number_of_names(
    text: str, delimiter: str
) -> None:
    assert opened(text, Dialect(told=False, names=("a", "b"))).dialect.delimiter == delimiter


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_open_csv_knows_an_encoding_by_its_byte_order_mark(codec: str) -> None:
    mark = getattr(codecs, f"BOM_{codec.upper().replace('-', '')[:5]}_{codec[-2:].upper()}")
    text = "id;name;amount\r\n1;Zoë Łódź;3,5\r\n2;Ünal;4,25\r\n"
    file = opened(mark + text.encode(codec))
    assert file.names == ("id", "name", "amount")
    assert cells(file) == [["1", "Zoë Łódź", "3,5"], ["2", "Ünal", "4,25"]]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("compressed", [False, True])
def test_skip_passes_over_lines_before_a_header(end: str, compressed: bool) -> None:
    text = end.join(['Report of "May', "", "id,name", "1,a", "2", ""])
    data = text.encode("utf-16") if compressed else text.encode()  # either cannot be cut anywhere
    file = opened(data, Dialect(skip=2))
    assert (file.names, file.line) == (("id", "name"), 4)
    problems = read(data, Dialect(skip=2))[1]
    assert [problem.line for problem in problems.first] == [5]
    named = opened(data, Dialect(skip=3, names=("a", "b")))
    assert cells(named)[0] == ["1", "a"]
    with pytest.raises(RejectedRowsError, match="line 10: the file ends there"):
        opened(data, Dialect(skip=9))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (",a,b\n0,1,2\n", r"pandas and R write row names so.*--skip 1 --columns column_1,a,b;"),
        ('"","id"\n"1",1\n', "--skip 1 --columns column_1,id;"),
        ("a,,b,\n1,2,3,4\n", "--skip 1 --columns a,column_2,b,column_4;"),
        (",year,2020,2020\n,kind,in,out\n", "--skip 1 --columns column_1,year,2020,2020_4;.*all"),
        ("a b,\n1,2\n", "--skip 1 --columns '\"a b\",column_2';"),
        (",".join(["x"] * 40) + "\n", "--skip 1 --columns A,B,…;"),
    ],
)
def test_a_header_without_names_shows_how_to_name_the_columns(text: str, options: str) -> None:
    with pytest.raises(RejectedRowsError, match=options):
        check_names([opened(text)])


@pytest.mark.parametrize("text", [",a,b\n0,1,2\n", '"","a","b"\n"1",1,2\n'])
def test_row_names_have_no_column_in_a_table_that_is_there(text: str) -> None:
    way = "the table has no such column: write the file without it, with index=False in pandas"
    with pytest.raises(RejectedRowsError, match=way):
        layouts([opened(text)], (("a", INTEGER), ("b", INTEGER)))
    named = opened(text.partition("\n")[2], Dialect(names=("row", "a", "b")))
    layouts([named], (("row", INTEGER), ("a", INTEGER), ("b", INTEGER)))


@pytest.mark.parametrize(
    ("text", "dialect", "said"),
    [
        (
            "id,b c\n1,2,3\n2,3,4\n",
            FOUND,
            "has 3 cells, where the header has 2: if the first is a row name, as in a file of R's "
            "write.table, name all columns with --skip 1 --columns 'row,id,\"b c\"', or write the "
            "file with row.names=FALSE",
        ),
        (
            "id,b\n1,2,\n2,3,\n",
            FOUND,
            "has 3 cells, where the header has 2: the line ends in a delimiter, and then in an "
            "empty cell",
        ),
        ("id,b\n1,2,3,4\n", FOUND, "has 4 cells, where the header has 2"),
        ("1,2,3\n", Dialect(names=("a", "b")), "has 3 cells, where --columns names 2"),
    ],
)
def test_line_of_other_cells_than_names_says_what_it_may_be(
    text: str, dialect: Dialect, said: str
) -> None:
    reader = CsvReader(file := opened(text, dialect), file.place(0))
    assert list(reader) == []
    first, *others = reader.problems.first
    assert first.reason == said
    for one in others:  # once is enough
        assert one.reason == "has 3 cells, where the header has 2"


def test_row_names_of_write_table_are_read_by_the_way_that_is_shown() -> None:
    shown = Dialect(skip=1, names=("row", "id", "b c"))
    assert cells(opened("id,b c\n1,2,3\n2,3,4\n", shown)) == [["1", "2", "3"], ["2", "3", "4"]]


THOUSANDS = "thousands separators are not read: write 1234 instead of 1{}234"


@pytest.mark.parametrize(
    ("text", "decimal", "said"),
    [
        ("1,234", ".", "add --decimal , if its decimals begin with the comma; if it separates "),
        ("3,5", ".", "add --decimal , if its decimals begin with the comma"),
        ("1,234.50", ".", THOUSANDS.format(",")),
        ("-1,234,567", ".", THOUSANDS.format(",")),
        ("1.234,50", ",", THOUSANDS.format(".")),
        ("1.234", ",", THOUSANDS.format(".")),
        ("1,23,4", ".", None),
        ("1.5", ",", None),
        ("a,b", ".", None),
    ],
)
def test_comma_in_a_text_that_is_no_number_is_explained(
    text: str, decimal: str, said: str | None
) -> None:
    found = comma_advice(text, decimal)
    assert (found or "").startswith(said or "")
    assert (found is None) is (said is None)


def test_a_header_of_several_lines_is_skipped() -> None:
    text = ",year,2020,2020\n,kind,in,out\ncity,,,\nOslo,,1,2\nRome,,3,4\n"
    file = opened(text, Dialect(skip=3, names=("city", "kind", "in", "out")))
    check_names([file])
    assert cells(file) == [["Oslo", None, "1", "2"], ["Rome", None, "3", "4"]]


COMMA = Dialect(delimiter=";", decimal=",")
AMOUNTS: Columns = (("n", NUMBER), ("d", DECIMAL), ("i", INTEGER), ("t", STRING), ("day", DATE))


def test_decimal_comma_is_of_numbers_alone() -> None:
    text = "n;d;i;t;day\n1,5;2,50;3;4,5;2026-01-02\n-1e-3;7;;1.5;\n"
    rows, problems = read(text, COMMA, AMOUNTS)
    assert problems.total == 0
    assert [row["c0"] for row in rows] == [1.5, -0.001]
    assert [row["c1"] for row in rows] == [Decimal("2.50"), Decimal(7)]
    assert [row["c3"] for row in rows] == ["4,5", "1.5"]
    problems = read("n;d;i;t;day\n1.5;1.234,50;3,0;;\n", COMMA, AMOUNTS)[1]
    assert [(p.column, p.value) for p in problems.first][:2] == [("n", "1.5"), ("d", "1.234,50")]


def types(text: str, dialect: Dialect) -> list[str]:
    file = opened(text, dialect)
    (batch,) = CsvSummarizer([file], [file.place(0)])(iter([pa.record_batch({"id": [0]})]))
    found = decode_summaries(batch["summaries"][0].as_py())
    return [str(type_of(cell_spec(summary))) for summary in found]


def test_decimal_comma_decides_types() -> None:
    text = "a;b;c;d;e\n1,5;1.5;1,5;2026-01-01T10:00:00.5;12\n2;2,5;x;;7\n"
    assert types(text, COMMA) == ["double", "string", "string", "timestamp", "int64"]
    assert types(text, Dialect(delimiter=";")) == [
        "string",
        "string",
        "string",
        "timestamp",
        "int64",
    ]
    money = "a\n" + "1234567890123456,78\n" + "1,10\n"
    assert types(money, COMMA) == ["decimal(38,2)"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.none()
        | st.floats(allow_nan=False, allow_infinity=False).map(lambda n: repr(n).replace(".", ","))
        | st.integers().map(str)
        | st.text("0123456789.,-+eEx ", max_size=6),
        max_size=6,
    )
)
def test_pointed_is_undone_by_itself(texts: list[str | None]) -> None:
    array = pa.array(texts, pa.string())
    assert pointed(pointed(array, COMMA), COMMA).to_pylist() == texts
    assert pointed(array, Dialect()).to_pylist() == texts
    for text in texts:
        assert text is None or as_written(as_written(text, COMMA), COMMA) == text


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
            st.none() | st.text('a,.;1"', max_size=4),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([";", "\t", "|"]),
    st.sampled_from([".", ","]),
    st.integers(0, 2),
    st.integers(1, 9),
)
def test_a_file_of_any_dialect_says_the_same(
    rows: list[tuple[float | None, str | None]],
    delimiter: str,
    decimal: str,
    skip: int,
    step: int,
) -> None:
    def number(value: float | None) -> str:
        return "" if value is None else repr(value).replace(".", decimal)

    def text(value: str | None) -> str:
        return "" if value is None else '"' + value.replace('"', '""') + '"'

    lines = ["a title, in\n"] * skip + [f"n{delimiter}t\n"]
    lines += [f"{number(n)}{delimiter}{text(t)}\n" for n, t in rows]
    dialect = Dialect(told=False, decimal=decimal, skip=skip)
    columns: Columns = (("n", NUMBER), ("t", STRING))
    found, problems = read("".join(lines), dialect, columns, step)
    assert problems.total == 0
    assert [(row["c0"], row["c1"]) for row in found] == rows
