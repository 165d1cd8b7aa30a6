"""Rows that differ between two states, by position: from keys, positions and digests alone.

A row that lies where it lay is the same row. One that was written again with the same bytes, under
the same schema, is so as well. What is left are pairs of positions, and only these rows need to be
read. If the key is the same in both states, the keys in the blocks that came in between are enough,
and the earlier state's index: the work grows with what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic
from zlib import crc32

import numpy as np
import pyarrow as pa

from singerlake.engine.base import Engine, R
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.log.schema_difference import Comparison, Matching, State
from singerlake.log.table_state import TableState
from singerlake.ops.diff.ways import UNKNOWN, Ways
from singerlake.ops.rows_back import keyed_rows
from singerlake.ops.rows_back.keyed_rows import SHARED, KeyedRows, Mask, Numbers, Share
from singerlake.rows.batches import packing
from singerlake.rows.batches.row_columns import (
    DELETED,
    DIGEST,
    alias,
    aliases,
)
from singerlake.rows.batches.steps import Batches, Pipeline, Step
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.state import activations, keys
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.rows_at import NONE, PAIRS, packed_pairs
from singerlake.rows.state.shape import Shape
from singerlake.snapshot import building, content, from_blocks
from singerlake.snapshot.index import Index

_TOLD_APART = f"{SHARED}, is_second boolean"
_COUNT = "rows long"


@dataclass(frozen=True)
class Differing(Generic[R]):
    """The rows that may differ.

    Attributes:
        pairs: Of :data:`PAIRS`; at least one of the two positions is there.
        count: Counts the rows of one of the states.
        in_first: Whether that is the first.
    """

    pairs: R
    count: Callable[[], int]
    in_first: bool


def differing(engine: Engine[R], table: Table, wanted: Comparison) -> Differing[R]:
    """Find the rows that may differ between two states.

    Raises:
        DamagedError: A block that is needed cannot be read, or a key does not fit.
    """
    return _Search(engine, table, wanted).differing()


class _Search(Generic[R]):
    def __init__(self, engine: Engine[R], table: Table, wanted: Comparison) -> None:
        self._engine = engine
        self._table = table
        self._wanted = wanted
        self._key = wanted.after.key
        self._forth = wanted.before.number <= wanted.after.number
        states = (wanted.before, wanted.after)
        self._earlier, self._later = states if self._forth else states[::-1]
        later = self._later.snapshot
        self._since = later.blocks_after(self._earlier.number)
        self._ways = Ways.of(later.blocks, wanted.after.snapshot.overlay.default_starts)
        rows = sum(block.rows for block in from_blocks.needed_blocks(later))
        self._parts = max(engine.parts, rows // from_blocks.PART_ROWS)

    def differing(self) -> Differing[R]:
        earlier, later = self._earlier.snapshot, self._later.snapshot
        same_key = later.key_reading == earlier.key_reading
        if same_key and (self._key or not any(block.activations for block in self._since)):
            old = _Rows.of(self._engine, self._table, earlier)
            pairs = self._changed(old) if self._key else self._added()
            return Differing(pairs, old.count, self._forth)
        before = self._rows(self._wanted.before)
        both = self._engine.union(
            *(
                self._shared(rows, second)
                for rows, second in ((before, False), (self._rows(self._wanted.after), True))
            )
        )
        shared = self._engine.exchange(both, self._parts, "part")
        compare: Step = _CompareStates(len(self._key), self._ways)
        if not self._key:
            compare = _CompareRecords(self._ways)
        return Differing(self._engine.map(shared, compare, PAIRS), before.count, in_first=True)

    def _rows(self, state: State) -> _Rows[R]:
        """The rows of a state, to be told apart by the second state's key."""
        second = self._wanted.after.snapshot
        if state is not self._wanted.after and self._wanted.matching is Matching.LATER_KEY:
            return _Rows(self._engine, self._table, state.snapshot, None, second, self._key)
        return _Rows.of(self._engine, self._table, state.snapshot)

    def _shared(self, rows: _Rows[R], second: bool) -> R:
        share: Step = Share(self._key, self._parts)
        if not self._key:
            share = _ShareRecords(self._parts)
        return rows.through(self._key, Pipeline((share, _Tag(second))), _TOLD_APART)

    def _changed(self, old: _Rows[R]) -> R:
        """The pairs of states with one key: what blocks brought since, and what was there of it."""
        engine, last = self._engine, self._earlier.snapshot.last_block
        plan = self._plan(self._key)
        # A block that a vacuum put together may hold earlier rows too.
        read = Pipeline((plan.reader, Share(self._key, self._parts, last)))
        came = engine.map(engine.source(plan.sent), read, SHARED)
        asked = None
        if self._is_little():
            # Then what they replaced is found without a look at the rest, and nothing of it moves.
            packed = engine.collect(came)
            asked = _keys_in([row["rows"] for row in packed], len(self._key))
            again = _Again([row["part"] for row in packed])
            came = engine.map(engine.source([row["rows"] for row in packed]), again, SHARED)
        was = old.through(self._key, Share(self._key, self._parts, asked=asked), SHARED)
        shared = engine.exchange(engine.union(was, came), self._parts, "part")
        compare = _CompareSince(
            len(self._key), last, plan.shape.survival, self._ways, forth=self._forth
        )
        return engine.map(shared, compare, PAIRS)

    def _is_little(self) -> bool:
        if any(block.activations for block in self._since):
            return False  # it may remove rows of any key
        return sum(block.rows for block in self._since) <= building.MOST_ROWS

    def _added(self) -> R:
        """The pairs where no row is ever replaced, and none went: without a key."""
        plan = self._plan(())
        step = Pipeline((plan.reader, _Added(self._earlier.snapshot.last_block, self._forth)))
        return self._engine.map(self._engine.source(plan.sent), step, PAIRS)

    def _plan(self, key: Columns) -> from_blocks.Plan:
        later = self._later.snapshot
        return from_blocks.planned(
            self._engine,
            self._table,
            later,
            digests=bool(key),
            shape=_key_shape(key, later),
            blocks=self._since,
        )


@dataclass(frozen=True)
class _Rows(Generic[R]):
    """A state, and how its rows are read.

    Attributes:
        index: Its index; None where its blocks are read.
        by: The state by whose columns its blocks are read.
        key: The columns that tell its rows apart there.
    """

    engine: Engine[R]
    table: Table
    snapshot: TableState
    index: Index | None
    by: TableState
    key: Columns

    @classmethod
    def of(cls, engine: Engine[R], table: Table, snapshot: TableState) -> _Rows[R]:
        """Read a state as it reads itself."""
        columns = snapshot.columns
        key = tuple(columns[place] for place in snapshot.key)
        index = building.ensure_if_kept(engine, table, snapshot)
        return cls(engine, table, snapshot, index, snapshot, key)

    def through(self, columns: Columns, step: Step, schema: str) -> R:
        """Give some columns of the key to a step, and what rows are compared by.

        Args:
            schema: Of what it gives.
        """
        if self.index is None:
            return self._of_blocks(Pipeline((_Chosen(len(columns)), step)), schema)
        places = {name: place for place, name in enumerate(self.index.shape.names)}
        names = [alias(places[name]) for name, _ in columns]
        wanted = (*names, *keyed_rows.PROVENANCE)
        return content.of_index(self.engine, self.index, wanted, step, schema)

    def count(self) -> int:
        """Count them."""
        if self.index is not None:
            return content.count_rows(self.engine, self.index)
        counts = self.engine.collect(self._of_blocks(content.counted, _COUNT))
        return sum(row["rows"] for row in counts)

    def _of_blocks(self, step: Step, schema: str) -> R:
        shape = _key_shape(self.key, self.snapshot)
        plan = from_blocks.planned(
            self.engine, self.table, self.snapshot, digests=True, shape=shape, reads_as=self.by
        )
        return from_blocks.through(self.engine, plan, step, schema)


def _key_shape(key: Columns, snapshot: TableState) -> Shape:
    """The shape of rows of which only a key is read."""
    return Shape(key, tuple(range(len(key))), activations.survival(snapshot.blocks))


def _keys_in(packed: Sequence[bytes], width: int) -> list[bytes]:
    """The keys in what ``Share`` gave."""
    return [packing.pack(packing.unpack(data).select(aliases(width))) for data in packed]


def _pairs(before: Numbers, after: Numbers, *, forth: bool = True) -> pa.RecordBatch:
    return packed_pairs(before, after) if forth else packed_pairs(after, before)


@dataclass
class _Chosen:
    """Leaves what :class:`Share` takes: the first columns, and what rows are compared by."""

    columns: int

    def __call__(self, batches: Batches) -> Batches:
        wanted = [*aliases(self.columns), *keyed_rows.PROVENANCE]
        return (batch.select(wanted) for batch in batches)


@dataclass
class _Tag:
    """Says of shared rows which state they are of."""

    is_second: bool

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            yield batch.append_column("is_second", pa.array([self.is_second] * len(batch)))


@dataclass
class _Again:
    """Gives packed rows that tasks bring with them.

    Attributes:
        parts: The part of each.
    """

    parts: Sequence[int]

    def __call__(self, numbers: Batches) -> Batches:
        for number, data in block_tasks.given(numbers):
            part = pa.array([self.parts[number]], pa.int32())
            yield pa.RecordBatch.from_arrays([part, pa.array([data])], ["part", "rows"])


@dataclass
class _Added:
    """Gives rows as pairs that only the later state has.

    Attributes:
        after: Rows of this block and of earlier ones are left out.
        forth: Whether the later state is the second.
    """

    after: int
    forth: bool

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            codes = positions.codes_in(batch)
            there = ~batch.column(DELETED).to_numpy(zero_copy_only=False)
            codes = codes[there & (positions.blocks_of(codes) > self.after)]
            yield _pairs(np.full(len(codes), NONE, dtype=np.int64), codes, forth=self.forth)


def _places(at: Numbers, chosen: Numbers) -> Numbers:
    """The positions of chosen rows; :data:`NONE` for none."""
    return np.where(chosen >= 0, at[chosen], NONE)


@dataclass
class _CompareSince:
    """Compares rows of an earlier state with those that came since, by their keys.

    Attributes:
        last: The earlier state's last block.
        survival: What the activations leave of the later state.
        forth: Whether the later state is the second.
    """

    width: int
    last: int
    survival: Survival
    ways: Ways
    forth: bool

    def __call__(self, batches: Batches) -> Batches:
        rows = KeyedRows.of(batches, self.width)
        if rows is None:
            return
        before, now = (
            rows.newest(rows.blocks <= self.last),
            rows.there(rows.newest(), self.survival),
        )
        differ = (before != now) & ~_same_record(rows, before, now, self.ways)
        before, now = (_places(rows.at, chosen[differ]) for chosen in (before, now))
        yield _pairs(before, now, forth=self.forth)


@dataclass
class _CompareStates:
    """Compares all rows of two states by a key that the first had not."""

    width: int
    ways: Ways

    def __call__(self, batches: Batches) -> Batches:
        sides = _two_sides(batches)
        if sides is None:
            return
        rows, count = KeyedRows(sides[0], self.width), sides[1]
        found = []
        for chosen in (np.arange(count), np.arange(count, len(rows.rows))):
            side = np.full(rows.count, -1, dtype=np.int64)
            side[rows.keys[chosen]] = chosen
            found.append(side)
        before, after = found
        differ = ~_same_record(rows, before, after, self.ways)
        old, new = (_places(rows.at, side[differ]) for side in (before, after))
        # A key with a null in it is that of its row alone; the row may be in both.
        moved = old != new
        gone, came = moved & (new == NONE), moved & (old == NONE)
        in_both = np.intersect1d(old[gone], new[came])
        moved &= ~((gone & np.isin(old, in_both)) | (came & np.isin(new, in_both)))
        yield _pairs(old[moved], new[moved])


def _same_record(rows: KeyedRows, before: Numbers, after: Numbers, ways: Ways) -> Mask:
    """Tell whether two rows are the same bytes, and read alike; false where one is missing."""
    way = ways.of_rows(rows.blocks)
    same = (rows.records[before] == rows.records[after]) & (way[before] == way[after])
    found: Mask = same & (way[before] != UNKNOWN) & (before >= 0) & (after >= 0)
    return found


def _two_sides(batches: Batches) -> tuple[pa.Table, int] | None:
    """The rows of a part, those of the first state first, and how many these are."""
    tables: dict[bool, list[pa.Table]] = {False: [], True: []}
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("is_second", "rows"))
        for second, data in zip(*columns, strict=True):
            tables[second].append(packing.unpack(data))
    if not (every := [*tables[False], *tables[True]]):
        return None
    return pa.concat_tables(every), sum(map(len, tables[False]))


@dataclass
class _ShareRecords:
    """Shares rows out by their records: positions and digests."""

    parts: int

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            codes, digests = pa.array(positions.codes_in(batch)), batch.column(DIGEST)
            sums = np.fromiter(map(crc32, digests.to_pylist()), np.uint32, len(batch))
            part = (sums % np.uint32(self.parts)).astype(np.int64)
            rows = pa.table([codes, digests], [keys.AT, DIGEST])
            for number, some in packing.split(rows, part, self.parts):
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number], pa.int32()), packing.packed_cell(some)], ["part", "rows"]
                )


@dataclass
class _CompareRecords:
    """Compares all rows of two states without a key: none of the pairs has both positions.

    Of rows that lie elsewhere, as many as there are on both sides of one record are the same.
    """

    ways: Ways

    def __call__(self, batches: Batches) -> Batches:
        sides = _two_sides(batches)
        if sides is None:
            return
        rows = KeyedRows(sides[0], 0)
        is_old = np.arange(len(rows.rows)) < sides[1]
        in_both = np.intersect1d(rows.at[is_old], rows.at[~is_old])
        lone = np.flatnonzero(~np.isin(rows.at, in_both))
        if not len(lone):
            return
        is_old, at = is_old[lone], rows.at[lone]
        way = self.ways.of_rows(positions.blocks_of(at))
        read = rows.records[lone] * (way.max() + 2) + way + 1
        labels = np.unique(read, return_inverse=True)[1].reshape(-1)
        counts = [np.bincount(labels[side], minlength=len(lone)) for side in (is_old, ~is_old)]
        same = np.minimum(*counts)
        differ = np.zeros(len(lone), dtype=bool)
        for side in (is_old, ~is_old):
            own = np.flatnonzero(side)
            differ[own] = _ranks(labels[own], at[own]) >= same[labels[own]]
        # Records whose schema nobody can tell are not the same.
        differ |= way == UNKNOWN
        old, new = at[differ & is_old], at[differ & ~is_old]
        none = np.full(len(old) + len(new), NONE, dtype=np.int64)
        before, after = none.copy(), none
        before[: len(old)], after[len(old) :] = old, new
        yield _pairs(before, after)


def _ranks(labels: Numbers, at: Numbers) -> Numbers:
    """Number the rows of each label from 0, by position."""
    order = np.lexsort((at, labels))
    ordered = labels[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    lengths = np.diff(np.append(starts, len(order)))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, lengths)
    return ranks
