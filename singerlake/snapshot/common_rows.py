"""Rows that two states have in common, by their places in the blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.engine.base import Engine
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import positions
from singerlake.snapshot import from_blocks

PLACES = "part int, state int, places binary"
"""What :class:`Places` gives: positions, int64 each, by part and by the state that they are of."""
_COUNTED = "rows long, came long, went long"


def differing_rows(
    engine: Engine[Any], table: Table, one: TableState, other: TableState
) -> tuple[int, int, int]:
    """Compare which rows two states have.

    Returns:
        How many rows the other has; how many of them the one has not; and how many of the one
        the other has not.
    """
    parts = 1
    both = []
    for number, state in enumerate((one, other)):
        plan = from_blocks.planned(engine, table, state, shown=True)
        parts = max(parts, plan.parts)
        both.append((number, plan))
    read = [
        from_blocks.through(engine, plan, Places(number, parts), PLACES) for number, plan in both
    ]
    shared = engine.exchange(engine.union(*read), parts, "part")
    counted = engine.collect(engine.map(shared, _compared, _COUNTED))
    rows, came, went = (sum(row[name] for row in counted) for name in ("rows", "came", "went"))
    return rows, came, went


@dataclass
class Places:
    """Packs the places of rows, by part.

    Attributes:
        state: The number of the state that they are of.
        parts: How many parts there are.
        spans: Rows of which blocks count: of those after one number, up to another. None for all.
    """

    state: int
    parts: int
    spans: Sequence[tuple[int, int]] | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Give one row for each part of each batch."""
        for batch in batches:
            codes = self._counting(positions.codes_in(batch))
            # By block: the rows of one are together in both states.
            part = positions.blocks_of(codes) % self.parts
            numbers = np.unique(part)
            packed = [codes[part == number].tobytes() for number in numbers]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(numbers.astype(np.int32)),
                    pa.array([self.state] * len(numbers), pa.int32()),
                    pa.array(packed, pa.binary()),
                ],
                ["part", "state", "places"],
            )

    def _counting(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.spans is None:
            return codes
        blocks = positions.blocks_of(codes)
        within = [(blocks > first) & (blocks <= last) for first, last in self.spans]
        return codes[np.logical_or.reduce(within)]


def unpacked(batches: Batches) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions that :class:`Places` gave of the states 0 and 1."""
    found: tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]] = ([], [])
    for batch in batches:
        for state, packed in zip(
            batch.column("state").to_pylist(), batch.column("places").to_pylist(), strict=True
        ):
            found[state].append(np.frombuffer(packed, dtype=np.int64))
    nothing = np.empty(0, dtype=np.int64)
    return np.concatenate([nothing, *found[0]]), np.concatenate([nothing, *found[1]])


def _compared(batches: Batches) -> Batches:
    was, now = unpacked(batches)
    yield pa.RecordBatch.from_pydict(
        {
            "rows": [len(now)],
            "came": [len(np.setdiff1d(now, was, assume_unique=True))],
            "went": [len(np.setdiff1d(was, now, assume_unique=True))],
        }
    )
