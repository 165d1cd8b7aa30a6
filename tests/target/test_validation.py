"""What the fast way accepts is valid, and both ways together say what jsonschema says."""

from __future__ import annotations

import functools
import json
from decimal import Decimal
from functools import cache
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from singerlake.rows.validation import exact_numbers, typed
from target_singerlake.chunk import Chunk
from target_singerlake.errors import InvalidRecordError, InvalidSchemaError, MissingKeyError
from target_singerlake.prover import Prover
from target_singerlake.validation import Validator
from target_singerlake.values import FEW

MODEST = settings(
    max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=False
)
NAMES = ["a", "b", "id", 'q"uote', "ä", "$ref", "type", "f0", ""]
NUMBERS = [0, 1, -1, 2, 3, 5, 10, 1 << 53, (1 << 53) - 1, -(1 << 53)]
TYPES = ["string", "integer", "number", "boolean", "null", "object", "array"]
TEXTS = ["", "a", "ab", "abc", "ä", "😀", "😀😀", "x" * 20, "2026-01-01", "1", "\u0000"]

bound = st.sampled_from([*NUMBERS, 0.5, -0.5, 2.0, 1e300])
length = st.integers(0, 4)
json_values = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, -1, 2, 0.5, 1 << 53, 1 << 70, *TEXTS]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=5,
)


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    kind = st.sampled_from(TYPES) | st.lists(
        st.sampled_from(TYPES), min_size=1, max_size=3, unique=True
    )
    common = {
        "type": kind | st.sampled_from([["null", "string"], ["null", "integer"]]),
        "enum": st.lists(json_values, min_size=1, max_size=3),
        "const": json_values,
        "anyOf": st.lists(inner, min_size=1, max_size=3),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
        "description": st.just("an annotation"),
        "format": st.just("date-time"),
    }
    limits = {
        "minimum": bound,
        "maximum": bound,
        "exclusiveMinimum": bound,
        "exclusiveMaximum": bound,
        "multipleOf": st.sampled_from([1, 2, 3, 0.5]),
        "minLength": length,
        "maxLength": length,
        "pattern": st.sampled_from(["^a", "b$", "[0-9]", "^$"]),
        "minItems": length,
        "maxItems": length,
        "uniqueItems": st.booleans(),
        "items": inner,
        "contains": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "minProperties": length,
        "maxProperties": length,
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
        "propertyNames": some(maxLength=length),
        "dependentRequired": st.just({"a": ["b"]}),
    }
    plain = st.sampled_from(["string", "integer", "number", "boolean"])
    return st.one_of(
        st.booleans(),
        plain.map(lambda t: {"type": t}),
        plain.map(lambda t: {"type": ["null", t]}),
        st.tuples(plain, some(**limits)).map(lambda p: {"type": p[0], **p[1]}),
        some(type=common["type"], **{k: limits[k] for k in ("properties", "items", "required")}),
        some(**common),
        some(**limits),
        some(**common, **limits),
    )


any_schema = st.deferred(lambda: schemas(any_schema))
leaf = st.recursive(st.sampled_from([{}, True, {"type": "string"}]), schemas, max_leaves=4)
record_schemas = st.builds(
    lambda properties, more: {"type": "object", "properties": properties, **more},
    st.dictionaries(st.sampled_from(NAMES), leaf, max_size=4),
    some(
        required=st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        additionalProperties=st.booleans() | leaf,
        type=st.sampled_from(["object", ["null", "object"], ["object", "string"]]),
        anyOf=st.lists(leaf, min_size=1, max_size=2),
    ),
)

number_texts = st.sampled_from(
    [
        "0",
        "-0",
        "1",
        "1.0",
        "2.50",
        "1e0",
        "10e-1",
        "1e400",
        "-1e400",
        "9007199254740993",
        "9007199254740992",
        "18446744073709551616",
        "-9223372036854775809",
        "1" + "0" * 40,
        "1" + "0" * 400,
        "0.5",
        "3",
        "5.000",
        "1E2",
        "123456789012345678901234567890.0",
    ]
)
string_texts = st.sampled_from(TEXTS).flatmap(
    lambda s: st.sampled_from([json.dumps(s), json.dumps(s, ensure_ascii=False)])
) | st.sampled_from(['"\\u0061"', '"\\ud83d\\ude00"', '"\\/"'])
name_texts = st.sampled_from(NAMES).map(json.dumps) | st.sampled_from(['"\\u0061"', '"zz"'])


def object_texts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(name_texts, inner).map(":".join), max_size=4)
    return pairs.map(lambda p: "{" + ", ".join(p) + "}")


value_texts = st.recursive(
    number_texts | string_texts | st.sampled_from(["null", "true", "false"]),
    lambda inner: (
        object_texts(inner) | st.lists(inner, max_size=4).map(lambda v: f"[{','.join(v)}]")
    ),
    max_leaves=6,
)
record_texts = object_texts(value_texts) | value_texts


@cache
def exactly(draft: Any) -> Any:
    """The draft with integers of any size; a class of its own, which takes a while to make."""
    if draft is jsonschema.Draft4Validator:  # there 1.0 is not a valid integer, nor is 1e400
        return draft
    types = draft.TYPE_CHECKER.redefine("integer", exact_numbers.is_integer)
    return jsonschema.validators.extend(draft, type_checker=types)


def reference(
    schema: dict[str, Any],
    keys: list[str],
    text: str,
    draft: Any = jsonschema.Draft202012Validator,
) -> bool:
    """What the Python library says, and whether it is an object with a value in each key."""
    value = json.loads(text)
    try:
        valid = draft(schema).is_valid(value)
    except OverflowError:  # of a number beyond doubles it cannot tell what it is a multiple of
        valid = False
    if not valid:  # As doubles, or else as they are written: either way it is let in.
        with exact_numbers.arithmetic():
            valid = exactly(draft)(exact_numbers.schema(schema)).is_valid(
                json.loads(text, parse_float=Decimal)
            )
    if not valid or not isinstance(value, dict):
        return False
    return all(value.get(key) is not None for key in keys)


def beyond(schema: Any) -> bool:
    """Where verdicts differ by choice: integers no double can hold, and one of two numbers."""
    dumped = json.dumps(schema)
    either = all(word in dumped for word in ('"oneOf"', '"integer"', '"number"'))
    return "1180591620717411303424" in dumped or "1e+300" in dumped or either


@pytest.mark.usefixtures("many_cases")
@MODEST
@given(record_schemas, st.lists(st.sampled_from(NAMES), max_size=2, unique=True), record_texts)
@example({"properties": {"a": {"additionalProperties": False}}}, [], '{"a": {"x": 1}}')
@example({"properties": {"a": {"additionalProperties": {"type": "null"}}}}, [], '{"a":{"x":1}}')
@example(
    {"properties": {"a": {"type": "number", "maximum": 1 << 53}}}, [], '{"a":9007199254740993}'
)
@example({"properties": {"a": {"type": "number"}}}, [], '{"a": 1e400}')
@example({"properties": {"a": {"multipleOf": 0.01}}}, [], '{"a": 1e400}')
@example({"properties": {"a": {"multipleOf": 0.01, "maximum": 9}}}, [], '{"a": 1e400}')
@example({"properties": {"a": {"not": {"multipleOf": 0.01}}}}, [], '{"a": 1e400}')
@example({"properties": {"a": {"multipleOf": 0.01}}}, [], '{"a": 1%s}' % ("0" * 400))
@example({"properties": {"a": {"multipleOf": 0.3}}}, [], '{"a": 1%s}' % ("0" * 400))
@example({"properties": {"a": {"type": "integer"}}}, ["a"], '{"\\u0061": 1.0}')
@example({"properties": {"a": {"type": "integer"}}}, [], '{"a": "x", "a": 1}')
@example({"properties": {"a": {"type": "integer"}}}, [], '{"a": 1, "a": "x"}')
@example({"properties": {"a": {"type": "integer"}}}, [], '{"a": 1, "\\u0061": "x"}')
@example({"properties": {}}, ['q"uote'], '{"q\\"uote": 1}')
@example({"properties": {}}, ['q"uote'], '{"q\\"uote": null}')
@example({"properties": {}}, ["a"], '{"a": null}')
@example({"properties": {"a": {"type": "null"}}}, ["a"], '{"a": null}')
@example({"properties": {"a": {"type": ["integer", "null"]}}}, ["a"], '{"a": null}')
@example({"properties": {"a": {"enum": ["b", None]}}}, ["a"], '{"a": null}')
@example({"properties": {"a": {"enum": [None]}}}, ["a"], '{"a": null}')
@example(
    {"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "string"}]}}}, ["a"], '{"a":null}'
)
@example({"properties": {"a": {"const": None}}}, ["a"], '{"a": null}')
@example({"properties": {"a": {"type": ["object", "null"]}}}, ["a"], '{"a": {"a": null}}')
@example({"properties": {"a": {"properties": {"a": {}}}}}, ["a"], '{"a":0}')
@example({"properties": {"a": {"maxLength": 1, "type": "string"}}}, [], '{"a": "\\ud83d\\ude00"}')
def test_the_verdict_is_the_one_of_jsonschema(
    schema: dict[str, Any], keys: list[str], text: str
) -> None:
    assume(not beyond(schema))
    expected = reference(schema, keys, text)
    raw = Raw(text.encode())
    try:
        validator = Validator("s", schema, keys)
    except InvalidSchemaError:
        with pytest.raises(jsonschema.SchemaError):
            jsonschema.Draft202012Validator.check_schema(schema)
        return
    assert validator.accept([raw]) is expected
    assert validator.accept([raw] * FEW) is expected, "by types, where there are more than few"
    if expected and any(one.name in keys for one, *_ in validator.values.misfits(raw)):
        with pytest.raises(InvalidRecordError, match="part of the key"):  # whatever the schema says
            validator.check(raw, 1)
    elif expected:
        validator.check(raw, 1)
    else:
        with pytest.raises((InvalidRecordError, MissingKeyError), match="line 7.*'s'"):
            validator.check(raw, 7)
    decoder = typed.record_decoder(schema, keys, formats=False)
    if decoder is not None and _decodes(decoder, text.encode()):
        assert expected, "the fast way took an invalid record"
    assert _proves(validator, text) in (None, False, expected)


def _decodes(decoder: msgspec.json.Decoder[Any], data: bytes) -> bool:
    try:
        decoder.decode(data)
    except msgspec.DecodeError:
        return False
    return True


def _proves(validator: Validator, text: str) -> bool | None:
    """Whether envelope and record decode in one; None where this says nothing."""
    prover = Prover()
    prover.learn("s", lambda: validator.proof)
    decoders = prover.decoders()
    if not decoders:
        return None
    timed, any_time = decoders
    line = f'{{"type":"RECORD","stream":"s","record":{text}}}\n'.encode()
    found = Chunk(line).decode(any_time)
    stamped = line[:-2] + b', "time_extracted": null}\n'
    assert Chunk(line).decode(timed) is None, "a line without time passes for one with"
    assert (Chunk(stamped).decode(timed) is None) is (found is None)
    if found is None:
        return False
    assert prover.streams[type(found[0])] == "s"
    return True


@MODEST
@given(st.lists(st.sampled_from(NAMES), max_size=3), record_texts)
def test_without_validation_only_the_keys_count(keys: list[str], text: str) -> None:
    value = json.loads(text)
    expected = isinstance(value, dict) and all(value.get(key) is not None for key in keys)
    validator = Validator("s", {"properties": {"a": {"type": "null"}}}, keys, records=False)
    assert validator.accept([Raw(text.encode())]) is expected
    assert validator.accept([Raw(text.encode())] * FEW) is expected
    assert _proves(validator, text) in (None, False, expected)


def test_many_are_accepted_together_and_one_bad_one_is_found() -> None:
    validator = Validator("s", {"properties": {"a": {"type": "integer"}}}, ["a"])
    good = [Raw(b'{"a": %d}' % n) for n in range(100)]
    odd = [Raw(b'{"a": 1.0}')]  # valid, but beyond types
    assert validator.accept(good + odd + good)
    assert not validator.accept([*good, Raw(b'{"a": "x"}'), *good])
    assert not validator.accept([*good, Raw(b"{}")])


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "strin"}}},
        {"properties": {"a": {"type": "number", "minimum": "1"}}},
        {"properties": {"a": {"$ref": "https://elsewhere.example/schema.json"}}},
        {"properties": {"a": {"type": "string", "pattern": "("}}},
    ],
)
def test_a_schema_that_is_none_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchemaError):
        Validator("s", schema, [])
    Validator("s", schema, [], records=False)


def test_streams_of_one_schema_share_what_checks_them() -> None:
    """Hundreds of tables of one database may have one; each stream is still told for itself."""
    schema = {"properties": {"a": {"type": "any", "maximum": 3}}}
    told: list[tuple[str, str, str]] = []
    one, other = (
        Validator(name, dict(schema), [], passed_over=functools.partial(note, told, name))
        for name in ("one", "other")
    )
    assert told == [("one", "type", "any"), ("other", "type", "any")]
    assert one._full is other._full
    for name, validator in (("one", one), ("other", other)):
        with pytest.raises(InvalidRecordError, match=f"stream '{name}', field 'a'"):
            validator.check(Raw(b'{"a": 4}'), 1)
    bad = {"properties": {"a": {"type": "strin"}}}
    for name in ("one", "other"):
        with pytest.raises(InvalidSchemaError, match=f"the schema of stream '{name}'"):
            Validator(name, bad, [])


def note(told: list[tuple[str, str, str]], stream: str, keyword: str, value: str) -> None:
    told.append((stream, keyword, value))


def test_types_that_only_doubt_needs_are_not_built_before() -> None:
    validator = Validator("s", {"properties": {"a": {"type": "integer"}}}, ["a"])
    assert not {"_fast"} & vars(validator).keys()
    assert set(vars(validator.values._tried)) == {"types", "_columns"}
    assert not validator.values._tried._columns
    assert validator.values.doubtful([Raw(b'{"a": 99999999999999999999}')]) == {"a"}


def test_formats_hold_by_choice() -> None:
    schema = {"properties": {"at": {"type": "string", "format": "date-time"}}}
    bad, good = Raw(b'{"at": "yesterday"}'), Raw(b'{"at": "2026-01-01T00:00:00Z"}')
    assert Validator("s", schema, []).accept([bad])
    strict = Validator("s", schema, [], formats=True)
    assert not strict.accept([bad])
    assert strict.accept([good])


def test_the_error_names_the_field_and_stays_short() -> None:
    schema = {
        "properties": {"a": {"properties": {"b": {"type": "array", "items": {"type": "null"}}}}}
    }
    validator = Validator("s", schema, [])
    with pytest.raises(InvalidRecordError, match="line 3.*'s', field 'a.b.1': ") as caught:
        validator.check(Raw(b'{"a": {"b": [null, "%s"]}}' % (b"x" * 10_000)), 3)
    assert len(str(caught.value)) < 500
    with pytest.raises(InvalidRecordError, match="field 'a.b.0'"):  # decided in Python
        validator.check(Raw(b'{"a": {"b": [1e400]}}'), 3)
    validator = Validator("s", {"properties": {"a": {"multipleOf": 0.01, "maximum": 9}}}, [])
    with pytest.raises(InvalidRecordError, match=r"field 'a': 1E\+400 is greater than the max"):
        validator.check(Raw(b'{"a": 1e400}'), 3)  # decided in Python, by decimals
    with pytest.raises(InvalidRecordError, match="line 3.*a number beyond all readers"):
        validator.check(Raw(b'{"a": 1e400000}'), 3)


def test_a_number_beyond_64_bits_leaves_the_fractions_beside_it_what_they_are() -> None:
    """As Python divides them, 2.01 is no multiple of 0.01."""
    cents = {"properties": {"a": {"multipleOf": 0.01}, "b": {"type": "number"}}}
    validator = Validator("s", cents, [])
    validator.check(Raw(b'{"a": 2.01, "b": 18446744073709551616}'), 3)
    with pytest.raises(InvalidRecordError, match=r"field 'a': 2.011 is not a multiple of 0.01"):
        validator.check(Raw(b'{"a": 2.011, "b": 18446744073709551616}'), 3)


@pytest.mark.parametrize("depth", [200, 300, 900])
def test_deep_records(depth: int) -> None:
    text = b'{"a": ' + b"[" * depth + b"]" * depth + b"}"
    assert Validator("s", {"properties": {"a": {"not": {"type": "null"}}}}, []).accept([Raw(text)])
    with pytest.raises(InvalidRecordError):
        Validator("s", {"properties": {"a": {"type": "null"}}}, []).check(Raw(text), 1)


def test_numbers_of_thousands_of_digits_end_in_an_answer() -> None:
    raw = Raw(b'{"a": ' + b"1" * 10_000 + b"}")
    assert Validator("s", {"properties": {"a": {}}}, []).accept([raw])
    with pytest.raises(InvalidRecordError, match="line 1"):
        Validator("s", {"properties": {"a": {"type": "string"}}}, []).check(raw, 1)


def test_the_fast_way_takes_what_is_common() -> None:
    """Else every record would go the slow way and no test would notice."""
    schema = {
        "type": ["null", "object"],
        "properties": {
            "id": {"type": "integer", "minimum": 0},
            "name": {"type": ["null", "string"], "maxLength": 10, "description": "a name"},
            "at": {"type": "string", "format": "date-time"},
            "sum": {"type": ["number", "null"]},
            "kind": {"enum": ["a", "b", None]},
            "any": {},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "address": {"type": ["object", "null"], "properties": {"zip": {"type": "string"}}},
        },
        "additionalProperties": False,
    }
    decoder = typed.record_decoder(schema, ["id"], formats=False)
    assert decoder is not None
    decoder.decode(
        b'{"id":1,"name":null,"at":"x","sum":1.5,"kind":"a","any":[{}],"either":null,'
        b'"tags":["x"],"address":{"zip":"1","other":2}}'
    )
    assert typed.record_decoder(schema, ["id"], formats=True) is None


WIDE = {"type": "number", "multipleOf": 1e-6, "minimum": -1e14, "maximum": 1e14}
OLD = {**WIDE, "exclusiveMinimum": True, "exclusiveMaximum": True}
SCALED = {**OLD, "minimum": -(10**20), "maximum": 10**20, "multipleOf": 1e-18}
LAST, LONGEST = "99999999999999.999999", "99999999999999999999.999999999999999999"
ENDS: list[tuple[dict[str, Any], str, bool]] = [
    ({"type": "number", "exclusiveMaximum": 10**14}, LAST, True),
    ({"type": "number", "exclusiveMinimum": -(10**14)}, f"-{LAST}", True),
    ({"type": "number", "exclusiveMaximum": 10**14}, "100000000000000", False),
    ({"type": "number", "exclusiveMaximum": 10**14}, "100000000000000.000001", False),
    ({"type": "number", "exclusiveMinimum": 0}, "1e-400", True),
    ({"type": ["null", "number"], **{k: v for k, v in OLD.items() if k != "type"}}, LAST, True),
    (OLD, f"-{LAST}", True),
    (OLD, "100000000000000.000", False),
    (OLD, "99999999999999.9999999", False),
    (SCALED, LONGEST, True),
    (SCALED, f"-{LONGEST}", True),
    (SCALED, LONGEST + "9", False),
    ({"anyOf": [{"type": "null"}, OLD]}, LAST, True),
    ({"type": "number", "exclusiveMaximum": 10**14}, "1e999999999", False),
]


@pytest.mark.parametrize("draft", [None, "draft-04", "draft-07"])
@pytest.mark.parametrize(("spec", "value", "valid"), ENDS)
def test_the_last_values_before_a_bound_are_taken(
    spec: dict[str, Any], value: str, valid: bool, draft: str | None
) -> None:
    """As doubles they are the bound."""
    named = {} if draft is None else {"$schema": f"http://json-schema.org/{draft}/schema#"}
    rest = {"s": {"type": "string", "format": "date"}, "w": {"type": "integer"}}
    validator = Validator("s", {**named, "properties": {"n": spec, **rest}}, [], formats=True)

    def accepts(more: str) -> bool:
        return validator.accept([Raw(f'{{"n": {value}{more}}}'.encode())])

    assert accepts("") is valid
    assert accepts(', "s": "2020-01-01", "w": 1') is valid
    assert not accepts(', "s": "yesterday"')
    assert not accepts(', "w": 1.5')
