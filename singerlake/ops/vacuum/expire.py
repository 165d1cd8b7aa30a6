"""Expire history: drop rows that a later one has replaced, where no state that stays needs them.

Which states stay and which rows they need, ``ops/vacuum/drop_history.py`` plans. Here the rows
that stay are found by their keys, and blocks of which rows go are written anew without these.
Before the transaction is committed, every state that stays is read from the new blocks and held
against what it was (``ops/vacuum/history_proof.py``).

A vacuum expires history under its lock, behind its announcement; its options are the vacuum's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.engine.base import Engine
from singerlake.engine.work import Work
from singerlake.errors import DamagedError, OutcomeUnknownError, SingerlakeError
from singerlake.format import block as format_block
from singerlake.format import rewritten
from singerlake.format.log import Block, Entry, decode_block, joined
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.log import versions
from singerlake.log.blocks import inflate, members, proved_in
from singerlake.log.staging import FILE_BYTES, publish_blocks, replace_block
from singerlake.log.table_state import TableState
from singerlake.ops.vacuum import drop_history as plans
from singerlake.ops.vacuum.combine import withdraw
from singerlake.ops.vacuum.drop_history import DropHistoryPlan, Rewrite
from singerlake.ops.vacuum.history_proof import prove
from singerlake.ops.vacuum.kept_rows import Intervals, Kept, kept_rows
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks, bounded_keys, positions
from singerlake.rows.blocks.decoding import message_type
from singerlake.rows.state.newest_rows import PICKED, by_task, gathered
from singerlake.storage.base import Store

WRITE_BYTES = 128 << 20
"""Inflated bytes that one task reads at least to write anew, about."""
MOST_BYTES = 2 << 30
"""And at most, however little it writes."""
_MARKS = f"{PICKED}, {block_tasks.SENT} binary"


@dataclass(frozen=True)
class Written:
    """What was written and proved, before it is committed.

    Attributes:
        entry: The log entry.
        files: Paths of the new files, within the table.
    """

    entry: Entry
    files: list[str]


@dataclass(frozen=True)
class Expired:
    """What was expired.

    Attributes:
        snapshot: The table after it.
        rows: Rows that went.
        bytes: By how much that made the table smaller, compressed.
        bytes_written: What new files took.
    """

    snapshot: TableState
    rows: int
    bytes: int
    bytes_written: int


def work_of(snapshot: TableState, plan: DropHistoryPlan) -> Work:
    """Estimate how much there is to read: the head's blocks, and those of each version again.

    Args:
        snapshot: The table's head.
        plan: What history can go.
    """
    sizes = [0, *accumulate(block.bytes for block in snapshot.blocks)]
    first = plan.blocks[0].number
    ends = (
        snapshot.summary(version.transaction).last_block
        for version in versions.protecting(snapshot, plan.floor)
    )
    places = (
        bisect_right(snapshot.blocks, end, key=lambda block: block.number)
        for end in ends
        if end >= first
    )
    again = sum(sizes[place] for place in places)
    return Work.of(snapshot.blocks, len(snapshot.columns)) + Work(again)


def expire(
    engine: Engine[Any],
    table: Table,
    snapshot: TableState,
    plan: DropHistoryPlan,
    *,
    writer_id: str,
    check: Callable[[], None],
) -> Expired:
    """Expire history by one transaction.

    Args:
        engine: Finds rows, writes them, and reads states.
        table: The table.
        snapshot: Its head.
        plan: What history can go.
        writer_id: Who vacuums.
        check: Raises if the vacuum's lock was lost.

    Raises:
        DamagedError: A block cannot be read, or a state would not read as before; nothing
            was changed.
        ConflictError: Another vacuum moved blocks meanwhile, or somebody froze a transaction
            that the plan gives up; nothing was changed.
        StoreError: The store refused.
    """
    written = write(engine, table, snapshot, plan)
    try:
        check()
        after = plans.commit_drop_history(
            table.store, snapshot, plan, written.entry, writer_id=writer_id
        )
    except BaseException as error:
        # Only if it is certain that no log entry names them.
        if isinstance(error, SingerlakeError) and not isinstance(error, OutcomeUnknownError):
            withdraw(table.store, table.name, written.files)
        raise
    metrics = written.entry.metrics
    return Expired(
        after,
        rows=int(metrics["rows_dropped"]),
        bytes=int(metrics["bytes_dropped"]),
        bytes_written=sum(block.length for block in written.entry.moved),
    )


def write(
    engine: Engine[Any], table: Table, snapshot: TableState, plan: DropHistoryPlan
) -> Written:
    """Write what stays, and prove that every state that stays reads as before.

    Raises:
        SingerlakeError: As :func:`expire` does; nothing is left of what was written.
    """
    files: list[str] = []
    try:
        with kept_rows(engine, table, snapshot, plan) as kept:
            rewrites, gone = _rewrites(plan, kept, kept.counts(snapshot))
            written = _write(table, kept, rewrites)
            files += sorted({block.file for _, block in written})
            entry = plans.draft_drop_history(snapshot, plan, written, gone)
            prove(engine, table, snapshot, plan, entry, kept.found)
    except BaseException:
        withdraw(table.store, table.name, files)
        raise
    return Written(entry, files)


def _rewrites(
    plan: DropHistoryPlan, kept: Kept, counts: dict[int, int]
) -> tuple[list[Rewrite], list[Block]]:
    rewrites: list[Rewrite] = []
    gone: list[Block] = []
    for interval, survival in zip(plan.intervals, kept.intervals.survivals, strict=True):
        # The position before which everything is gone at its end, and in all later states.
        cut = survival.different
        decided = (cut.block, cut.rows) if cut is not None else (0, 0)
        some, none = plans.plan_rewrites(interval, counts, decided)
        rewrites += some
        gone += none
    return rewrites, gone


def _write(table: Table, kept: Kept, rewrites: list[Rewrite]) -> list[tuple[Rewrite, Block]]:
    if not rewrites:
        return []
    engine = kept.engine
    tasks = _tasks(rewrites, 2 * engine.parts)
    routed = engine.map(kept.rows, _Route.to(tasks, kept.intervals), _MARKS)
    # A task of which no row stays writes activations: so each is told what it is to write.
    marks = engine.map(engine.source([*map(encode, tasks)]), _marks, _MARKS)
    to_write = engine.exchange(engine.union(routed, marks), len(tasks), "task")
    writer = Rewriter(table.store, table.name, FILE_BYTES)
    # A description a block comes here, never rows.
    described = engine.collect(engine.map(to_write, writer, WRITTEN))
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


def _marks(batches: Batches) -> Batches:
    """Give each task what it is to write, as rows in which nothing is picked."""
    for batch in batches:
        numbers = batch.column("id").cast(pa.int32())
        columns = [numbers, pa.nulls(len(batch), pa.binary()), batch.column(block_tasks.SENT)]
        yield pa.RecordBatch.from_arrays(columns, ["task", "picked", block_tasks.SENT])


@dataclass
class _Route:
    """Sends rows to the tasks that write them anew; those of blocks that stay are left out.

    Attributes:
        intervals: Leave out rows that are gone.
        first: The first row version of each range of versions, rising.
        last: Its last one.
        task: The task that writes it.
    """

    intervals: Intervals
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    task: NDArray[np.int32]

    @classmethod
    def to(cls, tasks: list[list[Rewrite]], intervals: Intervals) -> _Route:
        """Make one for what tasks write."""
        ranges = [
            (first, last, number)
            for number, task in enumerate(tasks)
            for first, last in joined((one.first_version, one.number) for one in task)
        ]
        first, last, task = np.array(ranges, dtype=np.int64).T
        return cls(intervals, first, last, task.astype(np.int32))

    def __call__(self, batches: Batches) -> Batches:
        """Split what is found by task."""
        for batch in batches:
            picked, _ = gathered(iter([batch]))
            for codes in picked.values():
                left = self.intervals.left(codes)
                blocks = positions.blocks_of(left)
                at = np.searchsorted(self.last, blocks)
                inside = at < len(self.last)
                inside[inside] = self.first[at[inside]] <= blocks[inside]
                routed = by_task(left[inside], self.task[at[inside]])
                yield routed.append_column(block_tasks.SENT, pa.nulls(len(routed), pa.binary()))


# Writing the rows that stay anew: several blocks become one, and lines keep their bytes.

WRITTEN = "number long, block binary"
"""What :class:`Rewriter` gives: a description a block."""
_WORK = msgspec.msgpack.Decoder(list[Rewrite])
_NONE = np.empty(0, dtype=np.int64)


@dataclass
class Rewriter:
    """Writes new blocks, of the rows that are sent to each task, with what it is to write.

    Attributes:
        store: The lake's store.
        table: Whose rows.
        file_bytes: Compressed size of a file.
    """

    store: Store
    table: TableName
    file_bytes: int

    def __call__(self, batches: Batches) -> Batches:
        """Write the tasks that come in; files are durable when their descriptions come out."""
        kept, known = gathered(batches)
        for number, work in known.items():
            yield self._write(_WORK.decode(work), np.unique(kept.pop(number, _NONE)))

    def _write(self, rewrites: list[Rewrite], kept: NDArray[np.int64]) -> pa.RecordBatch:
        made = (
            (rewrite.sources[-1].schema_hash, *self._block(rewrite, kept)) for rewrite in rewrites
        )
        written = publish_blocks(self.store, self.table, made, self.file_bytes)
        return described(
            replace_block(block, number=rewrite.number)
            for rewrite, block in zip(rewrites, written, strict=True)
        )

    def _block(self, rewrite: Rewrite, kept: NDArray[np.int64]) -> tuple[bytes, Block]:
        parts: list[bytes] = []
        stamps: list[int] = []
        written, rows, schema_line, proved = 0, 0, b"", True
        first = last = ""
        for source, member in members(self.store, self.table, rewrite.sources):
            where = f"block {source.number} of {self.table}"
            low = source.lowest_version
            ends = [positions.code(low, 0), positions.code(source.number + 1, 0)]
            begin, end = np.searchsorted(kept, ends)
            mine = kept[begin:end]
            text = inflate(self.table, source, member)
            written = format_block.header(member, where).written
            origin = format_block.origin(member, where)
            proved = proved and proved_in(source, member)
            stamps += [*(origin.replaced if origin is not None else ()), written]
            schema_line = format_block.lines(text)[0]
            parts += _kept_lines(text, source, mine, rewrite.activations)
            rows += len(mine)
            first = first or source.first
            last = source.last or last
        if rows != rewrite.rows:
            raise DamagedError(
                f"block {rewrite.number} of {self.table} would have {rows} rows, and "
                f"{rewrite.rows} were to be kept"
            )
        text = b"".join((schema_line, *parts))
        made_of = format_block.Origin(rewrite.number, tuple(stamps[-format_block.MAX_REPLACED :]))
        bounds = bounded_keys.of_block(text)
        # Sources are of one schema, and lines keep their values.
        types = rewrite.sources[-1].schema_hash if proved else ""
        data = format_block.encode(text, rows, written, made_of, bounds, types)
        block = Block(
            number=rewrite.number,
            file="",
            offset=0,
            length=len(data),
            rows=rows,
            bytes=len(text),
            first=first,
            last=last,
            activations=rewrite.activations,
            first_version=rewrite.first_version,
        )
        return data, block


def _kept_lines(
    text: bytes, source: Block, kept: NDArray[np.int64], activations: list[tuple[int, int]]
) -> Iterator[bytes]:
    """The lines of a block that are kept, in order, with where they came from."""
    wanted = set(
        zip(positions.blocks_of(kept).tolist(), positions.ordinals_of(kept).tolist(), strict=True)
    )
    places = iter(rewritten.positions(text, source))
    # Only the last source can have activations that are kept, and of these the later ones.
    dropped = len(source.activations) - len(activations) if source.activations else 0
    for line in format_block.lines(text)[1].split(b"\n")[:-1]:
        if source.activations and message_type(line) == "ACTIVATE_VERSION":
            if dropped > 0:
                dropped -= 1
            elif activations:
                yield line + b"\n"
            continue
        place = next(places)
        if place in wanted:
            yield rewritten.with_position(line, *place) + b"\n"


def described(written: Iterable[Block]) -> pa.RecordBatch:
    """Return what was written, a description a block."""
    blocks = [*written]
    return pa.RecordBatch.from_pydict(
        {
            "number": pa.array([block.number for block in blocks], pa.int64()),
            "block": [msgspec.json.encode(block) for block in blocks],
        }
    )


def encode(rewrites: list[Rewrite]) -> bytes:
    """Encode what a task must know."""
    return msgspec.msgpack.encode(rewrites)
