"""Keys that are looked for, held against what a block's header says of its own."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.format import key_bounds
from singerlake.format.key_bounds import Bound, Bounds
from singerlake.format.overlaid import BlockColumns
from singerlake.format.types import Columns, Kind, Type
from singerlake.rows.blocks.bounded_keys import PLAIN

Sought: TypeAlias = "dict[str, pa.Array]"
"""What is looked for in members of records, rising, by their names."""
WORTHWHILE = 1 << 16
"""Bytes of a block below which it is read at once: with its neighbours it is one request."""
NEVER = sys.maxsize
"""More bytes than a block has: all are read, and those that hold no key are left as they came."""


@dataclass(frozen=True)
class AskedKeys:
    """Some keys. Sent to executors by value.

    A block is passed over only where its bounds are of what the key's column is now: numbers that
    were texts once, and whatever people made of a column, are read.

    Attributes:
        columns: The key's, by the names and types that the table has now.
        values: Of each column those that are looked for, rising; none where it has no bounds.
            Arrow's arrays, for there may be millions.
        least: Bytes of the smallest block whose header is read before the rest: one request more
            for a block that is read all the same, and no byte of one that is not.
    """

    columns: Columns
    values: tuple[pa.Array, ...]
    least: int = WORTHWHILE

    @classmethod
    def of(cls, columns: Columns, values: Sequence[pa.Array], least: int = WORTHWHILE) -> AskedKeys:
        """Make it of the values of each column, in any order; a key with a null is none."""
        pairs = zip(columns, values, strict=True)
        return cls(columns, tuple(_rising(array, type_) for (_, type_), array in pairs), least)

    def members(self, source: BlockColumns, defaults: Sequence[str]) -> Sought:
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


def _rising(values: pa.Array, type_: Type) -> pa.Array:
    """Cut values as bounds are cut, and sort them: Arrow's order of texts is that of bounds."""
    if type_.kind not in PLAIN:
        return values.slice(0, 0)
    cut = values.drop_null()
    if type_.kind is Kind.STRING:
        cut = pc.utf8_slice_codeunits(cut, 0, key_bounds.MOST_CHARACTERS)
    return cut.take(pc.array_sort_indices(cut))


def _any_within(least: Bound, most: Bound, values: pa.Array) -> bool:
    if len(values) and type(values[0].as_py()) is not type(least):
        return True
    at = bisect_left(values, least, key=methodcaller("as_py"))
    return at < len(values) and values[at].as_py() <= most
