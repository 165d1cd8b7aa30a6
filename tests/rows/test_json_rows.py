"""Lines of JSON as rows: exact, told apart from nothing, and never guessed at."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from singerlake.format.types import Columns, type_of
from singerlake.rows.batches.problems import Problem, decode
from singerlake.rows.input.json.line_ranges import first_lines, ranges_of
from singerlake.rows.input.json.lines import EndCounter, JsonLines
from singerlake.rows.input.rows import PROBLEMS
from tests.rows.test_line_ranges import Bytes

COLUMNS: Columns = (
    ("id", type_of({"type": "integer"})),
    ("name", type_of({"type": "string"})),
    ("total", type_of({"type": "number", "format": "singer.decimal", "scale": 2})),
    ("more", type_of({})),
)


def task(number: int) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"id": [number]})])


def read(
    text: str, columns: Columns = COLUMNS, length: int = 1 << 20
) -> tuple[list[dict[str, Any]], list[Problem]]:
    source = Bytes("rows.jsonl", text.encode())
    parts = ranges_of([source], length)
    counter = EndCounter([source], parts)
    ends = [next(counter(task(n))).column("ends")[0].as_py() for n in range(len(parts))]
    step = JsonLines([source], parts, first_lines(parts, ends), columns)
    rows: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for number in range(len(parts)):
        for batch in step(task(number)):
            for row in batch.to_pylist():
                told = row.pop(PROBLEMS)
                if told is None:
                    rows.append(row)
                else:
                    problems += decode(told).first
    return rows, problems


def test_values_are_read_as_those_of_a_record() -> None:
    rows, problems = read(
        '{"id": 1, "name": "a\\n\\u00e4", "total": 1.10, "more": {"x":  1.10}}\n'
        "\n"
        '{"id": 1.0, "name": null, "total": "12345678901234567890.12", "more": "text"}\r\n'
        '{"more": 12345678901234567890, "id": -9223372036854775808}'
    )
    assert problems == []
    assert [row["line"] for row in rows] == [1, 3, 4]
    assert [row["c0"] for row in rows] == [1, 1, -(2**63)]
    assert [row["c1"] for row in rows] == ["a\nä", None, None]
    assert [row["c2"] for row in rows] == [
        Decimal("1.10"),
        Decimal("12345678901234567890.12"),
        None,
    ]
    assert [row["c3"] for row in rows] == ['{"x":  1.10}', "text", "12345678901234567890"]
    assert [row["omitted"] for row in rows] == [None, None, [1, 2]]
    assert {row["source"] for row in rows} == {0}


@pytest.mark.parametrize("length", [1, 7, 20, 1000])
def test_any_split_gives_the_same_rows(length: int) -> None:
    text = "".join(f'{{"id": {n}, "name": "n{n}"}}\n\n' for n in range(9)) + "{]\n"
    assert read(text, length=length) == read(text)


def test_rows_say_which_row_they_are_and_whether_it_goes() -> None:
    rows, problems = read(
        '{"_row_id": "1", "_row_version": 17, "_transaction": 3, "id": 1}\n'
        '{"_delete": true, "id": 1}\n{"_delete": "t", "id": 1}\n{"_delete": 1, "id": 1}\n'
        '{"_delete": false, "id": 1}\n{"_delete": null, "id": 1}\n{"_delete": "", "id": 1}\n'
    )
    assert problems == []
    assert (rows[0]["row_id"], rows[0]["row_version"], rows[0]["deleted"]) == ("1", 17, None)
    assert [row["deleted"] for row in rows[1:]] == [True, True, True, False, False, False]
    own = (("_row_id", COLUMNS[0][1]), ("_delete", COLUMNS[1][1]))
    rows, problems = read('{"_row_id": 5, "__row_id": "x", "_delete": "y", "__delete": "y"}', own)
    assert problems == []
    assert (rows[0]["c0"], rows[0]["row_id"]) == (5, "x")
    assert (rows[0]["c1"], rows[0]["deleted"]) == ("y", True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "line 2: '[1]' is not a JSON object: write one object per line"),
        ('{"id": 1', "line 2: '{\"id\": 1' is not valid JSON: Input data was truncated"),
        ('{"id": NaN}', "is not valid JSON"),
        ('{"name": "\\ud800"}', "is not a valid Unicode text: it holds half of"),
        (
            '{"more": [{"\\udc00x": 1}]}',
            "is not a valid Unicode text: it holds half of",
        ),
        ('{"id": 1} {"id": 2}', "is not valid JSON: JSON is malformed: trailing characters"),
        ('{"id": 1, "i\\u0064": 1}', "contains 'id' twice"),
        ('{"id" : 1, "id" : 1}', "contains 'id' twice"),
        ('{"nmae": 1}', "line 2, column 'nmae': the table has no such column: did you mean name?"),
        ('{"id": "1"}', "line 2, column 'id': '\"1\"' is not a valid integer"),
        ('{"id": 1.5}', "line 2, column 'id': '1.5' is not a valid integer"),
        ('{"id": 9223372036854775808}', "is not a valid 64-bit integer"),
        ('{"name": 1}', "line 2, column 'name': '1' is not a valid string"),
        (
            '{"total": 1.005}',
            "line 2, column 'total': '1.005' is not a valid decimal of at most 2 digits",
        ),
        ('{"_delete": "maybe"}', "'\"maybe\"' is not a valid boolean: use true, t, yes, y or 1"),
        ('{"_row_version": "x"}', "line 2, column '_row_version': '\"x\"' is not a valid integer"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(line: str, said: str) -> None:
    _, problems = read(f'{{"id": 1}}\n{line}\n{{"id": 2}}\n')
    assert len(problems) == 1
    assert str(problems[0]).startswith("rows.jsonl, line 2")
    assert said in str(problems[0])


def test_names_in_nested_objects_and_texts_are_no_names_of_the_row() -> None:
    rows, problems = read('{"id": 1, "name": "\\"id\\": 2", "more": {"id": 1, "more": {"id": 2}}}')
    assert problems == []
    assert rows[0]["c0"] == 1


def test_an_object_with_a_member_that_its_column_lacks_is_a_problem() -> None:
    """What a column of objects lacks would be lost without a word."""
    inner = {"type": "object", "properties": {"n": {"type": ["null", "number"]}}}
    of_one, of_many = type_of(inner), type_of({"type": "array", "items": inner})
    columns: Columns = (("one", of_one), ("many", of_many))
    lines = (
        '{"one": {"n": 1.0}, "many": [{"n": -0}, null]}',
        '{"one": {"n": 1, "m": 2}, "many": null}',
        '{"many": [{}, {"m": null}]}',
    )
    rows, problems = read("\n".join(lines), columns)
    assert [(one.line, one.column) for one in problems] == [(2, "one"), (3, "many")]
    assert all(one.reason.endswith("it has no member 'm'") for one in problems)
    rows, problems = read(lines[0], columns)
    assert problems == []
    assert (rows[0]["c0"], str(rows[0]["c1"])) == ({"n": 1.0}, "[{'n': -0.0}, None]")


def test_bytes_that_are_no_utf_8_are_a_problem_of_their_line() -> None:
    source = Bytes("rows.jsonl", b'{"id": 1}\n{"name": "\xff"}\n')
    parts = ranges_of([source])
    told = list(JsonLines([source], parts, [1], COLUMNS)(task(0)))[-1].column(PROBLEMS)[-1].as_py()
    assert [problem.line for problem in decode(told).first] == [2]


def test_row_of_too_many_levels_is_a_problem() -> None:
    rows, problems = read(
        "\n".join(f'{{"id": 1, "more": {"[" * n}{"]" * n}}}' for n in (798, 799, 200_000))
    )
    assert len(rows) == 1
    assert [(one.line, one.reason) for one in problems] == [
        (2, "is nested more than 799 levels deep"),
        (3, "is nested more than 799 levels deep"),
    ]
