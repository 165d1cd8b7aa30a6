"""Ways of reading rows, by block: the same bytes may show other values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from singerlake.format.log import Block, joined

Numbers = NDArray[np.int64]
UNKNOWN = -1


@dataclass(frozen=True)
class Ways:
    """Numbers ways of reading: a schema, and the defaults of columns that people added.

    Attributes:
        first: The first block of each range that is read in one way, rising.
        way: The number of the way.
    """

    first: Numbers
    last: Numbers
    way: Numbers

    @classmethod
    def of(cls, blocks: Sequence[Block], bounds: Sequence[int]) -> Ways:
        """Make one.

        Args:
            blocks: In order; what rows came in lies in them.
            bounds: The blocks from which on rows show other defaults, rising.
        """
        ranges: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for block in blocks:
            first, last = block.lowest_version, block.number
            inner = [bound for bound in bounds if first < bound <= last]
            for start, after in pairwise([first, *inner, last + 1]):
                way = (block.schema_hash, bisect_right(bounds, start))
                ranges.setdefault(way, []).append((start, after - 1))
        every = sorted(
            (first, last, number)
            for number, some in enumerate(ranges.values())
            for first, last in joined(some)
        )
        table = np.array(every, dtype=np.int64).reshape(-1, 3)
        return cls(*(np.ascontiguousarray(table[:, column]) for column in range(3)))

    def of_rows(self, blocks: Numbers) -> Numbers:
        """Return the way in which rows of some blocks are read; :data:`UNKNOWN` for no such block.

        Args:
            blocks: Those that the rows came in.
        """
        if not len(self.first):
            return np.full(len(blocks), UNKNOWN, dtype=np.int64)
        at = np.maximum(np.searchsorted(self.first, blocks, "right") - 1, 0)
        known = (self.first[at] <= blocks) & (blocks <= self.last[at])
        return np.where(known, self.way[at], UNKNOWN)
