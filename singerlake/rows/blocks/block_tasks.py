"""Tasks for a table's blocks, and how they are sent there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
from isal import isal_zlib

from singerlake.format.log import Block

TASK_BYTES = 128 << 20
"""Inflated bytes that a task of most jobs should not exceed."""
WRITE_BYTES = 128 << 20
"""Inflated bytes of which one task writes rows again, about."""
MARK = -1
"""The ``row`` of a task's mark: a row that brings the task's blocks, before its other rows."""
_WORTHWHILE = 1 << 20
"""Inflated bytes below which another task costs more than it saves."""
SENT = "blocks"
"""The column in which a task is sent its blocks, where the step that all tasks run lacks them."""
T = TypeVar("T")
_BLOCKS = msgspec.msgpack.Decoder(list[Block])


def split(blocks: Sequence[Block], least: int, task_bytes: int) -> list[list[Block]]:
    """Share blocks out to tasks of about equal size.

    Args:
        blocks: In order of number.
        least: Tasks to make where there is enough to do.
        task_bytes: Inflated bytes that a task should not exceed.

    Returns:
        The blocks of each task, neighbours all; none is empty.
    """
    total = sum(block.bytes for block in blocks)
    count = max(least if total >= least * _WORTHWHILE else 1, -(-total // task_bytes))
    share = max(1, -(-total // count))
    tasks: list[list[Block]] = []
    filled = 0
    for block in blocks:
        # A block goes to the task in whose share its middle lies.
        if not tasks or (filled + block.bytes // 2) // share >= len(tasks):
            tasks.append([])
        tasks[-1].append(block)
        filled += block.bytes
    return tasks


def to_write(blocks: Sequence[Block]) -> list[list[Block]]:
    """Share out the blocks, in order, of which rows are written again; see ``WRITE_BYTES``."""
    return grouped(blocks, lambda block: block.bytes, WRITE_BYTES)


def grouped(things: Iterable[T], size: Callable[[T], int], full: int) -> list[list[T]]:
    """Put neighbours into groups: each takes more until it is full.

    Args:
        things: In order.
        size: Tells the size of one.
        full: The size from which on a group takes no more.
    """
    groups: list[list[T]] = []
    filled = full
    for thing in things:
        if filled >= full:
            groups.append([])
            filled = 0
        groups[-1].append(thing)
        filled += size(thing)
    return groups


def numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """Give the numbers of the tasks that come in, as ``spark.range`` names their column."""
    for batch in batches:
        yield from batch.column("id").to_pylist()


def given(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes | None]]:
    """Give the numbers of the tasks that come in, each with what it is sent."""
    for batch in batches:
        yield from zip(batch.column("id").to_pylist(), sent(batch), strict=True)


def sent(batch: pa.RecordBatch) -> list[bytes | None]:
    """Return what the tasks in a batch are sent, for each of its rows."""
    if SENT not in batch.schema.names:
        return [None] * batch.num_rows
    found: list[bytes | None] = batch.column(SENT).to_pylist()
    return found


def encode(blocks: list[Block]) -> bytes:
    """Encode blocks as a task is sent them: packed, for neighbours differ in a few digits."""
    return isal_zlib.compress(msgspec.msgpack.encode(blocks), 1)


def decode(data: bytes) -> list[Block]:
    """Decode the blocks that a task was sent."""
    return _BLOCKS.decode(isal_zlib.decompress(data))
