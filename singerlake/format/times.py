"""Times as the format spells them: UTC, microseconds, never a local offset."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone
from functools import lru_cache

from singerlake.errors import UsageError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?"
    r"\s*([Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_FINER = re.compile(r"[.,]\d{6}(\d+)", re.ASCII)
_AGE = re.compile(r"([1-9][0-9]{0,5}) ?(min|m|h|d|w)")
_AGE_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@lru_cache(maxsize=1024)
def parse(text: str) -> datetime | None:
    """Read an ISO 8601 / RFC 3339 timestamp.

    No offset means UTC; other offsets are converted. Digits past the microsecond are
    dropped. Cached, because neighbouring records tend to carry the same time.

    Args:
        text: For example ``2020-08-19T13:01:56.245769`` or ``2018-05-15T11:30Z``.

    Returns:
        The instant in UTC, or None where the text is no timestamp.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    try:
        instant = datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int((fraction or "0")[:6].ljust(6, "0")),
            tzinfo=timezone.utc,
        )
        if offset and offset not in "Zz":
            sign = -1 if offset[0] == "-" else 1
            digits = offset[1:].replace(":", "").ljust(4, "0")
            shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
            instant -= sign * shift
    except (ValueError, OverflowError):
        return None
    return instant


def finer_digits(text: str) -> str:
    """Return the digits of a timestamp past the microsecond, without zeros at their end."""
    match = _FINER.search(text)
    return match[1].rstrip("0") if match else ""


def now() -> datetime:
    """Return the present instant in UTC; the last that there is, where the clock is beyond it."""
    return from_micros(time.time_ns() // 1000)


def iso(instant: datetime) -> str:
    """Spell an instant for JSON: ``2020-08-19T13:01:56.245769Z``."""
    i = instant
    return (
        f"{i.year:04d}-{i.month:02d}-{i.day:02d}T"
        f"{i.hour:02d}:{i.minute:02d}:{i.second:02d}.{i.microsecond:06d}Z"
    )


def compact(instant: datetime) -> str:
    """Spell an instant for a file name: ``20200819T130156245769Z``."""
    i = instant
    return (
        f"{i.year:04d}{i.month:02d}{i.day:02d}T"
        f"{i.hour:02d}{i.minute:02d}{i.second:02d}{i.microsecond:06d}Z"
    )


def from_micros(micros: int) -> datetime:
    """Return the instant that lies so many microseconds after the beginning of 1970.

    The first or last of the calendar where it lies beyond, so that a clock gone wild stops nobody.
    """
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return (datetime.max if micros > 0 else datetime.min).replace(tzinfo=timezone.utc)


def micros(instant: datetime) -> int:
    """Microseconds between the beginning of 1970 and an instant."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def age(text: str, where: str) -> timedelta:
    """Parse a duration such as ``24h``.

    Raises:
        UsageError: It is written otherwise.
    """
    match = _AGE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{where} is {text[:80]!r}: write it as a number and a unit, for example 30min, 24h, 7d"
        )
    return timedelta(**{_AGE_UNITS[match[2]]: int(match[1])})
