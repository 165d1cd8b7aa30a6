"""Numbers in messages: ``1 file``, ``2,000 files``, ``51.1 MB``, ``3 days``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_STEP = 1000


def count(number: int, word: str, many: str = "") -> str:
    """Write a number of things: ``1 file``, ``2,000 files``.

    Args:
        number: How many.
        word: What one of them is called.
        many: What several are called, where that is not the word with an s.
    """
    return f"{number:,} {word if number == 1 else many or f'{word}s'}"


def size(number: float) -> str:
    """Write a number of bytes, in a unit in which it is not 0.0: ``317 B``, ``51.1 MB``."""
    value = float(number)
    for unit in _UNITS:
        if value < _STEP or unit == _UNITS[-1]:
            break
        value /= _STEP
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"


def span(seconds: float) -> str:
    """Write a length of time in whole days, hours or minutes: ``3 days``, ``90 minutes``."""
    length = timedelta(seconds=seconds)
    for word, unit in (("day", timedelta(days=1)), ("hour", timedelta(hours=1))):
        if length >= 2 * unit:
            return count(round(length / unit), word)
    return count(round(length / timedelta(minutes=1)), "minute")


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that are there more than once, in order."""
    return [name for name, times in Counter(names).items() if times > 1]
