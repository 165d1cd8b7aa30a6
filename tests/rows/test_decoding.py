from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.errors import DamagedError
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.types import Columns, columns_of
from singerlake.rows.batches.row_columns import BLOCK, DELETED, DIGEST, MISFITS, ORDINAL, VERSION
from singerlake.rows.blocks import decoding, exact_decoding, fast_decoding
from tests.build import activate_line, record_line, schema_line
from tests.faults import plain

PROPERTIES: dict[str, Any] = {
    "i": {"type": "integer"},
    "n": {"type": ["null", "number"]},
    "d": {"type": "number", "multipleOf": 0.01},
    "big": {"type": "integer", "maximum": 10**30},
    "s": {"type": "string"},
    "day": {"type": "string", "format": "date"},
    "t": {"type": "string", "format": "date-time"},
    "b": {"type": "boolean"},
    "o": {
        "type": "object",
        "properties": {"t": {"type": "string", "format": "date-time"}, "x": {"type": "integer"}},
    },
    "l": {"type": "array", "items": {"type": "string", "format": "date"}},
    "ll": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"q": {"type": "array", "items": {"type": "number"}}},
        },
    },
}


def columns(properties: dict[str, Any], keys: frozenset[str] = frozenset()) -> Columns:
    return columns_of(SchemaEntry({"properties": properties}, sorted(keys)))


def read(
    lines: list[bytes],
    properties: dict[str, Any],
    count: int,
    target: dict[str, Any] | None = None,
    keys: frozenset[str] = frozenset(),
) -> pa.RecordBatch:
    text = schema_line("s", properties, []) + b"".join(lines)
    block = Block(number=7, file="", offset=0, length=0, rows=count, bytes=0)
    spec = decoding.BlockSpec(
        "block 7 of tap.s", block, columns(properties), columns(target or properties, keys), keys
    )
    return decoding.read(text, spec)


def misfit(spec: dict[str, Any], text: str, target: dict[str, Any] | None = None) -> str:
    """What is said of a property's JSON text, which does not fit; as a key it is an error."""
    after = None if target is None else {"v": target}
    lines = [record_line("s", f'{{"v": {text}}}')]
    batch = read(lines, {"v": spec}, 1, after)
    [[(index, said)]] = batch[MISFITS].to_pylist()
    assert index == 0
    assert batch["c0"].to_pylist() == [None]
    with pytest.raises(DamagedError) as caught:
        read(lines, {"v": spec}, 1, after, frozenset({"v"}))
    assert str(caught.value).startswith(f"{said}, and the column is part of the key")
    return str(said)


def one(spec: dict[str, Any], text: str, target: dict[str, Any] | None = None) -> Any:
    """The value that a property's JSON text becomes."""
    after = None if target is None else {"v": target}
    return read([record_line("s", f'{{"v": {text}}}')], {"v": spec}, 1, after)["c0"][0].as_py()


NUMBERS = st.one_of(
    st.integers().map(str),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-1000, 1000, places=2).map(str),
    st.sampled_from(
        [
            "1.0",
            "1e5",
            "1.10",
            "-0",
            "-0.0",
            "1E2",
            "0.1e1",
            "9223372036854775807",
            "1e400",
            "9223372036854775808",
            "1e-400",
            "123456789012345678901234567890",
            "1.5e3",
            "NaN",
            "1" * 40,
            "0." + "0" * 40 + "1",
            "1.500",
            "99999999999999999999999999999999999.99",
        ]
    ),
)
DAYS = st.one_of(
    st.dates().map(str),
    st.sampled_from(
        [
            "2020-1-1",
            "0000-01-01",
            "2020-02-30",
            "2020-01-01T00:00:00Z",
            "x",
            "",
            " 2020-01-01",
            "10000-01-01",
            "2020-01-01T00:00:01",
        ]
    ),
)
STAMPS = st.one_of(
    st.builds(
        lambda moment, between, cut, offset: (
            moment.isoformat(between, "microseconds")[:cut] + offset
        ),
        st.datetimes(),
        st.sampled_from("T "),
        st.sampled_from([10, 13, 16, 19, 21, 23, 26]),
        st.sampled_from(
            ["", "", "Z", "+02:00", "-0330", "+01", "z", " Z", "+99:00", "123", "123Z"]
        ),
    ),
    st.sampled_from(
        [
            "2020-01-01T24:00:00",
            "2020-01-01T10:11:60Z",
            "0001-01-01T00:00:00+05:00",
            "9999-12-31T23:59:59-05:00",
            "2020-01-01T10:11:12.123456789012Z",
            "now",
            "",
            "2020-01-01t10:11:12",
            "2020-01-01T10:11:12,5",
        ]
    ),
)
TEXT = st.one_of(
    st.text(max_size=12).map(json.dumps),
    st.text(max_size=12).map(lambda text: json.dumps(text, ensure_ascii=False)),
    DAYS.map(json.dumps),
)
QUOTED_NUMBERS = NUMBERS.map(lambda number: f'"{number}"')
BY_KIND = {
    "i": NUMBERS,
    "n": NUMBERS,
    "d": st.one_of(NUMBERS, QUOTED_NUMBERS),
    "big": st.one_of(NUMBERS, QUOTED_NUMBERS),
    "s": TEXT,
    "day": DAYS.map(json.dumps),
    "t": STAMPS.map(json.dumps),
    "b": st.sampled_from(["true", "false"]),
    "o": st.builds(
        lambda stamp, number: f'{{"t": {json.dumps(stamp)}, "x": {number}, "more": [1]}}',
        STAMPS,
        st.integers(-5, 5),
    ),
    "l": st.lists(st.one_of(st.just("null"), st.dates().map(lambda d: f'"{d}"')), max_size=3).map(
        lambda items: f"[{', '.join(items)}]"
    ),
    "ll": st.lists(
        st.lists(NUMBERS, max_size=3).map(lambda items: f'{{"q": [{", ".join(items)}]}}'),
        max_size=3,
    ).map(lambda items: f"[{', '.join(items)}]"),
}
ANY = st.sampled_from(["null", "null", "1", '"x"', "{}", "[]", "true", "[null]", '{"t": null}'])


@st.composite
def one_column(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """Lines about one column, so that one odd value does not hide how others are read."""
    name = draw(st.sampled_from(sorted(PROPERTIES)))
    usual = BY_KIND[name]
    odd = draw(st.sampled_from([usual, st.one_of(usual, ANY), st.one_of(usual, st.just("null"))]))
    lines = []
    for text in draw(st.lists(odd, max_size=5)):
        extra = draw(
            st.sampled_from(
                [
                    "",
                    "",
                    "",
                    ', "_sdc_deleted_at": "2026-01-01"',
                    ', "_sdc_deleted_at": null',
                    ', "_sdc_deleted_at": 5',
                    ', "_sdc_deleted_at": ""',
                    ', "_sdc_deleted_at": " 2026-01-01 01:02 "',
                    f', "{name}": null',
                    ', "other": {"a": 1}',
                ]
            )
        )
        version = draw(st.sampled_from([None, None, 3]))
        lines.append(record_line("s", f'{{"{name}": {text}{extra}}}', version))
        if draw(st.booleans()):
            lines.append(activate_line("s", 3))
    return name, lines


@pytest.mark.usefixtures("many_cases")
@settings(max_examples=600, deadline=None)
@given(one_column())
@example(("t", [record_line("s", '{"t": "2020-01-01T10"}')]))
@example(("n", [record_line("s", '{"n": NaN}')]))
@example(("s", [b'{"type": "RECORD", "record": {"s": "\xff"}}\n']))
@example(("s", [b'{"type": "RECORD", "record": {"s": "a"}}{"type": "RECORD", "record": {}}\n']))
@example(("s", [b'{"type": "RECORD", "record": null}\n']))
@example(("s", [b'{"type": "STATE", "record": {"s": "a"}}\n']))
@example(("s", [b'{"type": "RECORD", "record": {"s": "a"}, "version": 1.0}\n']))
@example(("s", [b'\n{"type": "RECORD", "record": {"s": "a"}}\n']))
def test_the_fast_way_agrees_with_the_exact_way_or_steps_aside(
    case: tuple[str, list[bytes]],
) -> None:
    name, lines = case
    wanted = columns({name: PROPERTIES[name]})
    fast = fast_decoding.read(b"".join(lines), wanted, b"".join(lines).count(b"\n"))
    if fast is None:
        return
    slow = exact_decoding.read(b"".join(lines), wanted, "block 1")
    for one_way, other in zip(fast.columns, slow.columns, strict=True):
        assert one_way.type == other.type
        assert repr(one_way.to_pylist()) == repr(other.to_pylist())
        assert one_way.equals(other)
    assert fast.versions.equals(slow.versions)
    assert fast.deleted.equals(slow.deleted)


@pytest.mark.parametrize("rules", [2, 3])
@pytest.mark.parametrize("type_", ["string", "boolean", "integer", "number", "object", None])
@pytest.mark.parametrize(
    ("value", "is_time"),
    [("null", None), ('"2026-01-01T00:00:00Z"', True), ('"2024-01-01 00:00:00"', True)]
    + [(value, False) for value in ('""', '"no"', "false", "true", "0", "1700000000", "{}", "[]")],
)
def test_only_a_time_deletes_and_by_earlier_rules_any_value(
    value: str, is_time: bool | None, type_: str | None, rules: int
) -> None:
    mark = {} if type_ is None else {"_sdc_deleted_at": {"type": ["null", type_]}}
    wanted = columns({"id": {"type": "integer"}, **mark})
    line = record_line("s", f'{{"id": 1, "_sdc_deleted_at": {value}}}')
    deletes = is_time is not None and (is_time or rules < 3)
    slow = exact_decoding.read(line, wanted, "block 1", rules=rules)
    assert slow.deleted.to_pylist() == [deletes]
    fast = fast_decoding.read(line, wanted, 1, rules=rules)
    assert fast is None or fast.deleted.to_pylist() == [deletes]
    assert plain.is_time(json.loads(value)) is bool(is_time)


def test_a_decimal_too_small_for_its_column_is_never_zero() -> None:
    assert misfit({"type": "number", "multipleOf": 0.01}, "2.225073858507e-311")
    nested = {"type": "object", "properties": {"d": {"type": "number", "multipleOf": 0.01}}}
    assert misfit(nested, '{"d": 1E-400}')


@pytest.mark.parametrize("scale", [2, 18, 30])
def test_a_decimal_too_large_for_its_column_is_never_another(scale: int) -> None:
    """pyarrow.json shifts a number's digits past 128 bits, and takes what is left of them."""
    spec = {"type": "string", "format": "singer.decimal", "scale": scale}
    for whole in range(38 - scale + 1, 39):
        for digit in "123456789":
            for text in (digit * whole, f'"{digit * whole}"', f"-{digit * whole}.5"):
                assert misfit(spec, text), text
        for text in (f"1e{whole}", f'"9E+{whole}"', f"12.5e{whole}"):
            assert misfit(spec, text), text
    assert misfit(spec, '"' + r"\u0039" * 37 + '"')


def test_the_fast_way_is_taken_for_ordinary_rows() -> None:
    record = {
        "i": 1, "n": 1.5, "d": 1.25, "big": 10**20, "s": "é\n", "day": "2020-01-02",
        "t": "2020-01-01T10:11:12.123456789+02:00", "b": True,
        "o": {"t": "2020-01-01T10:11:12"}, "l": ["2020-01-02", None], "ll": [{"q": [1, 2.5]}],
    }  # fmt: skip
    lines = record_line("s", record) + record_line("s", {}) + activate_line("s", 1)
    assert fast_decoding.read(lines, columns(PROPERTIES), 3) is not None


def test_where_a_row_comes_from() -> None:
    lines = [
        record_line("s", {"i": 1}, 5),
        activate_line("s", 5),
        record_line("s", {"i": 2, "_sdc_deleted_at": "2020-01-01"}),
        record_line("s", {"i": 3, "_sdc_deleted_at": None}),
    ]
    batch = read(lines, {"i": {"type": "integer"}}, 3)
    names = ["c0", BLOCK, ORDINAL, VERSION, DIGEST, MISFITS, DELETED]
    assert batch.schema.names == names
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        (1, 7, 0, 5, None, None, False),
        (2, 7, 1, None, None, None, True),
        (3, 7, 2, None, None, None, False),
    ]
    assert read([activate_line("s", 5)], {"i": {"type": "integer"}}, 0).num_rows == 0
    assert read([], {"i": {"type": "integer"}}, 0).num_rows == 0


@pytest.mark.parametrize(
    ("spec", "text", "value"),
    [
        ({"type": "integer"}, "1.0", 1),
        ({"type": "integer"}, "1e3", 1000),
        ({"type": "integer", "maximum": 2**64}, "18446744073709551615", Decimal(2**64 - 1)),
        ({"type": "number"}, "1.10", 1.1),
        ({"type": "number"}, "1e5", 100000.0),
        ({"type": "number"}, "123456789012345678901", 123456789012345678901.0),
        ({"type": "number", "multipleOf": 0.01}, "1.500", Decimal("1.5")),
        ({"type": "string", "format": "singer.decimal"}, '"1.000000000000000001"',
         Decimal("1.000000000000000001")),
        ({"type": "string"}, r'"\u00e9\ud83d\ude42\n\u0000"', "é🙂\n\0"),
        ({"type": "string"}, json.dumps("x" * (3 << 20)), "x" * (3 << 20)),
        ({"type": "string", "format": "date"}, '"2020-01-02T00:00:00Z"', dt.date(2020, 1, 2)),
        ({"type": "string", "format": "date-time"}, '"2018-05-15T11:30Z"',
         dt.datetime(2018, 5, 15, 11, 30, tzinfo=dt.timezone.utc)),
        ({"type": "string", "format": "date-time"}, '"2018-05-15T11:30:00.123456789+01:00"',
         dt.datetime(2018, 5, 15, 10, 30, 0, 123456, tzinfo=dt.timezone.utc)),
        ({"type": "string", "format": "date-time"}, '"2018-05-15"',
         dt.datetime(2018, 5, 15, tzinfo=dt.timezone.utc)),
        ({}, '{"a":  1.10, "b": [1e5]}', '{"a":  1.10, "b": [1e5]}'),
        ({}, '"bare \\n text"', "bare \n text"),
        ({}, "1.10", "1.10"),
        ({"type": "object"}, '{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ({"type": "object", "properties": {"a": {}, "b": {"type": "integer"}}},
         '{"a": {"x": 1e5}, "b": 1, "b": 2, "c": 3}', {"a": '{"x": 1e5}', "b": 2}),
        ({"type": "array", "items": {"type": ["string", "number"]}}, '[1.0, "a", null]',
         ["1.0", "a", None]),
        ({"type": "array", "items": {"type": "integer"}}, "[1.0, null]", [1, None]),
    ],
)  # fmt: skip
def test_values(spec: dict[str, Any], text: str, value: Any) -> None:
    assert one(spec, text) == value


@pytest.mark.parametrize(
    ("spec", "zero"),
    [
        ({"type": "number"}, 0.0),
        ({"type": "integer"}, 0),
        ({"type": "number", "multipleOf": 0.01}, Decimal("0.00")),
    ],
)
@pytest.mark.parametrize("text", ["0e9999999999", "-0.00E+99999999999999999999", "0e-9999999999"])
def test_zero_is_zero_whatever_its_exponent(spec: dict[str, Any], zero: Any, text: str) -> None:
    assert one(spec, text) == zero


def test_the_last_of_two_equal_names_wins() -> None:
    batch = read([record_line("s", '{"v": 1, "v": 2}')], {"v": {"type": "integer"}}, 1)
    assert batch["c0"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, '"1"'),
        ({"type": "integer"}, "9223372036854775808"),
        ({"type": "integer"}, "1e999999"),
        ({"type": "number"}, "1e400"),
        ({"type": "number"}, "true"),
        ({"type": "number", "multipleOf": 0.01}, "1.005"),
        ({"type": "string", "format": "singer.decimal"}, '"NaN"'),
        ({"type": "string"}, "1"),
        ({"type": "string", "format": "date"}, '"2020-02-30"'),
        ({"type": "string", "format": "date"}, '"2020-02-03T04:05:06Z"'),
        ({"type": "string", "format": "date-time"}, '"soon"'),
        ({"type": "boolean"}, '"true"'),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, '{"a": "x"}'),
        ({"type": "array", "items": {"type": "integer"}}, "{}"),
    ],
)
def test_a_value_that_does_not_fit_is_named(spec: dict[str, Any], text: str) -> None:
    said = misfit(spec, text)
    assert "row 0 of block 7 of tap.s" in said
    assert "'v'" in said
    assert text in said


def test_every_value_of_a_row_that_does_not_fit_is_named() -> None:
    properties = {"a": {"type": "integer"}, "b": {}, "c": {"type": "boolean"}}
    later = {"c": {}, "b": {"type": "integer"}, "a": {"type": "integer"}}
    lines = [record_line("s", {"a": "x", "b": "y", "c": 1}), record_line("s", {"a": 1})]
    [said, nothing] = read(lines, properties, 2, later)[MISFITS].to_pylist()
    assert nothing is None
    assert [index for index, _ in said] == [0, 1, 2]
    assert ["'c'" in said[0][1], "'b'" in said[1][1], "'a'" in said[2][1]] == [True] * 3


def test_a_long_value_is_shortened() -> None:
    assert len(misfit({"type": "integer"}, json.dumps("x" * 5000))) < 200


@pytest.mark.parametrize(
    "line", [b"{]\n", b'{"type": "RECORD"}\n', b'{"type": "STATE"}\n', b"[]\n"]
)
def test_a_line_that_is_no_message_is_named(line: bytes) -> None:
    with pytest.raises(DamagedError, match="row 1 of block 7 of tap.s"):
        read([record_line("s", {"i": 1}), line], {"i": {"type": "integer"}}, 1)


def test_more_or_fewer_rows_than_the_log_says_are_an_error() -> None:
    with pytest.raises(DamagedError, match="has 1 rows instead of 2 in the log"):
        read([record_line("s", {"i": 1})], {"i": {"type": "integer"}}, 2)


@pytest.mark.parametrize(
    ("old", "text", "new", "value"),
    [
        ({"type": "integer"}, "1", {"type": "number"}, 1.0),
        ({"type": "integer"}, "9007199254740993", {"type": "number"}, 9007199254740992.0),
        ({"type": "integer"}, "1.0", {"type": "string"}, "1"),
        ({"type": "integer"}, "5", {"type": "number", "multipleOf": 0.01}, Decimal(5)),
        ({"type": "number"}, "1.10", {"type": "string"}, "1.1"),
        ({"type": "number"}, "2.0", {"type": "integer"}, 2),
        ({"type": "number", "multipleOf": 0.01}, "1.10", {"type": "number"}, 1.1),
        ({"type": "boolean"}, "true", {}, "true"),
        ({"type": "string"}, '"12"', {"type": "integer"}, 12),
        ({"type": "string"}, '"2020-01-02"', {"type": "string", "format": "date"},
         dt.date(2020, 1, 2)),
        ({"type": "string", "format": "date"}, '"2020-01-02"',
         {"type": "string", "format": "date-time"},
         dt.datetime(2020, 1, 2, tzinfo=dt.timezone.utc)),
        ({"type": "string", "format": "date-time"}, '"2020-01-02T03:04:05+01:00"',
         {"type": "string"}, "2020-01-02T02:04:05.000000Z"),
        ({}, '{"a": 1, "b": 2}', {"type": "object", "properties": {"a": {"type": "string"}}},
         {"a": "1"}),
        ({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}},
         '{"b": 1, "a": "x", "c": 2}', {"type": "object"}, '{"a":"x","b":1}'),
        ({"type": "object", "properties": {"b": {"type": "integer"}}}, '{"b": 1}',
         {"type": "object", "properties": {"b": {"type": "number"}, "z": {}}},
         {"b": 1.0, "z": None}),
        ({"type": "array", "items": {"type": "integer"}}, "[1, null]",
         {"type": "array", "items": {"type": "string"}}, ["1", None]),
        ({"type": "integer"}, "null", {"type": "string"}, None),
    ],
)  # fmt: skip
def test_older_schemas(old: dict[str, Any], text: str, new: dict[str, Any], value: Any) -> None:
    assert one(old, text, new) == value


def test_columns_that_came_and_went() -> None:
    old = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    new = {"c": {"type": "string"}, "b": {"type": "integer"}}
    batch = read([record_line("s", {"a": 1, "b": 2, "c": "not in the schema yet"})], old, 1, new)
    assert batch.select([0, 1]).to_pylist() == [{"c0": None, "c1": 2}]


def test_a_cast_that_cannot_work_is_named() -> None:
    said = misfit({"type": "string"}, '"x"', {"type": "integer"})
    assert said.endswith("'v' was written as string and cannot become int64")
