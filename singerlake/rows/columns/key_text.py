"""The one text of a key's value whose column a person has made text."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format import times, values
from singerlake.format.types import TEXT, Kind, Type, exact
from singerlake.rows.columns import canonical_text

_PLAIN = 400
"""Zeros, or digits after the point, up to which a number is written without an exponent: every
double is, and no number is expanded into more."""
_TEXT = values.converter(TEXT)
_STRING = msgspec.json.Decoder(str)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_quoted = canonical_text.string_text


def reader(own: Type) -> values.Converter:
    """Return what reads the JSON of a value as text.

    A value that has the column's own type is text in one way only, so that 1 and 1.0 stay one key;
    so is a number or an instant that its column would have to round. Any other is as it stands.

    Args:
        own: The column's type by the schema.
    """
    read_own = values.converter(own)

    def read_value(raw: bytes) -> str | None:
        try:
            value = read_own(raw)
        except ValueError:
            return too_fine(raw, own) or _TEXT(raw)
        return None if value is None else of_value(value, own)

    return read_value


def of_value(value: Any, own: Type) -> str:
    """Write a value of a column's own type, as Arrow hands it to Python."""
    text: str = _TEXT(canonical_text.value_text(value, own).encode())
    return text


def of_values(array: pa.Array, own: Type) -> pa.Array:
    """Do as :func:`of_value` for a whole column; null where it is."""
    texts = canonical_text.texts(array, own)
    if own.kind is Kind.TIMESTAMP:
        texts = pc.utf8_trim(texts, '"')
    return pc.cast(texts, pa.string())


def too_fine(raw: bytes, own: Type) -> str | None:
    """Write a value that an exact column would have to round; None for any other.

    Args:
        raw: Its JSON.
        own: The column's type.
    """
    if not values.only_rounds(raw, own):
        return None
    text: str = _TEXT(_json(raw, own).encode())
    return text


def _json(raw: bytes, own: Type) -> str:
    """Write a value as canonical JSON, with all its digits."""
    if raw == b"null":
        return "null"
    if own.kind is Kind.STRUCT:
        members = _OBJECT.decode(raw)
        there = sorted((name, type_) for name, type_ in own.fields if name in members)
        written = ((name, _json(bytes(members[name]), type_)) for name, type_ in there)
        return "{" + ",".join(f"{_quoted(n)}:{text}" for n, text in written if text != "null") + "}"
    if own.item is not None:
        return "[" + ",".join(_json(bytes(one), own.item) for one in _ARRAY.decode(raw)) + "]"
    if own.kind is Kind.NUMBER:
        return _number_text(raw.decode())
    if own.kind is Kind.TIMESTAMP:
        text = _STRING.decode(raw)
        instant = values.converter(exact(own, is_key=False))(raw)
        return f'"{times.iso(instant)[:-1]}{times.finer_digits(text)}Z"'
    return canonical_text.value_text(values.converter(own)(raw), own)


def _number_text(text: str) -> str:
    number = Decimal(text)
    sign, digits, exponent = number.as_tuple()
    whole = "".join(map(str, digits)).lstrip("0")
    short = whole.rstrip("0")
    if not short or not isinstance(exponent, int):
        return "0"
    exponent += len(whole) - len(short)
    if -_PLAIN <= exponent <= _PLAIN:
        return canonical_text.plain(number)
    return f"{'-' * sign}{short}e{exponent}"
