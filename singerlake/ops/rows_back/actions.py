"""Rows to be written again, by position: found on an engine, and sent to the tasks that write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.engine.base import Engine
from singerlake.format.log import Block
from singerlake.rows.batches.steps import BATCH_ROWS, Batches
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.lines import line_writer
from singerlake.rows.lines.line_writer import Described, LineWriter

FOUND = "codes binary, deleted binary, lacking binary"
"""What finds rows gives: positions, as ``positions.codes`` gives them, int64 each; which are to be
deleted, a byte each; and which part of its key each has a null in, int16 each, -1 for none."""
EACH_ROW = "block long, row int, deleted boolean"
"""What :func:`each_row` gives."""
_ROUTED = f"task int, {FOUND}"
COUNTED = "put_back long, deleted long, block long, row int, part int"
"""What :func:`count_rows` gives."""


class Counted(NamedTuple):
    """The numbers of rows that go back.

    Attributes:
        put_back: Rows to be as they were.
        deleted: Rows to be deleted.
        keyless: The first of those that has a null in its key, so that no line deletes it: its
            block, its place there, and which part of the key it lacks.
    """

    put_back: int
    deleted: int
    keyless: tuple[int, int, int] | None = None


class Found(NamedTuple):
    """Rows that go back; as in :data:`FOUND`."""

    codes: NDArray[np.int64]
    deleted: NDArray[np.bool_]
    lacking: NDArray[np.int16]

    @classmethod
    def put_back(cls, codes: NDArray[np.int64]) -> Found:
        """Return rows none of which is to be deleted."""
        nothing = np.full(len(codes), -1, dtype=np.int16)
        return cls(codes, np.zeros(len(codes), dtype=bool), nothing)

    def batch(self) -> pa.RecordBatch:
        """Return them as a row of :data:`FOUND`."""
        return pa.RecordBatch.from_pydict({n: [v.tobytes()] for n, v in self._asdict().items()})

    def where(self, mask: NDArray[np.bool_]) -> Found:
        """Return some of them."""
        return Found(self.codes[mask], self.deleted[mask], self.lacking[mask])


def found_in(batch: pa.RecordBatch) -> Iterator[Found]:
    """Unpack the rows of :data:`FOUND`."""
    columns = (batch.column(name).to_pylist() for name in Found._fields)
    for codes, deleted, lacking in zip(*columns, strict=True):
        if codes is not None:
            yield Found(
                np.frombuffer(codes, dtype=np.int64),
                np.frombuffer(deleted, dtype=bool),
                np.frombuffer(lacking, dtype=np.int16),
            )


@dataclass(frozen=True)
class Actions:
    """Rows by position, and whether each is to be deleted or to be as it was.

    Attributes:
        rows: Of :data:`FOUND`; no position twice.
    """

    engine: Engine[Any]
    rows: Any

    def count(self) -> Counted:
        """Count the rows to put back, and those to delete."""
        rows = self.engine.map(self.rows, count_rows, COUNTED)
        return counted(self.engine.collect(rows))

    def write(self, blocks: Sequence[Block], writer: LineWriter) -> Iterable[Described]:
        """Have them written.

        Args:
            blocks: All that rows may come from, in order.
            writer: Writes them; it is yet to be told the blocks of its rows.

        Returns:
            What writers give.
        """
        tasks = block_tasks.to_write(blocks)
        if not tasks:
            return []
        first = np.array([task[0].lowest_version for task in tasks])
        engine = self.engine
        routed = engine.map(self.rows, _Route(first), _ROUTED)
        told = engine.exchange(routed, len(tasks), "task", [*map(block_tasks.encode, tasks)])
        return engine.collect(engine.map(told, _Write(writer), line_writer.WRITTEN))


def each_row(batches: Batches) -> Batches:
    """Give a row for each that goes back."""
    for batch in batches:
        for some in found_in(batch):
            columns = {
                "block": positions.blocks_of(some.codes),
                "row": positions.ordinals_of(some.codes),
                "deleted": some.deleted,
            }
            yield pa.RecordBatch.from_pydict(columns)


def counted(counts: Sequence[dict[str, Any]]) -> Counted:
    """Add up what :func:`count_rows` gave of all parts."""
    put_back, deleted = (sum(row[name] for row in counts) for name in ("put_back", "deleted"))
    keyless = [
        (row["block"], row["row"], row["part"]) for row in counts if row["block"] is not None
    ]
    return Counted(put_back, deleted, min(keyless, default=None))


def count_rows(batches: Batches) -> Batches:
    """Count the rows of a part, and find its first that has no key and is to be deleted."""
    total = deleted = 0
    first: tuple[int, int] | None = None
    for batch in batches:
        for some in found_in(batch):
            total += len(some.codes)
            deleted += int(np.count_nonzero(some.deleted))
            keyless = some.where(some.deleted & (some.lacking >= 0))
            if len(keyless.codes):
                at = int(np.argmin(keyless.codes))
                mine = int(keyless.codes[at]), int(keyless.lacking[at])
                first = mine if first is None else min(first, mine)
    codes = np.array([] if first is None else [first[0]], dtype=np.int64)
    (block,) = positions.blocks_of(codes).tolist() or [None]
    (row,) = positions.ordinals_of(codes).tolist() or [None]
    found = {"put_back": total - deleted, "deleted": deleted, "block": block, "row": row}
    found["part"] = None if first is None else first[1]
    types = (pa.int64(), pa.int64(), pa.int64(), pa.int32(), pa.int32())
    arrays = [pa.array([v], t) for v, t in zip(found.values(), types, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=[*found])


@dataclass
class _Route:
    """Sends positions to the task that writes their rows.

    Attributes:
        first: The first row version of each task, rising: a vacuum puts rows into later blocks
            only, and blocks that follow each other have versions that do.
    """

    first: NDArray[np.int64]

    def __call__(self, batches: Batches) -> Batches:
        """Split what was found by task."""
        for batch in batches:
            for some in found_in(batch):
                blocks = positions.blocks_of(some.codes)
                task = np.searchsorted(self.first, blocks, "right") - 1
                for number in np.unique(task):
                    own = some.where(task == number).batch()
                    arrays = [pa.array([number], pa.int32()), *own.columns]
                    yield pa.RecordBatch.from_arrays(arrays, names=["task", *own.schema.names])


@dataclass
class _Write:
    """Writes the rows of a task, in the order of their positions.

    Attributes:
        writer: Writes them, once it knows their blocks. Nothing else of the table goes along.
    """

    writer: LineWriter

    def __call__(self, batches: Batches) -> Batches:
        """Take all that is found for one task, and its blocks."""
        pieces: list[Found] = []
        blocks: list[Block] = []
        for batch in batches:
            pieces += found_in(batch)
            for sent in block_tasks.sent(batch):
                if sent is not None:
                    blocks = block_tasks.decode(sent)
        if not pieces:
            return
        codes, deleted, _ = (np.concatenate(some) for some in zip(*pieces, strict=True))
        order = np.argsort(codes)
        columns = {
            "block": pa.array(positions.blocks_of(codes[order])),
            "row": pa.array(positions.ordinals_of(codes[order])),
            "deleted": pa.array(deleted[order]),
            "work": pa.nulls(len(codes), pa.binary()),
        }
        rows = pa.table(columns).to_batches(max_chunksize=BATCH_ROWS)
        yield from replace(self.writer, blocks=blocks)(iter(rows))
