"""The merge of states that decides on each row if transactions are undone, on an engine.

With a key, a part compares all rows that its keys had since the state before the first of these
transactions: which row each key had at each boundary (before and after each group, and now). So
nothing but keys, positions and digests is read. Without a key a row is its position, which is
written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from singerlake.engine.base import Engine
from singerlake.format.log import Block
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.rows_back import actions, keyed_rows
from singerlake.ops.rows_back.actions import FOUND, Counted, Found
from singerlake.ops.rows_back.keyed_rows import SHARED, KeyedRows, Mask, Numbers, Share
from singerlake.ops.rows_back.undo_plan import Group, OnConflict, UndoPlan
from singerlake.rows.batches import packing
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, aliases
from singerlake.rows.batches.steps import Batches, Pipeline
from singerlake.rows.blocks.bounded_keys import has_bounds
from singerlake.rows.state import activations
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.keys import AT
from singerlake.rows.state.newest_rows import SPLIT_KEYS, KeyStep
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import building, common_rows, content, from_blocks, index
from singerlake.snapshot.common_rows import PLACES, Places

MERGED = f"{FOUND}, came long, went long, conflicts long, first binary"
"""What a merge gives: the rows to be written; how many rows come back and how many go; how many
were touched again since, and those of them that come first by their keys, packed: the key's
columns, ``TOUCHED`` and ``GONE``."""
TOUCHED, GONE = "touched", "gone"
"""The block of the last row that a key came with, and whether the key has no row now."""
LISTED = 1000
"""So many conflicts are named at most."""
MOST_KEYS = 10_000
"""Rows written whose keys are looked for in the blocks of the state before, if it has no index."""
_TALLIED = f"{actions.COUNTED}, came long, went long, conflicts long, first binary"
_THERE, _WANTED = 0, 1


class Tally(NamedTuple):
    """The totals of a merge.

    Attributes:
        counted: The rows to be written.
        came: Rows that come back, or are again what they were.
        conflicts: Rows that were touched again since.
        first: Those of them that come first by their keys, as in :data:`MERGED`; None for none.
    """

    counted: Counted
    came: int
    went: int
    conflicts: int
    first: pa.Table | None


def merged(engine: Engine[Any], table: Table, wanted: UndoPlan, on_conflict: OnConflict) -> Any:
    """Find what becomes of rows; gives rows of :data:`MERGED`.

    Args:
        on_conflict: What becomes of rows that were touched again.
    """
    if wanted.head.key:
        return _by_key(engine, table, wanted, on_conflict)
    return _by_place(engine, table, wanted)


def tally(engine: Engine[Any], rows: Any) -> Tally:
    """Count what :func:`merged` gave."""
    found = engine.collect(engine.map(rows, _tallied, _TALLIED))
    came, went, conflicts = (
        sum(row[name] for row in found) for name in ("came", "went", "conflicts")
    )
    first = _in_order([packing.unpack(row["first"]) for row in found if row["first"]])
    return Tally(actions.counted(found), came, went, conflicts, first)


def _tallied(batches: Batches) -> Batches:
    sums = {"came": 0, "went": 0, "conflicts": 0}
    first: list[pa.Table] = []

    def noted() -> Batches:
        for batch in batches:
            for name in sums:
                sums[name] += sum(batch.column(name).to_pylist())
            first.extend(packing.unpack(data) for data in batch.column("first").to_pylist() if data)
            yield batch

    for told in actions.count_rows(noted()):
        whole = told
        for name, value in sums.items():
            whole = whole.append_column(name, pa.array([value]))
        some = _in_order(first)
        packed = pa.array([None if some is None else packing.pack(some)], pa.binary())
        yield whole.append_column("first", packed)


def _in_order(tables: Sequence[pa.Table]) -> pa.Table | None:
    """Put conflicts in the order of their keys, as many as are named."""
    if not tables:
        return None
    whole = pa.concat_tables(tables)
    by = [(name, "ascending") for name in whole.column_names if name not in (TOUCHED, GONE)]
    order = pc.sort_indices(whole, sort_keys=by)
    return whole.take(order[:LISTED]).combine_chunks()


def _by_key(engine: Engine[Any], table: Table, wanted: UndoPlan, on_conflict: OnConflict) -> Any:
    head, after = wanted.head, wanted.first_block
    columns = shape_of(head).key_columns
    since = [block for block in head.blocks if block.number > after]
    plan = from_blocks.planned(
        engine, table, head, digests=True, shape=_all_of(columns), blocks=since
    )
    before = wanted.groups[0].before
    count = sum(block.rows for block in (*since, *(before.blocks if before is not None else ())))
    parts = max(engine.parts, count // from_blocks.PART_ROWS)
    read = Pipeline((plan.reader, Share(columns, parts, after)))
    rows = engine.map(engine.source(plan.sent), read, SHARED)
    if before is not None:
        earlier = _state(engine, table, wanted, before, Share(columns, parts))
        rows = engine.union(earlier, rows)
    merge = _Merge(
        len(columns),
        activations.survival(head.blocks),
        [_Boundaries.of(group) for group in wanted.groups],
        head.overlay.default_starts,
        again=on_conflict is OnConflict.UNDO,
    )
    return engine.map(engine.exchange(rows, parts, "part"), merge, MERGED)


def _all_of(columns: Columns, survival: Survival | None = None) -> Shape:
    return Shape(columns, tuple(range(len(columns))), survival or Survival())


def _state(
    engine: Engine[Any], table: Table, wanted: UndoPlan, state: TableState, share: Share
) -> Any:
    """Share out the rows of a state: by its index, or without one those of a few keys."""
    asked = _few_keys(engine, table, wanted, state, share.columns)
    if asked is None:
        old = building.ensure(engine, table, state)
        names = (*old.shape.key_aliases, *keyed_rows.PROVENANCE)
        return content.of_index(engine, old, names, share, SHARED)
    shape = _all_of(share.columns, shape_of(state).survival)
    plan = from_blocks.planned(engine, table, state, digests=True, shape=shape)
    return from_blocks.through(engine, plan, share, SHARED, asked=asked)


def _few_keys(
    engine: Engine[Any], table: Table, wanted: UndoPlan, state: TableState, columns: Columns
) -> list[bytes] | None:
    """Find the keys that were written, and perhaps others.

    Returns:
        None where the index of the state costs less, or all that it has is needed: the table is
        small, its index is there, or nearly so; many keys were written, or some that no block
        tells of.
    """
    blocks = [block for block in wanted.head.blocks if _may_be_within(block, wanted.groups)]
    if wanted.activates or sum(block.rows for block in blocks) > MOST_KEYS:
        return None
    if sum(block.rows for block in state.blocks) < building.LEAST_ROWS:
        return None  # and who reads it next has the index
    if state.key_reading != wanted.head.key_reading or not has_bounds(columns):
        return None
    if index.sound(table, state.earliest_equal()) or building.layered_on(table, state):
        return None
    plan = from_blocks.planned(engine, table, wanted.head, shape=_all_of(columns), blocks=blocks)
    found = engine.map(engine.source(plan.sent), KeyStep(plan.key_reader, 1), SPLIT_KEYS)
    with engine.stages("reading keys"):
        packed = [row["keys"] for row in engine.collect(found)]
    tables = [packing.unpack(data).drop_columns([AT]) for data in packed]
    if any(column.null_count for one in tables for column in one.columns):
        return None
    return [packing.pack(one.combine_chunks()) for one in tables]


def _may_be_within(block: Block, groups: Sequence[Group]) -> bool:
    """Tell whether a block may have rows of some groups; a vacuum puts rows into later blocks."""
    oldest = block.lowest_version
    ranges = (group.blocks for group in groups)
    return any(oldest <= last and block.number > first for first, last in ranges)


class _Boundary(NamedTuple):
    """The facts that identify the row that a key had at a state."""

    last: int
    survival: Survival

    @classmethod
    def of(cls, state: TableState) -> _Boundary:
        return cls(state.last_block, activations.survival(state.blocks))

    def rows(self, rows: KeyedRows) -> Numbers:
        return rows.there(rows.newest(rows.blocks <= self.last), self.survival)


class _Boundaries(NamedTuple):
    """The boundaries of a group, without the log that its states hold.

    Attributes:
        before: None where there was no table.
        restores_schema: As in a ``Group``.
    """

    before: _Boundary | None
    at: _Boundary
    restores_schema: bool

    @classmethod
    def of(cls, group: Group) -> _Boundaries:
        before = None if group.before is None else _Boundary.of(group.before)
        return cls(before, _Boundary.of(group.at), group.restores_schema)


@dataclass
class _Merge:
    """Compares the rows that a part's keys had.

    Attributes:
        groups: From the oldest to the newest.
        starts: The blocks from which people gave columns other defaults.
        again: Whether rows that were touched again go back, too.
    """

    width: int
    survival: Survival
    groups: Sequence[_Boundaries]
    starts: Sequence[int]
    again: bool

    def __call__(self, batches: Batches) -> Batches:
        """Give the positions of rows to put back, and of those to delete."""
        rows = KeyedRows.of(batches, self.width)
        if rows is None:
            return
        newest = rows.newest()
        now = rows.there(newest, self.survival)
        goal, conflict = self._goal(rows, now)
        changed = ~self._same(rows, now, goal)
        goes = goal < 0
        chosen = np.where(goes, now, goal)[changed]
        found = Found(rows.at[chosen], goes[changed], rows.lacking[chosen])
        went = int(np.count_nonzero(found.deleted))
        yield _told(found, len(chosen) - went, went, rows, newest[conflict], now[conflict] < 0)

    def _goal(self, rows: KeyedRows, now: Numbers) -> tuple[Numbers, Mask]:
        """Find the row that each key shall have, and which were touched again since."""
        goal, conflict = now, np.zeros(rows.count, dtype=bool)
        for group in reversed(self.groups):
            at = group.at.rows(rows)
            before = np.full_like(at, -1) if group.before is None else group.before.rows(rows)
            # If the schema goes back, a row that came under it again reads otherwise.
            alike = _same_place if group.restores_schema else _same_record
            own = ~alike(rows, at, before)
            again = own & ~_same_record(rows, goal, at) & ~_same_record(rows, goal, before)
            conflict |= again
            goal = np.where(own if self.again else own & ~again, before, goal)
        return goal, conflict

    def _same(self, rows: KeyedRows, now: Numbers, goal: Numbers) -> Mask:
        """Tell which keys have the row that they shall have.

        One that was sent again as it was stays, except if people have given a column another
        default in between, which the old row does not show, or if the schema goes back.
        """
        same = _same_place(rows, now, goal)
        if any(group.restores_schema for group in self.groups):
            return same
        record = _same_record(rows, now, goal)
        for start in self.starts:
            record &= (rows.blocks[now] >= start) == (rows.blocks[goal] >= start)
        return same | record


def _same_place(rows: KeyedRows, one: Numbers, other: Numbers) -> Mask:
    return _alike(rows.at, one, other)


def _same_record(rows: KeyedRows, one: Numbers, other: Numbers) -> Mask:
    """Tell which rows are the same bytes, wherever they lie; or neither is there."""
    return _alike(rows.records, one, other)


def _alike(numbers: Numbers, one: Numbers, other: Numbers) -> Mask:
    there = (one >= 0) & (other >= 0)
    same: Mask = np.where(there, numbers[one] == numbers[other], (one < 0) & (other < 0))
    return same


def _told(
    found: Found, came: int, went: int, rows: KeyedRows | None, again: Numbers, gone: Mask
) -> pa.RecordBatch:
    """Make a row of :data:`MERGED`."""
    first = None
    if rows is not None and len(again):
        some = rows.rows.select(aliases(rows.width)).take(pa.array(again))
        some = some.append_column(TOUCHED, pa.array(rows.blocks[again]))
        first = _in_order([some.append_column(GONE, pa.array(gone))])
    numbers = {"came": came, "went": went, "conflicts": len(again)}
    batch = found.batch()
    for name, value in numbers.items():
        batch = batch.append_column(name, pa.array([value]))
    packed = None if first is None else packing.pack(first)
    return batch.append_column("first", pa.array([packed], pa.binary()))


def _by_place(engine: Engine[Any], table: Table, wanted: UndoPlan) -> Any:
    """Do the same without a key; no other transaction since has an ACTIVATE_VERSION."""
    head, groups = wanted.head, wanted.groups
    ends = [0, *(group.blocks[1] for group in groups)]
    begins = [*(group.blocks[0] for group in groups), head.last_block]
    spans = [*zip(ends, begins, strict=True)]
    if wanted.activates:
        states = [*(group.before for group in groups), head]
        wants: Iterable[tuple[TableState | None, Any]] = zip(
            states, ([one] for one in spans), strict=True
        )
    else:  # all that there was is still there, in its place
        wants = [(head, spans)]
    count = sum(block.rows for block in head.blocks)
    parts = max(engine.parts, count // from_blocks.PART_ROWS)
    read = [_places(engine, table, head, Places(_THERE, parts))]
    read += [
        _places(engine, table, state, Places(_WANTED, parts, some))
        for state, some in wants
        if state is not None
    ]
    shared = engine.exchange(engine.union(*read), parts, "part")
    return engine.map(shared, _merge_places, MERGED)


def _places(engine: Engine[Any], table: Table, state: TableState, step: Places) -> Any:
    old = building.ensure(engine, table, state, shown=True)
    return content.of_index(engine, old, (BLOCK, ORDINAL), step, PLACES)


def _merge_places(batches: Batches) -> Batches:
    there, shall = common_rows.unpacked(batches)
    came = len(np.setdiff1d(shall, there, assume_unique=True))
    went = len(np.setdiff1d(there, shall, assume_unique=True))
    yield _told(Found.put_back(shall), came, went, None, shall[:0], shall[:0] < 0)
