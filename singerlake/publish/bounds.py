"""Bounds of a column: the least and greatest value of a file, as Python has them and as JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format import times

MOST = 64
"""Characters of a text that a bound keeps: it goes into the pointer, once for each file."""

_SURROGATES = range(0xD800, 0xE000)
"""No text has one of these code points."""


class Bounds(NamedTuple):
    """The bounds of a column's values.

    Attributes:
        low: None where there is none but null.
        high: NaN where there is one, for it is greater than all others.
        nulls: How many are null.
    """

    low: Any = None
    high: Any = None
    nulls: int = 0

    def with_more(self, more: Bounds) -> Bounds:
        """Return bounds of these values and others."""
        nulls = self.nulls + more.nulls
        if self.low is None or more.low is None:
            kept = more if self.low is None else self
            return Bounds(kept.low, kept.high, nulls)
        low, high = min(self.low, more.low, key=rank), max(self.high, more.high, key=rank)
        return Bounds(low, high, nulls)


def has_bounds(type_: pa.DataType) -> bool:
    """Tell whether values of a type are ordered, and written down as bounds."""
    return any(known(type_) for known, _ in _READERS)


def rank(value: Any) -> Any:
    """By what values of one column compare, as Spark has it: NaN is greater than all others."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def bounds_of(array: pa.Array | pa.ChunkedArray) -> Bounds:
    """Find the bounds of some values."""
    extremes = pc.min_max(array).as_py()
    low, high = extremes["min"], extremes["max"]
    if pa.types.is_floating(array.type) and pc.any(pc.is_nan(array)).as_py():
        low, high = math.nan if low is None else low, math.nan
    return Bounds(low, high, array.null_count)


def shortened(bounds: Bounds) -> Bounds:
    """Return bounds that hold as well and keep no long text."""
    low, high = bounds.low, bounds.high
    if isinstance(low, str) and len(low) > MOST:
        low = low[:MOST]
    if isinstance(high, str) and len(high) > MOST:
        high = _text_above(high[:MOST]) or high
    return Bounds(low, high, bounds.nulls)


def _text_above(text: str) -> str | None:
    """Find a text that is greater than all that begin with this one."""
    while text:
        after = ord(text[-1]) + 1
        if after == _SURROGATES.start:
            after = _SURROGATES.stop
        if after <= sys.maxunicode:
            return text[:-1] + chr(after)
        text = text[:-1]
    return None


def to_json(value: Any) -> Any:
    """Spell a bound as JSON has it: numbers as numbers, all else as text that people can read."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        text = times.iso(aware.astimezone(timezone.utc))
        return text if value.tzinfo else text[:-1]
    if isinstance(value, date):
        return value.isoformat()
    return value


def from_json(said: Any, type_: pa.DataType) -> Any:
    """Read a bound of a column of some type.

    Raises:
        ValueError: It is none of that type.
    """
    if said is None:
        return None
    read = next((read for known, read in _READERS if known(type_)), None)
    if read is None:
        raise ValueError(f"{type_} has no bounds")
    return read(said, type_)


def _time(said: Any, type_: pa.DataType) -> datetime:
    value = datetime.fromisoformat(str(said).replace("Z", "+00:00"))
    return value.astimezone(timezone.utc) if type_.tz else value


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]], ...] = (
    (pa.types.is_boolean, lambda said, _: bool(said)),
    (pa.types.is_integer, lambda said, _: int(said)),
    (pa.types.is_floating, lambda said, _: float(said)),
    (pa.types.is_decimal, lambda said, _: Decimal(said)),
    (_is_text, lambda said, _: str(said)),
    (pa.types.is_date, lambda said, _: date.fromisoformat(said)),
    (pa.types.is_timestamp, _time),
)
