"""The content of a state of which some blocks were rewritten: less is read than of all.

Of a block that stays where it is, bit for bit, it is enough to know which rows of it are in the
state: they are the same rows. Only of the others, and of those that take their place, are the
rows read and added up.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.format.log import Block
from singerlake.format.set_hash import SetHash
from singerlake.format.types import Columns
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.blocks.block_reader import BlockReader, combined
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.fingerprint import FULL, Content, Sums
from singerlake.rows.state.newest_rows import RowStep, gathered

MOVED_SUMS = (
    "rows long, fingerprint binary, record_fingerprint binary, accident binary, "
    "staying long, places binary"
)
"""What :class:`MovedSummer` gives, as Spark names it."""


_TASK = msgspec.msgpack.Decoder(tuple[bytes, bytes])


@dataclass(frozen=True)
class MovedContent:
    """The count and the fingerprints of a state.

    Attributes:
        moved: Of the rows in blocks that are not on both sides.
        staying: How many rows of the others are the newest of their keys.
        places: Which these are.
    """

    moved: Content
    staying: int
    places: str


class MovedSums:
    """The sums of all parts."""

    def __init__(self, rows: Iterable[Mapping[str, object]]) -> None:
        sums, places, staying = Sums(FULL), SetHash(), 0
        for row in rows:
            sums.add(row)
            staying += int(str(row["staying"]))
            places += SetHash.of_data(bytes(row["places"]))  # type: ignore[call-overload]
        self.content = MovedContent(sums.content(), staying, places.text)


def task(encoded: bytes, blocks: Sequence[Block], staying: Container[int]) -> bytes:
    """Encode what a task must know.

    Args:
        encoded: Its blocks, as ``block_tasks`` encodes them.
        blocks: The same.
        staying: The numbers of the blocks that are on both sides.
    """
    return msgspec.msgpack.encode((encoded, bytes(block.number in staying for block in blocks)))


def counted(survival: Survival, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leave out the rows that are gone whatever their version, which hide none that is not."""
    kept: NDArray[np.int64] = codes[survival.mask(codes, None)]
    return kept


@dataclass
class MovedSummer:
    """Sums up the rows picked of each task. Sent to executors by value.

    Attributes:
        reader: Reads those of blocks that are not on both sides.
    """

    reader: BlockReader
    survival: Survival
    columns: Columns

    def __call__(self, batches: Batches) -> Batches:
        """Give one row a part."""
        picked, known = gathered(batches)
        sums, places, staying = Sums(FULL), SetHash(), 0
        step = RowStep(self.reader, self.survival, combined)
        for number, codes in picked.items():
            moved: list[Block] = []
            left: list[NDArray[np.int64]] = []
            for block, stays, mine in self._by_block(known[number], codes):
                if stays:
                    places.add([np.append(mine, block.number).tobytes()])
                    staying += len(mine)
                else:
                    moved.append(block)
                    left.append(mine)
            if moved:
                wanted = np.concatenate(left)
                for rows in step.rows(moved, wanted, self.reader.texts):
                    sums.take(rows, self.columns)
        batch = sums.batch()
        batch = batch.append_column("staying", pa.array([staying], pa.int64()))
        yield batch.append_column("places", pa.array([places.data], pa.binary()))

    def _by_block(
        self, given: bytes, picked: NDArray[np.int64]
    ) -> Iterable[tuple[Block, int, NDArray[np.int64]]]:
        """Share rising positions out to the blocks in which the rows lie; without empty shares."""
        codes = counted(self.survival, picked)
        encoded, staying = _TASK.decode(given)
        blocks = block_tasks.decode(encoded)
        numbers = np.array([block.number for block in blocks], dtype=np.int64)
        ends = np.searchsorted(positions.blocks_of(codes), numbers, "right").tolist()
        if len(codes) and ends[-1] != len(codes):
            raise AssertionError("not every row lies in a block of its task")
        shares = zip(blocks, staying, [0, *ends], ends, strict=False)
        return ((b, stays, codes[start:end]) for b, stays, start, end in shares if end > start)
