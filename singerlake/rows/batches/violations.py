"""Constraints that rows break, and how a message names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from singerlake.quantities import count
from singerlake.safe_text import visible

FIRST = 10
"""Rows that are shown; the others are counted."""
_LONGEST = 100


@dataclass(frozen=True)
class Violation:
    """The rows of a state that do not keep a constraint.

    Attributes:
        rows: How many rows break it.
        first: The first of them: what each has in the constraint's columns, and where it is; of
            ``unique`` the values that several rows have.
        found: How many there are of what ``first`` has the first of.
        why: Why nobody can tell which rows break it; empty where that is known.
        breaking: The rows, as a frame of Spark, but for ``unique``.
    """

    name: str
    words: str
    rows: int
    first: Sequence[str]
    found: int
    why: str = ""
    breaking: Any = None

    @property
    def untold(self) -> str:
        """Say why nobody can tell which rows break it."""
        return f"{self.name} ({visible(self.words)}) cannot be computed: {self.why}"

    def lines(self) -> Iterator[str]:
        """Say what is wrong, line by line."""
        if self.why:
            yield f"  {self.untold}"
            return
        breaks = "breaks" if self.rows == 1 else "break"
        yield f"  {count(self.rows, 'row')} {breaks} {self.name} ({visible(self.words)}):"
        for text in self.first:
            yield f"    {text}"
        if self.found > len(self.first):
            yield f"    and {self.found - len(self.first):,} more"


def cut(value: Any) -> str:
    """Return a value as text, of a bounded length."""
    text = "null" if value is None else visible(str(value))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
