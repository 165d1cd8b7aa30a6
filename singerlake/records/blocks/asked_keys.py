"""Keys that are looked for, held against what a block's header says of its own."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from singerlake.format import key_bounds
from singerlake.format.key_bounds import Bound, Bounds
from singerlake.format.laid import BlockColumns
from singerlake.format.types import Columns
from singerlake.records.blocks.bounded_keys import PLAIN

Sought: TypeAlias = "dict[str, tuple[Bound, ...]]"
"""What is looked for in members of records, rising, by their names."""
WORTHWHILE = 1 << 16
"""Bytes of a block below which it is read at once: with its neighbours it is one request."""


@dataclass(frozen=True)
class AskedKeys:
    """Some keys. Sent to executors by value.

    A block is passed over only where its bounds are of what the key's column is now: numbers that
    were texts once, and whatever people made of a column, are read.

    Attributes:
        columns: The key's, by the names and types that the table has now.
        values: Of each column those that are looked for, rising; none where it has no bounds.
        least: Bytes of the smallest block whose header is looked at.
    """

    columns: Columns
    values: tuple[tuple[Bound, ...], ...]
    least: int = WORTHWHILE

    @classmethod
    def of(cls, columns: Columns, values: Sequence[pa.Array]) -> AskedKeys:
        """Make it of the values of each column; a key with a null is none."""
        cut = tuple(
            tuple(sorted({key_bounds.cut(value) for value in array.to_pylist()} - {None}))
            if type_.kind in PLAIN
            else ()
            for (_, type_), array in zip(columns, values, strict=True)
        )
        return cls(columns, cut)

    def members(
        self, source: BlockColumns, defaults: Sequence[str]
    ) -> dict[str, tuple[Bound, ...]]:
        """Return what is looked for in the members of the records of some blocks.

        Args:
            source: What the blocks' schema has of the table's columns.
            defaults: Columns of which rows may have what is in no record.
        """
        types = dict(source.columns)
        return {
            source.members.get(name, name): values
            for (name, type_), values in zip(self.columns, self.values, strict=True)
            if type_.kind in PLAIN and types.get(name) == type_ and name not in defaults
        }


def may_hold(bounds: Bounds, members: Sought) -> bool:
    """Tell whether a block may hold a key.

    Args:
        bounds: What it says.
        members: As :meth:`AskedKeys.members` gives them.
    """
    return all(
        name not in bounds or _any_within(*bounds[name], values) for name, values in members.items()
    )


def _any_within(least: Bound, most: Bound, values: tuple[Bound, ...]) -> bool:
    if values and type(values[0]) is not type(least):
        return True
    at = bisect_left(values, least)
    return at < len(values) and values[at] <= most  # type: ignore[operator]
