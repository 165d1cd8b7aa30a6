"""The draft of JSON Schema that a schema is written in, and its words in that draft.

Taps were written over ten years, and copy from one another: a schema names one draft and uses the
words of another, or names none. What an older draft says in another way is put in the words of
the draft that is chosen, so that it holds; what no draft knows is passed over and named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

import jsonschema_rs


@dataclass(frozen=True)
class Draft:
    """A draft of JSON Schema.

    Attributes:
        number: 4, 6, 7, or the year and month, as in ``$schema``.
        python: The name of its validator in the library ``jsonschema``.
    """

    number: int
    rust: Callable[..., jsonschema_rs.Validator]
    python: str


DRAFT_4 = Draft(4, jsonschema_rs.Draft4Validator, "Draft4Validator")
DRAFT_6 = Draft(6, jsonschema_rs.Draft6Validator, "Draft6Validator")
DRAFT_7 = Draft(7, jsonschema_rs.Draft7Validator, "Draft7Validator")
DRAFT_2019 = Draft(201909, jsonschema_rs.Draft201909Validator, "Draft201909Validator")
DRAFT_2020 = Draft(202012, jsonschema_rs.Draft202012Validator, "Draft202012Validator")

_NAMED = {
    # Nobody validates draft 3, nearly all of which means the same in draft 4.
    "json-schema.org/draft-03/schema": DRAFT_4,
    "json-schema.org/draft-04/schema": DRAFT_4,
    "json-schema.org/draft-06/schema": DRAFT_6,
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/draft/2019-09/schema": DRAFT_2019,
    "json-schema.org/draft/2020-12/schema": DRAFT_2020,
}
_ONE = frozenset((
    "items", "additionalItems", "additionalProperties", "not", "if", "then", "else", "contains",
    "propertyNames", "unevaluatedItems", "unevaluatedProperties",
))  # fmt: skip
_SEVERAL = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
_BY_NAME = frozenset((
    "properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies",
))  # fmt: skip
_SAYS_TYPE = frozenset(("type", "title", "description", "default", "examples", "$comment"))
_EXCLUSIVE = (("exclusiveMinimum", "minimum", max), ("exclusiveMaximum", "maximum", min))


def draft_of(schema: dict[str, Any]) -> Draft:
    """Find the draft that ``$schema`` names, else the newest that knows the schema's words."""
    named = schema.get("$schema")
    if isinstance(named, str):
        draft = _NAMED.get(named.partition("://")[2].rstrip("#"))
        if draft is not None:
            return draft
    draft = DRAFT_2020
    for part in _parts(schema):
        if any(isinstance(part.get(word), bool) for word, _, _ in _EXCLUSIVE):
            return DRAFT_4
        if isinstance(part.get("items"), list):
            draft = DRAFT_7
    return draft


def put_in_words_of(
    draft: Draft, schema: dict[str, Any], passed_over: Callable[[str, str], None]
) -> dict[str, Any]:
    """Put a schema in the words that the validators of a draft take.

    Args:
        schema: The schema; stays as it is.
        passed_over: Told of each keyword that is left out, because no validator knows what it
            says: the keyword and what it said.
    """
    rewritten: dict[str, Any] = _Rewriting(draft, passed_over).schema(schema)
    return rewritten


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it; nothing out of an ``enum`` or a ``default``."""
    if not isinstance(schema, dict):
        return
    yield schema
    for word, said in schema.items():  # a schema has few words, and there are many that it may have
        if isinstance(said, dict):
            if word in _ONE:
                yield from _parts(said)
            elif word in _BY_NAME:
                for inner in said.values():
                    yield from _parts(inner)
        elif isinstance(said, list) and word in _SEVERAL:
            for inner in said:
                yield from _parts(inner)


class _Rewriting:
    def __init__(self, draft: Draft, passed_over: Callable[[str, str], None]) -> None:
        self._draft = draft
        self._passed_over = passed_over

    def schema(self, schema: Any) -> Any:
        if isinstance(schema, bool) and self._draft is DRAFT_4:
            return {} if schema else {"not": {}}
        if not isinstance(schema, dict):
            return schema
        spec = {word: value for word, value in schema.items() if word != "$schema"}
        self._type(spec)
        self._patterns(spec)
        self._required(spec)
        self._bounds(spec)
        self._tuple(spec)
        if "anyOf" not in spec and _any_number(spec.get("oneOf")):
            spec["anyOf"] = spec.pop("oneOf")
        for word, said in spec.items():
            if word in _ONE and isinstance(said, (dict, bool)) and not self._is_flag(word, said):
                spec[word] = self.schema(said)
            elif word in _SEVERAL and isinstance(said, list):
                spec[word] = [self.schema(inner) for inner in said]
            elif word in _BY_NAME and isinstance(said, dict):
                spec[word] = {name: self.schema(inner) for name, inner in said.items()}
        return spec

    def _is_flag(self, word: str, value: Any) -> bool:
        """Tell whether draft 4 itself has a boolean there."""
        return isinstance(value, bool) and word in ("additionalItems", "additionalProperties")

    def _type(self, spec: dict[str, Any]) -> None:
        kind = spec.get("type")
        if kind == "any" or (isinstance(kind, list) and "any" in kind):
            del spec["type"]
            self._passed_over("type", "any")

    def _patterns(self, spec: dict[str, Any]) -> None:
        pattern = spec.get("pattern")
        if isinstance(pattern, str) and only_python_reads(self._draft, pattern):
            del spec["pattern"]
            self._passed_over("pattern", pattern)
        patterns = spec.get("patternProperties")
        if not isinstance(patterns, dict):
            return
        if bad := [text for text in patterns if only_python_reads(self._draft, text)]:
            spec["patternProperties"] = {
                text: inner for text, inner in patterns.items() if text not in bad
            }
            # Nobody can tell any more which properties are the additional ones.
            spec.pop("additionalProperties", None)
            spec.pop("unevaluatedProperties", None)
            for pattern in bad:
                self._passed_over("patternProperties", pattern)

    def _required(self, spec: dict[str, Any]) -> None:
        """Draft 3 says it at the property, not at the object."""
        own = spec.get("required")
        if isinstance(own, bool) or (own == [] and self._draft is DRAFT_4):
            del spec["required"]
        properties = spec.get("properties")
        if not isinstance(properties, dict):
            return
        named = spec.get("required")
        names = list(named) if isinstance(named, list) else []
        flagged = [
            name
            for name, inner in properties.items()
            if isinstance(inner, dict) and inner.get("required") is True and name not in names
        ]
        if flagged:
            spec["required"] = [*names, *flagged]

    def _bounds(self, spec: dict[str, Any]) -> None:
        """Draft 4 says of a bound that it is exclusive, later ones have an exclusive bound."""
        for exclusive, plain, nearer in _EXCLUSIVE:
            limit, bound = spec.get(exclusive), spec.get(plain)
            if isinstance(limit, bool) and self._draft is not DRAFT_4:
                del spec[exclusive]
                if limit and bound is not None:
                    spec[exclusive] = spec.pop(plain)
            elif isinstance(limit, bool) and bound is None:
                del spec[exclusive]
            elif _is_number(limit) and self._draft is DRAFT_4:
                del spec[exclusive]
                if not _is_number(bound) or nearer((limit, bound)) == limit:
                    spec[plain], spec[exclusive] = limit, True

    def _tuple(self, spec: dict[str, Any]) -> None:
        """Until 2019 the items of a tuple stood in ``items``, which those behind go by."""
        if not isinstance(spec.get("items"), list):
            spec.pop("additionalItems", None)  # means nothing, and Python's validator trips
        if isinstance(spec.get("items"), list) and self._draft is DRAFT_2020:
            spec["prefixItems"] = spec.pop("items")
            if (rest := spec.pop("additionalItems", None)) is not None:
                spec["items"] = rest


def _any_number(branches: Any) -> bool:
    """Tell whether alternatives are an integer, a number and other types, and nothing more.

    To the letter a whole number is both, so that ``oneOf`` refuses it; nobody means that.
    """
    if not isinstance(branches, list) or not all(isinstance(one, dict) for one in branches):
        return False
    said = [one.get("type") for one in branches]
    kinds = [kind for one in said for kind in (one if isinstance(one, list) else [one])]
    plain = all(one.keys() <= _SAYS_TYPE for one in branches)
    return plain and "integer" in kinds and "number" in kinds


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@lru_cache(maxsize=1024)
def only_python_reads(draft: Draft, pattern: str) -> bool:
    """Tell whether a regular expression is one in Python, and none as JSON Schema has them."""
    try:
        draft.rust({"pattern": pattern})
    except (ValueError, RecursionError):
        pass
    else:
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
