"""The work of an operation, which decides whether it is done in this process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from singerlake.format.log import Block


@dataclass(frozen=True)
class Work:
    """An estimate, from the log alone.

    Attributes:
        bytes: Of the blocks that are read, inflated.
        cells: Rows in them, times the table's columns: where rows have few of many columns, it is
            these that take the time and the memory.
    """

    bytes: int = 0
    cells: int = 0

    @classmethod
    def of(cls, blocks: Iterable[Block], columns: int) -> Work:
        """Estimate the reading of some blocks of a table of so many columns."""
        rows = bytes_ = 0
        for block in blocks:
            rows += block.rows
            bytes_ += block.bytes
        return cls(bytes_, rows * columns)

    def __add__(self, other: Work) -> Work:
        return Work(self.bytes + other.bytes, max(self.cells, other.cells))

    def fits(self, limit: Work) -> bool:
        """Tell whether it is no more than a limit."""
        return self.bytes <= limit.bytes and self.cells <= limit.cells


SMALL = Work(32 << 20, 4_000_000)
"""A second's work of one core, where Java alone takes several to start."""


class TooLargeError(Exception):
    """There is more to do than was expected."""
