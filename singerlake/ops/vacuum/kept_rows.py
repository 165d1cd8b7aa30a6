"""Which rows stay when history is expired: the newest of each key in each interval.

Why these, ``ops/vacuum/drop_history.py`` says. Keys are read and compared as those of a state are
(``from_blocks.py``), and only keys and positions are exchanged. Where nothing but the history floor
parts history, the rows that stay are the newest of their keys at the floor, and the proof takes
the same finding for its old side.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.engine.base import Engine
from singerlake.errors import DamagedError
from singerlake.format.overlay import Overlay
from singerlake.format.types import RULES, Columns, identity
from singerlake.lake import Table
from singerlake.log import versions
from singerlake.log.table_state import TableState
from singerlake.ops.vacuum.drop_history import DropHistoryPlan, Interval
from singerlake.ops.vacuum.history_proof import Found
from singerlake.rows.batches.row_columns import VERSION
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.blocks.block_reader import BlockReader, BlockText
from singerlake.rows.state import activations, keys, newest_rows
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.newest_rows import PICKED, SPLIT_KEYS, NewestStep
from singerlake.snapshot import from_blocks
from singerlake.snapshot.from_blocks import PART_ROWS

_COUNTED = "block long, rows long"


@dataclass
class Intervals:
    """Which interval a row came in, and whether an activation has removed it by the end of that.

    Attributes:
        ends: The last block of each interval, rising.
        survivals: What the activations leave at the end of each.
    """

    ends: list[int]
    survivals: list[Survival]

    @classmethod
    def of(cls, snapshot: TableState, intervals: Sequence[Interval]) -> Intervals:
        """Find what the activations leave at the end of each interval."""
        ends = [snapshot.summary(interval.end).last_block for interval in intervals]
        return cls(ends, activations.survivals(snapshot.blocks, ends))

    def numbers(self, codes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the number of the interval in which each position lies."""
        return np.searchsorted(self.ends, positions.blocks_of(codes)).astype(np.int32)

    def left(self, codes: NDArray[np.int64], versions: pa.Array | None = None) -> NDArray[np.int64]:
        """Return the positions of those rows that activations have left.

        Args:
            codes: The positions of rows.
            versions: Their Singer versions. Without them only those rows are left out that are
                gone whatever their version: they hide no row that is not.
        """
        numbers = self.numbers(codes)
        stays = np.zeros(len(codes), dtype=bool)
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            own = None if versions is None else versions.filter(pa.array(mine))
            stays[mine] = self.survivals[number].mask(codes[mine], own)
        left: NDArray[np.int64] = codes[stays]
        return left


@dataclass(frozen=True)
class Kept:
    """The rows that stay.

    Attributes:
        engine: Has found them.
        rows: Their positions, as ``PICKED`` has them. One may come twice, and rows come too that
            ``intervals`` leaves out.
        tasks: How many tasks these name.
        intervals: Those that history is parted into.
        found: What the rows say of the state at the history floor, where they do.
    """

    engine: Engine[Any]
    rows: Any
    tasks: int
    intervals: Intervals
    found: Found | None = None

    def counts(self, snapshot: TableState) -> dict[int, int]:
        """Count them by the block that they lie in."""
        engine = self.engine
        by_task = engine.exchange(self.rows, self.tasks, "task")
        counts: dict[int, int] = {}
        # One row for each block that rows came in.
        for row in engine.collect(engine.map(by_task, _Count(self.intervals), _COUNTED)):
            number = positions.block_holding(snapshot.blocks, row["block"]).number
            counts[number] = counts.get(number, 0) + row["rows"]
        return counts


@contextmanager
def kept_rows(
    engine: Engine[Any], table: Table, snapshot: TableState, plan: DropHistoryPlan
) -> Iterator[Kept]:
    """Find the rows that stay; the engine keeps their positions within.

    Args:
        engine: Reads and compares keys.
        table: The table.
        snapshot: Its head.
        plan: What history can go.

    Raises:
        DamagedError: A block cannot be read, or no state that stays has a schema.
    """
    readings = _readings(snapshot, plan)
    intervals = Intervals.of(snapshot, plan.intervals)
    state = snapshot.at(plan.floor).as_read_by(snapshot)
    whole = len(plan.intervals) == 1 and plan.intervals[0].blocks == state.blocks
    if whole and len(readings) == 1 and state.key:
        planned = from_blocks.planned(engine, table, state, digests=True, shown=True)
        with engine.keep(from_blocks.picked(engine, planned)) as rows:
            found = Found(plan.floor, planned, rows)
            yield Kept(engine, rows, max(1, len(planned.tasks)), intervals, found)
        return
    tasks = block_tasks.split(plan.blocks, engine.parts, block_tasks.TASK_BYTES)
    ends = [task[-1].number for task in tasks]
    with engine.keep(_of_intervals(engine, table, snapshot, plan, readings, ends)) as rows:
        yield Kept(engine, rows, len(tasks), intervals)


_Key: TypeAlias = tuple[Columns, bytes, int]
"""The columns of a key, and how they are read."""


@dataclass
class _Reading:
    """The states whose rows are told apart by one key.

    Attributes:
        first: The first of them.
        last: The last.
        overlay: By what they are read,
        rules: and by which rules.
    """

    first: int
    last: int
    overlay: Overlay
    rules: int


def _readings(snapshot: TableState, plan: DropHistoryPlan) -> dict[_Key, _Reading]:
    """The keys of the states that can be read afterwards, and how they are read."""
    known: dict[tuple[str, int, int], _Key] = {}
    found: dict[_Key, _Reading] = {}
    laid = sorted(snapshot.overlays)
    for number, rules in _readable(snapshot, plan):
        said = (snapshot.summary(number).schema_hash, bisect_right(laid, number), rules)
        if said not in known:
            state = snapshot.at(number).by_rules(rules).as_read_by(snapshot)
            known[said] = state.key_reading
            new = _Reading(number, number, state.overlay, rules)
            of = found.setdefault(known[said], new)
            of.overlay = state.overlay
        found[known[said]].last = number
    return found


def _readable(snapshot: TableState, plan: DropHistoryPlan) -> list[tuple[int, int]]:
    """The transactions whose states can be read afterwards, as ``TableState.readable`` has it.

    Each with the rules of types by which it can be: those of today, and those of its versions.
    """
    ends = {snapshot.summary(number).last_block for number in plan.protected}
    frozen = {(one.transaction, one.types) for one in versions.protecting(snapshot, plan.floor)}
    return sorted(
        {
            (transaction.number, RULES)
            for transaction in snapshot.transactions
            if transaction.number > plan.floor or transaction.last_block in ends
        }
        | frozen
    )


def _of_intervals(
    engine: Engine[Any],
    table: Table,
    snapshot: TableState,
    plan: DropHistoryPlan,
    readings: dict[_Key, _Reading],
    ends: list[int],
) -> Any:
    """Find the rows that stay, by each key that the table had.

    The key may differ from schema to schema. A row stays if it is the newest of its key by
    the key of any state from its interval on that stays readable.

    Keys are told apart by all their digits, and rows with a null in theirs by their places. Rules
    that take several of these keys for one keep the newest row of them, which stays here, too.
    """
    found = []
    for (key, _, _), reading in readings.items():
        intervals = [interval for interval in plan.intervals if interval.end <= reading.last]
        if not intervals:
            continue
        # What activations have removed by then need not be readable under its key.
        rule = activations.survival(snapshot.at(reading.first).blocks)
        laid_over = snapshot.laid_over(reading.overlay).by_rules(reading.rules)
        found.append(_newest(engine, table, laid_over, key, intervals, rule.first_block, ends))
    if not found:
        raise DamagedError(f"{table.name}: no protected snapshot has a schema")
    return engine.union(*found) if len(found) > 1 else found[0]


def _newest(
    engine: Engine[Any],
    table: Table,
    snapshot: TableState,
    key: Columns,
    intervals: list[Interval],
    first_block: int,
    ends: list[int],
) -> Any:
    """The newest row of each key in each interval; without a key all that no activation took.

    Blocks before the first one are not looked at.
    """
    parted = Intervals.of(snapshot, intervals)
    blocks = [
        block
        for interval, survival in zip(intervals, parted.survivals, strict=True)
        for block in activations.needed(interval.blocks, survival)
        if block.number >= first_block
    ]
    key = identity(key)
    shared = block_tasks.split(blocks, engine.parts, block_tasks.TASK_BYTES)
    reader = BlockReader.of(table.store, snapshot, shared, key, (name for name, _ in key))
    sent, reader.tasks = reader.tasks, []
    source = engine.source(sent)
    if not key:
        return engine.map(source, KeylessStep(reader, parted, ends), PICKED)
    parts = max(engine.parts, sum(block.rows for block in blocks) // PART_ROWS)
    split = engine.map(source, IntervalKeyStep(reader, parted, parts), SPLIT_KEYS)
    shared_out = engine.exchange(split, parts, "part")
    return engine.map(shared_out, NewestStep(ends, apart=True), PICKED)


@dataclass
class IntervalKeyStep:
    """Reads keys, each with the number of its interval, and splits them as ``KeyStep`` does.

    Attributes:
        reader: Its columns are the key.
        intervals: Those that history is parted into.
        parts: How many.
    """

    reader: BlockReader
    intervals: Intervals
    parts: int

    def __call__(self, numbers: Batches) -> Batches:
        """Read the tasks whose numbers come in."""
        for _, blocks in self.reader.given(numbers):
            found = [self._read(read) for read in self.reader.texts(blocks)]
            yield newest_rows.split(keys.newest(found, apart=True), self.parts)

    def _read(self, read: BlockText) -> pa.Table:
        rows = keys.read(read.text, self.reader.spec(read.block, proved=read.proved))
        numbers = self.intervals.numbers(rows.column(keys.AT).to_numpy())
        # As one more column of the key: a row replaces none of another interval.
        return rows.add_column(0, "interval", pa.array(numbers))


@dataclass
class KeylessStep:
    """Gives the positions of the rows that activations have left, by task.

    Attributes:
        reader: Reads no column.
        intervals: Those that history is parted into.
        ends: As in a ``NewestStep``.
    """

    reader: BlockReader
    intervals: Intervals
    ends: list[int]

    def __call__(self, numbers: Batches) -> Batches:
        """Read the tasks whose numbers come in."""
        for _, blocks in self.reader.given(numbers):
            for rows in self.reader.rows(blocks):
                codes = self.intervals.left(positions.codes_in(rows), rows.column(VERSION))
                task = np.searchsorted(np.array(self.ends), positions.blocks_of(codes))
                yield newest_rows.by_task(codes, task)


@dataclass
class _Count:
    """Counts rows by the block that they came in.

    Attributes:
        intervals: Leave rows out.
    """

    intervals: Intervals

    def __call__(self, batches: Batches) -> Batches:
        """Take all that is found for some tasks."""
        picked, _ = newest_rows.gathered(batches)
        for codes in picked.values():
            came = positions.blocks_of(self.intervals.left(np.unique(codes)))
            blocks, rows = np.unique(came, return_counts=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(blocks), pa.array(rows.astype(np.int64))], ["block", "rows"]
            )
