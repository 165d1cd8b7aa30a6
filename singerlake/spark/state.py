"""The rows of a state from its blocks: first where they are, then the rows themselves.

Three steps on the executors. The keys of all rows are read, and shared out by their hash; of
each key the newest row is found; and those rows, and no others, are read. Only keys and
positions cross the shuffle, as whole Arrow columns, so that its cost does not grow with the
width of a row, and of a table that holds five versions of each row only a fifth is read in
full. A small table takes all steps in one task; a table without keys needs only the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from singerlake.format.log import Block
from singerlake.lake import Table
from singerlake.spark import fold, frames, keys
from singerlake.spark.fold import Survival
from singerlake.spark.frames import BLOCK, GONE, ORDINAL, VERSION, BlockReader, Shape
from singerlake.spark.keys import AT
from singerlake.spark.session import cores
from singerlake.transactions.snapshot import Snapshot

PART_ROWS = 4_000_000
"""Rows whose keys are compared in one task, about."""
_SHARED = "part int, keys binary"
_PICKED = "run int, picked binary"

Batches = Iterator[pa.RecordBatch]
Texts = Callable[[Iterable[Block]], Iterator[tuple[Block, bytes]]]


def state(spark: SparkSession, table: Table, snapshot: Snapshot) -> DataFrame:
    """The rows of a table at a transaction, without an index.

    Columns are named exactly as the schema's properties; the session should be case
    sensitive, for two may differ only in case.

    Args:
        spark: The session.
        table: The table.
        snapshot: The table at the transaction.
    """
    return frames.renamed(state_inside(spark, table, snapshot), frames.shape_of(snapshot))


def state_inside(
    spark: SparkSession,
    table: Table,
    snapshot: Snapshot,
    misfits: str = frames.FAIL,
    *,
    digests: bool = False,
) -> DataFrame:
    """As :func:`state`, with columns by place and where each row lies.

    Args:
        spark: The session.
        table: The table.
        snapshot: The table at the transaction.
        misfits: What becomes of a value that does not fit, where it is read.
        digests: Whether the records' digests are wanted.
    """
    plan = planned(spark, table, snapshot, digests=digests)
    rows = through(spark, plan, frames.gathered, frames.frame_schema(plan.shape))
    places = range(len(plan.shape.columns))
    return frames.guarded(rows, plan.shape, table.name, places, misfits)


def through(
    spark: SparkSession,
    plan: Plan,
    taker: Callable[[Batches], Batches],
    schema: StructType | str,
) -> DataFrame:
    """What becomes of a state's rows in the hands of something that takes them.

    Args:
        spark: The session.
        plan: How its blocks are shared out.
        taker: Called on the executors, once for each part, with columns as in
            ``frames.frame_schema``; the rows never pass through Java.
        schema: Of what it yields.
    """
    step = RowStep(plan.reader, plan.shape.survival, taker)
    numbered = plan.numbered(spark)
    if not plan.shape.keys:
        return numbered.mapInArrow(step, schema)
    if len(plan.runs) <= 1:
        return numbered.mapInArrow(AloneStep(plan.key_reader, step), schema)
    shared = numbered.mapInArrow(KeyStep(plan.key_reader, plan.parts), _SHARED)
    newest = shared.repartitionById(plan.parts, "part").mapInArrow(NewestStep(plan.ends), _PICKED)
    return newest.repartitionById(len(plan.runs), "run").mapInArrow(step, schema)


@dataclass(frozen=True)
class Plan:
    """How a state's blocks are shared out.

    Attributes:
        shape: The table's.
        runs: Blocks that can hold a row of the state, by task.
        parts: Tasks that compare keys.
        reader: Reads the runs' rows.
        key_reader: Reads their keys.
    """

    shape: Shape
    runs: list[list[Block]]
    parts: int
    reader: BlockReader
    key_reader: BlockReader

    @property
    def ends(self) -> list[int]:
        """The number of each run's last block."""
        return [run[-1].number for run in self.runs]

    def numbered(self, spark: SparkSession) -> DataFrame:
        """One row a run, its number, each in a part of its own."""
        return spark.range(len(self.runs), numPartitions=max(1, len(self.runs)))


def planned(
    spark: SparkSession, table: Table, snapshot: Snapshot, *, digests: bool = False
) -> Plan:
    """Share a state's blocks out, to be read with or without their records' digests."""
    shape = frames.shape_of(snapshot)
    blocks = fold.needed(snapshot.blocks, shape.survival)
    runs = fold.tasks(blocks, 2 * cores(spark), frames.TASK_BYTES)
    key = tuple(shape.columns[place] for place in shape.keys)
    names = frozenset(name for name, _ in key)
    return Plan(
        shape=shape,
        runs=runs,
        parts=max(2 * cores(spark), sum(block.rows for block in blocks) // PART_ROWS),
        reader=frames.block_reader(table, snapshot, runs, shape.columns, names, digests=digests),
        key_reader=frames.block_reader(table, snapshot, runs, key, names),
    )


@dataclass
class KeyStep:
    """Reads keys, and shares them out: of each run, of each part, one row of whole columns.

    Attributes:
        reader: Its columns are the key.
        parts: How many.
    """

    reader: BlockReader
    parts: int

    def __call__(self, numbers: Batches) -> Batches:
        """Read the runs whose numbers come in."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                texts = self.reader.texts(self.reader.run(number))
                yield shared_out(self.newest(texts), self.parts)

    def newest(self, texts: Iterable[tuple[Block, bytes]]) -> pa.Table:
        """The newest row of each key in some blocks."""
        return keys.newest([keys.read(text, self.reader.about(block)) for block, text in texts])


def shared_out(found: pa.Table, parts: int) -> pa.RecordBatch:
    """Keys and positions, a row for each part that has any."""
    pieces = enumerate(keys.shared_out(found, parts))
    some = [(part, _packed(piece)) for part, piece in pieces if len(piece)]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([part for part, _ in some], pa.int32()),
            pa.array([data for _, data in some], pa.binary()),
        ],
        ["part", "keys"],
    )


@dataclass
class NewestStep:
    """Finds the newest row of each key in a part, and sorts them by the run that holds them.

    Attributes:
        ends: Number of the last block of each run, rising: a row lies in the first run that
            does not end before its block, for a vacuum puts rows into later blocks only.
    """

    ends: list[int]

    def __call__(self, parts: Batches) -> Batches:
        """Find them in the keys of one part, all that there are."""
        tables = [_unpacked(data) for batch in parts for data in batch.column("keys").to_pylist()]
        if not tables:
            return
        found = np.sort(keys.newest(tables).column(AT).to_numpy())
        runs = np.searchsorted(np.array(self.ends), keys.blocks_of(found))
        first = np.flatnonzero(np.diff(runs, prepend=-1))
        pieces = np.split(found, first[1:])
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(runs[first].astype(np.int32)),
                pa.array([piece.tobytes() for piece in pieces], pa.binary()),
            ],
            ["run", "picked"],
        )


@dataclass
class RowStep:
    """Reads rows, and judges them.

    Attributes:
        reader: Reads all the columns.
        survival: What the activations leave.
        taker: Takes the rows that are in the state.
    """

    reader: BlockReader
    survival: Survival
    taker: Callable[[Batches], Batches]

    def __call__(self, batches: Batches) -> Batches:
        """Read the rows picked, or whole runs where none are."""
        return self.taker(self._asked(batches))

    def _asked(self, batches: Batches) -> Batches:
        picked: dict[int, list[bytes]] = {}
        for batch in batches:
            if batch.num_columns == 1:
                for number in batch.column(0).to_pylist():
                    for rows in self.reader.rows(self.reader.run(number)):
                        yield self._judged(rows)
                continue
            for number, data in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                picked.setdefault(number, []).append(data)
        for number, pieces in picked.items():
            found = np.frombuffer(b"".join(pieces), dtype=np.int64)
            yield from self.rows(self.reader.run(number), np.sort(found), self.reader.texts)

    def rows(self, blocks: list[Block], picked: NDArray[np.int64], texts: Texts) -> Batches:
        """Rows of some blocks.

        Args:
            blocks: In order.
            picked: The rows' positions, rising.
            texts: Gives the lines of blocks.
        """
        asked: dict[int, NDArray[np.int64]] = {}
        start = 0
        for block in blocks:
            end = start + int(
                np.searchsorted(keys.blocks_of(picked[start:]), block.number, "right")
            )
            if end > start:
                asked[block.number] = picked[start:end]
            start = end
        for block, text in texts(block for block in blocks if block.number in asked):
            places = np.searchsorted(keys.positions(text, block), asked[block.number])
            yield self._judged(self.reader.read_some(block, text, places))

    def _judged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return judged(batch, self.survival)


def judged(batch: pa.RecordBatch, rule: Survival) -> pa.RecordBatch:
    """Of rows that are each the newest of their key, those that are in the state."""
    stays = pc.invert(batch.column(GONE))
    if rule.last is not None:
        same = pc.fill_null(pc.equal(batch.column(VERSION), rule.last.version), False)
        if rule.different is not None:
            same = pc.and_(same, _since(batch, rule.different))
        stays = pc.and_(stays, pc.or_(same, _since(batch, rule.last)))
    if not pc.all(stays).as_py():
        batch = batch.filter(stays)
    return batch.drop_columns([GONE])


@dataclass
class AloneStep:
    """All steps at once, for a run that is the whole table.

    Attributes:
        key_reader: Reads the keys.
        row_step: Reads the rows.
    """

    key_reader: BlockReader
    row_step: RowStep

    def __call__(self, numbers: Batches) -> Batches:
        """Read the one run, each block once."""
        return self.row_step.taker(self._rows(numbers))

    def _rows(self, numbers: Batches) -> Batches:
        key_step = KeyStep(self.key_reader, 1)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                run = list(self.key_reader.texts(self.key_reader.run(number)))
                found = key_step.newest(run)
                picked = np.sort(found.column(AT).to_numpy())
                kept = {block.number: text for block, text in run}
                yield from self.row_step.rows(
                    [block for block, _ in run],
                    picked,
                    lambda blocks: ((block, kept[block.number]) for block in blocks),  # noqa: B023
                )


def _since(batch: pa.RecordBatch, place: fold.Activation) -> pa.Array:
    """Whether each row lies at or after a position."""
    blocks, ordinals = batch.column(BLOCK), batch.column(ORDINAL)
    same = pc.and_(pc.equal(blocks, place.block), pc.greater_equal(ordinals, place.rows))
    return pc.or_(pc.greater(blocks, place.block), same)


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _unpacked(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
