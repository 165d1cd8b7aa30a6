"""The steps that find the rows of a state in its blocks: first where they are, then the rows.

The keys of all rows are read, and shared out by their hash; of each key the newest row is
found; and those rows, and no others, are read. Each step takes and gives Arrow batches, and
runs on the executors; how they follow one another is in ``snapshot/from_blocks.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.format.log import Block
from singerlake.rows.batches.row_columns import DELETED, VERSION
from singerlake.rows.batches.steps import Batches, Step
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.blocks.block_reader import BlockReader, BlockText
from singerlake.rows.state import keys
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.key_filter import KeyFilter
from singerlake.rows.state.keys import AT

SPLIT_KEYS = "part int, keys binary"
"""What :class:`KeyStep` gives, as Spark names it."""
PICKED = "task int, picked binary"
"""What :class:`NewestStep` gives: a task's number, and the positions of rows in its blocks."""

Texts: TypeAlias = Callable[[Iterable[Block]], Iterator[BlockText]]


@dataclass
class KeyStep:
    """Reads keys, and splits them: for each task and part one row of whole columns.

    Attributes:
        reader: Its columns are the key.
        asked: What a ``KeyFilter`` is made of, where only some keys matter.
        after: Rows of this block and of earlier ones do not count.
    """

    reader: BlockReader
    parts: int
    asked: Sequence[bytes] | None = None
    after: int | None = None

    def __call__(self, numbers: Batches) -> Batches:
        """Read the tasks whose numbers come in."""
        for _, blocks in self.reader.given(numbers):
            yield self.of(blocks)

    def of(self, blocks: Iterable[Block]) -> pa.RecordBatch:
        """Read the keys of a task's blocks."""
        return split(self.newest(self.reader.texts(blocks)), self.parts)

    def newest(self, texts: Iterable[BlockText]) -> pa.Table:
        """Find the newest row of each key in some blocks."""
        wanted = None if self.asked is None else KeyFilter(self.asked)
        found = [self._read(read, wanted) for read in texts]
        if not found:
            return keys.none(self.reader.target)
        return keys.newest(found, apart=self.reader.apart)

    def _read(self, read: BlockText, wanted: KeyFilter | None) -> pa.Table:
        rows = keys.read(read.text, self.reader.spec(read.block, proved=read.proved))
        if self.after is not None:
            rows = rows.filter(_later(rows.column(AT).to_numpy(), self.after))
        if wanted is None:
            return rows
        return rows.filter(pa.array(wanted.mask(rows.drop_columns([AT]))))


def split(rows: pa.Table, parts: int) -> pa.RecordBatch:
    """Split keys and positions: a row for each part that has any."""
    pieces = enumerate(keys.split_by_key(rows, parts))
    packed = {part: _packed(piece) for part, piece in pieces if len(piece)}
    return pa.RecordBatch.from_arrays(
        [pa.array(packed.keys(), pa.int32()), pa.array(packed.values(), pa.binary())],
        ["part", "keys"],
    )


def tables(parts: Batches) -> list[pa.Table]:
    """Return the keys and positions that :func:`split` has packed for one part."""
    return [_unpacked(data) for batch in parts for data in batch.column("keys").to_pylist()]


@dataclass
class NewestStep:
    """Finds the newest row of each key in a part, and sorts them by the task that reads them.

    Attributes:
        ends: Number of the last block of each task, rising: a row lies in the first task that
            does not end before its block, for a vacuum puts rows into later blocks only.
        apart: As in a ``Shape``.
    """

    ends: list[int]
    apart: bool

    def __call__(self, parts: Batches) -> Batches:
        """Find them in the keys of one part, all that there are."""
        found = tables(parts)
        if not found:
            return
        newest = np.sort(keys.newest(found, apart=self.apart).column(AT).to_numpy())
        yield _by_last_blocks(newest, self.ends)


@dataclass
class PlaceStep:
    """Sorts positions by the task that reads their rows.

    Attributes:
        ends: As in a :class:`NewestStep`.
    """

    ends: list[int]

    def __call__(self, batches: Batches) -> Batches:
        """Take positions, as ``positions.each_code`` gives them."""
        for batch in batches:
            yield _by_last_blocks(np.sort(batch.column("codes").to_numpy()), self.ends)


def _by_last_blocks(codes: NDArray[np.int64], ends: list[int]) -> pa.RecordBatch:
    return by_task(codes, np.searchsorted(np.array(ends), positions.blocks_of(codes)))


def by_task(codes: NDArray[np.int64], task: NDArray[Any]) -> pa.RecordBatch:
    """Split positions by their task, as :data:`PICKED` has them.

    Args:
        task: The number of the task of each, rising.
    """
    first = np.flatnonzero(np.diff(task, prepend=-1))
    pieces = np.split(codes, first[1:]) if len(codes) else []
    return pa.RecordBatch.from_arrays(
        [
            pa.array(task[first].astype(np.int32)),
            pa.array([piece.tobytes() for piece in pieces], pa.binary()),
        ],
        ["task", "picked"],
    )


def gathered(batches: Batches) -> tuple[dict[int, NDArray[np.int64]], dict[int, bytes]]:
    """Gather the positions of whole tasks, rising, and what these tasks are sent."""
    picked: dict[int, list[NDArray[np.int64]]] = {}
    known: dict[int, bytes] = {}
    for batch in batches:
        numbers, pieces = batch.column("task").to_pylist(), batch.column("picked").to_pylist()
        for number, piece, sent in zip(numbers, pieces, block_tasks.sent(batch), strict=True):
            if piece is not None:
                picked.setdefault(number, []).append(np.frombuffer(piece, dtype=np.int64))
            if sent is not None:
                known[number] = sent
    return {number: np.sort(np.concatenate(some)) for number, some in picked.items()}, known


@dataclass
class RowStep:
    """Reads rows, and keeps those of the state.

    Attributes:
        consumer: Takes the rows of the state; what it gives comes out.
        after: Of a layer, the last block of the state below it. It has the rows that came later,
            and where they have a key, those that delete one, too.
    """

    reader: BlockReader
    survival: Survival
    consumer: Step
    after: int | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Read the rows picked, or all of each task where none are.

        What a task is sent of its blocks comes in rows of its own, in which nothing is picked.
        """
        return self.consumer(self._rows(batches))

    def _rows(self, batches: Batches) -> Batches:
        picked: dict[int, list[bytes]] = {}
        known: dict[int, bytes] = {}
        for batch in batches:
            if "picked" not in batch.schema.names:
                for _, blocks in self.reader.given([batch]):
                    for rows in self.reader.rows(blocks):
                        yield self._kept(rows)
                continue
            numbers, pieces = batch.column("task").to_pylist(), batch.column("picked").to_pylist()
            for number, piece, sent in zip(numbers, pieces, block_tasks.sent(batch), strict=True):
                if piece is not None:
                    picked.setdefault(number, []).append(piece)
                elif sent is not None:
                    known[number] = sent
        for number, pieces in picked.items():
            codes = np.sort(np.frombuffer(b"".join(pieces), dtype=np.int64))
            blocks = self.reader.task(number, known.get(number))
            yield from self.rows(blocks, codes, self.reader.texts)

    def rows(self, blocks: list[Block], picked: NDArray[np.int64], texts: Texts) -> Batches:
        """Read rows of some blocks.

        Args:
            blocks: In order.
            picked: The rows' positions, rising.
            texts: Gives the lines of blocks.
        """
        numbers = np.array([block.number for block in blocks], dtype=np.int64)
        ends = np.searchsorted(positions.blocks_of(picked), numbers, "right").tolist()
        asked = {
            block.number: picked[start:end]
            for block, start, end in zip(blocks, [0, *ends], ends, strict=False)
            if end > start
        }
        for read in texts(block for block in blocks if block.number in asked):
            codes = positions.of_block(read.text, read.block)
            ordinals = np.searchsorted(codes, asked[read.block.number])
            yield self._kept(self.reader.some_rows(read, ordinals))

    def _kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self.after is None:
            return in_state(rows, self.survival)
        stays = _later(positions.codes_in(rows), self.after)
        if not self.reader.keys:  # a deletion of no key hides nothing below
            stays = pc.and_(stays, pc.invert(rows.column(DELETED)))
        return rows.filter(stays)


def _later(codes: NDArray[np.int64], block: int) -> pa.Array:
    """Tell which rows came after a block, by their positions."""
    return pa.array(positions.blocks_of(codes) > block)


def in_state(rows: pa.RecordBatch, survival: Survival) -> pa.RecordBatch:
    """Keep those that are in the state, of rows that are each the newest of their key."""
    stays = pc.invert(rows.column(DELETED))
    if survival.last is not None:
        left = survival.mask(positions.codes_in(rows), rows.column(VERSION))
        stays = pc.and_(stays, pa.array(left))
    if not pc.all(stays).as_py():
        rows = rows.filter(stays)
    return rows.drop_columns([DELETED])


@dataclass
class SingleTaskStep:
    """Takes all steps at once, for a task that has the whole table.

    Attributes:
        key_step: Finds the newest row of each key.
    """

    key_step: KeyStep
    row_step: RowStep

    def __call__(self, numbers: Batches) -> Batches:
        """Read the one task, each block once."""
        return self.row_step.consumer(self._rows(numbers))

    def _rows(self, numbers: Batches) -> Batches:
        for _, blocks in self.key_step.reader.given(numbers):
            read = [*self.key_step.reader.texts(blocks)]
            texts = {one.block.number: one for one in read}
            rows = self.key_step.newest(read)
            picked = np.sort(rows.column(AT).to_numpy())
            yield from self.row_step.rows(
                [one.block for one in read],
                picked,
                lambda some: (texts[block.number] for block in some),  # noqa: B023
            )


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _unpacked(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
