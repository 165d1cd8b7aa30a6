"""Types and names of columns, as options of the command line say them."""

from __future__ import annotations

import pytest

from singerlake.errors import UsageError
from singerlake.format.column_list import parse_columns
from singerlake.format.type_list import declared_type, parse_names, parse_types
from singerlake.format.types import type_of


def test_types_of_columns() -> None:
    types = parse_types('a:integer, "b c" : decimal(12,2),d:json,`e`:struct<x: int, y: list<date>>')
    assert {name: str(type_of(spec)) for name, spec in types.items()} == {
        "a": "int64",
        "b c": "decimal(38,2)",
        "d": "text",
        "e": "struct<x: int64, y: list<date>>",
    }
    assert "string" not in types["d"]["type"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:intger", "character 3: 'intger' is not a type: did you mean integer"),
        ("a:integer, b", "character 13"),
        ("a:integer,a:string", "character 11: there is a column 'a' already"),
        ("a:integer not null", "only a type is allowed here for column 'a'"),
        ("", "character 1"),
        ("a:decimal", "decimal"),
    ],
)
def test_what_is_no_list_of_types(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_types(text)
    assert words in str(caught.value)


def test_names_of_columns() -> None:
    assert parse_names('a, b c,"d,e","f""g"') == ["a", "b c", "d,e", 'f"g']
    for text, words in (("a,,b", "empty"), ("a,b,a", "'a' is named twice"), ("", "empty")):
        with pytest.raises(UsageError, match=words):
            parse_names(text)


@pytest.mark.parametrize(
    ("written", "declared"),
    [
        ("decimal(4,2)", "decimal(4,2)"),
        ("numeric(9)", "decimal(9,0)"),
        ("decimal(30,2)", "decimal(38,2)"),  # too large for a bound that everybody reads alike
        ("list<decimal(4,2)>", "list<decimal(4,2)>"),
        ("struct<a int, b decimal(4,2)>", "struct<a: int64, b: decimal(4,2)>"),
        ("list<int>", "list<int64>"),
        ("json", "text"),
    ],
)
def test_a_decimal_is_shown_as_it_was_declared(written: str, declared: str) -> None:
    (column,) = parse_columns(f"a {written}")
    assert declared_type(column.property(), column.type) == declared
    assert declared_type(None, column.type) == str(column.type)
