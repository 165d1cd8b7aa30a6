"""Rows by their keys: shared out by them, and compared: which is the newest of each, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.format.types import Columns
from singerlake.rows.batches import packing
from singerlake.rows.batches.packing import one_array
from singerlake.rows.batches.row_columns import (
    BLOCK,
    DELETED,
    DIGEST,
    ORDINAL,
    TYPES,
    VERSION,
    aliases,
)
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import positions
from singerlake.rows.state import keys
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.key_filter import KeyFilter
from singerlake.rows.state.keys import AT

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
PROVENANCE = (BLOCK, ORDINAL, VERSION, DIGEST)
"""What rows are compared by in addition to their keys."""
SHARED = "part int, rows binary"
"""What :class:`Share` gives: packed tables, by the part that their keys belong to."""


@dataclass
class Share:
    """A step that shares rows out by their keys, with what they are compared by.

    It takes rows with the key's columns first, and their provenance; of blocks, deletions too.

    Attributes:
        parts: How many parts there are.
        after: Rows of this block and of earlier ones are left out: a vacuum puts them into blocks
            with later ones.
        asked: Keys, as a ``KeyFilter`` takes them: rows of others are left out.
    """

    columns: Columns
    parts: int
    after: int | None = None
    asked: Sequence[bytes] | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Take the rows of a file, or of a task's blocks."""
        wanted = None if self.asked is None else KeyFilter(self.asked)
        rows = _whole((self._own(batch, wanted) for batch in batches), self.columns)
        by = rows.select(aliases(len(self.columns)))
        for number, some in packing.split(rows, keys.parts_of(by, self.parts), self.parts):
            yield pa.RecordBatch.from_arrays(
                [pa.array([number], pa.int32()), packing.packed_cell(some)], ["part", "rows"]
            )

    def _own(self, batch: pa.RecordBatch, wanted: KeyFilter | None) -> pa.Table:
        own = _own(batch, self.columns)
        if self.after is not None:
            later = positions.blocks_of(one_array(own.column(AT)).to_numpy()) > self.after
            own = own.filter(pa.array(later))
        if wanted is not None:
            mask = wanted.mask(own.select(aliases(len(self.columns))))
            own = own.filter(pa.array(mask))
        return own


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
        rows: Keys, positions and what else rows are compared by.
        apart: Whether a row with a null in its key is a row of its own.
    """

    rows: pa.Table
    width: int
    apart: bool = True

    @classmethod
    def of(cls, batches: Batches, width: int, *, apart: bool = True) -> KeyedRows | None:
        """Unpack what :class:`Share` gave for a part; None if that is nothing."""
        packed = [data for batch in batches for data in batch.column("rows").to_pylist()]
        return cls(pa.concat_tables(map(packing.unpack, packed)), width, apart) if packed else None

    @cached_property
    def keys(self) -> Numbers:
        """The number of each row's key, from 0; equal keys have the same."""
        return keys.numbered(self.rows.select(aliases(self.width)), apart=self.apart)

    @cached_property
    def lacking(self) -> NDArray[np.int16]:
        """The first part of its key that is null in each row; -1 for none."""
        found = np.full(len(self.rows), -1, dtype=np.int16)
        for part in reversed(range(self.width)):
            column = one_array(self.rows.column(aliases(self.width)[part]))
            found[column.is_null().to_numpy(zero_copy_only=False)] = part
        return found

    @cached_property
    def count(self) -> int:
        """The number of keys."""
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
        """A mask of those that are deletions."""
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
