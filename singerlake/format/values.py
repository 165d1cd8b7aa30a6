"""What a value of a lake is: the one rule by which readers read and the target checks.

A value is read from its JSON text, under the type of its column, and never cut, rounded or
guessed at: it fits, or it is a misfit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any, TypeAlias

import msgspec

from singerlake.format import times
from singerlake.format.types import (
    DIGITS,
    INT64,
    RULES,
    TEXT,
    TIMED_DELETIONS,
    Kind,
    Type,
    exact,
    is_exact,
)

SHOWN = 60
"""Characters of a value in an error message."""
SURE_DIGITS = 15
"""Each decimal number of so many digits is a double of its own (``DBL_DIG`` of C)."""

EXACT_NUMBER = (
    "number that a double holds exactly, as one in a key must be: decimal(38,0), a decimal with "
    "places, or text would hold it"
)

_INTEGER = re.compile(rb"-?\d{1,4000}")
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?")
_ZERO = re.compile(rb"[+-]?(?:0+\.?0*|\.0+)[eE][+-]?\d+")
"""A zero stays one whatever its exponent, which is not read: it may be larger than any number's."""
_TOKENS = b"-0123456789"
_LONG_EXPONENT = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)[eE][+-]?\d{7,}")
_LONGEST = 4000
_CONTEXT = Context(prec=_LONGEST + 1, Emax=9_999_999, Emin=-9_999_999)

Converter: TypeAlias = Callable[[bytes], Any]

_TEXT = msgspec.json.Decoder(str)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class MisfitError(ValueError):
    """A value that its column cannot hold. Caught where the row is known."""


def misfit(raw: bytes, read_value: Converter, name: str) -> str | None:
    """What is said of a value that its column cannot hold; None where it can.

    Args:
        raw: The value's JSON text.
        read_value: The column's converter.
        name: The column's name.
    """
    try:
        read_value(raw)
    except ValueError as error:  # MisfitError, msgspec's and Unicode's are all ValueErrors
        return why(raw, name, error)
    return None


def only_rounds(raw: bytes, type_: Type, *, loose: bool = False) -> bool:
    """Tell whether a value fits a column of a key but for digits that it would have to drop.

    Args:
        raw: The value's JSON text, which does not fit.
        type_: The column's type.
        loose: As for :func:`converter`.
    """
    if not is_exact(type_):
        return False
    if type_.kind is Kind.NUMBER and _NUMBER.fullmatch(raw):
        return True  # beyond a double's range, too
    try:
        converter(exact(type_, is_key=False), loose=loose)(raw)
    except ValueError:
        return False
    return True


def is_deletion(raw: bytes, rules: int = RULES) -> bool:
    """Tell whether a record is a deletion, by its ``_sdc_deleted_at``.

    Args:
        raw: The value's JSON text.
        rules: The number of the rules by which the record is read. By earlier ones any value but
            null makes a deletion; by present ones only what a column of times can read.
    """
    if rules < TIMED_DELETIONS or raw == b"null":
        return raw != b"null"
    try:
        return _timestamp(raw) is not None
    except ValueError:
        return False


def why(raw: bytes, name: str, error: ValueError) -> str:
    """What is said of a value that its converter refused."""
    kind = error.args[0] if isinstance(error, MisfitError) else f"{error}"
    return f"the value {shown(raw)} of column {name!r} is not a valid {kind}"


def shown(raw: bytes) -> str:
    """A value for an error message: its beginning."""
    text = raw.decode("utf-8", "replace")
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def converter(type_: Type, *, loose: bool = False) -> Converter:
    """Something that reads the JSON text of a value.

    Args:
        type_: The column's type.
        loose: For a value of another schema: a string column takes any value's text, and
            numbers and booleans may come as strings.

    Returns:
        A function from JSON text to what Arrow takes. It raises a ``ValueError`` where the
        value does not fit.
    """
    read_value = _build(type_, loose)

    def nullable(raw: bytes) -> Any:
        return None if raw == b"null" else read_value(raw)

    return nullable


def _build(type_: Type, loose: bool) -> Converter:
    kind = type_.kind
    if kind is Kind.STRUCT:
        return _struct(type_, loose)
    if kind is Kind.LIST:
        return _list(type_, loose)
    if kind is Kind.DECIMAL:
        return _bare(_decimal(type_.scale), True)
    if kind is Kind.STRING and loose:
        return _text
    simple = {
        Kind.INTEGER: _bare(_integer, loose),
        Kind.NUMBER: _bare(exact_number if type_.exact else _number, loose),
        Kind.BOOLEAN: _bare(_boolean, loose),
        Kind.STRING: _string,
        Kind.DATE: _exact_date if type_.exact else _date,
        Kind.TIMESTAMP: _exact_timestamp if type_.exact else _timestamp,
        Kind.TEXT: _text,
    }
    return simple[kind]


def _bare(inner: Converter, unquote: bool) -> Converter:
    if not unquote:
        return inner

    def read_value(raw: bytes) -> Any:
        return inner(_TEXT.decode(raw).encode() if raw[:1] == b'"' else raw)

    return read_value


def _integer(raw: bytes) -> int:
    if _INTEGER.fullmatch(raw):
        number = int(raw)
    else:
        # 1.0 and 1e3 are integers by JSON Schema.
        value = _parsed(raw, "integer")
        if value.adjusted() > DIGITS or value != value.to_integral_value():
            raise MisfitError("integer")
        number = int(value)
    if number not in INT64:
        raise MisfitError("64-bit integer")
    return number


def _number(raw: bytes) -> float:
    if raw[:1] not in _TOKENS or not (_NUMBER.fullmatch(raw) or _ZERO.fullmatch(raw)):
        raise MisfitError(kind_of_no_number(raw, "number"))
    value = float(raw)
    if value in (float("inf"), float("-inf")):
        raise MisfitError("number that a double can hold")
    return value


def exact_number(raw: bytes) -> float:
    """Read a number of which a double keeps every digit.

    Raises:
        MisfitError: A double would round it.
    """
    value = _number(raw)
    if not keeps_digits(raw.decode(), value):
        raise MisfitError(EXACT_NUMBER)
    return value


def keeps_digits(text: str, value: float) -> bool:
    """Tell whether the shortest digits that read back as a double are those it was read from."""
    if len(text) <= SURE_DIGITS and "e" not in text and "E" not in text:
        return True
    if value == 0:  # before an exponent that no Decimal takes
        return not text.lower().partition("e")[0].strip("+-0.")
    return math.isfinite(value) and Decimal(text) == Decimal(repr(value))


def kind_of_no_number(raw: bytes, kind: str) -> str:
    """Say what a text is not that is no number here: one with a long exponent is one elsewhere.

    Args:
        raw: The text.
        kind: What it was to be.
    """
    if _LONG_EXPONENT.fullmatch(raw):
        return f"{kind} whose exponent has at most six digits"
    return kind


def _parsed(raw: bytes, kind: str) -> Decimal:
    if _ZERO.fullmatch(raw):
        return Decimal(0)
    if len(raw) > _LONGEST or not _NUMBER.fullmatch(raw):
        raise MisfitError(kind_of_no_number(raw, kind))
    return Decimal(raw.decode())


def _decimal(scale: int) -> Converter:
    whole = DIGITS - scale
    step = Decimal(1).scaleb(-scale)

    def read_value(raw: bytes) -> Decimal:
        # Zeros behind the point carry nothing: 1.500 fits two digits.
        value = _parsed(raw, "decimal").normalize(_CONTEXT)
        if not value:
            return Decimal(0)
        # Said without the type: a column declared as decimal(6,2) is read as decimal(38,2).
        if value.adjusted() >= whole:
            raise MisfitError(f"decimal of at most {whole} digits before the point")
        if value != value.quantize(step, context=_CONTEXT):
            raise MisfitError(
                f"decimal of at most {scale} digit{'s' * (scale != 1)} after the point"
            )
        return value

    return read_value


def _boolean(raw: bytes) -> bool:
    if raw not in (b"true", b"false"):
        raise MisfitError("boolean")
    return raw == b"true"


def _string(raw: bytes) -> str:
    if raw[:1] != b'"':
        raise MisfitError("string")
    return _TEXT.decode(raw)


def _text(raw: bytes) -> str:
    return _TEXT.decode(raw) if raw[:1] == b'"' else raw.decode("utf-8")


def _timestamp(raw: bytes) -> datetime:
    instant = times.parse(_string(raw)) if raw[:1] == b'"' else None
    if instant is None:
        raise MisfitError("timestamp")
    return instant


def _exact_timestamp(raw: bytes) -> datetime:
    instant = _timestamp(raw)
    if times.finer_digits(_string(raw)):
        raise MisfitError(
            "timestamp of at most six digits after the second, as one in a key must be: text "
            "would hold it"
        )
    return instant


def _date(raw: bytes) -> date:
    instant = times.parse(_string(raw)) if raw[:1] == b'"' else None
    if instant is None or instant.time() != time():
        raise MisfitError("date")
    return instant.date()


def _exact_date(raw: bytes) -> date:
    if raw[:1] == b'"' and times.finer_digits(_string(raw)):
        raise MisfitError("date")
    return _date(raw)


def _struct(type_: Type, loose: bool) -> Converter:
    fields = [(name, converter(inner, loose=loose)) for name, inner in type_.fields]

    def read_value(raw: bytes) -> dict[str, Any]:
        if raw[:1] != b"{":
            raise MisfitError("object")
        members = _OBJECT.decode(raw)
        return {
            name: None if (member := members.get(name)) is None else inner(bytes(member))
            for name, inner in fields
        }

    return read_value


def _list(type_: Type, loose: bool) -> Converter:
    item = converter(type_.item or TEXT, loose=loose)

    def read_value(raw: bytes) -> list[Any]:
        if raw[:1] != b"[":
            raise MisfitError("array")
        return [item(bytes(member)) for member in _ARRAY.decode(raw)]

    return read_value
