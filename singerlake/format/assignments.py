"""What ``update --set`` says: columns, values, and which of these are literals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from singerlake.errors import UsageError
from singerlake.format.sql_tokens import Token, tokens
from singerlake.format.types import DIGITS, Kind, Type

INT_DIGITS, LONG_DIGITS = 10, 19
"""The most digits of Spark's int and bigint."""
EXACT_DIGITS = 15
"""Digits of a decimal that a double gives back as they were."""
_MOST_INT, _MOST_LONG = 2**31 - 1, 2**63 - 1
_WHOLE = re.compile(r"\d+")
_DECIMAL = re.compile(r"\d+\.\d*|\.\d+")
_DOUBLE = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)[eE][+-]?\d{1,2}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z")
_WORDS = {"true": True, "false": False}


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """Take ``a = 1, b = upper(b)`` apart: new values by column, as SQL.

    Raises:
        UsageError: One is no assignment, or a column is named twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        for name, value in _assigned(text):
            if name in found:
                raise UsageError(f"{name!r} is set twice")
            found[name] = value
    return found


def _assigned(text: str) -> Iterator[tuple[str, str]]:
    depth = 0
    pieces: list[list[Token]] = [[]]
    for token in tokens(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0) * (token.kind == "sign")
        if token.text == "," and not depth:
            pieces.append([])
        else:
            pieces[-1].append(token)
    for piece in pieces:
        if len(piece) < 3 or piece[0].name is None or piece[1].text != "=":  # noqa: PLR2004
            raise UsageError(
                f"{text!r} is not an assignment: write COLUMN = VALUE, with a name of other "
                "characters than letters, digits and underscores in backticks"
            )
        yield piece[0].name, text[piece[1].end : piece[-1].end].strip()


@dataclass(frozen=True)
class Literal:
    """A value that is written out.

    Attributes:
        value: As Arrow takes it for the column's type; None for null.
    """

    value: Any


def literal(text: str, type_: Type) -> Literal | None:
    """Read a value that is written out, as Spark reads it.

    Args:
        text: The value as SQL.
        type_: The type of its column.

    Returns:
        None if it is an expression, or one that the column does not hold as it is: what becomes
        of it, Spark says.
    """
    found = tokens(text)
    words = [token.text for token in found]
    if len(found) == 1 and found[0].kind == "word":
        return _word(words[0].casefold(), type_)
    if len(found) == 1 and found[0].kind == "string":
        value = _plain(words[0])
        is_text = type_.kind in (Kind.STRING, Kind.TEXT)
        return Literal(value) if value is not None and is_text else None
    if len(found) == 2 and [one.kind for one in found] == ["word", "string"]:  # noqa: PLR2004
        return _time(words[0].casefold(), _plain(words[1]), type_)
    negative = words[:1] == ["-"]
    if [one.kind for one in found[negative:]] == ["number"]:
        return _number(words[-1], type_, negative=negative)
    return None


def _word(word: str, type_: Type) -> Literal | None:
    if word == "null":
        return Literal(None)
    if word in _WORDS and type_.kind is Kind.BOOLEAN:
        return Literal(_WORDS[word])
    return None


def _plain(text: str) -> str | None:
    """A text in single quotes that has nothing which Spark would read otherwise."""
    inner = text[1:-1]
    return inner if text[0] == "'" and "\\" not in inner and "'" not in inner else None


def _time(word: str, text: str | None, type_: Type) -> Literal | None:
    try:
        if word == "date" and type_.kind is Kind.DATE and _DAY.fullmatch(text or ""):
            return Literal(date.fromisoformat(str(text)))
        if word == "timestamp" and type_.kind is Kind.TIMESTAMP and _INSTANT.fullmatch(text or ""):
            whole, _, part = str(text)[:-1].partition(".")
            at = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc)
            return Literal(at.replace(microsecond=int(part.ljust(6, "0"))) if part else at)
    except ValueError:  # such as the 30th of February
        return None
    return None


def _number(text: str, type_: Type, *, negative: bool) -> Literal | None:
    sign = "-" if negative else ""
    if _WHOLE.fullmatch(text):
        number = int(sign + text)
        digits = INT_DIGITS if abs(number) <= _MOST_INT else LONG_DIGITS
        if abs(number) > _MOST_LONG:
            return None
        if type_.kind is Kind.INTEGER:
            return Literal(number)
        return _exact(Decimal(number), digits, 0, type_)
    if _DECIMAL.fullmatch(text):
        value = Decimal(sign + text)
        exponent = value.as_tuple().exponent
        scale = -exponent if isinstance(exponent, int) else 0
        return _exact(value, max(len(value.as_tuple().digits), scale), scale, type_)
    if _DOUBLE.fullmatch(text) and type_.kind is Kind.NUMBER:
        return Literal(float(sign + text))
    return None


def _exact(value: Decimal, digits: int, scale: int, type_: Type) -> Literal | None:
    """A decimal, if a column holds each of so many digits as it is."""
    if type_.kind is Kind.DECIMAL:
        fits = scale <= type_.scale and digits - scale <= DIGITS - type_.scale
        return Literal(value) if fits else None
    if type_.kind is Kind.NUMBER and digits <= EXACT_DIGITS:
        return Literal(float(value))
    return None
