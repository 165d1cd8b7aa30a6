"""Values of Python as the JSON text by which columns read them, with all their digits."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from singerlake.errors import UsageError
from singerlake.format import times
from singerlake.format.values import MisfitError

LONE_SURROGATE = "Unicode text: it holds half of a character, a lone surrogate"


class BeyondTime(str):
    """A date or time that Python has none for, spelled out: as a value it is refused."""

    __slots__ = ()


def spelled(value: Any) -> bytes:
    """Spell a value as JSON.

    Raises:
        MisfitError: There is something in it that JSON, or a lake, cannot hold.
        UsageError: It is of a type that has no place in a lake.
    """
    try:
        return _spelled(value).encode()
    except UnicodeEncodeError:
        raise MisfitError(LONE_SURROGATE) from None
    except RecursionError:
        raise MisfitError("JSON: it holds itself, or is nested too deeply") from None


def shown(value: Any) -> bytes:
    """Spell a value that cannot be spelled as JSON, for a message."""
    try:
        return str(value).encode("utf-8", "backslashreplace")
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return f"{type(value).__name__} of too many digits".encode()
    except RecursionError:
        return f"{type(value).__name__} of too many levels".encode()


def _spelled(value: Any) -> str:
    if isinstance(value, BeyondTime):
        raise MisfitError("time of the years 1 to 9999 with at most six digits after the second")
    if isinstance(value, datetime):
        return f'"{_iso(value)}"'
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        raise MisfitError("JSON number")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, Mapping):
        members = (f"{_dumped(str(name))}:{_spelled(one)}" for name, one in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_spelled, value)) + "]"
    return _dumped(value)


def _iso(value: datetime) -> str:
    """A time without offset is UTC, as everywhere."""
    zoned = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
    try:
        return times.iso(zoned.astimezone(timezone.utc))
    except (OverflowError, ValueError):  # the latter of pandas' NaT, which is a datetime
        raise MisfitError("timestamp of the years 1 to 9999 in UTC") from None


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:
        raise UsageError(
            f"a {type(value).__name__} cannot be stored in a lake: {value!r}"
        ) from None
    except ValueError:
        raise MisfitError("number of so few digits that Python writes them") from None
