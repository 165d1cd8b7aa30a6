from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from singerlake.errors import DamagedError
from singerlake.rows.lines import members
from singerlake.rows.lines.members import patched

STAMP = "2026-11-20T23:40:00.123456Z"
OLD = '"time_extracted": "2020-08-19T13:01:56.245769Z"'


def line(record: str, rest: str = OLD) -> bytes:
    return f'{{"type": "RECORD", "stream": "s", "record": {record}, {rest}}}'.encode()


def record_of(text: bytes) -> str:
    """The record as it stands in a line that :func:`line` built, or a patch made of one."""
    start, end = b'"record": ', b', "time_extracted": "%b"}' % STAMP.encode()
    assert text.endswith(end)
    return text[text.index(start) + len(start) : -len(end)].decode()


@pytest.mark.parametrize(
    ("record", "changed", "expected"),
    [
        ('{"a": 1.10, "b": "x"}', {"b": b'"y"'}, '{"a": 1.10, "b": "y"}'),
        ('{ "a" : 1.10 ,"b":2 }', {"a": b"null"}, '{ "a" : null ,"b":2 }'),
        ('{"a": 1}', {"b": b"2", "c": b"3"}, '{"a": 1, "b": 2, "c": 3}'),
        ("{ }", {"b": b"2"}, '{ "b": 2}'),
        ("{}", {"b": b"2"}, '{"b": 2}'),
        ('{"a": 1, "b": 2, "c": 3}', {"a": None}, '{"b": 2, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', {"b": None}, '{"a": 1, "c": 3}'),
        ('{"a": 1, "b": 2, "c": 3}', {"b": None, "c": None}, '{"a": 1}'),
        ('{"a": 1, "b": 2}', {"a": None, "b": None}, "{}"),
        ('{ "a": 1 }', {"a": None, "x": b"1"}, '{ "x": 1 }'),
        ('{"a": 1}', {"x": None}, '{"a": 1}'),
        ('{"a": 1, "b": 0, "a": 2}', {"a": b"3"}, '{"b": 0, "a": 3}'),
        ('{"a": 1, "b": 0, "a": 2}', {"a": None}, '{"b": 0}'),
        (r'{"\u0061": 1, "b\"": 2}', {"a": b"3", 'b"': b"4"}, r'{"\u0061": 3, "b\"": 4}'),
        (r'{"a": 1, "\u0061": 2}', {"a": b"3"}, r'{"\u0061": 3}'),
        ('{"ä": 1}', {"ä": b"2", "ö": b"3"}, '{"ä": 2, "ö": 3}'),
        (r'{"\u00e4": 1}', {"ä": b"2"}, r'{"\u00e4": 2}'),
        (r'{"t": "\"a\": {[", "a": [{"a": "}]"}, 1]}', {"a": b"0"}, r'{"t": "\"a\": {[", "a": 0}'),
        ('{"t": "a", "a": 1}', {"a": b"2"}, '{"t": "a", "a": 2}'),
        (r'{"t": "\\", "a": 1}', {"a": b"2"}, r'{"t": "\\", "a": 2}'),
        (r'{"t": "x\"a", "b": 1}', {"a": b"2"}, r'{"t": "x\"a", "b": 1, "a": 2}'),
        ('{"record": {"record": 1}, "a": 1}', {"record": b"{}"}, '{"record": {}, "a": 1}'),
    ],
)
def test_a_record_is_patched(record: str, changed: dict[str, bytes | None], expected: str) -> None:
    assert record_of(patched(line(record), changed, STAMP)) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'{{"record":{{"a":1}},{OLD},"type":"RECORD"}}', '{"record":{"a":2},§,"type":"RECORD"}'),
        ('{"stream":"record","record":{"a":1}}', '{"stream":"record","record":{"a":2}, §}'),
        ('{"x":{"record":1},"record":{"a":1} }', '{"x":{"record":1},"record":{"a":2}, § }'),
        ('{"record":{"a":1},"time_extracted": null}', '{"record":{"a":2},§}'),
        (r'{"record":1,"r\u0065cord":{"a":1}}', r'{"record":1,"r\u0065cord":{"a":2}, §}'),
        ('{"record":{"a":1},"version":7}', '{"record":{"a":2},"version":7, §}'),
    ],
)  # fmt: skip
def test_an_envelope_may_be_in_any_order(before: str, after: str) -> None:
    expected = after.replace("§", f'"time_extracted": "{STAMP}"')
    assert patched(before.encode(), {"a": b"2"}, STAMP).decode() == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"record": 1}',
        '{"record": {"a": 1}',
        '{"record": {"a": 1,}}',
        '{"record": {"a" 1}}',
        '{"record": {"a": "x}}',
        '{"record": {"a": [1}}',
        '{"type": "SCHEMA"}',
    ],
)
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(DamagedError, match="not that of a RECORD"):
        patched(text.encode(), {"a": b"1"}, STAMP)


def test_long_texts_and_deep_values_are_passed_over_at_once() -> None:
    text = json.dumps('\n"{[' * 200_000)
    deep = "[" * 50_000 + text + "]" * 50_000
    record = f'{{"t": {text}, "d": {deep}, "a": 1}}'
    for changed, end in (({"a": b"2"}, '"a": 2}'), ({"a": None}, f"{deep}}}")):
        assert record_of(patched(line(record), changed, STAMP)).endswith(end)


WHITE = st.sampled_from(["", "", " ", "  ", "\t"])
NAMES = st.sampled_from(["a", "b", "record", "ä", 'q"', "back\\", "time_extracted", ""])
SCALARS = st.one_of(
    st.sampled_from(["1.10", "-0", "1e3", "null", "true", "12345678901234567890"]),
    st.sampled_from(["a", "record", 'x"a', '":{', "\\", "ä€", "\n"]).map(json.dumps),
    st.sampled_from(["a", 'x"a', "ä\\"]).map(lambda text: json.dumps(text, ensure_ascii=False)),
)


@st.composite
def names(draw: st.DrawFn) -> str:
    name = draw(NAMES)
    if name and draw(st.booleans()):
        return '"' + "".join(f"\\u{ord(letter):04x}" for letter in name) + '"'
    return json.dumps(name, ensure_ascii=draw(st.booleans()))


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.tuples(WHITE, names(), WHITE, WHITE, values, WHITE).map(
        lambda m: f"{m[0]}{m[1]}{m[2]}:{m[3]}{m[4]}{m[5]}"
    )
    return st.tuples(WHITE, st.lists(member, max_size=5)).map(
        lambda parts: "{" + (",".join(parts[1]) or parts[0]) + "}"
    )


VALUES = st.recursive(
    SCALARS,
    lambda inner: objects(inner) | st.lists(inner, max_size=3).map(lambda i: f"[{','.join(i)}]"),
    max_leaves=6,
)
CHANGES = st.dictionaries(NAMES, st.none() | VALUES.map(str.encode), max_size=4)


def _exactly(raw: bytes) -> Any:
    """A value with the numbers' own texts, and of a name that is there twice the last."""
    return json.loads(raw, parse_float=lambda text: ("float", text), parse_int=lambda t: ("int", t))


@pytest.mark.usefixtures("many_cases")
@settings(max_examples=400)
@given(objects(VALUES), objects(VALUES), st.booleans(), CHANGES)
@example('{"a":1}', "{}", True, {"a": None, "b": b"1"})
def test_a_patched_line_says_what_was_asked_and_what_it_said(
    record: str, other: str, timed: bool, changed: dict[str, bytes | None]
) -> None:
    before = (
        f'{{"type":"RECORD", "other": {other},"record" : {record} {"," + OLD if timed else ""}}}'
    )
    after = patched(before.encode(), changed, STAMP)
    was, said = _exactly(before.encode()), _exactly(after)
    expected = {**was["record"]}
    for name, text in changed.items():
        expected.pop(name, None) if text is None else expected.update({name: _exactly(text)})
    assert said == {**was, "record": expected, "time_extracted": STAMP}
    kept = [name for name in was["record"] if name not in changed]
    assert [name for name in said["record"] if name in kept] == kept


@pytest.mark.usefixtures("many_cases")
@settings(max_examples=400)
@given(objects(VALUES), st.sets(NAMES))
def test_every_other_byte_stays(record: str, named: set[str]) -> None:
    """With the old values put back where the new ones are, it is the line as it was."""
    values = msgspec.json.decode(record, type=dict[str, msgspec.Raw])
    assume(len(json.loads(record, object_pairs_hook=list)) == len(values))  # no name twice
    marks = {name: f"[{n}, 4711]".encode() for n, name in enumerate(sorted(named & values.keys()))}
    before = line(record)
    after = patched(before, marks, STAMP)
    for name, mark in marks.items():
        after = after.replace(mark, bytes(values[name]))
    assert after == before.replace(b"2020-08-19T13:01:56.245769Z", STAMP.encode())


@pytest.mark.usefixtures("many_cases")
@settings(max_examples=300)
@given(objects(VALUES), CHANGES.filter(lambda changed: None not in changed.values()))
def test_the_quick_way_and_the_exact_way_agree(record: str, changed: dict[str, bytes]) -> None:
    before = line(record)
    quick = members._quick_edits(before, changed, b"0")
    if quick is not None:
        exact = members._exact_edits(before, changed, b"0")
        assert sorted(quick, key=lambda e: e[:2]) == sorted(exact, key=lambda e: e[:2])


def test_usual_lines_go_the_quick_way() -> None:
    usual = line('{"id": 1, "status": "open", "note": "say \\"status\\": no", "tags": ["a"]}')
    assert members._quick_edits(usual, {"status": b'"paid"', "added": b"1"}, b"0") is not None


def test_without_a_stamp_the_time_is_left_alone() -> None:
    line = b'{"type": "RECORD", "record": {"a": 1}, "time_extracted": "2020-01-01T00:00:00Z"}'
    assert patched(line, {"b": b"2"}) == line.replace(b'"a": 1', b'"a": 1, "b": 2')
    assert patched(line, {"a": None, "b": b"2"}) == line.replace(b'"a": 1', b'"b": 2')
