"""Sums up JSON values for ``inference.py``, with every digit of their numbers."""

from __future__ import annotations

import json
from typing import Any

from singerlake.format.values import keeps_digits
from singerlake.rows.given.values.inference import (
    ARRAY,
    BOOLEAN,
    DECIMAL,
    DOUBLE_DIGITS,
    EXPONENT,
    LONGEST_FRACTION,
    OBJECT,
    STRING,
    Member,
    Summary,
    add_integer_bounds,
    limit_members,
)
from singerlake.rows.given.values.python_values import LONE_SURROGATE


class Members(list[tuple[str, Any]]):
    """The members of an object as they stand there, a name twice where it is there twice."""


class _Fraction(str):
    """A number with a point or an exponent, as it is spelled."""

    __slots__ = ()


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not valid JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=Members, parse_float=_Fraction, parse_constant=_no_number
)


def parse(text: str) -> Any:
    """Parse JSON; objects become :class:`Members`, and numbers keep their digits.

    Raises:
        ValueError: It is no JSON.
        RecursionError: It is nested deeper than Python goes.
    """
    return _DECODER.decode(text)


def fault(text: bytes, error: Exception) -> str:
    """Say what is wrong with a text that a decoder refused, as words that follow it.

    The decoder calls a text with half of a character cut short, where it ends soon after that.
    """
    try:
        json.dumps(parse(text.decode()), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return f"is not a valid {LONE_SURROGATE}"
    except (ValueError, RecursionError):
        pass
    return f"is not valid JSON: {error}"


def add_value(summary: Summary, value: Any) -> None:
    """Take in a value that :func:`parse` gave."""
    if value is None:
        summary.nulls += 1
        return
    summary.values += 1
    kind = type(value)
    if kind is str:
        summary.kinds |= STRING
    elif kind is bool:
        summary.kinds |= BOOLEAN
    elif kind is int:
        add_integer_bounds(summary, value, value)
    elif kind is _Fraction:
        _add_fraction(summary, value)
    elif kind is Members:
        summary.kinds |= OBJECT
        add_members(summary, value)
    else:
        summary.kinds |= ARRAY
        items = summary.items
        if items is None:
            items = summary.items = Summary()
        for item in value:
            add_value(items, item)


def add_members(summary: Summary, members: Members) -> None:
    """Take in the members of an object."""
    if summary.crowded:
        return
    known = summary.members
    for position, (name, value) in enumerate(members):
        member = known.get(name)
        if member is None:
            member = known[name] = Member(position, Summary())
        elif position < member.position:
            member.position = position
        add_value(member.summary, value)
    limit_members(summary)


def _add_fraction(summary: Summary, value: str) -> None:
    mantissa, exponent, _ = value.lower().partition("e")
    whole, _, behind = mantissa.lstrip("-").partition(".")
    if exponent:
        summary.kinds |= EXPONENT
    else:
        summary.kinds |= DECIMAL
        summary.whole = max(summary.whole, len(whole.lstrip("0")))
        summary.scale = max(summary.scale, len(behind))
    summary.padded = summary.padded or (len(behind) > 1 and behind.endswith("0"))
    digits = len((whole + behind).strip("0"))
    summary.long = summary.long or digits > DOUBLE_DIGITS
    if summary.changed is None and (digits > DOUBLE_DIGITS or exponent):
        too_long = len(whole) + len(behind) > LONGEST_FRACTION
        summary.changed = value if too_long or not keeps_digits(value, float(value)) else None
