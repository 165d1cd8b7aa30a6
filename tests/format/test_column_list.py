"""Lists of columns: what they make, and that a wrong one is refused where it is wrong."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import UsageError
from singerlake.format.column_list import (
    RESERVED,
    SIMPLE_TYPES,
    ColumnSpec,
    parse_columns,
    schema_of_columns,
)
from singerlake.format.types import columns_of


def properties(text: str, *keys: str) -> dict[str, Any]:
    schema: dict[str, Any] = schema_of_columns(parse_columns(text), list(keys)).schema
    return schema["properties"]  # type: ignore[no-any-return]


def test_a_list_makes_a_schema() -> None:
    text = "id integer, name string not null, total decimal(12,2) default 0 comment 'it''s euros'"
    entry = schema_of_columns(parse_columns(text), ["id"])
    assert entry.key_properties == ["id"]
    assert entry.schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": "string"},
            "total": {
                "type": ["null", "number"],
                "format": "singer.decimal",
                "precision": 12,
                "scale": 2,
                "exclusiveMinimum": -(10**10),
                "exclusiveMaximum": 10**10,
                "default": 0,
                "description": "it's euros",
            },
        },
        "required": ["id", "name"],
    }
    assert [str(type_) for _, type_ in columns_of(entry)] == ["int64", "string", "decimal(38,2)"]


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        ("INT", "int64"),
        ("bigint", "int64"),
        ("double", "double"),
        ("varchar", "string"),
        ("bool", "boolean"),
        ("date", "date"),
        ("timestamp", "timestamp"),
        ("numeric(38)", "decimal(38,0)"),
        ("json", "text"),
        ("list<decimal(9,3)>", "list<decimal(38,3)>"),
        (
            'struct<a: int, "b c" json, d list<date>>',
            "struct<a: int64, b c: text, d: list<date>>",
        ),
    ],
)
@pytest.mark.parametrize("not_null", ["", " not null"])
def test_every_type_is_the_one_that_readers_make_of_it(
    written: str, type_: str, not_null: str
) -> None:
    entry = schema_of_columns(parse_columns(f'"The column" {written}{not_null}'), [])
    assert [(name, str(one)) for name, one in columns_of(entry)] == [("The column", type_)]
    valid = jsonschema_rs.validator_for(entry.schema).is_valid
    assert valid({"The column": None}) is not bool(not_null)
    assert valid({}) is not bool(not_null)


def test_a_decimal_has_no_more_digits_than_it_says() -> None:
    valid = jsonschema_rs.validator_for(properties("a decimal(4,2)")["a"]).is_valid
    assert valid(99.99)
    assert valid(-99.99)
    assert not valid(100)


@pytest.mark.parametrize(
    ("written", "default"),
    [
        ("a int default -7", -7),
        ("a number default 1.5e3", 1500.0),
        ("a decimal(6,2) default 12.50", 12.5),
        ("a string default 'it''s'", "it's"),
        ("a boolean default TRUE", True),
        ("a date default '2020-02-29'", "2020-02-29"),
        ("a json default 'x'", "x"),
        ("a int default null", None),
    ],
)
def test_defaults(written: str, default: object) -> None:
    (column,) = parse_columns(written)
    assert column.default == default
    assert properties(written)["a"].get("default") == default


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("", 1, "a column's name is missing before the end"),
        ("id integer,", 12, "a column's name is missing before the end"),
        ("id", 3, "the end is not a type"),
        ("id integr", 4, "did you mean integer or int?"),
        ("id integer name string", 12, "a comma, not null"),
        ("id integer deflt 3", 12, "did you mean default?"),
        ("id integer primary key", 12, "--key"),
        ("a text", 3, "either string, or json"),
        ("a decimal", 3, "decimal(12,2)"),
        ("a decimal(39)", 11, "1 to 38"),
        ("a decimal(4,5)", 13, "0 to 4"),
        ("a varchar(10)", 10, "a comma"),
        ("a list<json>", 8, "write json"),
        ("a list<int", 11, "'>' is missing"),
        ("a struct<b int, b int>", 17, "'b' already"),
        ("a int, a int", 8, "'a' already"),
        ("_row_id int", 1, "'_row_id'"),
        ("_sdc_deleted_at timestamp", 1, "'_sdc_deleted_at': the name has a meaning of its own"),
        ("id int, `_sdc_deleted_at` string", 9, "'_sdc_deleted_at'"),
        ("a-b int", 2, "'-'"),
        ("a 'x", 3, "unclosed"),
        ('a string default "x"', 18, "not a default"),
        ("a int default 1.5", 15, "not a"),
        ("a int default 99999999999999999999", 15, "64-bit"),
        ("a number default 1e999", 18, "too large"),
        ("a date default 'soon'", 16, "not a valid date"),
        ("a decimal(4,2) default 100", 24, "not a valid decimal(4,2)"),
        ("a decimal(4,2) default 0.001", 24, "not a valid decimal of at most 2 digits after"),
        ("a decimal(38,18) default 1.000000000000000001", 26, "too many digits"),
        ("a list<int> default '[]'", 21, "can have no default"),
        ("a int not null not null", 16, "twice"),
        ("a int default null not null", 1, "null by default"),
        ('a int comment "b"', 15, "single quotes"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, at: int, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_columns(text)
    assert str(caught.value).startswith(f"the list of columns, character {at}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "keys", "said"),
    [
        ("id int", ["ID"], "did you mean id"),
        ("id int", ["id", "id"], "named twice"),
        ("id json", ["id"], "cannot be a key: it is json"),
        ("id list<int>", ["id"], "cannot be a key: it is list<int64>"),
    ],
)
def test_a_key_is_a_column_that_can_be_one(text: str, keys: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        schema_of_columns(parse_columns(text), keys)


NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name not in RESERVED)
SCALARS = st.sampled_from(sorted(SIMPLE_TYPES)) | st.builds(
    lambda digits, behind: f"decimal({digits},{min(digits, behind)})",
    st.integers(1, 38),
    st.integers(0, 38),
)


@st.composite
def listed(draw: st.DrawFn) -> tuple[str, list[tuple[str, bool, str]]]:
    """A list of columns as somebody may write it, and what it says."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    parts, said = [], []
    for name in names:
        quote = draw(st.sampled_from('"`'))
        not_null, comment = draw(st.booleans()), draw(st.text(max_size=5))
        clauses = [" not null"] * not_null
        clauses += [" comment '" + comment.replace("'", "''") + "'"]
        space = draw(st.sampled_from([" ", "  ", "\n"]))
        quoted = quote + name.replace(quote, quote * 2) + quote
        parts.append(quoted + space + draw(SCALARS) + "".join(draw(st.permutations(clauses))))
        said.append((name, not_null, comment))
    return ",".join(parts), said


@settings(deadline=None)
@given(listed())
def test_whatever_a_column_is_called_the_list_says_it(
    case: tuple[str, list[tuple[str, bool, str]]],
) -> None:
    text, said = case
    columns = parse_columns(text)
    assert [(c.name, c.not_null, c.comment) for c in columns] == said
    entry = schema_of_columns(columns, [])
    assert [name for name, _ in columns_of(entry)] == [name for name, _, _ in said]
    assert msgspec.json.decode(msgspec.json.encode(entry.schema)) == entry.schema


PIECES = [*"(),<>:'\"`-. 7", "a", "int", "decimal", "struct", "list", "not", "null", "default"]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map(" ".join))
def test_any_other_text_is_refused_in_plain_words(text: str) -> None:
    try:
        columns = parse_columns(text)
    except UsageError as error:
        at = int(str(error).split("character ")[1].split(":")[0])
        assert 1 <= at <= len(text) + 1
    else:
        assert all(isinstance(column, ColumnSpec) for column in columns)


@pytest.mark.parametrize(
    "number", ["9" * 5000, "1e99999999999999999999", "1e-99999999999999999999", "-0", "+.5", "5."]
)
def test_no_number_is_too_odd(number: str) -> None:
    for type_ in ("int", "number", "decimal(12,2)"):
        try:
            parse_columns(f"a {type_} default {number}")
        except UsageError as error:
            assert len(str(error)) < 200  # either is right
