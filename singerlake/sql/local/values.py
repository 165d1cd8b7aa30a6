"""Literals of the set, as DuckDB takes them: exactly the value that Spark compares with."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal

from sqlglot import exp

from singerlake.format.types import DIGITS, INT64, Kind, Type
from singerlake.sql.local.outside import OutsideError

TEXTS = (Kind.STRING, Kind.TEXT)
NESTED = (Kind.STRUCT, Kind.LIST)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(\.\d{1,6})?Z?)?", re.ASCII)
_TYPED = {exp.DataType.Type.DATE: Kind.DATE, exp.DataType.Type.TIMESTAMPTZ: Kind.TIMESTAMP}
"""What stands before a string as its type, as sqlglot names what Spark calls date and timestamp."""


def same(one: Type, other: Type) -> bool:
    """Tell whether values of two columns are compared without a cast, and alike everywhere."""
    if one.kind in TEXTS and other.kind in TEXTS:
        return True
    return one.kind is other.kind and one.scale == other.scale


def words(type_: Type) -> str:
    """Return Spark's name of a type."""
    names = {Kind.INTEGER: "bigint", Kind.TEXT: "string", Kind.LIST: "array"}
    if type_.kind in (Kind.STRUCT, Kind.LIST):
        return names.get(type_.kind, "struct")
    return names.get(type_.kind, str(type_))


def is_literal(node: exp.Expr) -> bool:
    """Tell whether a node is a literal: a number with or without its sign, a string, a day."""
    if isinstance(node, exp.Neg):
        return isinstance(node.this, exp.Literal) and not node.this.is_string
    if type(node) is exp.Cast:
        return isinstance(node.this, exp.Literal) and node.this.is_string
    return isinstance(node, (exp.Literal, exp.Boolean))


def literal(node: exp.Expr, type_: Type, texts: list[str]) -> str:
    """Write a literal in DuckDB's SQL, as a value of the type that it is compared with.

    Args:
        texts: Gets what is a string, which goes to DuckDB as a parameter.

    Raises:
        OutsideError: Spark would cast one of the two in a way that is not known to be the same.
    """
    kind = type_.kind
    if isinstance(node, exp.Boolean):
        if kind is Kind.BOOLEAN:
            return "true" if node.this else "false"
        raise _mixed(type_, "a boolean")
    if type(node) is exp.Cast:
        if set(node.args) - {"this", "to"} and any(
            node.args[name] for name in set(node.args) - {"this", "to"}
        ):
            raise OutsideError("CAST")
        if _TYPED.get(node.to.this) is not kind or node.to.expressions:
            raise OutsideError("CAST")
        return time(str(node.this.this), kind)
    if isinstance(node, exp.Literal) and node.is_string:
        text = str(node.this)
        if kind in TEXTS:
            texts.append(text)
            return f"${len(texts)}"
        if kind in (Kind.DATE, Kind.TIMESTAMP):
            return time(text, kind)
        raise _mixed(type_, "a string")
    text = f"-{node.this.this}" if isinstance(node, exp.Neg) else str(node.this)
    return number(text, type_)


def time(text: str, kind: Kind) -> str:
    """Write a day or an instant; see :func:`literal`."""
    form = _DATE if kind is Kind.DATE else _TIMESTAMP
    found = form.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        if kind is Kind.DATE:
            date.fromisoformat(text)
            return f"DATE '{text}'"
        day, clock, fraction = found[1], found[2] or "00:00:00", (found[3] or ".0").ljust(7, "0")
        datetime.fromisoformat(f"{day} {clock}{fraction}")
    except ValueError:
        form_ = "2026-01-31" if kind is Kind.DATE else "2026-01-31 12:00:00"
        raise OutsideError(f"a {kind.value} written otherwise than '{form_}'") from None
    return f"TIMESTAMP '{day} {clock}{fraction}'"


def number(text: str, type_: Type) -> str:
    """Write a number, with or without its sign; see :func:`literal`."""
    kind, whole = type_.kind, text.lstrip("-").isdecimal()
    if kind is Kind.INTEGER and whole and int(text) in INT64:
        return f"CAST('{int(text)}' AS BIGINT)"
    if kind is Kind.NUMBER and (not whole or int(text) in INT64):
        value, exact = float(text), "e" not in text.lower()
        if math.isinf(value) or (value == 0 and Decimal(text) != 0):
            raise OutsideError(f"the number {text}, which no double holds")
        if exact and len(text.lstrip("-").replace(".", "")) > DIGITS:
            raise OutsideError(f"the number {text}, which has more than {DIGITS} digits")
        value = abs(value) if exact and value == 0 else value  # to Spark, it is a decimal first
        return f"CAST('{value!r}' AS DOUBLE)"
    if kind is Kind.DECIMAL and "e" not in text.lower():
        before, _, after = text.lstrip("-").partition(".")
        if len(after) <= type_.scale and len(before) + type_.scale <= DIGITS:
            return f"CAST('{text}' AS DECIMAL({DIGITS},{type_.scale}))"
        raise OutsideError(f"the number {text} with a decimal({DIGITS},{type_.scale})")
    raise _mixed(type_, f"the number {text}")


def _mixed(type_: Type, other: str) -> OutsideError:
    return OutsideError(f"a comparison of {words(type_)} with {other}")
