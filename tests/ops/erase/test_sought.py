"""Which lines and rows are those of a key: by its values, whatever their spelling."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import UsageError
from singerlake.format.names import TableName
from singerlake.format.types import Kind
from singerlake.lake import Lake
from singerlake.ops.erase.scan import matches
from singerlake.ops.erase.sought import Key, KeyNames, Text
from tests.build import commit_rows

NAME = TableName("tap", "t")


def key(text: str, *names: str, kind: Kind = Kind.INTEGER) -> Key:
    columns = names or ("id",)
    kinds = {name: frozenset({kind}) for name in columns}
    return Key("key 1", text, KeyNames(NAME, [columns], kinds))


def found(sought: Key, line: str | bytes, *, only_own: bool = True) -> bool:
    data = line.encode() if isinstance(line, str) else line
    return matches(data, sought.pattern) and sought.in_line(data, only_own=only_own)


def message(record: str, stream: str = "t") -> str:
    return f'{{"type": "RECORD", "stream": "{stream}", "record": {record}}}'


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("17", Kind.INTEGER, "17"),
        ("17", Kind.INTEGER, "17.0"),
        ("17", Kind.INTEGER, "1.7e1"),
        ("170", Kind.INTEGER, "17E1"),
        ("-3", Kind.INTEGER, "-3"),
        ("1.50", Kind.DECIMAL, '"1.5"'),
        ("1.5", Kind.DECIMAL, "1.50"),
        ("17", Kind.STRING, '"17"'),
        ("Zoë", Kind.STRING, r'"Zo\u00eb"'),
        ("17", Kind.TEXT, "17"),
        ("true", Kind.BOOLEAN, "true"),
        ('{"a": 1}', Kind.STRUCT, '{ "a":1.0}'),
        ("2020-01-02T03:04:05Z", Kind.TIMESTAMP, '"2020-01-02T04:04:05+01:00"'),
        ("2020-01-02", Kind.DATE, '"2020-01-02"'),
    ],
)
def test_a_value_in_any_spelling(text: str, kind: Kind, value: str) -> None:
    assert found(key(text, kind=kind), message(f'{{"name": "x", "id": {value}}}'))


@pytest.mark.parametrize(
    ("text", "kind", "record"),
    [
        ("17", Kind.INTEGER, '{"id": 170}'),
        ("17", Kind.INTEGER, '{"id": 1, "other": 17}'),
        ("17", Kind.INTEGER, '{"id": 1, "customer": {"id": 17}}'),
        ("17", Kind.INTEGER, '{"other": 17}'),
        ("7", Kind.STRING, '{"id": "007"}'),
        ("Ada", Kind.STRING, '{"id": "Ada L"}'),
    ],
)
def test_rows_of_other_keys(text: str, kind: Kind, record: str) -> None:
    assert not found(key(text, kind=kind), message(record))


def test_a_key_of_several_columns() -> None:
    both = key('["17", "2"]', "order", "line")
    assert found(both, message('{"line": 2, "order": 17}'))
    assert not found(both, message('{"line": 17, "order": 2}'))
    with pytest.raises(UsageError, match="a JSON array of that many texts"):
        key("17", "order", "line")


@pytest.mark.parametrize(
    ("text", "kind", "form"),
    [
        ('["1"]', Kind.INTEGER, r"id \(a whole number\): give its value alone"),
        ("abc", Kind.INTEGER, "a whole number"),
        ("", Kind.INTEGER, "a whole number"),
        ("1.5", Kind.INTEGER, "a whole number"),
        ("abc", Kind.NUMBER, "a number"),
        ("yes", Kind.BOOLEAN, "true or false"),
        ("yesterday", Kind.TIMESTAMP, "an instant"),
        ("17", Kind.STRUCT, "a JSON object"),
    ],
)
def test_a_key_that_no_row_can_have_is_refused(text: str, kind: Kind, form: str) -> None:
    with pytest.raises(UsageError, match=form) as raised:
        key(text, kind=kind)
    assert not text or f"'{text}'" not in str(raised.value)
    with pytest.raises(UsageError, match="JSON array of that many texts"):
        key(json.dumps([text, text]), "a", "b", kind=kind)


def test_a_key_fits_if_its_column_ever_had_such_values() -> None:
    kinds = {"id": frozenset({Kind.INTEGER, Kind.STRING})}
    assert Key("key 1", "abc", KeyNames(NAME, [("id",)], kinds)).is_row({"id": "abc"})
    assert Key("key 1", "abc", KeyNames(NAME, [("id",)], {})).is_row({"id": "abc"})


def test_a_refused_line_is_a_row_within_a_row() -> None:
    for line in (message('{"id": 17}'), '{"type": "RECORD", "record": {"id": 17, "x": 01}}'):
        refused = message(json.dumps({"digest": "…", "message": line}), "t__rejected")
        assert found(key("17"), refused)
        assert not found(key("18"), refused)


def test_a_line_that_was_cut_off_counts() -> None:
    assert found(key("17"), message('{"id": 17, "name": "Ada"}')[:-10])
    assert not found(key("17"), message('{"id": 16, "name": "Ada"}')[:-10])


@pytest.mark.parametrize("number", ["170", "1700", "1.17", "17.5", "117", "0.17"])
def test_a_number_that_begins_or_ends_as_the_key_is_another(number: str) -> None:
    assert not found(key("17"), f'{{"id": {number}, "name": "A')


@given(st.sampled_from(["17", "170", "1.5", "0.25", "0"]), st.integers(0, 3), st.integers(0, 3))
def test_zeros_around_a_number_that_was_cut_off(text: str, before: int, after: int) -> None:
    point = "" if "." in text or not after else "."
    number = f"{'0' * before}{text}{point}{'0' * after}"
    assert found(key(text, kind=Kind.DECIMAL), f'{{"id": "{number}", "name": "A')


def test_a_brace_in_packed_bytes_begins_no_object() -> None:
    packed = b'\xf0{\x01\x02{"id":[1,170]} 17'
    assert not key("17").in_line(packed, only_own=True)


def test_rows_of_other_streams_count_only_where_asked() -> None:
    assert not found(key("17"), message('{"id": 17}', "u"))
    assert found(key("17"), message('{"id": 17}', "u"), only_own=False)
    assert found(key("17"), '{"id": 17, "name": "of a batch"}')


def test_all_names_that_the_key_ever_had(lake: Lake) -> None:
    columns: dict[str, Any] = {"id": {"type": "integer"}, "no": {"type": "integer"}}
    commit_rows(lake, str(NAME), columns, ["id"], [{"id": 17, "no": 1}])
    commit_rows(lake, str(NAME), columns, ["no"], [{"id": 1, "no": 18}])
    names = KeyNames.of(lake.table(NAME).snapshot())
    assert {*names.names} == {("id",), ("no",)}
    assert Key("key 1", "17", names).is_row({"id": 17, "no": 1})
    assert Key("key 1", "18", names).is_row({"id": 1, "no": 18})


def test_a_table_without_a_key(lake: Lake) -> None:
    commit_rows(lake, str(NAME), {"id": {"type": "integer"}}, [], [{"id": 17}])
    with pytest.raises(UsageError, match="has no key: use --text"):
        KeyNames.of(lake.table(NAME).snapshot())


@pytest.mark.parametrize("text", ["", "  ", "two\nlines"])
def test_texts_that_cannot_be_looked_for(text: str) -> None:
    with pytest.raises(UsageError):
        Text("text 1", text)
