"""Values that their columns cannot hold: what is told of them. Plain data, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from singerlake.transactions.snapshot import Snapshot

FIRST = 3
"""Misfits of a column that are shown; the others are counted."""


@dataclass(frozen=True, order=True)
class Misfit:
    """A value that its column cannot hold.

    Attributes:
        block: The block that its row came in.
        ordinal: The row's place there.
        said: What is wrong with it; the value is shortened.
        key: The row's key, as texts; empty in a table without.
    """

    block: int
    ordinal: int
    said: str
    key: dict[str, str] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        key = ", ".join(f"{name} {value}" for name, value in self.key.items())
        return f"{self.said} ({key})" if key else self.said


@dataclass(frozen=True)
class ColumnMisfits:
    """The values of a state that one column cannot hold.

    Attributes:
        column: The column's name.
        type: Its type.
        values: How many.
        first: The first of them.
    """

    column: str
    type: str
    values: int
    first: list[Misfit]

    def __str__(self) -> str:
        count = "1 value that does" if self.values == 1 else f"{self.values:,} values that do"
        shown = "; ".join(map(str, self.first))
        more = f"; and {self.values - len(self.first):,} more" * (self.values > len(self.first))
        return f"column {self.column!r} ({self.type}) has {count} not fit: {shown}{more}"


def told(found: Sequence[ColumnMisfits]) -> str:
    """All of it, a line for each column."""
    return "\n".join(f"  {column}" for column in found)


def ways_out(snapshot: Snapshot, found: Sequence[ColumnMisfits]) -> str:
    """What can be done about misfits, in a sentence."""
    keyed = bool(snapshot.schema.key_properties)
    again = "sync these rows again with values that fit, or under a schema that allows them; or "
    none = "the table has no key, so no later row replaces these: "
    return (
        f"{again if keyed else none}make text of the column: singerlake alter "
        f"{snapshot.table} retype {found[0].column} text"
    )
