from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format import values
from singerlake.format.log import SchemaEntry
from singerlake.format.messages import record_of
from singerlake.format.types import Kind, Type, columns_of
from singerlake.rows.batches.problems import RowProblem
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.lines.members import patched
from singerlake.rows.lines.record_texts import RecordTexts
from singerlake.rows.validation.schema_check import SchemaCheck

TEXT = {"type": "string"}
TEXTS = ["null", "string"]
MOMENT = dt.datetime(1066, 10, 14, 9, 30, 0, 5, tzinfo=dt.timezone.utc)


def spelled(
    properties: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    *,
    required: Sequence[str] = (),
    keys: Sequence[str] = (),
    sets: Sequence[Sequence[int] | None] | None = None,
) -> tuple[RecordTexts, pa.RecordBatch, list[int], pa.Array | None]:
    """What writes rows; the cells of all columns that some row has; and what each row sets."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    entry = SchemaEntry(schema, list(keys))
    columns = columns_of(entry)
    named = [i for i, (name, _) in enumerate(columns) if any(name in row for row in rows)]
    cells = {
        alias(i): pa.array([row.get(columns[i][0]) for row in rows], arrow_type(columns[i][1]))
        for i in named
    }
    chosen = None if sets is None else pa.array(sets, pa.list_(pa.int32()))
    return RecordTexts(columns, entry), pa.RecordBatch.from_pydict(cells), named, chosen


def record(spec: Any, cell: Any, **more: Any) -> str:
    """The record of one row with one cell ``a``."""
    texts, batch, named, _ = spelled({"a": spec}, [{"a": cell}], **more)
    written = texts.records(batch, named)
    assert not written.problems, written.problems
    return written.texts[0].decode()


@pytest.mark.parametrize(
    ("spec", "cell", "expected"),
    [
        ({"type": "integer"}, 12, '{"a":12}'),
        ({"type": "integer", "maximum": 10**30}, Decimal(10**20), '{"a":100000000000000000000}'),
        ({"type": "number"}, 1e21, '{"a":1000000000000000000000}'),
        ({"type": "number", "multipleOf": 0.01}, Decimal("1.50"), '{"a":1.5}'),
        ({"type": TEXTS, "format": "singer.decimal", "scale": 2}, Decimal("1.50"), '{"a":"1.5"}'),
        ({"type": "number", "format": "singer.decimal", "scale": 2}, Decimal("1.50"), '{"a":1.5}'),
        ({"type": "string"}, 'x"\n\\', r'{"a":"x\"\n\\"}'),
        ({"type": "string"}, "", '{"a":""}'),
        ({"type": "string", "format": "date"}, dt.date(1066, 10, 14), '{"a":"1066-10-14"}'),
        ({"format": "date-time", "type": TEXTS}, MOMENT, '{"a":"1066-10-14T09:30:00.000005Z"}'),
        ({"type": "boolean"}, True, '{"a":true}'),
        ({"type": "array", "items": {"type": ["null", "string"]}}, ["x", None], '{"a":["x",null]}'),
        ({"type": "array"}, '[1.10,\n {"b": 2}]', '{"a":[1.10,  {"b": 2}]}'),
        ({"enum": [1, 2.5]}, "2.5", '{"a":2.5}'),
        ({"type": ["string", "integer"]}, "12", '{"a":"12"}'),
        ({}, '{"b": 2}', r'{"a":"{\"b\": 2}"}'),
        ({"type": ["integer", "boolean"]}, "1e400", '{"a":1e400}'),
        (
            {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"b": {"enum": [1]}}}]},
            {"b": "1"},
            '{"a":{"b":1}}',
        ),
    ],
)  # fmt: skip
def test_a_value_is_written_as_its_schema_has_it(spec: Any, cell: Any, expected: str) -> None:
    assert record(spec, cell) == expected


@pytest.mark.parametrize(
    ("spec", "required", "expected"),
    [
        ({"type": ["null", "integer"]}, False, '{"a":null}'),
        ({"type": ["null", "integer"]}, True, '{"a":null}'),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, False, '{"a":null}'),
        ({"allOf": [{"type": ["null", "string"]}, {"enum": ["x", None]}]}, False, '{"a":null}'),
        ({}, False, '{"a":null}'),
        ({"type": "integer"}, False, "{}"),
        ({"type": ["null", "string"], "enum": ["x"]}, False, "{}"),
    ],
)
def test_a_null_is_written_or_left_out(spec: Any, required: bool, expected: str) -> None:
    assert record(spec, None, required=["a"] * required) == expected


def test_a_null_that_must_be_there_is_a_problem() -> None:
    properties = {"id": {"type": "integer"}, "a": {"type": "string"}, "b": {"type": "string"}}
    rows = [{"id": 1, "a": None}, {"id": None, "a": "x"}]
    texts, batch, named, _ = spelled(properties, rows, keys=["id"], required=["a", "b"])
    missing = "is missing: a new row needs it, because it cannot be null and has no default"
    assert texts.records(batch, named).problems == [
        RowProblem(1, "id", None, "cannot be null"),
        RowProblem(0, "a", None, "cannot be null"),
        RowProblem(0, "b", None, missing),
        RowProblem(1, "b", None, missing),
    ]


def test_members_of_objects_that_must_be_there_are_null_where_they_may_be() -> None:
    inner = {"b": {"type": TEXTS}, "c": {"type": TEXTS}, "d": {"type": "string"}}
    spec = {"type": "object", "properties": inner, "required": ["b"]}
    assert record(spec, {"b": None, "c": None, "d": None}) == '{"a":{"b":null}}'


def test_what_a_row_does_not_set_has_its_default() -> None:
    properties = {
        "b": {"type": "integer", "default": 7},
        "a": {"type": ["null", "number"], "default": 0.10},
        "id": {"type": "integer"},
        "t": {"type": "string", "default": "ä"},
        "n": {"type": TEXTS},
    }
    rows = [{"id": 1, "b": 1, "a": 2.0}, {"id": 2, "b": None, "a": None}, {"id": 3}, {"id": 4}]
    sets = [[0, 1], [1], [], None]
    texts, batch, named, chosen = spelled(properties, rows, keys=["id"], sets=sets)
    written = texts.records(batch, named, chosen)
    assert written.problems == []
    assert [json.loads(text) for text in written.texts] == [
        {"b": 1, "a": 2, "id": 1, "t": "ä", "n": None},
        {"b": 7, "a": None, "id": 2, "t": "ä", "n": None},
        {"b": 7, "a": 0.1, "id": 3, "t": "ä", "n": None},
        {"a": None, "id": 4, "t": "ä", "n": None},
    ]
    assert written.texts[0].startswith(b'{"b":1,"a":2,"id":1,')


def test_changes_are_those_of_the_cells_that_a_row_sets() -> None:
    properties = {"id": {"type": "integer"}, "a": {"type": TEXTS}, "b": {"type": "string"}}
    rows = [{"id": 1, "a": "x", "b": "y"}, {"id": 2, "a": None, "b": None}]
    texts, batch, named, chosen = spelled(properties, rows, sets=[[1], [1, 2]])
    assert texts.changes(batch, named, chosen).members == [{"a": b'"x"'}, {"a": b"null", "b": None}]
    texts, batch, named, chosen = spelled(properties, rows, sets=[[1], [1, 2]], required=["b"])
    assert texts.changes(batch, named, chosen).problems == [
        RowProblem(1, "b", None, "cannot be null")
    ]


@pytest.mark.parametrize(
    ("spec", "cell", "value", "reason"),
    [
        ({"type": "number"}, float("nan"), "nan", "is not a JSON number"),
        ({"type": "number"}, float("-inf"), "-inf", "is not a JSON number"),
        ({"type": "array"}, "[1", "[1", "is not valid JSON, and the column allows no string"),
        ({"type": "array"}, "[NaN]", "[NaN]", "is not valid JSON, and the column allows no string"),
        ({"enum": [1]}, '1,"b":2', '1,"b":2', "is not valid JSON, and the column allows no string"),
        (
            {"type": "array", "items": {"type": "number"}},
            [1.0, float("inf")],
            "[1.0, inf]",
            "is not a JSON number",
        ),
        (
            {"type": "object", "properties": {"b": {"enum": [1]}}},
            {"b": '1,"c":2'},
            "{'b': '1,\"c\":2'}",
            "is not valid JSON, and the column allows no string",
        ),
    ],
)
def test_what_cannot_be_written_is_a_problem(spec: Any, cell: Any, value: str, reason: str) -> None:
    texts, batch, named, _ = spelled({"a": spec}, [{"a": None}, {"a": cell}])
    for written in (texts.records(batch, named), texts.changes(batch, named)):
        assert written.problems == [RowProblem(1, "a", value, reason)]


@pytest.mark.parametrize(
    ("type_", "spec", "number"),
    [
        (pa.date32(), {"type": "string", "format": "date"}, 2932897),
        (pa.timestamp("us", "UTC"), {"type": "string", "format": "date-time"}, -(1 << 62)),
    ],
)
def test_a_time_outside_the_calendar_is_a_problem(type_: Any, spec: Any, number: int) -> None:
    texts, *_ = spelled({"a": spec}, [{"a": None}])
    storage = pa.int32() if type_ == pa.date32() else pa.int64()
    batch = pa.RecordBatch.from_pydict({"c0": pa.array([0, number, None], storage).cast(type_)})
    (problem,) = texts.records(batch, [0]).problems
    assert problem.value
    assert (problem.row, problem.reason) == (1, "is outside the years 1 to 9999")


def test_text_that_is_not_utf8_is_a_problem() -> None:
    texts, *_ = spelled({"a": {"type": "string"}}, [{"a": None}])
    raw = pa.array([b"fine", b"\xff", None], pa.binary())
    array = pa.Array.from_buffers(pa.string(), 3, raw.buffers(), raw.null_count)
    (problem,) = texts.records(pa.RecordBatch.from_pydict({"c0": array}), [0]).problems
    assert (problem.row, problem.value, problem.reason) == (
        1,
        "\ufffd",
        "is text that is not UTF-8",
    )


SPECS: dict[str, Any] = {
    "i": {"type": "integer"},
    "n": {"type": ["null", "number"]},
    "d": {"type": "number", "multipleOf": 0.01},
    "sd": {"type": TEXTS, "format": "singer.decimal", "scale": 3},
    "s": {"type": "string"},
    "day": {"type": "string", "format": "date"},
    "t": {"type": "string", "format": "date-time"},
    "b": {"type": ["boolean", "null"]},
    "x": {"type": ["string", "integer", "null"]},
    "o": {
        "type": "object",
        "properties": {"y": {"type": TEXTS}, "x": {"type": "integer"}},
        "required": ["y"],
    },
    "l": {"type": "array", "items": {"type": ["null", "number"]}},
}


def cells(type_: Type) -> st.SearchStrategy[Any]:
    def decimals(scale: int) -> st.SearchStrategy[Decimal]:
        digits = st.integers(-(10**20), 10**20)
        return digits.map(lambda number: Decimal(number).scaleb(-scale))

    simple: dict[Kind, Any] = {
        Kind.INTEGER: st.integers(-(1 << 63), (1 << 63) - 1),
        Kind.NUMBER: st.floats(allow_nan=False, allow_infinity=False),
        Kind.STRING: st.text(max_size=5),
        Kind.TEXT: st.text(max_size=5),
        Kind.DATE: st.dates(),
        Kind.TIMESTAMP: st.datetimes(timezones=st.just(dt.timezone.utc)),
        Kind.BOOLEAN: st.booleans(),
    }
    if type_.kind is Kind.DECIMAL:
        return decimals(type_.scale)
    if type_.kind is Kind.STRUCT:
        return st.fixed_dictionaries({n: st.none() | cells(inner) for n, inner in type_.fields})
    if type_.item is not None:
        return st.lists(st.none() | cells(type_.item), max_size=3)
    return simple[type_.kind]


class Digits(str):
    """A number as it was written, which no text of a row is."""


COLUMNS = columns_of(SchemaEntry({"properties": SPECS}))
ROWS = st.fixed_dictionaries({name: st.none() | cells(type_) for name, type_ in COLUMNS})


@settings(max_examples=150, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_rows_read_back_as_what_they_were_and_are_valid(rows: list[dict[str, Any]]) -> None:
    texts, batch, named, _ = spelled(SPECS, rows)
    written = texts.records(batch, named)
    assert written.problems == []
    assert (
        SchemaCheck(SchemaEntry({"type": "object", "properties": SPECS})).problems(written.texts)
        == []
    )
    for text, row in zip(written.texts, rows, strict=True):
        members = {name: json.dumps(value) for name, value in json.loads(text).items()}
        exact = json.loads(text, parse_float=Digits)
        for name, type_ in COLUMNS:
            raw = members.get(name, "null")
            if isinstance(exact.get(name), Digits):
                raw = exact[name]
            assert values.converter(type_)(raw.encode()) == row[name], name


@settings(max_examples=60, deadline=None)
@given(ROWS, ROWS)
def test_a_patched_record_is_as_if_it_were_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    texts, batch, named, _ = spelled(SPECS, [old, new])
    before, after = texts.records(batch, named).texts
    (_, changed) = texts.changes(batch, named).members
    line = b'{"type":"RECORD","stream":"s","record":%b}' % before
    assert json.loads(record_of(patched(line, changed, "2026-01-01T00:00:00.000000Z"))) == (
        json.loads(after)
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"id": 1, "s": "a", "m": 1.15}, []),
        ({"id": 1, "s": 'x"'}, [("s", 'x"', 'is not one of "a" or null')]),
        ({"id": 0}, [("id", "0", "is less than the minimum of 1")]),
        ({"s": "a"}, [("id", None, "is missing, and it is of the key")]),
        ({"id": 1, "m": 1.151}, [("m", "1.151", "is not a multiple of 0.01")]),
        ({"id": 1, "c": 6}, [("c", "6", "does not fit the schema: 5 was expected")]),
        ({"id": 1, "o": {"z": 1}}, [("o", "1", 'is not of type "string", at o.z')]),
        (
            {"id": 1, "o": {}},
            [("o", "{}", 'does not fit the schema: "z" is a required property')],
        ),
        (
            {"id": 1, "extra": 1},
            [(None, None, "Additional properties are not allowed ('extra' was unexpected)")],
        ),
        ({"id": 0, "s": "b"}, [
            ("id", "0", "is less than the minimum of 1"), ("s", "b", 'is not one of "a" or null'),
        ]),
        ({"id": 10**400}, [("id", str(10**400)[:150], "")]),
    ],
)  # fmt: skip
def test_a_record_that_the_schema_does_not_allow_is_a_problem(
    record: Any, expected: list[tuple[str | None, str | None, str]]
) -> None:
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "id": {"type": "integer", "minimum": 1, "maximum": 10**30},
            "s": {"enum": ["a", None]},
            "m": {"type": "number", "multipleOf": 0.01},
            "c": {"const": 5},
            "o": {"type": "object", "properties": {"z": {"type": "string"}}, "required": ["z"]},
        },
    }
    check = SchemaCheck(SchemaEntry(schema, ["id"]))
    found = check.problems([b'{"id":1}', json.dumps(record).encode()])
    assert [problem.row for problem in found] == [1] * len(expected)
    for problem, (column, value, reason) in zip(found, expected, strict=True):
        assert (problem.column, reason in problem.reason) == (column, True)
        assert problem.value == value or str(problem.value).startswith(str(value))


def test_a_schema_that_is_none_refuses_no_record() -> None:
    check = SchemaCheck(SchemaEntry({"properties": {"a": {"type": "strnig"}}}))
    assert check.problems([b'{"a":1}']) == []
