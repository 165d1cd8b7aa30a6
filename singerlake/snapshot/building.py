"""Makes the index of a state: from an earlier one where there is one, else from the blocks.

A small change to a large state becomes a layer on it: the newest row of every key that came
since, deletions too. Read together, the rows below whose key is in the layer are left out. So the
index of a head costs what has changed since, not what there is. Layers do not pile up: each lies
on an index that holds a whole state, and holds all that came since that. Once a layer would no
longer be small beside what is below, the next index holds a whole state again. Transactions that
changed no row share the index of the one before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from singerlake.engine.base import Engine, R
from singerlake.errors import DataError, StoreError
from singerlake.format.log import Block
from singerlake.format.names import IndexFolder
from singerlake.format.types import is_exact
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import file_schema
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.state import keys, newest_rows
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.newest_rows import KeyStep, NewestStep, RowStep
from singerlake.rows.state.parquet_parts import WRITTEN, PartWriter
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import from_blocks, index
from singerlake.snapshot.from_blocks import Plan
from singerlake.snapshot.index import Index

logger = logging.getLogger(__name__)
LEAST_ROWS = 200_000
"""An index of fewer rows is written anew in the time that laying one over another takes."""
MOST_ROWS = 500_000
"""Rows of a layer whose keys every task can hold at once."""
SHARE = 8
"""A layer may have one row for so many below: reading it twice costs little beside them."""


def ensure(
    engine: Engine[Any],
    table: Table,
    snapshot: TableState,
    *,
    fresh: bool = False,
    shown: bool = False,
) -> Index:
    """Return the index of a transaction: the one that is there, or a new one.

    Args:
        engine: Makes it.
        table: The table.
        snapshot: The table at the transaction, read from its log.
        fresh: Start from the blocks alone, past any earlier index.
        shown: Whether rows are only shown, and not found by their keys.

    Raises:
        DamagedError: A block that is needed cannot be read; or a column of the key would have to
            round some of its values, where rows are found by these.
        StoreError: The store refused.
    """
    snapshot = snapshot.earliest_equal()
    found = index.sound(table, snapshot) or build(engine, table, snapshot, fresh=fresh)
    return found if shown else found.with_keys()


def ensure_if_kept(
    engine: Engine[Any], table: Table, snapshot: TableState, *, shown: bool = False
) -> Index | None:
    """Return a state's index as :func:`ensure` does; None where none can be kept."""
    # Files read without a log have no commit id that an index could be held to.
    if not snapshot.from_log:
        return None
    try:
        return ensure(engine, table, snapshot, shown=shown)
    except StoreError as error:
        logger.warning(
            "reading without a materialized snapshot, because none can be stored: %s", error
        )
        return None


def worthwhile(below: int, changed: int) -> bool:
    """Tell whether a layer of some rows over an index of others is better than a new index."""
    return below >= LEAST_ROWS and changed <= min(MOST_ROWS, below // SHARE)


def base(table: Table, snapshot: TableState) -> Index | None:
    """Find the index of a whole state that a layer for a state can lie on: the newest."""
    shape = shape_of(snapshot)
    folders = map(IndexFolder.parse, table.store.folders(table.name.indexes))
    numbers = {one.transaction for one in folders if one and one.rules == snapshot.rules}
    for number in sorted((n for n in numbers if 0 < n < snapshot.number), reverse=True):
        if not snapshot.readable(number):
            continue  # its rows may be gone from the blocks, and nobody keeps it
        earlier = snapshot.at(number)
        if earlier.last_block < shape.survival.first_block:
            return None  # an activation has removed all of it since
        if not earlier.reads_like(snapshot):
            continue
        if (found := index.sound(table, earlier)) is not None:
            below = found.below or found
            if not snapshot.readable(below.marker.transaction):
                return None  # what removed a row of it since may be gone from the blocks
            # Rows cannot be laid over others by keys that columns would have to round.
            return None if below.misfits.intersection(shape.keys) else below
    return None


def build(engine: Engine[Any], table: Table, snapshot: TableState, *, fresh: bool = False) -> Index:
    """Make the index of a transaction that has none; as :func:`ensure`, for the earliest equal."""
    if not fresh and (below := layered_on(table, snapshot)) is not None:
        try:
            return _layer(engine, snapshot, below)
        except DataError:
            if not any(is_exact(type_) for _, type_ in below.shape.key_columns):
                raise
            # Some later key may be one that its column rounds.
    shape = shape_of(snapshot)
    plan = from_blocks.planned(engine, table, snapshot, digests=True, shown=True)
    writer = _writer(table, snapshot, shape)
    if once := likely_candidates(snapshot, plan):
        written = candidates_written(engine, plan, once, writer)
    else:
        written = from_blocks.through(engine, plan, writer, WRITTEN)
    with engine.stages(*(STAGES if once else from_blocks.stage_words(plan))):
        return index.finish(table, snapshot, shape, engine.collect(written))


def _layer(engine: Engine[Any], snapshot: TableState, below: Index) -> Index:
    """Make an index of what came since another."""
    table, shape = below.table, shape_of(snapshot)
    since = snapshot.blocks_after(below.marker.transaction)
    # A block that a vacuum put together may hold older rows too: a layer must not hide a newer
    # one below behind them.
    after = below.snapshot.last_block
    plan = from_blocks.planned(engine, table, snapshot, digests=True, blocks=since, after=after)
    writer = _writer(table, snapshot, shape, layer=True)
    with engine.stages(*from_blocks.stage_words(plan)):
        written = engine.collect(from_blocks.through(engine, plan, writer, WRITTEN))
    return index.finish(table, snapshot, shape, written, below)


def _writer(table: Table, snapshot: TableState, shape: Shape, *, layer: bool = False) -> PartWriter:
    schema = file_schema(shape.columns, layer=layer)
    return PartWriter(table.store, index.folder_of(table, snapshot), schema)


def layered_on(table: Table, snapshot: TableState) -> Index | None:
    """Find the index that a layer for a state is to lie on; None where a whole one is better."""
    if sum(block.rows for block in snapshot.blocks) < LEAST_ROWS:
        return None  # without a look at the store
    if (below := base(table, snapshot)) is None:
        return None
    since = snapshot.blocks_after(below.marker.transaction)
    if any(block.activations for block in since):
        return None  # it may remove rows of any key
    rows = sum(file.rows for file in below.marker.files)
    return below if worthwhile(rows, sum(block.rows for block in since)) else None


# What the last run of a tap brought is read once, for a tap seldom sends a row twice.
#
# Each task of that run's blocks reads them whole and writes their rows to a candidate file as they
# come, while the keys go the way they go in ``from_blocks.py``. A file of which every row turns out
# to be the newest stands; the others are deleted and their rows read again, only the right ones. So
# a wrong guess costs time, never an answer. Of older runs' blocks keys are read first, as there: a
# tap that sends all rows each time has made them old. Where all came from one run, a million rows
# take 11.5 s of processor time rather than 13.6 s (Spark's own included), so it is worth its code.

_SHARED = "part int, keys binary, candidate binary"
_PICKED = "task int, picked binary, candidate binary"


class Candidate(msgspec.Struct):
    """A file that a task wrote before it was known which rows are the newest.

    Attributes:
        task: Whose rows.
        keys: How many keys the task has.
        path: The file's name; empty where nothing was written.
        rows: Rows in it: those of the keys that are not deleted.
        bytes: Its size.
        hash: That of its bytes.
        misfits: How many values do not fit, as the writer gives it.
    """

    task: int
    keys: int
    path: str = ""
    rows: int = 0
    bytes: int = 0
    hash: str = ""
    misfits: str = "{}"


_CANDIDATE = msgspec.json.Decoder(Candidate)


def likely_candidates(snapshot: TableState, plan: Plan) -> range:
    """Return the tasks in which every row is likely to be the newest: those of the last writer."""
    number = count = len(plan.tasks)
    if not plan.shape.keys or count <= 1 or any(is_exact(t) for _, t in plan.shape.key_columns):
        return range(0)  # of rows' own columns not every key can be told from others
    last = snapshot.transaction_of_block(plan.tasks[-1][-1].number)
    writer, begin = snapshot.summary(last).writer, last
    while number:
        first = snapshot.transaction_of_block(plan.tasks[number - 1][0].number)
        if any(snapshot.summary(n).writer != writer for n in range(first, begin)):
            break
        number, begin = number - 1, first
    return range(number, count)


STAGES = ("reading rows", "finding newest rows", "writing the rest")
"""What Spark's stages do for :func:`candidates_written`."""


def candidates_written(engine: Engine[R], plan: Plan, once: range, writer: PartWriter) -> R:
    """Write the state's rows; gives what a ``PartWriter`` gives.

    Args:
        engine: Reads and writes them.
        plan: How the state's blocks are shared out; it has a key.
        once: The tasks whose rows are written while their keys are read.
        writer: Writes files.
    """
    keys_alone = KeyStep(plan.key_reader, plan.parts)
    first = CandidateStep(
        plan.reader, plan.shape.keys, plan.shape.survival, writer, keys_alone, once
    )
    shared = engine.map(engine.source(plan.sent), first, _SHARED)
    newest = NewestWithCandidates(plan.ends, plan.shape.apart)
    picked = engine.map(engine.exchange(shared, plan.parts, "part"), newest, _PICKED)
    last = LastStep(RowStep(plan.reader, plan.shape.survival, writer), writer)
    known = engine.exchange(picked, len(plan.tasks), "task", plan.sent)
    return engine.map(known, last, WRITTEN)


@dataclass
class CandidateStep:
    """Reads tasks whole, writes their rows, and shares their keys out; of others keys alone.

    Attributes:
        reader: Reads all the columns.
        indexes: Of the key columns.
        survival: What the activations leave.
        writer: Writes files.
        keys_alone: Reads the keys of the others.
        once: Which tasks are read whole.
    """

    reader: BlockReader
    indexes: tuple[int, ...]
    survival: Survival
    writer: PartWriter
    keys_alone: KeyStep
    once: range

    def __call__(self, numbers: Batches) -> Batches:
        """Read the tasks whose numbers come in."""
        for number, blocks in self.reader.given(numbers):
            if number in self.once:
                yield from self._task(number, blocks)
            else:
                yield _without_candidate(self.keys_alone.of(blocks))

    def _task(self, number: int, blocks: list[Block]) -> Batches:
        some: list[pa.Table] = []
        files = list(self.writer(self._rows(blocks, some)))
        newest = keys.newest(some, apart=self.reader.apart)
        yield _without_candidate(newest_rows.split(newest, self.keys_alone.parts))
        candidate = Candidate(number, len(newest))
        # A file with rows that another of the same task replaces cannot stand.
        wrong = len(newest) != sum(map(len, some))
        for file in files:
            (written,) = file.to_pylist()
            if wrong:
                self.writer.remove(written["path"])
            else:
                candidate = Candidate(number, len(newest), **written)
        if not wrong:
            data = msgspec.json.encode(candidate)
            yield pa.RecordBatch.from_arrays(
                [pa.array([0], pa.int32()), pa.nulls(1, pa.binary()), pa.array([data])],
                ["part", "keys", "candidate"],
            )

    def _rows(self, blocks: list[Block], some: list[pa.Table]) -> Batches:
        """Rows of a task to be written at once; their keys are noted."""
        for batch in self.reader.rows(blocks):
            some.append(self._keys(batch))
            yield newest_rows.in_state(batch, self.survival)

    def _keys(self, batch: pa.RecordBatch) -> pa.Table:
        arrays = [batch.column(index) for index in self.indexes]
        columns = tuple(self.reader.target[index] for index in self.indexes)
        return keys.table(arrays, columns, positions.codes_in(batch))


@dataclass
class NewestWithCandidates(NewestStep):
    """As :class:`NewestStep`; what is known of candidates goes on to their tasks."""

    def __call__(self, parts: Batches) -> Batches:
        """Find the newest rows in the keys of one part, all that there are."""
        waiting: list[bytes] = []
        for picked in super().__call__(_without(parts, waiting)):
            yield _without_candidate(picked)
        for data in waiting:
            task = _CANDIDATE.decode(data).task
            yield pa.RecordBatch.from_arrays(
                [pa.array([task], pa.int32()), pa.nulls(1, pa.binary()), pa.array([data])],
                ["task", "picked", "candidate"],
            )


def _without_candidate(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column("candidate", pa.nulls(len(rows), pa.binary()))


def _without(parts: Batches, waiting: list[bytes]) -> Iterator[pa.RecordBatch]:
    for batch in parts:
        waiting.extend(data for data in batch.column("candidate").to_pylist() if data)
        yield batch.filter(batch.column("keys").is_valid())


@dataclass
class LastStep:
    """Lets a candidate stand, or writes its task's newest rows in its place.

    Attributes:
        rows: Reads rows and hands them to ``writer``.
        writer: Writes files.
    """

    rows: RowStep
    writer: PartWriter

    def __call__(self, batches: Batches) -> Batches:
        """Take all that is known of one task."""
        picked: list[bytes] = []
        candidate: Candidate | None = None
        blocks: bytes | None = None
        number = -1
        for batch in batches:
            columns = (batch.column(name) for name in ("task", "picked", "candidate"))
            rows = zip(*(c.to_pylist() for c in columns), block_tasks.sent(batch), strict=True)
            for task, codes, data, sent in rows:
                if sent is not None:
                    blocks = sent
                    continue
                number = task
                if data:
                    candidate = _CANDIDATE.decode(data)
                else:
                    picked.append(codes)
        if number < 0:
            return
        count = sum(map(len, picked)) // 8
        if candidate is not None and candidate.keys == count:
            if candidate.path:
                yield pa.RecordBatch.from_pydict(
                    {
                        "path": [candidate.path],
                        "rows": [candidate.rows],
                        "bytes": [candidate.bytes],
                        "hash": [candidate.hash],
                        "misfits": [candidate.misfits],
                    }
                )
            return
        if candidate is not None and candidate.path:
            self.writer.remove(candidate.path)
        yield from self.rows(iter([_asked(number, picked, blocks)]))


def _asked(number: int, picked: list[bytes], blocks: bytes | None) -> pa.RecordBatch:
    """What a ``RowStep`` takes: a task's picked rows, and a row with its blocks."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([number] * (len(picked) + 1), pa.int32()),
            pa.array([*picked, None], pa.binary()),
            pa.array([*[None] * len(picked), blocks], pa.binary()),
        ],
        ["task", "picked", block_tasks.SENT],
    )
