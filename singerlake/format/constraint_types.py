"""The kinds of constraints that a column can have, by its type and its schema.

A constraint is kept by everybody who looks: the target and a change hold records against the
schema that it is laid over, a freeze and an alteration hold values against each other. So there
is none that the two would take differently.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import msgspec
from msgspec.structs import replace

from singerlake.errors import UsageError
from singerlake.format.json_schema import Spec, resolved
from singerlake.format.overlay import Constraint
from singerlake.format.types import DIGITS, INT64, Kind, Type
from singerlake.format.values import converter, misfit

NUMBERS = (Kind.INTEGER, Kind.NUMBER, Kind.DECIMAL)
TEXTS = (Kind.STRING, Kind.TEXT)
_NO_VALUES = (Kind.STRUCT, Kind.LIST)
_CONTEXT = Context(prec=1_000)
"""For all digits of a double's bound."""
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_KINDS = {"range": (NUMBERS, "numbers"), "length": (TEXTS, "texts"), "pattern": (TEXTS, "texts")}


def unfit(one: Constraint, column: str, type_: Type, spec: Any, root: Spec) -> str:
    """Say why a constraint is none for a column; empty where it is one.

    Args:
        column: The column's name, which is one of the constraint's.
        root: The whole schema, in which ``$ref`` is looked up.
    """
    if one.kind in _KINDS and type_.kind not in _KINDS[one.kind][0]:
        return f"column {column!r} is {type_}, and {one.kind} is about {_KINDS[one.kind][1]}"
    if one.kind in ("range", "enum") and type_.kind is Kind.DECIMAL and _strings(spec, root):
        return (
            f"column {column!r} may have its decimals as strings, and JSON Schema holds no digits "
            f"in strings against {'bounds' if one.kind == 'range' else 'numbers'}"
        )
    if one.kind == "enum" and type_.kind is Kind.TEXT and not _strings(spec, root):
        return f"column {column!r} was made text, and the tap's schema of it allows no strings"
    return _not_listed(one, column, type_) if one.kind == "enum" else ""


def spelled(one: Constraint, column: str, type_: Type) -> Constraint:
    """Return a constraint with its values as they are compared: whole numbers without a point.

    Args:
        one: A constraint that is one for the column.

    Raises:
        UsageError: It asks for nothing, or for what no value is.
    """
    if one.kind == "enum":
        found = [_spelled(value, type_) for value in one.values if value is not None]
        if not found:
            raise UsageError(f"the enum of {column!r} names no value; ask for none with not-null")
        return replace(one, values=[v for at, v in enumerate(found) if v not in found[:at]])
    if one.kind in ("range", "length"):
        ends = {"minimum": one.minimum, "maximum": one.maximum}
        _check_ends(one, column)
        if one.kind == "length":
            ends = {name: None if end is None else int(end) for name, end in ends.items()}
        return replace(one, **ends)
    return one


def edge(type_: Type, bound: float, *, least: bool) -> float | Decimal | bool:
    """Return the value that numbers of a column are compared with for a bound.

    Whole numbers and decimals are compared with the nearest bound that has no more digits behind
    the point than they have: no two decimals of many digits meet that no type holds.

    Returns:
        Whether all values are beyond it, if no value of the column is as far out.
    """
    if type_.kind is Kind.NUMBER:
        return float(bound)
    step = Decimal(1).scaleb(-type_.scale)
    rounding = ROUND_CEILING if least else ROUND_FLOOR
    exact = Decimal(repr(bound)).quantize(step, rounding, _CONTEXT)
    if exact and exact.adjusted() >= DIGITS - type_.scale:
        return (exact > 0) is least
    return exact


def _strings(spec: Any, root: Spec) -> bool:
    """Tell whether values may be strings by the types of a schema."""
    spec = resolved(spec, root)
    kinds = spec.get("type")
    if kinds is not None:
        return "string" in ([kinds] if isinstance(kinds, str) else kinds)
    branches = spec.get("anyOf") or spec.get("oneOf")
    return not isinstance(branches, list) or any(_strings(branch, root) for branch in branches)


def _not_listed(one: Constraint, column: str, type_: Type) -> str:
    """Say why values are none that rows of a column can be held against."""
    if type_.kind in _NO_VALUES:
        return f"column {column!r} is {type_}, and enum is about single values"
    if type_.kind is Kind.TIMESTAMP:
        return (
            f"column {column!r} is {type_}, and one moment is spelled in many ways: enum cannot "
            "tell them apart"
        )
    for value in one.values:
        if type_.kind is Kind.TEXT and value is not None and not isinstance(value, str):
            return f"column {column!r} is {type_}: write each value of the enum as a string"
        if isinstance(value, float) and not math.isfinite(value):
            return f"in the enum of column {column!r}, {value} is not a JSON number"
        if wrong := misfit(_ENCODER.encode(value), converter(type_), column):
            return wrong
    return ""


def _spelled(value: Any, type_: Type) -> Any:
    if type_.kind is Kind.DECIMAL:
        return _number_or_digits(Decimal(str(value)))
    if type_.kind is Kind.NUMBER:
        return float(value) if isinstance(value, Decimal) else value
    if type_.kind not in (Kind.INTEGER, Kind.DATE):
        return value
    read = converter(type_)(_ENCODER.encode(value))
    return read if type_.kind is Kind.INTEGER else read.isoformat()


def _number_or_digits(value: Decimal) -> int | float | str:
    """A decimal as a number of JSON's, where doubles hold all of its digits, else these."""
    if value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else format(value, "f")


def _check_ends(one: Constraint, column: str) -> None:
    least, most = one.minimum, one.maximum
    ends = [end for end in (least, most) if end is not None]
    if not ends:
        raise UsageError(f"the {one.kind} of {column!r} has neither end")
    for end in ends:
        if not _is_number(end):
            raise UsageError(f"an end of the {one.kind} of {column!r} is not a double")
        if one.kind == "length" and (end != int(end) or end < 0 or int(end) not in INT64):
            raise UsageError(
                f"the length of {column!r} is in characters: a whole number from 0, not {end}"
            )
    if least is not None and most is not None and least > most:
        raise UsageError(f"the {one.kind} of {column!r} is empty: {least} is above {most}")


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value)) and Decimal(repr(value)).is_finite()
    except (OverflowError, ArithmeticError):
        return False
