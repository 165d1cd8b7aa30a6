"""A JSON Schema with its ``$ref`` and ``allOf`` put in place.

``allOf`` means that all of its schemas hold, so they are put together keyword by keyword:
properties are merged, required names united, types intersected, bounds tightened. What no
keyword can say (two patterns, two ``anyOf``) stays behind in an ``allOf`` of the result, so
that the result always allows just what the schema allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Spec: TypeAlias = dict[str, Any]

_OBJECT = ("properties", "patternProperties", "additionalProperties")
_ARRAY = ("prefixItems", "items", "additionalItems")
_CONTAINS = ("contains", "minContains", "maxContains")
_IF = ("if", "then", "else")
_LOWER = ("minimum", "exclusiveMinimum")
_UPPER = ("maximum", "exclusiveMaximum")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_ASSERTIONS = frozenset(
    """
    $dynamicRef $recursiveRef anyOf const dependencies format not oneOf pattern
    """.split()  # noqa: SIM905
)
"""Keywords that refuse values and of which one schema has only one. Any other that is not known
here is an annotation: there the outermost word counts."""
TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

_DEEPEST = 10


class _NotExpressibleError(Exception):
    """One keyword cannot say what two say together."""


def resolved(spec: Any, root: Spec) -> Spec:
    """Return a schema whose own ``$ref`` and ``allOf`` are put in place.

    Those of its properties and items are left for when these are looked at.

    Args:
        spec: The schema; what is none is taken for one that allows everything.
        root: The whole schema, in which ``$ref`` is looked up.
    """
    if not isinstance(spec, dict):
        return {}
    if "$ref" not in spec and "allOf" not in spec:
        return spec
    whole: Spec = {}
    rest: list[Any] = []
    for part in _parts(spec, root):
        if not isinstance(part, dict):
            rest.append(part)
            continue
        own = {k: v for k, v in part.items() if k not in ("$ref", "allOf")}
        if part is not spec and not own.keys().isdisjoint(_UNEVALUATED):
            rest.append(part)  # its words are about what this part alone looks at
            own = {k: v for k, v in own.items() if k not in _UNEVALUATED}
        _conjoin(whole, own, rest)
    return {**whole, "allOf": rest} if rest else whole


def look_up(ref: str, root: Spec) -> Any:
    """Return what a ``$ref`` within a schema points to; None where that is nothing."""
    if not ref.startswith("#"):
        return None
    node: Any = root
    for part in ref[1:].split("/")[1:]:
        if not isinstance(node, dict):
            return None
        node = node.get(part.replace("~1", "/").replace("~0", "~"))
    return node if isinstance(node, (dict, bool)) else None


def may_be(spec: Any, root: Spec, kind: str, depth: int = 0) -> bool:
    """Tell whether a schema may allow a value of some kind, by what it says of types and values.

    Args:
        root: The whole schema, in which ``$ref`` is looked up.
        kind: A JSON type, such as ``null``.
        depth: How deep within another schema it stands: at some depth anything may be.
    """
    if spec is False or depth > _DEEPEST:
        return spec is not False
    spec = resolved(spec, root)
    kinds = spec.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(kinds, list) and all(isinstance(one, str) for one in kinds):
        allowed = {kind, "any", "integer" if kind == "number" else kind}
        if allowed.isdisjoint(kinds):
            return False
    values = spec.get("enum")
    if isinstance(values, list) and kind not in map(_kind, values):
        return False
    if "const" in spec and kind != _kind(spec["const"]):
        return False
    choices = (spec.get(word) for word in ("anyOf", "oneOf"))
    return all(
        any(may_be(branch, root, kind, depth + 1) for branch in branches)
        for branches in choices
        if isinstance(branches, list) and branches
    ) and all(may_be(part, root, kind, depth + 1) for part in spec.get("allOf", ()))


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return "null" if value is None else kinds.get(type(value), "object")


def _parts(spec: Spec, root: Spec) -> Iterator[Any]:
    """Every schema that must hold: itself first, then what it refers to, then its parts.

    Each reference is followed once: that a schema holds twice says no more, and one that
    refers to itself comes to an end.
    """
    seen: set[str] = set()
    waiting: list[Any] = [spec]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            if part is False:
                yield part
            continue
        yield part
        parts = part.get("allOf")
        if isinstance(parts, list):
            waiting += reversed(parts)
        ref = part.get("$ref")
        if isinstance(ref, str) and ref not in seen:
            seen.add(ref)
            waiting.append(look_up(ref, root))


def _conjoin(whole: Spec, part: Spec, rest: list[Any]) -> None:
    """Make a schema hold beside another; what does not fit in goes to ``rest``."""
    part = dict(part)
    _conjoin_objects(whole, part, rest)
    _conjoin_arrays(whole, part, rest)
    _keep_groups(whole, part, rest)
    for keyword, value in part.items():
        if keyword not in whole:
            whole[keyword] = value
        elif keyword in _MERGE:
            try:
                whole[keyword] = _MERGE[keyword](whole[keyword], value)
            except _NotExpressibleError:
                rest.append({keyword: value})
        elif keyword in _ASSERTIONS and whole[keyword] != value:
            rest.append({keyword: value})


def _conjoin_objects(whole: Spec, part: Spec, rest: list[Any]) -> None:
    ours, theirs = _group(whole, _OBJECT), _group(part, _OBJECT)
    if not ours or not theirs:
        return
    _drop(part, _OBJECT)
    mine, other = (_dict(side.get("properties")) for side in (ours, theirs))
    closed = [side.get("additionalProperties", True) for side in (ours, theirs)]
    if all(map(_allows_all, closed)):
        merged = _by_name(mine, other)
        patterns = [_dict(side.get("patternProperties")) for side in (ours, theirs)]
        if any(patterns):
            whole["patternProperties"] = _by_name(*patterns)
    elif "patternProperties" in {*ours, *theirs}:
        # Which names a pattern catches is not for us to say.
        rest += [ours, theirs]
        _drop(whole, _OBJECT)
        merged = _by_name(mine, other)
    else:
        merged = {
            name: _both(mine.get(name, closed[0]), other.get(name, closed[1]))
            for name in {**mine, **other}
        }
        whole["additionalProperties"] = _both(*closed)
    if merged:
        whole["properties"] = merged


def _conjoin_arrays(whole: Spec, part: Spec, rest: list[Any]) -> None:
    ours, theirs = _group(whole, _ARRAY), _group(part, _ARRAY)
    if not ours or not theirs:
        return
    _drop(part, _ARRAY)
    plain = all(list(side) == ["items"] and _is_schema(side["items"]) for side in (ours, theirs))
    if plain:
        whole["items"] = _both(ours["items"], theirs["items"])
    elif ours != theirs:
        rest.append(theirs)


def _keep_groups(whole: Spec, part: Spec, rest: list[Any]) -> None:
    """Keep keywords together that say something of each other."""
    for group in (_CONTAINS, _IF):
        ours, theirs = _group(whole, group), _group(part, group)
        if ours and theirs:
            _drop(part, group)
            if ours != theirs:
                rest.append(theirs)
    for bounds in (_LOWER, _UPPER):
        ours, theirs = _group(whole, bounds), _group(part, bounds)
        # In draft 4 the exclusive one is true or false, and says something of the other.
        if ours and theirs and any(isinstance(b, bool) for b in (*ours.values(), *theirs.values())):
            _drop(part, bounds)
            rest.append(theirs)


def _group(spec: Spec, keywords: tuple[str, ...]) -> Spec:
    return {keyword: spec[keyword] for keyword in keywords if keyword in spec}


def _drop(spec: Spec, keywords: tuple[str, ...]) -> None:
    for keyword in keywords:
        spec.pop(keyword, None)


def _dict(value: Any) -> Spec:
    return value if isinstance(value, dict) else {}


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _allows_all(spec: Any) -> bool:
    return spec is True or spec == {}


def _both(one: Any, other: Any) -> Any:
    """A schema that allows what both allow, put together when it is looked at."""
    if _allows_all(one) or one is other:
        return other
    return one if _allows_all(other) else {"allOf": [one, other]}


def _by_name(ours: Spec, theirs: Spec) -> Spec:
    return {
        name: _both(ours.get(name, True), theirs.get(name, True)) for name in {**ours, **theirs}
    }


def _types(ours: Any, theirs: Any) -> Any:
    mine, others = ([t] if isinstance(t, str) else t for t in (ours, theirs))
    if not all(isinstance(t, list) and {*TYPES}.issuperset(t) for t in (mine, others)):
        raise _NotExpressibleError
    met = [one for one in mine for other in others if one == other]
    for one, other in ((mine, others), (others, mine)):
        if "number" in one and "integer" in other and "number" not in met:
            met.append("integer")
    met = list(dict.fromkeys(met))
    if not met:
        raise _NotExpressibleError
    return met[0] if len(met) == 1 else met


def _enums(ours: Any, theirs: Any) -> Any:
    if not isinstance(ours, list) or not isinstance(theirs, list):
        raise _NotExpressibleError
    met = [one for one in ours if any(_same(one, other) for other in theirs)]
    if not met:
        raise _NotExpressibleError
    return met


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal in JSON, where 1 is 1.0 and true is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    return bool(one == other)


def _required(ours: Any, theirs: Any) -> Any:
    if isinstance(ours, bool) and isinstance(theirs, bool):
        return ours or theirs  # as draft 3 has it
    if not isinstance(ours, list) or not isinstance(theirs, list):
        raise _NotExpressibleError
    return list(dict.fromkeys([*ours, *theirs]))


def _steps(ours: Any, theirs: Any) -> Any:
    if ours == theirs:
        return ours
    if not all(isinstance(step, int) and step > 0 for step in (ours, theirs)):
        raise _NotExpressibleError
    larger, smaller = max(ours, theirs), min(ours, theirs)
    if larger % smaller:
        raise _NotExpressibleError
    return larger


def _numbers(pick: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def merge(ours: Any, theirs: Any) -> Any:
        for bound in (ours, theirs):
            if isinstance(bound, bool) or not isinstance(bound, (int, float)):
                raise _NotExpressibleError
        return pick(ours, theirs)

    return merge


def _named(one: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def merge(ours: Any, theirs: Any) -> Any:
        if not isinstance(ours, dict) or not isinstance(theirs, dict):
            raise _NotExpressibleError
        both = {name: one(ours[name], theirs[name]) for name in ours.keys() & theirs.keys()}
        return {**ours, **theirs, **both}

    return merge


_MERGE: dict[str, Callable[[Any, Any], Any]] = {
    "type": _types,
    "enum": _enums,
    "required": _required,
    "multipleOf": _steps,
    "uniqueItems": lambda ours, theirs: ours or theirs,
    "propertyNames": _both,
    "dependentRequired": _named(_required),
    "dependentSchemas": _named(_both),
    **dict.fromkeys(
        ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), _numbers(max)
    ),
    **dict.fromkeys(
        ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), _numbers(min)
    ),
}
