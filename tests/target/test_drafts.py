"""Schemas of every draft, and of taps that mix them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec import Raw

from singerlake.format.types import Kind, Type, type_of
from singerlake.rows.validation import drafts, typed
from target_singerlake.errors import InvalidRecordError, InvalidSchemaError
from target_singerlake.validation import Validator
from target_singerlake.values import FEW
from tests.target import test_validation as general
from tests.target.harness import record, records_of, run, schema

URIS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    201909: "https://json-schema.org/draft/2019-09/schema",
    202012: "https://json-schema.org/draft/2020-12/schema",
}
PYTHON = {
    4: jsonschema.Draft4Validator,
    6: jsonschema.Draft6Validator,
    7: jsonschema.Draft7Validator,
    201909: jsonschema.Draft201909Validator,
    202012: jsonschema.Draft202012Validator,
}
NUMERIC = {  # a numeric(5, 2) column of pipelinewise-tap-postgres
    "type": ["null", "number"],
    "exclusiveMaximum": True,
    "maximum": 1000,
    "multipleOf": 0.01,
    "exclusiveMinimum": True,
    "minimum": -1000,
}


def _schemas(number: int, inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    bound = general.bound if number > 4 else st.booleans()
    words = {
        "type": st.sampled_from([*general.TYPES, ["null", "number"], ["null", "integer"]]),
        "minimum": general.bound,
        "maximum": general.bound,
        "exclusiveMinimum": bound,
        "exclusiveMaximum": bound,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "maxLength": general.length,
        "pattern": st.sampled_from(["^a", "[0-9]"]),
        "items": inner | st.lists(inner, min_size=1, max_size=2) if number < 202012 else inner,
        "additionalItems": inner if number > 4 else st.booleans() | inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "properties": st.dictionaries(st.sampled_from(general.NAMES), inner, max_size=3),
        "required": st.lists(st.sampled_from(general.NAMES), min_size=1, max_size=2, unique=True),
        "additionalProperties": st.booleans() | inner,
        "enum": st.lists(general.json_values, min_size=1, max_size=3),
        "const": general.json_values,
        "contains": inner,
        "if": inner,
        "then": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "$ref": st.just("#/definitions/text"),
        "not": inner,
    }
    if number == 4:  # where these are no keywords, nothing but a keyword may stand in them
        del words["const"]
    return general.some(**words).map(_bounded if number == 4 else dict)


def _bounded(spec: dict[str, Any]) -> dict[str, Any]:
    """Draft 4 has its booleans beside bounds only."""
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if plain not in spec:
            spec.pop(exclusive, None)
    return spec


def _record_schemas(number: int) -> st.SearchStrategy[dict[str, Any]]:
    leaf = st.recursive(
        st.sampled_from([{}, {"type": "string"}, {"type": "number"}, {"type": "integer"}]),
        lambda inner: _schemas(number, inner),
        max_leaves=4,
    )
    return st.builds(
        lambda properties, more: {
            "$schema": URIS[number],
            "type": "object",
            "properties": properties,
            "definitions": {"text": {"type": "string"}},
            **more,
        },
        st.dictionaries(st.sampled_from(["a", "b", "id"]), leaf, max_size=3),
        general.some(additionalProperties=st.booleans()),
    )


@pytest.mark.parametrize("number", URIS)
def test_the_verdict_is_the_one_of_the_draft(number: int) -> None:
    @general.MODEST
    @given(_record_schemas(number), general.record_texts)
    @example(_with(number, {"type": "number", "maximum": 5}), '{"a": 5}')
    @example(_with(number, {"type": "array", "items": {"type": "string"}}), '{"a": [1]}')
    @example(_with(number, {"$ref": "#/definitions/text", "type": "null"}), '{"a": "x"}')
    @example(_with(number, {"type": "integer"}), '{"a": {}, "b": [], "a": 1e400}')
    def holds(schema: dict[str, Any], text: str) -> None:
        assume(not general.beyond(schema))
        assume(_is_schema(number, schema))
        expected = general.reference(schema, [], text, PYTHON[number])
        validator = Validator("s", schema, [])
        assert validator.accept([Raw(text.encode())]) is expected
        assert general._proves(validator, text) in (None, False, expected)

    holds()


def _is_schema(number: int, schema: dict[str, Any]) -> bool:
    try:
        PYTHON[number].check_schema(schema)
    except jsonschema.SchemaError:
        return False
    return True


def _with(number: int, spec: dict[str, Any]) -> dict[str, Any]:
    definitions = {"text": {"type": "string"}}
    return {"$schema": URIS[number], "definitions": definitions, "properties": {"a": spec}}


def _accepts(schema: dict[str, Any], value: Any) -> bool:
    validator = Validator("s", schema, [])
    text = json.dumps(value)
    accepted = validator.accept([Raw(text.encode())])
    assert general._proves(validator, text) in (None, False, accepted)
    return accepted


@pytest.mark.parametrize("named", [None, "http://elsewhere.example/schema", *URIS.values()])
def test_old_words_hold_whatever_draft_is_named(named: str | None) -> None:
    more = {} if named is None else {"$schema": named}
    numeric = {"properties": {"a": NUMERIC}, **more}
    assert _accepts(numeric, {"a": 999.99})
    assert _accepts(numeric, {"a": None})
    assert not _accepts(numeric, {"a": 1000})
    assert not _accepts(numeric, {"a": -1000})
    assert not _accepts(numeric, {"a": 0.001})
    inclusive = {"properties": {"a": {"maximum": 5, "exclusiveMaximum": False}}, **more}
    assert _accepts(inclusive, {"a": 5})
    assert not _accepts(inclusive, {"a": 6})
    pair = {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False}
    tuples = {"properties": {"a": pair}, **more}
    assert _accepts(tuples, {"a": [1, "x"]})
    assert not _accepts(tuples, {"a": ["x", 1]})
    assert not _accepts(tuples, {"a": [1, "x", None]})
    required = {
        "required": True,
        "properties": {
            "a": {"type": "string", "required": True},
            "b": {"required": False},
            "c": {"type": "object", "properties": {"d": {"required": True}}},
        },
        **more,
    }
    assert _accepts(required, {"a": "x"})
    assert not _accepts(required, {"b": 1})
    assert _accepts(required, {"a": "x", "c": {"d": 1}})
    assert not _accepts(required, {"a": "x", "c": {}})


def test_new_words_hold_beside_old_ones() -> None:
    both = {
        "required": [],
        "properties": {
            "old": {"maximum": 5, "exclusiveMaximum": True},
            "new": {"exclusiveMaximum": 5},
            "nearer": {"exclusiveMinimum": 1, "minimum": 3},
            "any": True,
            "none": False,
        },
    }
    assert _accepts(both, {"old": 4, "new": 4, "nearer": 3, "any": 1})
    for wrong in ({"old": 5}, {"new": 5}, {"nearer": 2}, {"none": 1}):
        assert not _accepts(both, wrong), wrong


@pytest.mark.parametrize("spec", [{"enum": ["a", "a"]}, {"enum": []}, {"maxLength": 5.0}])
@pytest.mark.parametrize("number", URIS)
def test_what_a_strict_draft_refuses_is_read_as_the_newest(
    number: int, spec: dict[str, Any]
) -> None:
    columns = _with(number, {"anyOf": [spec, {"type": "string", "maxLength": 1}]})
    assert _accepts(columns, {"a": "a"})


def test_the_draft_is_the_named_one_or_what_the_words_are_of() -> None:
    for number, uri in URIS.items():
        assert drafts.draft_of({"$schema": uri, "items": [{}]}).number == number
        assert drafts.draft_of({"$schema": uri.rstrip("#").replace("https", "http")}).number == (
            number
        )
    assert drafts.draft_of({"properties": {"a": NUMERIC}}) is drafts.DRAFT_4
    assert drafts.draft_of({"properties": {"a": {"items": [{}]}}}) is drafts.DRAFT_7
    assert drafts.draft_of({"properties": {"a": {"default": NUMERIC}}}) is drafts.DRAFT_2020
    # An enum's values are no schemas, whatever they look like.
    values = {"properties": {"a": {"enum": [NUMERIC]}}}
    assert _accepts(values, {"a": NUMERIC})


def test_bounds_of_old_drafts_are_proven_by_types() -> None:
    """Else each record of such a stream would go the slow way."""
    spec = {"type": ["null", "integer"], "maximum": 9, "exclusiveMaximum": True}
    proof = Validator("s", {"properties": {"a": spec}}, []).proof
    assert proof is not None
    decoder = msgspec.json.Decoder(proof)
    decoder.decode(b'{"a": 8}')
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(b'{"a": 9}')
    assert typed.record_decoder({"properties": {"a": spec}}, [], formats=False) is None


def test_the_column_of_a_numeric_is_a_decimal() -> None:
    assert str(type_of(NUMERIC)) == "decimal(38,2)"
    whole = {"type": "integer", "minimum": 0, "exclusiveMinimum": True}
    assert str(type_of(whole)) == "int64"


PASSED_OVER = {
    "type": {"type": "any"},
    "type of several": {"type": ["null", "any"]},
    "pattern": {"type": "string", "pattern": r"(?P<year>\d{4})-(?P=year)\Z"},
    "patternProperties": {"patternProperties": {r"a\Z": {"type": "null"}}},
}


@pytest.mark.parametrize("spec", PASSED_OVER.values(), ids=PASSED_OVER)
@pytest.mark.parametrize("way", ["fast", "mapped"])
def test_what_no_draft_knows_is_passed_over_with_one_warning(
    tmp_path: Path, spec: dict[str, Any], way: str, caplog: pytest.LogCaptureFixture
) -> None:
    columns = {"id": {"type": "integer"}, "a": spec, "b": spec}
    config = {"stream_maps": {"s": {"more": "str(id)"}}} if way == "mapped" else {}
    lines = [schema("s", columns), record("s", {"id": 1, "a": "x"})]
    more = {**columns, "c": spec}
    with caplog.at_level(logging.WARNING):
        run(tmp_path / "lake", [*lines, schema("s", more), record("s", {"id": 2})], **config)
    assert len(records_of(tmp_path / "lake", "s")) == 2
    said = [r.getMessage() for r in caplog.records if "is ignored, and records" in r.getMessage()]
    assert len(said) == 1
    assert "'s'" in said[0]
    lines[1] = record("s", {"id": "x"})
    with pytest.raises(InvalidRecordError, match="field 'id'"):
        run(tmp_path / "other", lines, **config)


@pytest.mark.parametrize("named", ["draft-04", "draft-06", "draft-07", None])
@pytest.mark.parametrize("items", [True, {}, {"type": "integer"}, None])
def test_additional_items_mean_nothing_beside_one_schema_for_all(
    tmp_path: Path, named: str | None, items: Any
) -> None:
    spec: dict[str, Any] = {"type": "array", "additionalItems": False}
    if items is not None:
        spec["items"] = items
    more = {} if named is None else {"$schema": f"http://json-schema.org/{named}/schema#"}
    lines = [schema("s", {"a": spec}, **more), record("s", {"a": [10**30]})]
    run(tmp_path / "lake", lines)
    assert records_of(tmp_path / "lake", "s") == [{"a": [10**30]}]


def test_each_pattern_that_no_draft_knows_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec = {name: {"type": "string", "pattern": rf"(?P<{name}>a)\Z"} for name in "xy"}
    lines = [schema("s", {**spec, **more}) for more in ({}, {"z": {}})]
    with caplog.at_level(logging.WARNING):
        run(tmp_path / "lake", lines)
    said = [r.getMessage() for r in caplog.records if "is ignored, and records" in r.getMessage()]
    assert [("(?P<x>" in words, "(?P<y>" in words) for words in said] == [
        (True, False),
        (False, True),
    ]


def test_additional_properties_are_let_be_where_nobody_can_tell_which_they_are() -> None:
    spec = {
        "patternProperties": {r"b\Z": {}, "^b": {"type": "null"}},
        "additionalProperties": False,
    }
    columns = {"properties": {"o": spec}}
    assert _accepts(columns, {"o": {"ab": 1, "b": None, "c": 1}})
    assert not _accepts(columns, {"o": {"b": 1}})


def test_a_pattern_that_is_none_anywhere_is_refused_and_the_setting_named() -> None:
    with pytest.raises(InvalidSchemaError, match="validate_records"):
        Validator("s", {"properties": {"a": {"pattern": "("}}}, [])


def test_a_pattern_means_the_same_beside_a_number_past_all_readers() -> None:
    spec = {"properties": {"a": {"type": "string", "pattern": r"^\p{Lu}\d$"}, "n": {}}}
    validator = Validator("s", spec, [])
    for number in ("1", "1e400"):
        assert validator.accept([Raw(b'{"a": "A1", "n": %b}' % number.encode())])
        assert not validator.accept([Raw(b'{"a": "a1", "n": %b}' % number.encode())])


@pytest.mark.parametrize("named", [None, URIS[4]])
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"flattening_enabled": True, "flattening_max_depth": 2},
        {"add_record_metadata": True},
        {"stream_maps": {"s": {"twice": "str(id)"}}},
    ],
    ids=["fast", "flattened", "metadata", "mapped"],
)
def test_both_ways_in_take_old_drafts(
    tmp_path: Path, config: dict[str, Any], named: str | None
) -> None:
    more = {} if named is None else {"$schema": named}
    columns = {
        "id": {"type": ["null", "integer"]},
        "n": NUMERIC,
        "t": {"type": ["null", "array"], "items": [{"type": "integer"}, {"type": "string"}]},
        "o": {
            "type": "object",
            "properties": {"m": NUMERIC, "r": {"type": "integer", "required": True}},
        },
        "any": {"type": "any"},
    }
    good = {"id": 1, "n": 12.34, "t": [1, "x"], "o": {"m": 1.5, "r": 1}, "any": {"x": 1}}
    lines = [schema("s", columns, ["id"], **more), record("s", good)]
    run(tmp_path / "lake", lines, **config)
    assert len(records_of(tmp_path / "lake", "s")) == 1
    with pytest.raises(InvalidRecordError, match="'n'"):
        run(tmp_path / "lake", [*lines, record("s", {**good, "n": 1000})], **config)


@pytest.mark.parametrize("draft", [4, 7, 202012])
@pytest.mark.parametrize(
    ("branches", "value", "valid"),
    [
        ([{"type": "integer"}, {"type": "number"}], "1", True),
        ([{"type": "number"}, {"type": "integer", "description": "whole"}], "1.5", True),
        ([{"type": "integer"}, {"type": "number"}, {"type": "null"}], "null", True),
        ([{"type": ["null", "integer"]}, {"type": ["null", "number"]}], "null", True),
        ([{"type": "integer"}, {"type": "number"}], '"1"', False),
        ([{"type": "integer"}, {"type": "number", "minimum": 5}], "7", False),  # is said more of
        ([{"type": "string"}, {"type": "string"}], '"a"', False),
    ],
)
def test_one_of_an_integer_and_a_number_takes_both(
    draft: int, branches: list[dict[str, Any]], value: str, valid: bool
) -> None:
    named = {"$schema": f"http://json-schema.org/draft-{draft:02}/schema#"} if draft < 8 else {}
    spec: dict[str, Any] = {"properties": {"a": {"oneOf": branches}}, **named}
    raw = Raw(b'{"a": %b}' % value.encode())
    validator = Validator("s", spec, [])
    assert validator.accept([raw]) is valid
    assert validator.accept([raw] * (FEW + 1)) is valid
    if valid:
        # as docs/reference/types.md has it
        assert validator.values.columns == (("a", Type(Kind.NUMBER)),)
        assert not list(validator.values.misfits(raw))
