"""No value of a record, and no name within its objects, is ever in a reason without values."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from singerlake.errors import InputError
from singerlake.format.log import SchemaEntry
from singerlake.ops.rejected import rules
from singerlake.ops.rejected.reasons import without_values
from singerlake.rows.validation.schema_check import SchemaCheck
from target_singerlake import messages
from target_singerlake.validation import Validator

SECRET = "ada@e.org"  # what must not be seen
ODD = [
    "{}",
    '{}" is not of type "null"',
    'x\'s {} is not of type "null", at a',
    "{}' of column 'a' is not a valid date",
    "{}: b",
    ", at {}",
    '"{}" is a required property',
    "\n{}\\",
    "9 {}",
    " {}" + "y" * 400 + "{} is too long",
]
TEXTS = st.sampled_from(ODD).map(lambda text: text.replace("{}", SECRET))
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(-3, 3), st.booleans(), st.none(), st.just(10**30)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=2)),
    max_leaves=5,
)
RULES = [
    *({"type": name} for name in ("null", "integer", "string", "array", "object")),
    {"type": ["null", "boolean"]},
    {"const": 1},
    {"enum": [1, "b", ", at b"]},
    {"not": {"type": ["string", "integer", "object", "array"]}},
    {"contains": {"type": "null"}},
    {"propertyNames": {"pattern": "^x"}},
    {"additionalProperties": False},
    {"patternProperties": {"^x": {}}, "additionalProperties": False},
    {"patternProperties": {"": {"type": "null"}}},
    {"unevaluatedProperties": False},
    {"unevaluatedItems": False},
    {"dependentRequired": {SECRET: ["b"]}},
    {"required": ["b"]},
    {"minimum": 3},
    {"exclusiveMaximum": -4},
    {"multipleOf": 7},
    {"maxLength": 0},
    {"minLength": 999},
    {"pattern": "^x"},
    {"minItems": 9},
    {"maxItems": 0},
    {"uniqueItems": True},
    {"minProperties": 9},
    {"maxProperties": 0},
    {"anyOf": [{"type": "null"}, {"maxLength": 0, "maximum": -9, "maxItems": 0}]},
    {"oneOf": [{}, {"minLength": 0}]},
    {"prefixItems": [{}], "items": False},
    {"format": "email"},
    {"format": "date-time", "type": "string"},
]
NAMES = ["a", "a: b", "a.b", "it's", 'say "a"', "ä", "a, at b"]


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    rule = draw(st.sampled_from([False, *RULES]))
    if draw(st.booleans()):
        rule = {**(rule or {}), **draw(st.sampled_from(RULES))}
    for word in draw(st.lists(st.sampled_from(["additionalProperties", "items"]), max_size=2)):
        rule = {word: rule}
    return rule if isinstance(rule, dict) else {"not": {}}


def said_of(schema: dict[str, Any], record: dict[str, Any], formats: bool) -> list[str]:
    """The reasons of a target and of a replay, if they reject the record."""
    said, text = [], json.dumps(record, ensure_ascii=False).encode()
    validator = Validator("s", schema, [], formats=formats, check_values=True)
    try:
        validator.check(Raw(text), 1)
    except InputError as error:
        said.append(str(error).removeprefix("line 1").lstrip(" :"))
    problems = SchemaCheck(SchemaEntry(schema), formats=formats).problems([text])
    return [*said, *(rules._words(one) for one in problems)]


@pytest.mark.usefixtures("many_cases")
@given(st.sampled_from(NAMES), schemas(), VALUES, st.booleans())
@settings(max_examples=400, deadline=None)
def test_no_value_is_seen_in_a_reason(
    name: str, rule: dict[str, Any], value: Any, formats: bool
) -> None:
    record = {name: value}
    line = json.dumps({"type": "RECORD", "stream": "s", "record": record}).encode()
    schema = {"type": "object", "properties": {name: rule}}
    for reason in said_of(schema, record, formats):
        shown = without_values(reason, line)
        assert SECRET not in shown, reason
        assert "…" in shown or "is a required property" in shown


@pytest.mark.parametrize("rule", RULES, ids=json.dumps)
def test_every_rule_has_its_reason(rule: dict[str, Any]) -> None:
    """The property test would hold if nothing were rejected."""
    values = [SECRET, "b", 5, -9, 4, [SECRET, SECRET], {SECRET: 1}, True]
    schema = {"type": "object", "properties": {"a": rule}}
    said = [
        without_values(reason, json.dumps({"record": {"a": value}}).encode())
        for value in values
        for reason in said_of(schema, {"a": value}, formats=True)
    ]
    assert said
    assert not any(SECRET in one for one in said)
    assert any("field 'a" in one or "property" in one for one in said)


@given(st.binary(max_size=8), st.integers(0, 80), st.integers(0, 2**32), TEXTS)
@settings(max_examples=200, deadline=None)
def test_nothing_of_a_broken_line_is_seen(noise: bytes, at: int, seed: int, text: str) -> None:
    whole = json.dumps({"type": "RECORD", "stream": "s", "record": {"a": text}}).encode()
    broken = random.Random(seed).choice(
        [
            whole[:at] + noise + whole[at:],
            noise + text.encode(),
            b"  " + text.encode(),
            json.dumps({"type": text, "record": 1}).encode(),
            json.dumps({"type": "RECORD", "stream": "s", "record": {}, "version": text}).encode(),
            json.dumps({"type": "RECORD", "stream": text}).encode(),
            whole.replace(b'"RECORD"', b"5"),
        ]
    )
    try:
        messages.decode_line(broken, 1)
    except InputError as error:
        reason = str(error).removeprefix("line 1").lstrip(" :")
        assert SECRET not in without_values(reason, broken), reason
