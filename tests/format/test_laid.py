"""An overlay laid over schemas: what people see, what records have, and nothing twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.log import SchemaEntry
from singerlake.format.overlaid import block_columns, laid, table_columns
from singerlake.format.overlay import TO_TEXT, AddedColumn, ColumnOverlay, Constraint, Overlay

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "cust_no": {"type": ["null", "string"], "description": "Of the till"},
        "amount": {"type": ["null", "number"]},
        "internal": {"type": ["null", "string"]},
    },
    "required": ["id", "cust_no", "internal"],
}
ENTRY = SchemaEntry(SCHEMA, ["id"])
INTEGER = {"type": ["null", "integer"]}
REGION = AddedColumn({"type": ["null", "string"]}, [(0, "EU"), (7, None)])


def types(entry: SchemaEntry, overlay: Overlay) -> dict[str, str]:
    return {name: str(type_) for name, type_ in table_columns(entry, overlay)}


def test_what_only_makes_text_leaves_the_schema_to_the_tap() -> None:
    overlay = Overlay(columns={"amount": TO_TEXT})
    assert laid(ENTRY, overlay) is ENTRY
    assert types(ENTRY, overlay)["amount"] == "text"


def test_columns_are_renamed_dropped_retyped_described_and_added() -> None:
    overlay = Overlay(
        columns={
            "cust_no": ColumnOverlay(type=INTEGER, name="customer"),
            "amount": ColumnOverlay(description="In euros", default=0),
            "internal": ColumnOverlay(dropped=True),
        },
        added={"region": REGION},
        key=["customer", "region"],
    )
    found = laid(ENTRY, overlay)
    assert found.schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "customer": {**INTEGER, "description": "Of the till"},
            "amount": {"type": ["null", "number"], "description": "In euros", "default": 0},
            "region": {"type": ["null", "string"]},
        },
        "required": ["id", "customer"],
    }
    assert found.key_properties == ["customer", "region"]
    assert types(ENTRY, overlay) == {
        "id": "int64", "customer": "int64", "amount": "double", "region": "string"
    }  # fmt: skip
    block = block_columns(ENTRY, overlay)
    assert block.members == {"customer": "cust_no"}
    assert {name: str(type_) for name, type_ in block.columns} == {
        "id": "int64", "customer": "text", "amount": "double"
    }, "a string that becomes a number is read as it was written"  # fmt: skip
    assert block_columns(found, overlay).members == {}, "a block may be under what was laid"


def test_of_two_columns_of_one_name_the_renamed_one_is_seen() -> None:
    overlay = Overlay(columns={"amount": ColumnOverlay(name="internal")})
    assert types(ENTRY, overlay) == {"id": "int64", "cust_no": "string", "internal": "double"}
    without = SchemaEntry({**SCHEMA, "properties": {"internal": {"type": "boolean"}}}, [])
    assert types(without, overlay) == {"internal": "boolean"}


def test_what_a_schema_says_of_the_whole_row_goes_where_columns_change() -> None:
    strict = {**SCHEMA, "additionalProperties": False, "dependentRequired": {"amount": ["cust_no"]}}
    entry = SchemaEntry(strict, ["id"])
    described = laid(entry, Overlay(columns={"amount": ColumnOverlay(description="x")}))
    assert described.schema["dependentRequired"]
    renamed = laid(entry, Overlay(columns={"amount": ColumnOverlay(name="sum")}))
    assert not renamed.schema.keys() & {"dependentRequired", "additionalProperties"}


def test_a_schema_in_parts_is_put_together_first() -> None:
    parts = {
        "allOf": [
            {"$ref": "#/definitions/base"},
            {"properties": {"amount": {"$ref": "#/definitions/money"}}},
        ],
        "definitions": {
            "base": {"properties": {"id": {"type": "integer"}}},
            "money": {"type": "number"},
        },
    }
    overlay = Overlay(columns={"amount": ColumnOverlay(name="sum")}, key=["id"])
    assert types(SchemaEntry(parts), overlay) == {"id": "int64", "sum": "double"}
    assert laid(SchemaEntry(parts), overlay).key_properties == ["id"]


def narrowed(spec: dict[str, Any], one: Constraint) -> Any:
    entry = SchemaEntry({"type": "object", "properties": {"a": spec}})
    found = laid(entry, Overlay(constraints={"c": one})).schema
    assert laid(SchemaEntry(found), Overlay(constraints={"c": one})).schema == found
    assert found.get("required") == (["a"] if one.kind == "not-null" else None)
    return found["properties"]["a"]


@pytest.mark.parametrize(
    ("spec", "one", "expected"),
    [
        ({"type": ["null", "string"]}, Constraint("not-null", ["a"]), {"type": "string"}),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            Constraint("not-null", ["a"]),
            {"anyOf": [{"type": "string"}]},
        ),
        ({}, Constraint("not-null", ["a"]), {"not": {"type": "null"}}),
        (
            {"type": ["null", "string"]},
            Constraint("enum", ["a"], values=["x"]),
            {"type": ["null", "string"], "enum": ["x", None]},
        ),
        (
            {"type": "string", "enum": ["x", "y"]},
            Constraint("enum", ["a"], values=["y", "z"]),
            {"type": "string", "enum": ["y"]},
        ),
        (
            {"type": "integer", "minimum": 3},
            Constraint("range", ["a"], minimum=1, maximum=9),
            {"type": "integer", "minimum": 3, "maximum": 9},
        ),
        (
            {"type": "string", "maxLength": 20},
            Constraint("length", ["a"], minimum=1, maximum=9),
            {"type": "string", "minLength": 1, "maxLength": 9},
        ),
        (
            {"type": "string", "pattern": "^a"},
            Constraint("pattern", ["a"], pattern="b$"),
            {"type": "string", "pattern": "^a", "allOf": [{"pattern": "b$"}]},
        ),
    ],
)
def test_constraints_in_the_words_of_a_schema(
    spec: dict[str, Any], one: Constraint, expected: dict[str, Any]
) -> None:
    assert narrowed(spec, one) == expected


def test_constraints_change_no_type() -> None:
    spec = {"type": "integer"}
    entry = SchemaEntry({"properties": {"a": spec}})
    wide = Overlay(constraints={"c": Constraint("range", ["a"], maximum=2**64)})
    assert types(entry, wide) == {"a": "int64"}
    assert laid(entry, wide).schema["properties"]["a"]["maximum"] == 2**64


_SPECS = st.sampled_from(
    [
        {"type": "integer"},
        {"type": ["null", "string"], "description": "d"},
        {"type": "number", "multipleOf": 0.01, "minimum": 0},
        {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        {},
        {"$ref": "#/definitions/x"},
    ]
)
_NAMES = ("a", "b", "c", "d")
_COLUMNS = st.builds(
    ColumnOverlay,
    type=st.none() | st.just("text") | _SPECS.filter(lambda spec: "$ref" not in spec),
    description=st.none() | st.just("said"),
    dropped=st.booleans(),
)
_CONSTRAINTS = st.sampled_from(
    [
        Constraint("not-null", ["a"]),
        Constraint("enum", ["b"], values=[1, "x"]),
        Constraint("range", ["a"], minimum=-1, maximum=5),
        Constraint("unique", ["a", "b"]),
        Constraint("pattern", ["new"], pattern="x"),
    ]
)


@given(
    properties=st.dictionaries(st.sampled_from(_NAMES), _SPECS),
    columns=st.dictionaries(st.sampled_from(_NAMES), _COLUMNS),
    renamed=st.sampled_from([None, *_NAMES]),
    added=st.booleans(),
    rules=st.lists(_CONSTRAINTS, max_size=3),
    required=st.lists(st.sampled_from(_NAMES), unique=True),
)
def test_laying_it_over_twice_is_laying_it_over_once(
    properties: dict[str, Any],
    columns: dict[str, ColumnOverlay],
    renamed: str | None,
    added: bool,
    rules: list[Constraint],
    required: list[str],
) -> None:
    if renamed is not None:
        columns = {**columns, renamed: ColumnOverlay(type=None, name="new")}
    overlay = Overlay(
        columns=columns,
        added={"region": REGION} if added else {},
        constraints={str(n): one for n, one in enumerate(rules)},
    )
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "definitions": {"x": {"type": ["null", "integer"]}},
    }
    once = laid(SchemaEntry(schema, required[:1]), overlay)
    assert laid(once, overlay) == once
    assert table_columns(once, overlay) == table_columns(SchemaEntry(schema, required[:1]), overlay)
