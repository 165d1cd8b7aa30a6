"""What is said of a schema that is none: at which property it is wrong, and in what."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.rows.validation.full_validation import NotASchemaError, validator_of

KINDS = "is not a JSON Schema type, one or several of array, boolean, integer, null, number"


@pytest.mark.parametrize(
    ("spec", "where", "said"),
    [
        ({"type": "date-time"}, "property 'a', type: ", f'"date-time" {KINDS}'),
        ({"type": ["x", "null"]}, "property 'a', type: ", f'["x","null"] {KINDS}'),
        ({"properties": {"b.c": {"type": "x"}}}, "property 'a.b.c', type: ", KINDS),
        ({"items": {"properties": {"b": {"type": "x"}}}}, "property 'a[].b', type: ", KINDS),
        ({"items": [{}, {"type": "x"}]}, "property 'a[]', type: ", KINDS),
        ({"anyOf": [{}, {"type": "x"}]}, "property 'a', anyOf.1.type: ", KINDS),
        ({"properties": {"type": {"type": "x"}}}, "property 'a.type', type: ", KINDS),
        ({"multipleOf": 0}, "property 'a', multipleOf: ", "0 is less than or equal to"),
        ({"multipleOf": "0.001"}, "property 'a', multipleOf: ", '"0.001" is not of type "number"'),
        (
            {"minimum": "1", "exclusiveMinimum": True},
            "property 'a', exclusiveMinimum: ",
            "not of type",
        ),
        ({"pattern": "("}, "property 'a', pattern: ", "("),
        ({"$ref": "#/definitions/b"}, "property 'a', $ref: ", "'/definitions/b' does not exist"),
        ({"$ref": "https://example.org/b"}, "property 'a', $ref: ", "https://example.org/b"),
        ({"minimum": "x" * 10_000}, "property 'a', minimum: ", " … "),
        (5, "property 'a': ", "5 is not of type"),
    ],
)
def test_the_property_is_named(spec: Any, where: str, said: str) -> None:
    with pytest.raises(NotASchemaError) as error:
        validator_of({"type": "object", "properties": {"id": {"type": "integer"}, "a": spec}})
    words = str(error.value)
    assert words.startswith(where)
    assert said in words
    assert len(words) < 400


def test_what_is_wrong_with_no_property_is_named_by_its_keyword() -> None:
    with pytest.raises(NotASchemaError, match='^type: "objct" is not a JSON Schema type'):
        validator_of({"type": "objct"})
    with pytest.raises(NotASchemaError, match="^required.0: "):
        validator_of({"required": [1]})
