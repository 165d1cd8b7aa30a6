"""Rows by their keys: which is the newest of each, and when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.format.types import Columns
from singerlake.records.blocks import positions
from singerlake.records.rows.packing import one_array
from singerlake.records.rows.row_columns import (
    DELETED,
    DIGEST,
    TYPES,
    VERSION,
    aliases,
)
from singerlake.records.rows.steps import Batches
from singerlake.records.state import keys
from singerlake.records.state.activations import Survival
from singerlake.records.state.keys import AT

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


def whole(batches: Batches, columns: Columns) -> pa.Table:
    """Make one table of rows' keys, positions and digests.

    Args:
        batches: Rows with the key's columns first, and their provenance.
        columns: Those of the key.
    """
    return _whole((_own(rows, columns) for rows in batches), columns)


def _own(rows: pa.RecordBatch, columns: Columns) -> pa.Table:
    own = keys.table(rows.columns[: len(columns)], columns, positions.codes_in(rows))
    gone = DELETED in rows.schema.names
    deleted = rows.column(DELETED) if gone else pa.repeat(pa.scalar(False), len(rows))
    for name, column in ((VERSION, None), (DIGEST, None), (DELETED, deleted)):
        own = own.append_column(name, rows.column(name) if column is None else column)
    return own


def _whole(tables: Iterable[pa.Table], columns: Columns) -> pa.Table:
    nothing = keys.none(columns)
    for name in (VERSION, DIGEST, DELETED):
        nothing = nothing.append_column(name, pa.nulls(0, TYPES[name]))
    return pa.concat_tables([nothing, *tables])


@dataclass(frozen=True)
class KeyedRows:
    """Rows, each by its index here.

    Attributes:
        rows: What :func:`whole` gave.
        width: How many columns the key has.
        apart: Whether a row with a null in its key is a row of its own.
    """

    rows: pa.Table
    width: int
    apart: bool = True

    @cached_property
    def keys(self) -> Numbers:
        """The number of each row's key, from 0; equal keys have the same."""
        return keys.numbered(self.rows.select(aliases(self.width)), apart=self.apart)

    @cached_property
    def lacking(self) -> NDArray[np.int16]:
        """Which part of its key each row has a null in, the first of them; -1 for none."""
        found = np.full(len(self.rows), -1, dtype=np.int16)
        for part in reversed(range(self.width)):
            column = one_array(self.rows.column(aliases(self.width)[part]))
            found[column.is_null().to_numpy(zero_copy_only=False)] = part
        return found

    @cached_property
    def count(self) -> int:
        """How many keys there are."""
        return int(self.keys.max(initial=-1)) + 1

    @cached_property
    def at(self) -> Numbers:
        """Their positions, as ``positions.codes`` gives them."""
        return one_array(self.rows.column(AT)).to_numpy()  # type: ignore[no-any-return]

    @cached_property
    def blocks(self) -> Numbers:
        """The block that each came in."""
        return positions.blocks_of(self.at)

    @cached_property
    def deleted(self) -> Mask:
        """Which of them are deletions."""
        column = one_array(self.rows.column(DELETED))
        return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    @cached_property
    def records(self) -> Numbers:
        """The number of each row's record; those of the same bytes have the same."""
        return keys.numbered(self.rows.select([DIGEST]))

    @cached_property
    def _order(self) -> Numbers:
        return np.lexsort((self.at, self.keys))

    def newest(self, among: Mask | None = None) -> Numbers:
        """Find the newest row of each key, be it a deletion; -1 where none counts.

        Args:
            among: Which rows count; all by default.
        """
        order = self._order if among is None else self._order[among[self._order]]
        found = np.full(self.count, -1, dtype=np.int64)
        found[self.keys[order]] = order  # the last of a key's stays
        return found

    def there(self, newest: Numbers, survival: Survival) -> Numbers:
        """Leave -1 of those that are deletions, or that an activation has removed."""
        stays = ~self.deleted & survival.mask(self.at, one_array(self.rows.column(VERSION)))
        return np.where((newest >= 0) & stays[newest], newest, -1)
