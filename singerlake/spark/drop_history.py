"""Dropping history by Spark: find the rows that are kept, write them anew, prove the result."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812

from singerlake.errors import DamagedError
from singerlake.format.log import Block, Entry, decode_block
from singerlake.lake import Table
from singerlake.maintenance import history
from singerlake.maintenance.history import HistoryPlan, Rewrite
from singerlake.spark import fold, frames, placing
from singerlake.spark.columns import Columns
from singerlake.spark.fingerprint import Content, claims
from singerlake.spark.fold import Survival
from singerlake.spark.frames import BLOCK, ORDINAL, BlockReader, Shape, shape_of
from singerlake.spark.freeze import state_content
from singerlake.spark.lines import block_of
from singerlake.spark.rewriting import WRITTEN, Rewriter, encoded
from singerlake.spark.session import cores
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
    spark: SparkSession, table: Table, snapshot: Snapshot, plan: HistoryPlan
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
    kept = _kept(spark, table, snapshot, plan).persist(StorageLevel.MEMORY_AND_DISK)
    files: list[str] = []
    try:
        counts: dict[int, int] = {}
        for row in kept.groupBy("block").count().collect():  # one row a block
            number = block_of(snapshot.blocks, row["block"]).number
            counts[number] = counts.get(number, 0) + row["count"]
        rewrites: list[Rewrite] = []
        gone: list[Block] = []
        survivals = _survivals(snapshot, plan.intervals)
        for interval, survival in zip(plan.intervals, survivals, strict=True):
            some, none = history.plan_rewrites(interval, counts, _decided(survival))
            rewrites += some
            gone += none
        written = _write(spark, table, kept, rewrites)
        files += sorted({block.file for _, block in written})
        entry = history.history_entry(snapshot, plan, written, gone)
        _prove(spark, table, snapshot, plan, entry)
        return Dropped(entry, files)
    except BaseException:
        withdraw(table, files)
        raise
    finally:
        kept.unpersist()


def withdraw(table: Table, files: list[str]) -> None:
    """Delete new files that no log entry names."""
    for path in files:
        table.store.delete(table.name.data(path))


def _decided(survival: Survival) -> tuple[int, int]:
    """The position before which everything is gone in a state, and in all later ones."""
    different = survival.different
    return (different.block, different.rows) if different is not None else (0, 0)


def _survivals(snapshot: Snapshot, intervals: list[history.Interval]) -> list[Survival]:
    """What the activations leave at the end of each interval."""
    ends = [snapshot.summary(interval.end).last_block for interval in intervals]
    return fold.survivals(snapshot.blocks, ends)


def _kept(spark: SparkSession, table: Table, snapshot: Snapshot, plan: HistoryPlan) -> DataFrame:
    """Positions of the rows that are kept, each once.

    The key may differ from schema to schema. A row is kept if it is the newest of its key by
    the key of any state from its interval on that stays readable.
    """
    first_use: dict[Columns, int] = {}
    last_use: dict[Columns, int] = {}
    hashes: dict[str, Columns] = {}
    for number in _readable(snapshot, plan):
        schema_hash = snapshot.summary(number).schema_hash
        if schema_hash not in hashes:
            # As the head has a key that a person made text of: values that fit its own type are
            # one key as texts where they are one as values, and the others can be read at all.
            state = snapshot.at(number).laid_over(snapshot.overlay)
            hashes[schema_hash] = _key(shape_of(state))
        first_use.setdefault(hashes[schema_hash], number)
        last_use[hashes[schema_hash]] = number
    found: DataFrame | None = None
    for key, last in last_use.items():
        intervals = [interval for interval in plan.intervals if interval.end <= last]
        if not intervals:
            continue
        # What activations have removed by then need not be readable under its key.
        rule = fold.survival(snapshot.at(first_use[key]).blocks)
        frame = _newest(spark, table, snapshot, key, intervals, rule.first_block)
        found = frame if found is None else found.unionAll(frame)
    if found is None:
        raise DamagedError(f"{table.name}: no protected state has a schema")
    return found.distinct() if len(last_use) > 1 else found


def _readable(snapshot: Snapshot, plan: HistoryPlan) -> list[int]:
    """The transactions whose states can be read afterwards, as ``Snapshot.readable`` has it."""
    ends = {snapshot.summary(number).last_block for number in plan.protected}
    return [
        transaction.number
        for transaction in snapshot.transactions
        if transaction.number > plan.floor or transaction.last_block in ends
    ]


def _key(shape: Shape) -> Columns:
    return tuple(shape.columns[place] for place in shape.keys)


def _newest(
    spark: SparkSession,
    table: Table,
    snapshot: Snapshot,
    key: Columns,
    intervals: list[history.Interval],
    first_block: int,
) -> DataFrame:
    """The newest row of each key in each interval; without a key all that no activation took.

    Blocks before the first one are not looked at.
    """
    survivals = _survivals(snapshot, intervals)
    blocks = [
        block
        for interval, survival in zip(intervals, survivals, strict=True)
        for block in fold.needed(interval.blocks, survival)
        if block.number >= first_block
    ]
    shape = Shape(key, tuple(range(len(key))), Survival())
    tasks = fold.tasks(blocks, 2 * cores(spark), frames.TASK_BYTES)
    reader = IntervalReader(
        frames.block_reader(table, snapshot, tasks, key, frozenset(name for name, _ in key)),
        ends=[snapshot.summary(interval.end).last_block for interval in intervals],
        survivals=survivals,
        keyed=bool(key),
    )
    fields = [
        T.StructField(place, frames.spark_type(type_))
        for place, (_, type_) in zip(shape.places, key, strict=True)
    ]
    parts = spark.range(len(tasks), numPartitions=max(1, len(tasks)))
    frame = parts.mapInArrow(reader, T.StructType([*fields, *_POSITION]))
    if not key:
        return frame.select("block", "row")
    newest = frame.groupBy("interval", *shape.places).agg(
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

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tasks whose numbers come in."""
        for batch in self.reader(numbers):
            yield self._kept(batch)

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        blocks = batch.column(BLOCK).to_numpy()
        ordinals = batch.column(ORDINAL).to_numpy()
        versions = batch.column(frames.VERSION)
        intervals = np.searchsorted(self.ends, blocks).astype(np.int32)
        stays = np.ones(len(blocks), dtype=bool)
        for number in np.unique(intervals):
            mine = intervals == number
            rule = self.survivals[number]
            if rule.last is None:
                continue
            stays[mine] = False
            after = mine & _from(blocks, ordinals, rule.last)
            if rule.different is not None:
                since = mine & _from(blocks, ordinals, rule.different)
            else:
                since = mine
            if not self.keyed:
                same = versions.fill_null(rule.last.version - 1).to_numpy() == rule.last.version
                since = since & same
            stays |= after | since
        keys = [batch.column(n) for n in range(len(self.reader.target))]
        names = [*(f"c{n}" for n in range(len(keys))), "interval", "block", "row"]
        columns = [*keys, pa.array(intervals), batch.column(BLOCK), batch.column(ORDINAL)]
        return pa.RecordBatch.from_arrays(columns, names=names).filter(pa.array(stays))


def _from(
    blocks: NDArray[np.int64], ordinals: NDArray[np.int32], place: fold.Activation
) -> NDArray[np.bool_]:
    """Which rows lie at or after a position."""
    same = (blocks == place.block) & (ordinals >= place.rows)
    after: NDArray[np.bool_] = (blocks > place.block) | same
    return after


def _write(
    spark: SparkSession,
    table: Table,
    kept: DataFrame,
    rewrites: list[Rewrite],
) -> list[tuple[Rewrite, Block]]:
    if not rewrites:
        return []
    tasks = [
        placing.Task([block for rewrite in run for block in rewrite.sources], encoded(run))
        for run in _runs(rewrites, 4 * cores(spark))
    ]
    ordered = placing.place(spark, kept, tasks)
    writer = Rewriter(table.store, table.name, FILE_BYTES)
    # A description a block comes back to the driver, never rows.
    described = ordered.mapInArrow(writer, WRITTEN).collect()
    blocks = {row["number"]: decode_block(row["block"]) for row in described}
    return [(rewrite, blocks[rewrite.number]) for rewrite in rewrites]


def _runs(rewrites: list[Rewrite], parallel: int) -> list[list[Rewrite]]:
    """What each task writes.

    In a large table that is a file of more than half the size that combining aims at, which it
    then leaves alone: with smaller ones all that is kept would be copied once more, at once.

    Args:
        rewrites: All that is to be written.
        parallel: Tasks there should be, if each has enough to do.
    """
    share = sum(rewrite.bytes for rewrite in rewrites) // parallel
    most = max(WRITE_BYTES, min(share, MOST_BYTES))
    runs: list[list[Rewrite]] = []
    read = written = most
    for rewrite in rewrites:
        if read >= most or written >= FILE_BYTES * 3 // 4:
            runs.append([])
            read = written = 0
        runs[-1].append(rewrite)
        read += rewrite.bytes
        rows = max(1, sum(block.rows for block in rewrite.sources))
        written += sum(block.length for block in rewrite.sources) * rewrite.rows // rows
    return runs


def _prove(
    spark: SparkSession, table: Table, snapshot: Snapshot, plan: HistoryPlan, entry: Entry
) -> None:
    """Read every state that lost blocks, by the new blocks, and hold it against the old.

    Raises:
        DamagedError: One reads otherwise.
    """
    after = snapshot.applied([entry])
    touched = min(interval.blocks[0].number for interval in plan.intervals if interval.blocks)
    seen: set[tuple[int, str]] = set()
    for version in snapshot.frozen:
        at = after.at(version.transaction).settled()
        same = (at.last_block, at.schema_hash)
        if at.last_block < touched or same in seen:
            continue
        seen.add(same)
        known = Content(version.rows, claims(version))
        found = state_content(spark, table, at, tuple(known.proofs))
        _agree(table, f"version {version.number}", known, found)
    for number in (plan.floor, snapshot.head):
        # As the head reads: a key that only a person's word opened did not read at its own time.
        old = snapshot.at(number).laid_over(snapshot.overlay)
        new = after.at(number).laid_over(snapshot.overlay)
        same = (old.last_block, old.schema_hash)
        if same in seen:
            continue
        seen.add(same)
        # A value that fits no column is no reason to keep history; the records' digests tell.
        was = state_content(spark, table, old, misfits=frames.NULL)
        found = state_content(spark, table, new, misfits=frames.NULL)
        _agree(table, f"transaction {number}", was, found)


def _agree(table: Table, what: str, was: Content, now: Content) -> None:
    if was != now:
        raise DamagedError(
            f"{table.name}: without its old history {what} would not read as it does ({now.rows} "
            f"rows, {was.rows} before; {_told(now)}, before {_told(was)}): nothing was changed; "
            f"look with: singerlake verify {table.name}"
        )


def _told(content: Content) -> str:
    return " and ".join(content.proofs.values())
