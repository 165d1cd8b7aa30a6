"""Dropping history by Spark: find the rows that are kept, write them anew, prove the result."""

from __future__ import annotations

import logging
from bisect import bisect_right
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812

from singerlake.errors import DamagedError
from singerlake.format.log import Block, Entry, decode_block
from singerlake.format.overlay import Overlay
from singerlake.format.types import RULES, Columns, identity
from singerlake.lake import Table
from singerlake.maintenance import drop_history as plans
from singerlake.maintenance.combine import withdraw
from singerlake.maintenance.drop_history import DropHistoryPlan, Rewrite
from singerlake.records.blocks import block_tasks, positions
from singerlake.records.blocks.block_reader import BlockReader
from singerlake.records.rows.row_columns import BLOCK, ORDINAL, VERSION, aliases
from singerlake.records.rows.steps import Batches
from singerlake.records.state import activations
from singerlake.records.state.activations import Survival
from singerlake.records.state.moved_rows import COUNTED, POSITIONS, Positions, RowCounter
from singerlake.snapshot import from_blocks
from singerlake.spark.engine import SparkEngine, SparkRows
from singerlake.spark.jobs.maintenance.history_proof import Found, prove
from singerlake.spark.jvm.session import cores
from singerlake.spark.state import fold, frames
from singerlake.spark.write import routing
from singerlake.spark.write.rewriting import WRITTEN, Rewriter, encode
from singerlake.transactions import versions
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.staging import FILE_BYTES

logger = logging.getLogger(__name__)
WRITE_BYTES = 128 << 20
"""Inflated bytes that one task reads at least to write anew, about."""
MOST_BYTES = 2 << 30
"""And at most, however little it writes."""
_POSITION = [
    T.StructField("interval", T.IntegerType()),
    T.StructField("block", T.LongType()),
    T.StructField("row", T.IntegerType()),
]


@dataclass(frozen=True)
class Dropped:
    """What dropping history wrote, before it is committed.

    Attributes:
        entry: The log entry.
        files: Paths of the new files, within the table.
    """

    entry: Entry
    files: list[str]


def drop_history(
    spark: SparkSession, table: Table, snapshot: Snapshot, plan: DropHistoryPlan
) -> Dropped:
    """Write what is kept, and make sure that every protected state reads as before.

    Args:
        spark: The session.
        table: The table.
        snapshot: Its head.
        plan: What history can go.

    Raises:
        DamagedError: A block cannot be read, or a state would not read as before; nothing
            was changed.
        StoreError: The store refused.
    """
    kept = _kept(spark, table, snapshot, plan)
    files: list[str] = []
    try:
        counts: dict[int, int] = {}
        for row in kept.counts.collect():  # one row a block
            number = positions.block_holding(snapshot.blocks, row["block"]).number
            counts[number] = counts.get(number, 0) + row["rows"]
        rewrites: list[Rewrite] = []
        gone: list[Block] = []
        survivals = _survivals(snapshot, plan.intervals)
        for interval, survival in zip(plan.intervals, survivals, strict=True):
            some, none = plans.plan_rewrites(interval, counts, _decided(survival))
            rewrites += some
            gone += none
        written = _write(spark, table, kept.rows, rewrites)
        files += sorted({block.file for _, block in written})
        entry = plans.draft_drop_history(snapshot, plan, written, gone)
        prove(spark, table, snapshot, plan, entry, kept.found)
        return Dropped(entry, files)
    except BaseException:
        withdraw(table.store, table.name, files)
        raise
    finally:
        kept.held.unpersist()


@dataclass(frozen=True)
class _Kept:
    """The rows that are kept.

    Attributes:
        rows: Their positions, each once.
        counts: How many there are of each block that they came in.
        held: What these are made of; held in memory.
        found: What it says of the state at the history floor, where it does.
    """

    rows: DataFrame
    counts: DataFrame
    held: DataFrame
    found: Found | None = None


def _decided(survival: Survival) -> tuple[int, int]:
    """The position before which everything is gone in a state, and in all later ones."""
    different = survival.different
    return (different.block, different.rows) if different is not None else (0, 0)


def _survivals(snapshot: Snapshot, intervals: list[plans.Interval]) -> list[Survival]:
    """What the activations leave at the end of each interval."""
    ends = [snapshot.summary(interval.end).last_block for interval in intervals]
    return activations.survivals(snapshot.blocks, ends)


def _kept(spark: SparkSession, table: Table, snapshot: Snapshot, plan: DropHistoryPlan) -> _Kept:
    """Find the rows that are kept: where no version parts history, the newest at the floor."""
    readings = _readings(snapshot, plan)
    state = snapshot.at(plan.floor).as_read_by(snapshot)
    whole = len(plan.intervals) == 1 and plan.intervals[0].blocks == state.blocks
    if not whole or len(readings) > 1 or not state.key:
        rows = _kept_of_intervals(spark, table, snapshot, plan, readings)
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        counts = rows.groupBy("block").agg(F.count("*").alias("rows"))
        return _Kept(rows, counts, rows)
    engine = SparkEngine(spark)
    planned = from_blocks.planned(engine, table, state, digests=True, shown=True)
    found = from_blocks.picked(engine, planned)
    picked = found.frame.persist(StorageLevel.MEMORY_AND_DISK)
    survival = planned.shape.survival
    some = picked.mapInArrow(RowCounter(survival), COUNTED)
    return _Kept(
        rows=picked.mapInArrow(Positions(survival), POSITIONS),
        counts=some.groupBy("block").agg(F.sum("rows").alias("rows")),
        held=picked,
        found=Found(plan.floor, planned, SparkRows(picked)),
    )


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


def _readings(snapshot: Snapshot, plan: DropHistoryPlan) -> dict[_Key, _Reading]:
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


def _kept_of_intervals(
    spark: SparkSession,
    table: Table,
    snapshot: Snapshot,
    plan: DropHistoryPlan,
    readings: dict[_Key, _Reading],
) -> DataFrame:
    """Positions of the rows that are kept, each once.

    The key may differ from schema to schema. A row is kept if it is the newest of its key by
    the key of any state from its interval on that stays readable.

    Keys are told apart by all their digits, and rows with a null in theirs by their places. Rules
    that take several of these keys for one keep the newest row of them, which is kept here, too.
    """
    kept: DataFrame | None = None
    for (key, _, _), reading in readings.items():
        intervals = [interval for interval in plan.intervals if interval.end <= reading.last]
        if not intervals:
            continue
        # What activations have removed by then need not be readable under its key.
        rule = activations.survival(snapshot.at(reading.first).blocks)
        laid_over = snapshot.laid_over(reading.overlay).by_rules(reading.rules)
        frame = _newest(spark, table, laid_over, key, intervals, rule.first_block)
        kept = frame if kept is None else kept.unionAll(frame)
    if kept is None:
        raise DamagedError(f"{table.name}: no protected state has a schema")
    return kept.distinct() if len(readings) > 1 else kept


def _readable(snapshot: Snapshot, plan: DropHistoryPlan) -> list[tuple[int, int]]:
    """The transactions whose states can be read afterwards, as ``Snapshot.readable`` has it.

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


def _newest(
    spark: SparkSession,
    table: Table,
    snapshot: Snapshot,
    key: Columns,
    intervals: list[plans.Interval],
    first_block: int,
) -> DataFrame:
    """The newest row of each key in each interval; without a key all that no activation took.

    Blocks before the first one are not looked at.
    """
    survivals = _survivals(snapshot, intervals)
    blocks = [
        block
        for interval, survival in zip(intervals, survivals, strict=True)
        for block in activations.needed(interval.blocks, survival)
        if block.number >= first_block
    ]
    key = identity(key)
    shared = block_tasks.split(blocks, 2 * cores(spark), block_tasks.TASK_BYTES)
    blocks_reader = BlockReader.of(table.store, snapshot, shared, key, (name for name, _ in key))
    sent, blocks_reader.tasks = blocks_reader.tasks, []
    reader = IntervalReader(
        blocks_reader,
        ends=[snapshot.summary(interval.end).last_block for interval in intervals],
        survivals=survivals,
        keyed=bool(key),
    )
    schema = T.StructType([*frames.frame_schema(key, ()), *_POSITION])
    engine = SparkEngine(spark)
    frame = engine.map(engine.source(sent), reader, schema).frame
    if not key:
        return frame.select("block", "row")
    own = F.when(fold.lacks(aliases(key)), F.struct("block", "row"))
    newest = frame.groupBy("interval", *aliases(key), own).agg(
        F.max(F.struct("block", "row")).alias("at")
    )
    return newest.select("at.block", "at.row")


@dataclass
class IntervalReader:
    """Reads keys, and says in which interval each row lies. Sent to executors by value.

    Attributes:
        reader: Reads the key columns.
        ends: The last block of each interval, rising.
        survivals: What the activations leave at the end of each.
        keyed: Whether rows that an activation removed may hide older ones.
    """

    reader: BlockReader
    ends: list[int]
    survivals: list[Survival]
    keyed: bool

    def __call__(self, numbers: Batches) -> Batches:
        """Read the tasks whose numbers come in."""
        for batch in self.reader(numbers):
            yield self._kept(batch)

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        codes = positions.codes_in(batch)
        intervals = np.searchsorted(self.ends, positions.blocks_of(codes)).astype(np.int32)
        kept = np.zeros(len(codes), dtype=bool)
        for number in np.unique(intervals):
            mine = intervals == number
            versions = None if self.keyed else batch.column(VERSION).filter(pa.array(mine))
            kept[mine] = self.survivals[number].mask(codes[mine], versions)
        names = aliases(self.reader.target)
        columns = [
            *(batch.column(name) for name in names),
            pa.array(intervals),
            batch.column(BLOCK),
            batch.column(ORDINAL),
        ]
        names += ["interval", "block", "row"]
        return pa.RecordBatch.from_arrays(columns, names=names).filter(pa.array(kept))


def _write(
    spark: SparkSession,
    table: Table,
    kept: DataFrame,
    rewrites: list[Rewrite],
) -> list[tuple[Rewrite, Block]]:
    if not rewrites:
        return []
    tasks = [
        routing.Task([block for rewrite in task for block in rewrite.sources], encode(task))
        for task in _tasks(rewrites, 4 * cores(spark))
    ]
    ordered = routing.route(spark, kept, tasks)
    writer = Rewriter(table.store, table.name, FILE_BYTES)
    # A description a block comes back to the driver, never rows.
    described = ordered.mapInArrow(writer, WRITTEN).collect()
    blocks = {row["number"]: decode_block(row["block"]) for row in described}
    return [(rewrite, blocks[rewrite.number]) for rewrite in rewrites]


def _tasks(rewrites: list[Rewrite], parallel: int) -> list[list[Rewrite]]:
    """What each task writes.

    In a large table that is a file of more than half the size that combining aims at, which it
    then leaves alone: with smaller ones all that is kept would be copied once more, at once.

    Args:
        rewrites: All that is to be written.
        parallel: Tasks there should be, if each has enough to do.
    """
    share = sum(rewrite.bytes for rewrite in rewrites) // parallel
    most = max(WRITE_BYTES, min(share, MOST_BYTES))
    tasks: list[list[Rewrite]] = []
    read = written = most
    for rewrite in rewrites:
        if read >= most or written >= FILE_BYTES * 3 // 4:
            tasks.append([])
            read = written = 0
        tasks[-1].append(rewrite)
        read += rewrite.bytes
        rows = max(1, sum(block.rows for block in rewrite.sources))
        written += sum(block.length for block in rewrite.sources) * rewrite.rows // rows
    return tasks
