"""Constraints that rows break, and how a message names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from singerlake.format.overlay import Constraint
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
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    text = "null" if value is None else visible(str(value))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def shown_columns(keys: Sequence[str], one: Constraint) -> list[str]:
    """Return the columns that are shown of a row which breaks a constraint: its key's first."""
    return list(dict.fromkeys([*keys, *one.columns]))


def shown(rows: pa.Table, columns: Sequence[str], *, keyed: bool) -> list[str]:
    """Show rows that break a constraint.

    Args:
        rows: Block and ordinal, and then some columns.
        columns: What these are called.
        keyed: Whether the table has a key; otherwise positions are shown.
    """
    texts = []
    for block, ordinal, *values in _rows(rows):
        where = [] if keyed else [f"row {block}:{ordinal}"]
        cells = (f"{n} {cut(value)}" for n, value in zip(columns, values, strict=True))
        texts.append(", ".join([*where, *cells]))
    return texts


def repeated(values: pa.Table, columns: Sequence[str]) -> list[str]:
    """Show values that several rows have.

    Args:
        values: In how many rows, and then the columns.
        columns: What these are called.
    """
    return [
        f"{', '.join(f'{n} {cut(value)}' for n, value in zip(columns, own, strict=True))}: "
        f"{count(times, 'row')}"
        for times, *own in _rows(values)
    ]


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
