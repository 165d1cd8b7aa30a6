"""The lines that an erasure takes out, by their positions: packed, eight bytes for each at most.

This process holds them while rows are erased: a task is told which lines of its blocks go, so
nothing has to be joined or sent from task to task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from isal import isal_zlib
from numpy.typing import NDArray

from singerlake.format.log import Block
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import positions

Codes = NDArray[np.int64]
BY_BLOCK = "block long, lines long, packed binary"
"""What finds lines gives: the block that some lie in, how many they are, and :func:`pack` of their
positions."""


def pack(codes: Codes) -> bytes:
    """Pack rising positions."""
    data: bytes = isal_zlib.compress(np.diff(codes, prepend=0).tobytes(), 1)
    return data


@lru_cache(4)
def unpack(data: bytes) -> Codes:
    """Return the positions that :func:`pack` was given; none for no bytes."""
    found: Codes = np.cumsum(np.frombuffer(isal_zlib.decompress(data) if data else b"", np.int64))
    return found


def by_block(codes: Codes, numbers: NDArray[np.int64]) -> pa.RecordBatch:
    """Return positions as :data:`BY_BLOCK`.

    Args:
        codes: The positions, in any order, each once.
        numbers: The numbers of all blocks, rising: a vacuum puts rows into later blocks only.
    """
    codes = np.sort(codes)
    owners = np.searchsorted(numbers, positions.blocks_of(codes))
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    pieces = np.split(codes, starts[1:]) if len(starts) else []
    return pa.RecordBatch.from_arrays(
        [
            pa.array(numbers[owners[starts]]),
            pa.array([len(piece) for piece in pieces], pa.int64()),
            pa.array([pack(piece) for piece in pieces], pa.binary()),
        ],
        ["block", "lines", "packed"],
    )


def _together(pieces: list[bytes]) -> bytes:
    if len(pieces) == 1:
        return pieces[0]
    return pack(np.sort(np.concatenate([unpack(piece) for piece in pieces])))


@dataclass
class ByBlock:
    """Packs the positions in the columns ``block`` and ``row``.

    Attributes:
        numbers: The numbers of all blocks, rising.
    """

    numbers: NDArray[np.int64]

    def __call__(self, batches: Batches) -> Batches:
        """Give some rows for each part."""
        columns = [(batch.column("block"), batch.column("row")) for batch in batches]
        if columns:
            codes = [positions.codes(one.to_numpy(), other.to_numpy()) for one, other in columns]
            yield by_block(np.concatenate(codes), self.numbers)


@dataclass(frozen=True)
class ErasedLines:
    """Lines that go. Sent to executors by value.

    Attributes:
        packed: Their positions in each block that loses some, by the block's number, rising.
        count: How many they are.
    """

    packed: Mapping[int, bytes]
    count: int

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> ErasedLines:
        """Make it of rows of :data:`BY_BLOCK`; several may be of one block, but not of one line."""
        found: dict[int, list[bytes]] = {}
        count = 0
        for row in rows:
            found.setdefault(int(row["block"]), []).append(bytes(row["packed"]))
            count += int(row["lines"])
        return cls({number: _together(found[number]) for number in sorted(found)}, count)

    @cached_property
    def _numbers(self) -> Codes:
        return np.fromiter(self.packed, np.int64, len(self.packed))

    def codes(self) -> Codes:
        """Return all positions, rising."""
        pieces = [unpack(packed) for packed in self.packed.values()]
        return np.sort(np.concatenate([np.empty(0, np.int64), *pieces]))

    def ids(self) -> list[str]:
        """Return the ids that they have in a table without a key."""
        found: list[str] = []
        for packed in self.packed.values():
            codes = unpack(packed)
            places = zip(positions.blocks_of(codes), positions.ordinals_of(codes), strict=True)
            found += [f"{block}:{row}" for block, row in places]
        return found

    def of_block(self, block: Block) -> bytes:
        """Return the packed positions of a block's lines that go."""
        return self.packed.get(block.number, b"")

    def mask(self, codes: Codes) -> NDArray[np.bool_]:
        """Tell which of some positions are of lines that go."""
        numbers = self._numbers
        owners = np.searchsorted(numbers, positions.blocks_of(codes))
        found = np.zeros(len(codes), dtype=bool)
        for owner in np.unique(owners[owners < len(numbers)]):
            own = owners == owner
            found[own] = np.isin(codes[own], unpack(self.packed[int(numbers[owner])]))
        return found


@dataclass(frozen=True)
class FoundRows:
    """The rows that go, each with every line that it ever was.

    Attributes:
        lines: All these lines.
        count: How many rows they are; lines, in a table without a key.
        keys: The keys of those that have one, as the table's key columns; no more than were asked
            for.
        asked: The keys that were asked for, whether or not a row has them; likewise.
        ids: The rows' ids; None where they are too many to be looked for elsewhere.
    """

    lines: ErasedLines
    count: int
    keys: pa.Table
    asked: pa.Table
    ids: list[str] | None
