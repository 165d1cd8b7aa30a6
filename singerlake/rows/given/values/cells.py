"""From the text cells of a file to typed columns: as ``query --format csv`` prints them.

A cell is taken as it stands, blanks and all, and never cut or rounded: it fits its column, or it
is a problem. Numbers may be spelled as PostgreSQL takes them (``007``, ``+7``, ``.5``), because
the column says what they are. Nested columns are JSON text. In a column that holds no text an
empty cell is null, in quotes too, for many programs quote every cell.

Arrow turns whole columns; cells that it refuses, or would take too lightly, are turned one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format import values
from singerlake.format.types import DIGITS, Kind, Type
from singerlake.format.values import MisfitError
from singerlake.rows.columns import key_text
from singerlake.rows.columns.arrow_types import DAYS, MICROS, arrow_type
from singerlake.rows.given.values import json_summary
from singerlake.rows.given.values.known_members import NESTED, checked

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?", re.ASCII)
_TOO_FINE = re.compile(r".*[.,]\d{6}\d*[1-9]", re.ASCII)
_TRUE = frozenset(("true", "t", "yes", "y", "1"))
_FALSE = frozenset(("false", "f", "no", "n", "0"))
_TEXTS = (Kind.STRING, Kind.TEXT)
_ONE_BY_ONE = 64
"""Cells that are turned one by one where Arrow refuses some of them."""
_PARTS = 16
"""Parts that more are cut into, to find those that it refuses."""
_DATE_CHARACTERS, _COLON_AT = 10, 13

_Reader: TypeAlias = Callable[[str], Any]
Reasons: TypeAlias = dict[int, str]
"""What is wrong with cells, as words that follow the value, by row."""


class _TooLightError(Exception):
    """Arrow would take something that is no such value."""


def read(texts: pa.Array, type_: Type) -> tuple[pa.Array, Reasons]:
    """Turn a column of texts into a column of values.

    Args:
        texts: Strings.
        type_: What they should be.

    Returns:
        The column, in its Arrow type, with null for each cell that does not fit; and why it does
        not.
    """
    if type_.kind in _TEXTS and type_.own is None:
        return texts, {}
    if type_.kind not in _TEXTS and pc.any(pc.equal(texts, "")).as_py():
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), arrow_type(type_)), {}
    reasons: Reasons = {}
    parts = list(_parts(texts, type_, 0, reasons))
    return (parts[0] if len(parts) == 1 else pa.concat_arrays(parts)), reasons


def _parts(texts: pa.Array, type_: Type, start: int, reasons: Reasons) -> list[pa.Array]:
    try:
        return [_fast(texts, type_)]
    except (pa.ArrowInvalid, _TooLightError):
        pass
    if type_.kind in (*_TEXTS, *NESTED) or len(texts) <= _ONE_BY_ONE:
        return [_one_by_one(texts, type_, start, reasons)]
    size = max(_ONE_BY_ONE, -(-len(texts) // _PARTS))
    return [
        part
        for at in range(0, len(texts), size)
        for part in _parts(texts.slice(at, size), type_, start + at, reasons)
    ]


def _one_by_one(texts: pa.Array, type_: Type, start: int, reasons: Reasons) -> pa.Array:
    read_cell = reader(type_)
    found: list[Any] = []
    for row, text in enumerate(texts.to_pylist(), start):
        value = None
        if text is not None:
            try:
                value = read_cell(text)
            except ValueError as error:
                reasons[row] = _why(text, error, type_)
        found.append(value)
    return pa.array(found, arrow_type(type_))


def _why(text: str, error: ValueError, type_: Type) -> str:
    if not isinstance(error, MisfitError):
        return json_summary.fault(text.encode(), error)
    if type_.kind in NESTED:
        return f"is not a valid {type_}: {error.args[0]}"
    return f"is not a valid {error.args[0]}"


def _fast(texts: pa.Array, type_: Type) -> pa.Array:
    kind = type_.kind
    if kind is Kind.TIMESTAMP:
        return _instants(texts)
    if kind is Kind.INTEGER and _has_any(texts, b"xX"):
        raise _TooLightError  # Arrow reads 0x10
    if kind is Kind.DECIMAL and (_has_any(texts, b"eE") or _has_long(texts, type_.scale)):
        raise _TooLightError  # cuts digits of small exponents, and overflows in silence
    if kind in (*_TEXTS, *NESTED):
        raise _TooLightError
    array = pc.cast(texts, arrow_type(type_))
    if kind is Kind.NUMBER and not pc.all(pc.is_finite(array)).as_py():
        raise _TooLightError  # and NaN, and 1e999 as infinity
    if kind is Kind.NUMBER and type_.exact and not _sure_numbers(texts):
        raise _TooLightError
    if kind is Kind.DATE:
        _check_within(pc.cast(array, pa.int32()), *DAYS)
    return array


def _sure_numbers(texts: pa.Array) -> bool:
    """Whether a double keeps all digits of each cell, told by how many there are."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    return longest <= values.SURE_DIGITS and not _has_any(texts, b"eE")


def _instants(texts: pa.Array) -> pa.Array:
    # Arrow takes an hour without minutes, which nothing else does.
    colon = pc.equal(pc.binary_slice(pc.cast(texts, pa.binary()), _COLON_AT, _COLON_AT + 1), b":")
    if not pc.all(pc.or_(colon, pc.equal(pc.binary_length(texts), _DATE_CHARACTERS))).as_py():
        raise _TooLightError
    try:
        instants = pc.cast(texts, pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        naive = pc.cast(texts, pa.timestamp("us"))  # no offset means UTC
        instants = naive.view(pa.int64()).view(pa.timestamp("us", "UTC"))
    _check_within(instants.view(pa.int64()), *MICROS)
    return instants


def _check_within(numbers: pa.Array, least: int, most: int) -> None:
    extremes = pc.min_max(numbers).as_py()
    if extremes["min"] is not None and not least <= extremes["min"] <= extremes["max"] <= most:
        raise _TooLightError


def _has_any(texts: pa.Array, characters: bytes) -> bool:
    _, ends, data = texts.buffers()
    if data is None:
        return False
    start, stop = np.frombuffer(ends, np.int32)[[texts.offset, texts.offset + len(texts)]]
    written = bytes(memoryview(data)[start:stop])
    return any(character in written for character in characters)


def _has_long(texts: pa.Array, scale: int) -> bool:
    """Whether some text may have more digits, before the point or in all, than a decimal holds."""
    lengths = pc.binary_length(texts)
    longest = pc.max(lengths).as_py() or 0
    if longest <= DIGITS - scale:
        return False
    points = pc.find_substring(texts, ".")
    whole = pc.if_else(pc.less(points, 0), lengths, points)
    return longest > DIGITS or pc.max(whole).as_py() > DIGITS - scale


@lru_cache(maxsize=256)
def reader(type_: Type) -> _Reader:
    """Return what reads one cell: a ``ValueError`` says why it does not fit."""
    kind = type_.kind
    if kind in NESTED:
        read_json = values.converter(type_)
        return lambda text: read_json(checked(text.encode(), type_))
    if kind in _TEXTS:
        return _text if type_.own is None else _key_text(type_.own)
    simple: dict[Kind, _Reader] = {
        Kind.INTEGER: _numeric("integer", values.converter(type_)),
        Kind.DECIMAL: _numeric("decimal", values.converter(type_)),
        Kind.NUMBER: _exact_number if type_.exact else _number,
        Kind.BOOLEAN: _boolean,
        Kind.DATE: _time("date", values.converter(type_)),
        Kind.TIMESTAMP: _time("timestamp", values.converter(type_)),
    }
    return simple[kind]


def _text(text: str) -> str:
    return text


def _key_text(own: Type) -> _Reader:
    """Of a key column that a person made text: a value of its own type is text in one way only."""
    read_own = reader(own)

    def read_cell(text: str) -> Any:
        try:
            value = read_own(text)
        except ValueError:
            raw = msgspec.json.encode(text) if own.kind is Kind.TIMESTAMP else text.encode()
            return key_text.too_fine(raw, own) or text
        return key_text.of_value(value, own)

    return read_cell


def _numeric(kind: str, read_json: values.Converter) -> _Reader:
    def read_cell(text: str) -> Any:
        if not _NUMBER.fullmatch(text):
            raise MisfitError(values.kind_of_no_number(text.encode(), kind))
        return read_json(text.encode())

    return read_cell


def _number(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise MisfitError(values.kind_of_no_number(text.encode(), "number"))
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise MisfitError("number that a double can hold")
    return value


def _exact_number(text: str) -> float:
    value = _number(text)
    if not values.keeps_digits(text, value):
        raise MisfitError(values.EXACT_NUMBER)
    return value


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in _TRUE and word not in _FALSE:
        raise MisfitError("boolean")
    return word in _TRUE


def _time(kind: str, read_json: values.Converter) -> _Reader:
    def read_cell(text: str) -> Any:
        if text.strip() != text:
            raise MisfitError(kind)
        value = read_json(msgspec.json.encode(text))
        if _TOO_FINE.match(text):
            raise MisfitError(f"{kind} of at most six digits after the second")
        return value

    return read_cell
