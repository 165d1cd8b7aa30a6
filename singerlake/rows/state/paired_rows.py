"""The steps that put the two rows of each pair side by side, and tell which of their cells differ.

Spark has one value for each side of a pair, however many columns the table has: to compare 1,000
of them in its expressions takes Java longer to compile than Arrow takes to compare the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.errors import DamagedError
from singerlake.format.names import TableName
from singerlake.format.types import Columns
from singerlake.rows.batches import packing
from singerlake.rows.batches.packing import one_array
from singerlake.rows.batches.row_columns import MISFITS, row_schema
from singerlake.rows.batches.steps import BATCH_ROWS, Batches
from singerlake.rows.blocks import positions
from singerlake.rows.blocks.misfits import reader_ways_out
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.columns.differences import Mask, differ
from singerlake.rows.columns.weights import weights
from singerlake.rows.state.rows_at import IS_AFTER, PAIR

ADDED, CHANGED, REMOVED, RESPELLED = "added", "changed", "removed", "respelled"
PART, ROWS = "part", "rows"
PARTS = f"{PART} int, {ROWS} binary"
"""What :class:`PartStep` gives: packed rows of one part."""
COUNTED = "added long, changed long, removed long, respelled long, cells binary"
"""What :class:`CountStep` gives; ``cells`` has an int64 for each column."""
MISFIT_COUNTS = "column int, values long"
CHANGE, NAMES, KEY, ROW_ID, BEFORE, AFTER = "change", "changed", "key", "row_id", "before", "after"
MISFIT, WEIGHT = "misfit", "weight"
_BATCH_BYTES = 32 << 20
Numbers = NDArray[np.int64]


@dataclass
class PartStep:
    """Packs rows by the part of their pair, so that both rows of a pair meet."""

    parts: int

    def __call__(self, batches: Batches) -> Batches:
        """Take rows as ``RowsAt`` gives them."""
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            # Neighbours are in one part no more often than others.
            mixed = _codes(rows).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            part = ((mixed >> np.uint64(33)) % np.uint64(self.parts)).astype(np.int64)
            for number, some in packing.split(rows, part, self.parts):
                arrays = [pa.array([number], pa.int32()), packing.packed_cell(some)]
                yield pa.RecordBatch.from_arrays(arrays, names=[PART, ROWS])


@dataclass
class PairStep:
    """Gives each pair as one row. Sent to executors by value.

    Attributes:
        columns: The table's.
        keys: The indexes of those of the key.
        reads_misfits: Whether a value that does not fit is read, as null.
        cells: Whether the rows themselves are wanted, and not only what differs.
    """

    columns: Columns
    keys: tuple[int, ...]
    table: TableName
    reads_misfits: bool
    cells: bool = True
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        self.schema = self._schema()

    def __call__(self, batches: Batches) -> Batches:
        """Take all rows of a part, as ``RowsAt`` gives them or as :class:`PartStep` does."""
        given: list[pa.RecordBatch] = []
        for batch in batches:
            if PART not in batch.schema.names:
                given.append(batch)
            else:
                for rows in batch[ROWS].to_pylist():
                    given += packing.unpack(rows).to_batches()
        yield from self._pairs(given)

    def _schema(self) -> pa.Schema:
        own = [pa.field(name, arrow_type(type_)) for name, type_ in self.columns]
        fields = [pa.field(CHANGE, pa.string()), pa.field(NAMES, pa.list_(pa.string()))]
        if self.cells:
            key = pa.struct([own[index] for index in self.keys])
            known = pa.field(KEY, key) if self.keys else pa.field(ROW_ID, pa.string())
            sides = [pa.field(name, pa.struct(own)) for name in (BEFORE, AFTER)]
            fields += [known, *sides, pa.field(MISFIT, pa.string()), pa.field(WEIGHT, pa.int64())]
            fields.append(pa.field(PAIR, pa.int64()))
        return pa.schema(fields)

    def _pairs(self, given: list[pa.RecordBatch]) -> Batches:
        if not given:
            return
        schema = row_schema(self.columns, (MISFITS,))
        rows = pa.Table.from_batches(given)
        names = [*schema.names, PAIR, IS_AFTER]
        rows = pa.table([one_array(rows.column(name)) for name in names], names=names)
        _, numbers = np.unique(codes := _codes(rows), return_inverse=True)
        count = int(numbers.max()) + 1
        is_after = rows.column(IS_AFTER).to_numpy()
        before, after = np.full(count, -1), np.full(count, -1)
        before[numbers[~is_after]] = np.flatnonzero(~is_after)
        after[numbers[is_after]] = np.flatnonzero(is_after)
        most = max(1, min(BATCH_ROWS, _BATCH_BYTES * len(codes) // max(1, rows.nbytes)))
        for start in range(0, count, most):
            some = slice(start, start + most)
            yield self._batch(rows, before[some], after[some])

    def _batch(self, rows: pa.Table, before: Numbers, after: Numbers) -> pa.RecordBatch:
        both = (before >= 0) & (after >= 0)
        misfit = self._misfits(rows, before, after, both)
        differing = self._differing(rows, before, after, np.flatnonzero(both))
        words = np.where(both, np.where(differing.any(axis=1), CHANGED, RESPELLED), "")
        words[before < 0], words[after < 0] = ADDED, REMOVED
        arrays = [pa.array(words.tolist(), pa.string()), self._names(differing, both)]
        if self.cells:
            arrays += self._cells(rows, before, after, misfit)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _differing(self, rows: pa.Table, before: Numbers, after: Numbers, both: Numbers) -> Mask:
        """Return which columns differ, pair by pair; none if one of the rows is missing."""
        found = np.zeros((len(before), len(self.columns)), dtype=bool)
        old, new = pa.array(before[both]), pa.array(after[both])
        for index in range(len(self.columns)):
            if index not in self.keys:
                cells = rows.column(index).chunk(0)
                found[both, index] = differ(cells.take(old), cells.take(new))
        return found

    def _names(self, differing: Mask, both: Mask) -> pa.Array:
        names = pa.array([name for name, _ in self.columns], pa.string())
        ends = np.concatenate(([0], np.cumsum(differing.sum(axis=1)))).astype(np.int32)
        values = names.take(pa.array(np.nonzero(differing)[1]))
        return pa.ListArray.from_arrays(pa.array(ends), values, mask=pa.array(~both))

    def _cells(
        self, rows: pa.Table, before: Numbers, after: Numbers, misfit: pa.Array
    ) -> Iterator[pa.Array]:
        either = np.where(after >= 0, after, before)
        pair = rows.column(PAIR).chunk(0).take(pa.array(either))
        if self.keys:
            yield self._struct(rows, either, self.keys)
        else:
            codes = pair.to_numpy()
            parts = (positions.blocks_of(codes), positions.ordinals_of(codes))
            yield pc.binary_join_element_wise(*(pa.array(p).cast(pa.string()) for p in parts), ":")
        sides = [self._struct(rows, side, range(len(self.columns))) for side in (before, after)]
        yield from sides
        yield misfit
        yield pa.array(sum(weights(side) for side in sides))
        yield pair

    def _struct(self, rows: pa.Table, at: Numbers, indexes: tuple[int, ...] | range) -> pa.Array:
        taken = pa.array(at, mask=at < 0)
        fields = [pa.field(*self._named(index)) for index in indexes]
        arrays = [rows.column(index).chunk(0).take(taken) for index in indexes]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(at < 0))

    def _named(self, index: int) -> tuple[str, pa.DataType]:
        name, type_ = self.columns[index]
        return name, arrow_type(type_)

    def _misfits(self, rows: pa.Table, before: Numbers, after: Numbers, both: Mask) -> pa.Array:
        """Describe the values that do not fit, if it is an error to read them.

        Raises:
            DamagedError: There is one in a row that is compared with another.
        """
        found = np.full(len(both), None, dtype=object)
        misfits = rows.column(MISFITS).chunk(0)
        if not self.reads_misfits and misfits.null_count < len(misfits):
            for side in (after, before):
                for pair in np.flatnonzero(side >= 0).tolist():
                    if misfit := misfits[int(side[pair])].as_py():
                        found[pair] = self._told(*misfit[0])
        if wrong := [one for one in found[both] if one is not None]:
            raise DamagedError(wrong[0])
        return pa.array(found, pa.string())

    def _told(self, index: int, error: str) -> str:
        name, _ = self.columns[index]
        return f"{error}; {reader_ways_out(self.table, name, keyed=bool(self.keys))}"


@dataclass
class FlatStep:
    """Gives pairs without structs: a column for each cell of the key, and two for each other.

    Attributes:
        columns: The table's.
        keys: The indexes of those of the key.
        schema: What it gives: ``key.id``, ``before.total``, ``after.total``.
    """

    columns: Columns
    keys: tuple[int, ...]
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        own = [(name, arrow_type(type_)) for name, type_ in self.columns]
        fields = [(CHANGE, pa.string())]
        fields += [(f"{KEY}.{own[index][0]}", own[index][1]) for index in self.keys]
        fields += [] if self.keys else [(ROW_ID, pa.string())]
        fields.append((NAMES, pa.list_(pa.string())))
        for index in self._others:
            fields += [(f"{side}.{own[index][0]}", own[index][1]) for side in (BEFORE, AFTER)]
        self.schema = pa.schema(fields)

    @property
    def _others(self) -> list[int]:
        return [index for index in range(len(self.columns)) if index not in self.keys]

    def __call__(self, batches: Batches) -> Batches:
        """Take ``change``, ``key`` or ``row_id``, ``changed``, ``before`` and ``after``."""
        for batch in batches:
            change, known, names, before, after = batch.columns
            arrays = [change, *(known.flatten() if self.keys else [known]), names]
            sides = [before.flatten(), after.flatten()]
            arrays += [side[index] for index in self._others for side in sides]
            yield pa.RecordBatch.from_arrays(arrays, names=self.schema.names)


@dataclass
class MisfitStep:
    """Counts values that do not fit, by the index of their column; see :data:`MISFIT_COUNTS`."""

    def __call__(self, batches: Batches) -> Batches:
        """Take rows as ``RowsAt`` gives them."""
        counts: Counter[int] = Counter()
        for batch in batches:
            for row in batch.column(MISFITS).drop_null().to_pylist():
                counts.update(index for index, _ in row)
        columns, values = pa.array(counts.keys(), pa.int32()), pa.array(counts.values(), pa.int64())
        yield pa.RecordBatch.from_arrays([columns, values], names=["column", "values"])


@dataclass
class CountStep:
    """Counts pairs by what has changed, and the cells that differ; see :data:`COUNTED`."""

    names: Sequence[str]

    def __call__(self, batches: Batches) -> Batches:
        """Take pairs as :class:`PairStep` gives them."""
        places = {name: place for place, name in enumerate(self.names)}
        kinds: Counter[str] = Counter()
        cells = np.zeros(len(places), dtype=np.int64)
        for batch in batches:
            for one in batch.column(CHANGE).value_counts().to_pylist():
                kinds[one["values"]] += one["counts"]
            for one in batch.column(NAMES).flatten().value_counts().to_pylist():
                cells[places[one["values"]]] += one["counts"]
        rows = {kind: [kinds[kind]] for kind in (ADDED, CHANGED, REMOVED, RESPELLED)}
        yield pa.RecordBatch.from_pydict({**rows, "cells": [cells.tobytes()]})


def _codes(rows: pa.Table) -> Numbers:
    """The pair of each row, as one number."""
    return one_array(rows.column(PAIR)).to_numpy()  # type: ignore[no-any-return]
