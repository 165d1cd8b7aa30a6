"""A deletion is valid under the schema it is written with whenever the row was under its own."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from singerlake.format.log import SchemaEntry
from singerlake.format.types import columns_of
from singerlake.log.deletion_schema import MARK, declaring

NAMES = ["a", "b", "c"]
WHEN = "2026-11-20T23:40:15Z"
INTEGER = {"type": "integer"}
PAIR = {"properties": {"a": INTEGER, "b": {}}}
DEFS: dict[str, Any] = {
    "closed": {**PAIR, "additionalProperties": False},
    "sealed": {**PAIR, "unevaluatedProperties": False},
    "integers": {"additionalProperties": INTEGER},
    "again": {"anyOf": [{"$ref": "#/definitions/again"}, {"$ref": "#/definitions/closed"}]},
    "through": {"$ref": "#/definitions/closed"},
}
DRAFTS = (jsonschema_rs.Draft7Validator, jsonschema_rs.Draft202012Validator)

refs = st.sampled_from([f"#/definitions/{name}" for name in DEFS if name != "again"])
values = st.sampled_from([1, "x", None])
rows = st.dictionaries(st.sampled_from(NAMES), values, max_size=3)
columns = st.sampled_from([True, INTEGER, {"type": ["string", "null"]}])
more = st.booleans() | columns


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    branches = st.lists(inner, min_size=1, max_size=2)
    keywords = {
        "properties": st.dictionaries(st.sampled_from(NAMES), columns, max_size=3),
        "additionalProperties": more,
        "unevaluatedProperties": more,
        "required": st.lists(st.sampled_from(NAMES), max_size=1),
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(1, 3),
        "propertyNames": st.booleans() | st.just({"enum": ["a", "b"]}),
        "$ref": refs,
        "allOf": branches,
        "anyOf": branches,
        "oneOf": branches,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=1),
    }
    chosen = st.sets(st.sampled_from(sorted(keywords)), max_size=4)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({n: keywords[n] for n in names}))


parts = st.recursive(schemas(st.booleans()), schemas, max_leaves=6)
ALL_OF_CLOSED = {"allOf": [{"$ref": "#/definitions/closed"}]}
TOP_REF = {"$ref": "#/definitions/closed"}
INTEGERS = {"anyOf": [{"additionalProperties": INTEGER}]}
SEALED = {"oneOf": [{**PAIR, "unevaluatedProperties": False}]}


def marked(schema: dict[str, Any]) -> dict[str, Any]:
    return declaring(SchemaEntry(schema, ())).schema


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(schema=ALL_OF_CLOSED, row={"a": 1})
@example(schema=TOP_REF, row={"a": 1})
@example(schema={"$ref": "#/definitions/through"}, row={"a": 1})
@example(schema=INTEGERS, row={"a": 1})
@example(schema=SEALED, row={"a": 1})
@example(schema={"$ref": "#/definitions/sealed"}, row={"a": 1})
@given(schema=parts, row=rows)
def test_a_row_with_the_mark_is_judged_as_the_row_was(
    schema: dict[str, Any], row: dict[str, Any]
) -> None:
    whole = {**schema, "definitions": DEFS}
    for draft in DRAFTS:
        before = draft(whole).is_valid(row)
        assert draft(marked(whole)).is_valid({**row, MARK: WHEN}) == before


@pytest.mark.parametrize("schema", [ALL_OF_CLOSED, TOP_REF, INTEGERS, SEALED])
def test_the_mark_is_declared(schema: dict[str, Any]) -> None:
    changed = marked({**schema, "definitions": DEFS})
    assert changed["properties"][MARK]["type"] == ["null", "string"]
    assert changed["definitions"]["closed"] == DEFS["closed"], "a column may be of that kind"


def test_one_that_declares_it_is_left() -> None:
    declared = {"properties": {"a": INTEGER, MARK: {"type": "string"}}}
    referred = {"$ref": "#/definitions/own", "definitions": {"own": declared}}
    assert "properties" not in marked(referred)
    entry = SchemaEntry({**declared, "additionalProperties": False}, ())
    assert declaring(entry) is entry


def test_no_columns_type_changes() -> None:
    nested = {"properties": {"own": {"$ref": "#/definitions/closed"}}}
    schema = {**nested, "allOf": [{"$ref": "#/definitions/closed"}], "definitions": DEFS}
    before = dict(columns_of(SchemaEntry(schema, ())))
    after = dict(columns_of(declaring(SchemaEntry(schema, ()))))
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {MARK}


def test_references_that_run_in_a_circle_come_to_an_end() -> None:
    schema = {"allOf": [{"$ref": "#/definitions/again"}], "definitions": DEFS}
    copy = f"#/definitions/again-{MARK}"
    assert marked(schema)["allOf"] == [{"$ref": copy}]
    assert marked(schema)["definitions"][f"again-{MARK}"]["anyOf"][0] == {"$ref": copy}
