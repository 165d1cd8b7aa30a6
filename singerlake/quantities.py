"""Numbers in messages: ``1 file``, ``2,000 files``, ``51.1 MB``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

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


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that are there more than once, in order."""
    return [name for name, times in Counter(names).items() if times > 1]
