from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import DamagedError
from singerlake.format.log import SchemaEntry
from singerlake.format.types import MAX_DEPTH, columns_of, key_positions, type_of

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "reference" / "types.md", DOCS / "internals" / "type-rules.md"]
ROW = re.compile(r"^\| `(\{.*\})` \| `([^`]+)` \|$", re.MULTILINE)
ROWS = [row for page in PAGES for row in ROW.findall(page.read_text("utf-8"))]


def test_pages_have_their_tables() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize(("schema", "column"), ROWS)
def test_the_page_tells_what_the_code_does(schema: str, column: str) -> None:
    assert str(type_of(json.loads(schema))) == column


@pytest.mark.parametrize(
    ("spec", "column"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 2**63 - 1}, "int64"),
        ({"type": "integer", "maximum": 2**63}, "decimal(38,0)"),
        ({"type": "integer", "exclusiveMaximum": 2**63}, "int64"),
        ({"type": "integer", "minimum": -(2**63) - 1}, "decimal(38,0)"),
        ({"type": "number", "multipleOf": 1e-10, "maximum": 1e30}, "double"),
        ({"type": "number", "multipleOf": 5}, "decimal(38,0)"),
        ({"type": "number", "multipleOf": 0}, "double"),
        ({"type": ["null"]}, "text"),
        ({"type": "null"}, "text"),
        ({"type": "string", "format": ["odd"]}, "string"),
        (
            {"type": ["number", "null"], "format": "singer.decimal", "multipleOf": 0.1},
            "decimal(38,1)",
        ),
        (
            {
                "type": "string",
                "format": "singer.decimal",
                "additionalProperties": {"scale_precision": "(38,20)"},
            },
            "decimal(38,20)",
        ),
        ({"allOf": [{"type": "integer"}, {"description": "a number"}]}, "int64"),
        ({"properties": {"a": {"type": "string"}}}, "struct<a: string>"),
        ({"items": {"type": "number"}}, "list<double>"),
        ({"type": "array", "items": [{"type": "number"}]}, "text"),
        ({"type": "object", "properties": {}}, "text"),
        ({"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "string"}]}, "text"),
        (True, "text"),
        (17, "text"),
        ({"type": 17}, "text"),
        ({"$ref": "https://example.org/x"}, "text"),
        ({"$ref": "#/nowhere/at/all"}, "text"),
    ],
)
def test_odd_schemas(spec: object, column: str) -> None:
    assert str(type_of(spec)) == column


def test_references_are_looked_up_in_the_schema() -> None:
    root = {
        "definitions": {"a/b": {"type": ["null", "integer"]}},
        "properties": {"x": {"$ref": "#/definitions/a~1b", "description": "more"}},
    }
    ((name, type_),) = columns_of(SchemaEntry(root))
    assert (name, str(type_)) == ("x", "int64")


def test_a_schema_that_refers_to_itself_ends() -> None:
    root = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "properties": {"x": {"$ref": "#/$defs/node"}, "y": {"$ref": "#/properties/y"}},
    }
    (_, node), (_, circle) = columns_of(SchemaEntry(root))
    assert str(node).count("struct") == MAX_DEPTH + 1
    assert str(circle) == "text"


def test_a_key_that_is_no_column_is_named() -> None:
    entry = SchemaEntry({"properties": {"a": {}}}, ["b"])
    with pytest.raises(DamagedError, match="'b'"):
        key_positions(entry, columns_of(entry), "tap.stream")
    assert key_positions(SchemaEntry({}, []), (), "tap.stream") == ()


def test_rules_1_are_those_of_the_first_release() -> None:
    parts = [{"properties": {"a": {}}}, {"properties": {"b": {}}}]
    entry = SchemaEntry(
        {
            "definitions": {"n": {"type": "integer"}},
            "allOf": parts,
            "properties": {
                "o": {"type": "object", "allOf": parts},
                "d": {"type": "string", "format": "x-singer.decimal"},
                "n": {"$ref": "#/definitions/n"},
            },
        }
    )
    first = {name: str(type_) for name, type_ in columns_of(entry, rules=1)}
    assert first == {"o": "struct<a: text>", "d": "string", "n": "int64"}
    second = {name: str(type_) for name, type_ in columns_of(entry)}
    assert second == {
        "o": "struct<a: text, b: text>",
        "d": "decimal(38,18)",
        "n": "int64",
        "a": "text",
        "b": "text",
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "integer", "maximum": 1 << 63, "exclusiveMaximum": True},
        {"type": "integer", "minimum": -(1 << 63) - 1, "exclusiveMinimum": True},
    ],
)
def test_rules_1_know_no_boolean_as_a_bound(spec: dict[str, Any]) -> None:
    entry = SchemaEntry({"properties": {"a": spec}})
    assert str(columns_of(entry, rules=1)[0][1]) == "decimal(38,0)"
    assert str(columns_of(entry)[0][1]) == "int64"


def test_rules_1_count_no_parts() -> None:
    inner = {"type": "object", "properties": {f"c{n}": {"type": "integer"} for n in range(5_001)}}
    entry = SchemaEntry({"properties": {"a": inner}})
    [(_, first)] = columns_of(entry, rules=1)
    [(_, second)] = columns_of(entry)
    assert [str(type_) for _, type_ in first.fields[-2:]] == ["int64", "int64"]
    assert [str(type_) for _, type_ in second.fields[-2:]] == ["text", "text"]


def test_a_column_that_a_person_made_text_of() -> None:
    entry = SchemaEntry({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
    assert [str(type_) for _, type_ in columns_of(entry, retyped={"b", "c"})] == ["int64", "text"]


def test_a_schema_that_refers_to_itself_twice_ends() -> None:
    node = {"properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}}}
    ((_, tree),) = columns_of(
        SchemaEntry({"$defs": {"node": node}, "properties": {"tree": {"$ref": "#/$defs/node"}}})
    )
    assert str(tree).count("struct") <= 5_000
