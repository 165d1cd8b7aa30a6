"""Positions of two sides of a table's rows, compared part by part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import positions

SHARED = "part int, codes binary, other boolean"
"""What a :class:`Share` gives: positions, int64 each, and whether they are the other side's."""
DIFFER = "differ boolean"
"""What :func:`differing` gives."""


@dataclass
class Share:
    """Splits positions by part: those of one block are in the same one.

    Attributes:
        parts: How many parts there are.
        other: Whether they are the other side's.
    """

    parts: int
    other: bool

    def __call__(self, batches: Batches) -> Batches:
        """Take positions, as ``positions.each_code`` gives them."""
        for batch in batches:
            codes = batch.column("codes").to_numpy()
            part = positions.blocks_of(codes) % self.parts
            numbers = np.unique(part)
            yield pa.RecordBatch.from_pydict(
                {
                    "part": pa.array(numbers, pa.int32()),
                    "codes": pa.array([codes[part == n].tobytes() for n in numbers], pa.binary()),
                    "other": pa.repeat(pa.scalar(self.other), len(numbers)),
                }
            )


def differing(batches: Batches) -> Batches:
    """Give a row if the two sides of a part have different positions."""
    own, others = _sides(batches)
    if not np.array_equal(np.sort(own), np.sort(others)):
        yield pa.RecordBatch.from_pydict({"differ": [True]})


def without_others(batches: Batches) -> Batches:
    """Give the positions that the other side lacks, as ``positions.each_code`` does."""
    codes = np.setdiff1d(*_sides(batches))
    yield pa.RecordBatch.from_arrays([pa.array(codes)], ["codes"])


def _sides(batches: Batches) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions of a part's two sides."""
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    for batch in batches:
        cells = (batch.column(name).to_pylist() for name in ("codes", "other"))
        for codes, other in zip(*cells, strict=True):
            sides[other].append(codes)
    own, others = (np.frombuffer(b"".join(pieces), dtype=np.int64) for pieces in sides)
    return own, others
