"""What lines prove of their values; and a lenient parser then reads what the exact way does."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.format.types import Columns
from singerlake.rows.blocks import exact_decoding, fast_decoding, lenient_json, type_prover
from tests.build import activate_line
from tests.rows.test_decoding import PROPERTIES, columns, one_column

needs_arro3 = pytest.mark.skipif(not lenient_json.ready(), reason="arro3-io is not installed")
WIDE: dict[str, Any] = {
    **PROPERTIES,
    "a/~ é": {"type": ["null", "string"]},
    "ol": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "b": {"type": "boolean"},
                "i": {"type": "integer"},
                "l": {"type": "array", "items": {"type": ["null", "integer"]}},
            },
        },
    },
}
ODD = [
    *(b"%d" % (sign * (2**n + k)) for n in (53, 63, 64) for k in (-1, 0, 1) for sign in (1, -1)),
    *b"-0 -0.0 0 00 01 - 1. .5 1e400 -1e400 1e-400 1.0 1e0 1E+2 0.1e1 9007199254740993.0".split(),
    *b"2.2250738585072011e-308 5e-324 1.7976931348623157e308 1.7976931348623159e308".split(),
    *b"true false null nul NaN Infinity [] {} [null] [[1]]".split(),
    b"1" * 400, b"0." + b"3" * 400, b"123456789012345678901234567890", b"9007199254740991.4",
    b'"1"', b'"1.5"', b'"true"', b'""', b'"\\u0000"', b'"\0"', b'"\\u0031"', b'"\\x"',
    b'"\\ud83d\\ude42"', b'"\\uD840\\uDC00"', b'"\\udbff\\udfff"', b'"\\ud83d"', b'"\\ude42"',
    b'"\\ud83d\\u0041"', b'"\\\\ud840"', b'"\\ud83f\\udfff"', b'"\\/\\b\\f\\n\\r\\t\\"\\\\"',
    b'"\xff"', b'"\xc3\xa9"', b'"\xed\xa0\x80"', b'"\xf0\xa0\x80\x80"',
    b'"2020-01-02"', b'"2020-01-02T03:04:05.123456789Z"', b'"2020-01-02T03:04"', b"[1, null]",
    b'{"x": 1}', b'{"x": 1, "x": 2}', b'{"x": 2, "\\u0078": null}', b'{"x": {"x": 1}}',
    b'{"b": true, "i": 1.0}', b'[{"b": null, "i": -0}, null, {}]', b'[{"l": [1, null], "l": []}]',
    b" 1 ", b"\t[ ]\r", b'{"why": "a\\u0000b"}', b'["\\u0000"]',
]  # fmt: skip
MORE = [
    b"", b"", b"", b', "version": 3', b', "version": null', b', "version": 1.0',
    b', "version": "3"', b', "record": null', b', "record": {}',
    b', "time_extracted": "2020-01-02T03:04:05Z"',
    b', "type": "STATE"', b', "more": {"record": {"i": 5}}', b', "_sdc_deleted_at": 1',
]  # fmt: skip
LOOSE = ["other", "_sdc_deleted_at"]
"""Members that no column says anything of; the second is read nevertheless."""
NAMES = st.sampled_from(["i", "n", "s", "day", "t", "b", "o", "l", "ll", "a/~ é", "ol"])


@st.composite
def odd_lines(draw: st.DrawFn) -> tuple[list[str], list[bytes]]:
    """Lines of odd values, odd names and odd envelopes; some with bytes that came by accident."""
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    value = st.sampled_from(ODD) | st.text(max_size=6).map(lambda t: json.dumps(t).encode())
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        members = []
        for name in draw(st.lists(st.sampled_from([*names, *names, *LOOSE]), max_size=5)):
            spelled = json.dumps(name, ensure_ascii=draw(st.booleans())).encode()
            if draw(st.integers(0, 5)) == 0:
                spelled = b'"' + b"".join(b"\\u%04x" % ord(one) for one in name) + b'"'
            members.append(spelled + b": " + draw(value))
        record = b"{" + b", ".join(members) + b"}"
        more = draw(st.sampled_from(MORE))
        lines.append(b'{"type": "RECORD", "record": ' + record + more + b"}\n")
        if draw(st.integers(0, 4)) == 0:
            lines.append(activate_line("s", 3))
    if draw(st.integers(0, 2)) == 0:
        at = draw(st.integers(0, len(lines) - 1))
        line, place = lines[at], draw(st.integers(0, len(lines[at]) - 2))
        cut = draw(st.integers(0, 2))
        lines[at] = line[:place] + draw(st.binary(max_size=2)) + line[place + cut :]
    return names, lines


def lenient(lines: bytes, wanted: Columns) -> Any:
    return fast_decoding._tried(lines, wanted, lines.count(b"\n"), fast_decoding._read_proved)


def check(names: list[str], lines: list[bytes]) -> bool:
    """Hold the lenient parser against the exact way, if the lines are proved; tell whether."""
    wanted = columns({name: WIDE[name] for name in names})
    if not all(type_prover.provable(type_) for _, type_ in wanted):
        return False
    text = b"".join(lines)
    if not type_prover.proves([text], wanted):
        return False
    fast = lenient(text, wanted)
    if fast is None:
        return False
    slow = exact_decoding.read(text, wanted, "block 1")
    assert not slow.misfits
    for one_way, other in zip(fast.columns, slow.columns, strict=True):
        assert one_way.type == other.type
        assert repr(one_way.to_pylist()) == repr(other.to_pylist())
        assert one_way.equals(other)
    assert fast.versions.equals(slow.versions)
    assert fast.deleted.equals(slow.deleted)
    return True


def plain(name: str, value: str) -> bytes:
    return b'{"type": "RECORD", "record": {"%b": %b}}\n' % (name.encode(), value.encode())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("i", "1.5"), ("i", "1.0"), ("i", "1e3"), ("i", '"1"'), ("i", "9223372036854775808"),
        ("i", "true"), ("n", '"1.5"'), ("n", "1e400"), ("n", "NaN"), ("n", "true"), ("s", "1"),
        ("s", r'"\ud800"'), ("b", "1"), ("b", '"true"'), ("day", "20200102"), ("t", "1577836800"),
        ("o", "[]"), ("o", '{"x": 1.5}'), ("o", '"{}"'), ("l", "{}"), ("l", "[1]"),
        ("ll", '[{"q": ["1"]}]'), ("i", '1, "i": 1.5'),
    ],
)  # fmt: skip
def test_what_is_of_another_type_is_not_proved(name: str, value: str) -> None:
    wanted = columns({name: PROPERTIES[name]})
    assert type_prover.proves([plain(name, "null"), activate_line("s", 1)], wanted)
    assert not type_prover.proves([plain(name, "null"), plain(name, value)], wanted)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "RECORD", "record": {"other": "\xff"}}\n', b'{"type": "STATE", "value": {}}\n',
        b'{"type": "RECORD", "record": []}\n', b'{"type": "RECORD"}\n', b"{\n",
        b'{"type": "RECORD", "record": {}, "version": 1.5}\n',
    ],
)  # fmt: skip
def test_lines_that_are_no_messages_are_not_proved(line: bytes) -> None:
    assert not type_prover.proves([line], columns({"i": {"type": "integer"}}))


def test_of_decimals_and_of_any_json_nothing_is_proved() -> None:
    wanted = columns({**PROPERTIES, "any": {}})
    said = {name for name, type_ in wanted if type_prover.provable(type_)}
    assert said == PROPERTIES.keys() - {"d", "big"}
    assert type_prover.proves([plain("any", "1.5"), plain("d", '"x"')], wanted)
    # So lines that say so are read in the strict way as soon as such a column is wanted.
    some = columns({"d": PROPERTIES["d"]})
    assert fast_decoding.read(plain("d", "1.005"), some, 1, proved=True) is None


@needs_arro3
def test_the_lenient_parser_is_what_reads_proved_lines() -> None:
    """It takes the string for a number, which is why nothing else may be given to it."""
    wanted = columns({"i": {"type": "integer"}})
    [read] = fast_decoding.read(plain("i", '"1"'), wanted, 1, proved=True).columns  # type: ignore[union-attr]
    assert read.to_pylist() == [1]
    assert fast_decoding.read(plain("i", '"1"'), wanted, 1) is None


def test_without_the_lenient_parser_proved_lines_are_read_as_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lenient_json, "_parser", lambda: None)
    read = fast_decoding.read(plain("i", "1"), columns({"i": {"type": "integer"}}), 1, proved=True)
    assert read is not None
    assert read.columns[0].to_pylist() == [1]


def test_the_lenient_parser_gets_no_characters_that_it_would_change() -> None:
    """Nor a NUL, which it quotes in an error of a value that does not fit, and ends the process."""
    wanted = pa.schema([("s", pa.string())])
    assert lenient_json.read(b'{"s": {"why": "a\\u0000b"}}\n', wanted) is None
    assert lenient_json.read(b'{"s": {"why": "a\0b"}}\n', wanted) is None
    for text in (r"\ud840\udc00", r"\uDBFF\uDFFF", r"\uD87e\uDc1F"):
        assert lenient_json.read(b'{"s": "%b"}\n' % text.encode(), wanted) is None
        whole = memoryview(b'{}\n{"s": "%b"}\n' % text.encode())
        assert lenient_json.read(whole[3:], wanted) is None


def test_a_value_that_nobody_proved_is_read_with_proved_ones() -> None:
    """A ``_sdc_deleted_at`` that is no column, and what stands in an ACTIVATE_VERSION."""
    wanted = columns({"i": {"type": "integer"}})
    odd = [
        b'{"type": "RECORD", "record": {"i": 31, "_sdc_deleted_at": {"why": "a\\u0000b"}}}\n',
        b'{"type": "ACTIVATE_VERSION", "version": 1, "record": {"i": {"a": "\\u0000"}}}\n',
    ]
    for line in odd:
        text = plain("i", "30") + line
        assert type_prover.proves([text], wanted)
        assert fast_decoding.read(text, wanted, 2, proved=True) is None
    assert exact_decoding.read(text, wanted, "block 1").columns[0].to_pylist() == [30]


@needs_arro3
def test_other_escapes_it_may_have() -> None:
    wanted = pa.schema([("s", pa.string())])
    for text in (r"\ud83d\ude42", r"\u00e9\u0001", "a\\\\ud83d", "\U00020000"):
        read = lenient_json.read(json.dumps({"s": text}, ensure_ascii=False).encode(), wanted)
        assert read is not None
        assert read["s"].to_pylist() == [text]


@needs_arro3
@settings(max_examples=150, deadline=None)
@given(odd_lines())
def test_of_proved_lines_odd_values_are_read_exactly(case: tuple[list[str], list[bytes]]) -> None:
    check(*case)


@needs_arro3
@settings(max_examples=100, deadline=None)
@given(one_column())
@example(("s", [b'{"type": "RECORD", "record": {"s": "\xff"}}\n']))
@example(("s", [b'{"type": "RECORD", "record": {"s": "a"}}{"type": "RECORD", "record": {}}\n']))
@example(("s", [b'\n{"type": "RECORD", "record": {"s": "a"}}\n']))
def test_of_proved_lines_usual_values_are_read_exactly(case: tuple[str, list[bytes]]) -> None:
    check([case[0]], case[1])
