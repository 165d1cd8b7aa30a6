"""The type of a file's column, found by looking at all of it: never at a sample.

Each part of a file is summed up by itself, and sums are merged; merging is commutative and
associative, so the schema is the same whatever the order of the rows and however the file is split.
A type is chosen only if every value reads back as what stands in the file: a number that a double
would change is a decimal, and one that no decimal holds is text, as are ``007`` and ``1e5x``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from singerlake.format.types import DIGITS, INT64, MAX_DEPTH

Spec: TypeAlias = dict[str, Any]

INTEGER, DECIMAL, EXPONENT, BOOLEAN, DATE, TIMESTAMP, STRING, OBJECT, ARRAY = (
    1 << n for n in range(9)
)
"""What a value may be, as bits of :attr:`Summary.kinds`: an integer; a number with a point, or
with an exponent; …"""
NUMBERS = INTEGER | DECIMAL | EXPONENT
TEXTS = DATE | TIMESTAMP | STRING
DOUBLE_DIGITS = 15
"""Significant digits that every double keeps; many keep 16 or 17."""
LARGEST_SAFE = 2**53
"""Up to here, doubles hold all integers."""
LONGEST_FRACTION = 200
"""Digits of a number with a point or an exponent, beyond which no double is looked for."""
MOST_MEMBERS = 1_000
"""An object of more names than this is taken for one whose names are values, and kept as JSON."""


class Summary(msgspec.Struct, omit_defaults=True):
    """The content of a column, as far as it was looked at.

    Attributes:
        values: How many values that are not null.
        nulls: How many nulls.
        empty: How many empty texts, which are null in a column that is no text.
        whole: The most digits before the point of a number, zeros in front not among them.
        scale: The most digits behind the point.
        wide: Whether an integer is past 64 bits.
        changed: A number that a double would change.
        long: Whether a number has more than :data:`DOUBLE_DIGITS` digits, which a double keeps.
        padded: Whether a number ends in a zero that no double is printed with, as ``1.10`` does.
        odd: The text for which a column is a string that holds other values otherwise.
        members: What objects hold, by name.
        crowded: Whether objects have more names than :data:`MOST_MEMBERS`.
    """

    kinds: int = 0
    values: int = 0
    nulls: int = 0
    empty: int = 0
    whole: int = 0
    scale: int = 0
    wide: bool = False
    changed: str | None = None
    long: bool = False
    padded: bool = False
    odd: str | None = None
    members: dict[str, Member] = {}
    items: Summary | None = None
    crowded: bool = False


class Member(msgspec.Struct):
    """A member of objects.

    Attributes:
        position: Its least position in an object that has it.
    """

    position: int
    summary: Summary


def merge(one: Summary, other: Summary) -> Summary:
    """Sum up two parts of a column; neither is changed."""
    items = one.items or other.items
    if one.items is not None and other.items is not None:
        items = merge(one.items, other.items)
    merged = Summary(
        kinds=one.kinds | other.kinds,
        values=one.values + other.values,
        nulls=one.nulls + other.nulls,
        empty=one.empty + other.empty,
        whole=max(one.whole, other.whole),
        scale=max(one.scale, other.scale),
        wide=one.wide or other.wide,
        changed=min(filter(None, (one.changed, other.changed)), default=None),
        long=one.long or other.long,
        padded=one.padded or other.padded,
        odd=_merged_odd(one, other),
        items=items,
        crowded=one.crowded or other.crowded,
    )
    if not merged.crowded:
        merged.members = merge_members(one.members, other.members)
        limit_members(merged)
    return merged


def _merged_odd(one: Summary, other: Summary) -> str | None:
    """The least odd text of two parts, unless one of them is text without any."""
    if any(part.kinds & STRING and part.odd is None for part in (one, other)):
        return None
    return min((part.odd for part in (one, other) if part.odd is not None), default=None)


def merge_members(one: dict[str, Member], other: dict[str, Member]) -> dict[str, Member]:
    """Sum up the members of two parts; neither is changed."""
    merged = dict(one)
    for name, member in other.items():
        known = merged.get(name)
        if known is not None:
            position = min(known.position, member.position)
            member = Member(position, merge(known.summary, member.summary))  # noqa: PLW2901
        merged[name] = member
    return merged


def merge_all(parts: Iterable[Summary]) -> Summary:
    """Sum up any number of parts."""
    whole = Summary()
    for part in parts:
        whole = merge(whole, part)
    return whole


def limit_members(summary: Summary) -> None:
    """Forget the members of objects that have too many names."""
    if len(summary.members) > MOST_MEMBERS:
        summary.crowded, summary.members = True, {}


def in_order(members: dict[str, Member]) -> list[str]:
    """Return names in the order in which objects have them, whatever the order of the objects."""
    return sorted(members, key=lambda name: (members[name].position, name))


def cell_spec(summary: Summary) -> Spec:
    """Choose the JSON Schema of a column of text cells, null not among its values.

    A column of several kinds is a string, except that an integer may be any number, and a date a
    timestamp. A column without a value is a string.
    """
    kinds = summary.kinds
    spec: Spec | None = None
    if kinds == BOOLEAN:
        spec = {"type": "boolean"}
    elif kinds == DATE:
        spec = {"type": "string", "format": "date"}
    elif kinds and not kinds & ~(DATE | TIMESTAMP):
        spec = {"type": "string", "format": "date-time"}
    elif kinds and not kinds & ~NUMBERS:
        spec = number_spec(summary)
    return spec or {"type": "string"}


def why_text(summary: Summary) -> str | None:
    """Say why a column of text cells is a string that holds something else; None if not so."""
    kinds = summary.kinds & ~STRING
    word = next((word for word, group in _WORDS.items() if kinds and not kinds & ~group), None)
    if word is None or cell_spec(summary) != {"type": "string"}:
        return None
    if summary.odd is not None:
        return f"{summary.odd!r} is not a {word}"
    if summary.kinds & STRING:
        return None
    return f"no type holds all digits of its numbers: a double would change {summary.changed}"


_WORDS = {"number": NUMBERS, "boolean": BOOLEAN, "date or time": DATE | TIMESTAMP}


def number_spec(summary: Summary) -> Spec | None:
    """Choose the JSON Schema of numbers; None where no type holds all of their digits."""
    if summary.kinds & NUMBERS == INTEGER and not summary.wide:
        return {"type": "integer"}
    exact = summary.kinds & NUMBERS != INTEGER and summary.changed is None
    # No double is printed as 1.10: with long numbers beside it, these are of a decimal's scale.
    fixed = summary.long and summary.padded
    if exact and not fixed:
        return {"type": "number"}
    if not summary.kinds & EXPONENT and summary.whole + summary.scale <= DIGITS:
        return decimal_spec(DIGITS, summary.scale)
    return {"type": "number"} if exact else None


def add_integer_bounds(summary: Summary, least: int, most: int) -> None:
    """Take in integers, of which these are the least and the most."""
    summary.kinds |= INTEGER
    summary.whole = max(summary.whole, _digits(least), _digits(most))
    largest = max(-least, most)
    summary.long = summary.long or largest >= _LONG_INTEGER
    if summary.changed is None and largest > LARGEST_SAFE:
        summary.changed = str(most if most == largest else least)
    summary.wide = summary.wide or least not in INT64 or most not in INT64


_LONG_INTEGER = 10**DOUBLE_DIGITS


def _digits(number: int) -> int:
    return len(str(abs(number))) if number else 0


def decimal_spec(precision: int, scale: int) -> Spec:
    """Return the JSON Schema of a decimal.

    Not by multipleOf: validators that compute with doubles find 19.99 no multiple of 0.01.
    """
    return {"type": "number", "format": "singer.decimal", "precision": precision, "scale": scale}


def json_spec(summary: Summary, depth: int = 0) -> Spec:
    """Choose the JSON Schema of JSON values, null not among them.

    Strings are strings, whatever stands in them. Values of several kinds, and numbers that no type
    holds, are kept as their JSON text.
    """
    kinds: list[str] = []
    if summary.kinds & BOOLEAN:
        kinds.append("boolean")
    if summary.kinds & NUMBERS:
        kinds.append("number")
    if summary.kinds & TEXTS:
        kinds.append("string")
    if summary.kinds & OBJECT:
        kinds.append("object")
    if summary.kinds & ARRAY:
        kinds.append("array")
    if len(kinds) > 1:
        return {"type": kinds}
    if kinds == ["number"]:
        # No string is among them: but a number or a string together are a column of JSON texts.
        return number_spec(summary) or {"type": ["number", "string"]}
    if kinds == ["object"]:
        return _object_spec(summary, depth)
    if kinds == ["array"]:
        return _array_spec(summary, depth)
    return {"type": kinds[0] if kinds else "string"}


def nullable(spec: Spec) -> Spec:
    """Return a JSON Schema that allows null, too."""
    kinds = spec["type"]
    return {**spec, "type": ["null", *([kinds] if isinstance(kinds, str) else kinds)]}


def _object_spec(summary: Summary, depth: int) -> Spec:
    if summary.crowded or not summary.members or depth >= MAX_DEPTH:
        return {"type": "object"}
    properties = {
        name: nullable(json_spec(summary.members[name].summary, depth + 1))
        for name in in_order(summary.members)
    }
    return {"type": "object", "properties": properties}


def _array_spec(summary: Summary, depth: int) -> Spec:
    items = summary.items
    if items is None or not items.kinds or depth >= MAX_DEPTH:
        return {"type": "array"}
    return {"type": "array", "items": nullable(json_spec(items, depth + 1))}
