"""A schema whose parts are put together allows what a validator says the parts allow."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from singerlake.format.json_schema import resolved

NAMES = ["a", "b", "c"]
TYPES = ["string", "integer", "number", "boolean", "null", "object", "array"]
SUBSCHEMAS = ("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then")
DEFS: dict[str, Any] = {
    "whole": {"type": "integer", "minimum": 1},
    "pair": {"allOf": [{"properties": {"a": {"$ref": "#/$defs/whole"}}}, {"required": ["b"]}]},
    "self": {"allOf": [{"$ref": "#/$defs/self"}, {"type": ["object", "null"]}]},
    "shut": {"properties": {"a": {}, "c": {"type": "string"}}, "additionalProperties": False},
}

values = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 2, 3, 0.5, -1, 6, "", "a", "ab", "abc", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)
size = st.integers(0, 3)
number = st.sampled_from([-1, 0, 0.5, 1, 2, 3])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    kinds = st.sampled_from(TYPES)
    keywords = {
        "type": kinds | st.lists(kinds, min_size=1, max_size=4, unique=True),
        "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
        "additionalProperties": inner,
        "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "contains": inner,
        "minContains": size,
        "uniqueItems": st.booleans(),
        "enum": st.lists(values, min_size=1, max_size=4),
        "const": values,
        "minimum": number,
        "maximum": number,
        "exclusiveMinimum": number,
        "exclusiveMaximum": number,
        "multipleOf": st.sampled_from([1, 2, 3, 6, 0.5]),
        "minLength": size,
        "maxLength": size,
        "minItems": size,
        "maxItems": size,
        "minProperties": size,
        "maxProperties": size,
        "pattern": st.sampled_from(["^a", "b$"]),
        "propertyNames": st.fixed_dictionaries({"maxLength": size}),
        "dependentRequired": st.dictionaries(
            st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
        ),
        "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=1),
        "not": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "if": inner,
        "then": inner,
        "else": inner,
        "allOf": st.lists(inner, min_size=1, max_size=3),
        "$ref": st.sampled_from([f"#/$defs/{name}" for name in DEFS]),
        "unevaluatedProperties": st.booleans(),
        "description": st.just("words"),
    }
    some = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=3, unique=True)
    return some.flatmap(lambda chosen: st.fixed_dictionaries({k: keywords[k] for k in chosen}))


schema = st.recursive(st.booleans() | st.just({}), schemas, max_leaves=6)
parted = st.builds(
    lambda parts, own: {**own, "allOf": parts},
    st.lists(schema, min_size=1, max_size=4),
    schema.map(lambda found: found if isinstance(found, dict) else {}),
)


def put_together(spec: Any, root: dict[str, Any], depth: int = 0) -> Any:
    """A schema resolved on every level that columns are looked for on."""
    if not isinstance(spec, dict) or depth > 6:
        return spec
    whole = resolved(spec, root)
    if isinstance(found := whole.get("properties"), dict):
        inner = {name: put_together(one, root, depth + 1) for name, one in found.items()}
        whole = {**whole, "properties": inner}
    if isinstance(whole.get("items"), dict):
        whole = {**whole, "items": put_together(whole["items"], root, depth + 1)}
    return whole


def allows(spec: dict[str, Any], value: Any) -> bool:
    validator = jsonschema_rs.Draft202012Validator({"$defs": DEFS, **spec}, offline=True)
    return validator.is_valid(value)


@pytest.mark.usefixtures("many_cases")
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(parted, st.lists(values, min_size=1, max_size=6))
@example(
    {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"enum": [1]}}}]},
    [{"a": 1, "b": 1}, {"a": "x"}, {"b": 2}],
)
@example(
    {"allOf": [{"properties": {"a": {}}, "additionalProperties": False}, {"$ref": "#/$defs/shut"}]},
    [{"a": 1}, {"c": "x"}, {}],
)
@example({"type": "integer", "allOf": [{"type": ["number", "null"]}, False]}, [1, None])
@example({"allOf": [{"type": "string"}, {"type": "integer"}]}, ["a", 1])
def test_what_is_put_together_allows_what_the_parts_allow(
    spec: dict[str, Any], documents: list[Any]
) -> None:
    root = {"$defs": DEFS, **spec}
    whole = put_together(root, root)
    for document in documents:
        assert allows(whole, document) == allows(spec, document)


def test_nothing_that_a_keyword_can_say_is_left_behind() -> None:
    """Else a column would be lost while the validator still agrees."""
    whole = resolved(
        {
            "type": ["object", "null"],
            "allOf": [
                {
                    "properties": {"a": {"type": ["integer", "null"], "minimum": 0}},
                    "required": ["a"],
                },
                {
                    "allOf": [
                        {"properties": {"b": {"items": {"type": "string"}}, "a": {"maximum": 9}}}
                    ]
                },
                {"$ref": "#/definitions/more"},
            ],
        },
        {"definitions": {"more": {"properties": {"c": {}}, "required": ["c"], "type": "object"}}},
    )
    assert list(whole) == ["type", "properties", "required"]
    assert list(whole["properties"]) == ["a", "b", "c"]
    assert (whole["type"], whole["required"]) == ("object", ["a", "c"])
    assert resolved(whole["properties"]["a"], {}) == {
        "type": ["integer", "null"], "minimum": 0, "maximum": 9
    }  # fmt: skip


def test_a_schema_that_refers_to_itself_over_and_over_ends() -> None:
    twice = {"allOf": [{"$ref": "#"}, {"$ref": "#"}, {"type": "object"}]}
    assert resolved(twice, twice) == {"type": "object"}
    long: dict[str, Any] = {"type": "object"}
    for _ in range(3000):
        long = {"allOf": [long]}
    assert resolved(long, {}) == {"type": "object"}
