"""Activations: which blocks must be read, and which rows survive.

Known from the log alone, before a byte of data is read.

ACTIVATE_VERSION v removes every row before it whose version is not v. A row thus survives if
all activations after it name its own version. Of all activations only two matter: the last
one, at position A with version v, and the last one before it with another version, at D.

- After A, every row survives: nothing comes that could remove it.
- Between D and A, all activations that follow name v: rows of version v survive.
- Before D, a row would have to be of v and of D's version at once: none survives.

So no block that ends before D needs to be read at all. For a keyed table the newest row of a
key is found first and judged afterwards: an activation that removes it does not bring back
the older rows that it had replaced. Blocks before D may still be left out, for their rows
are removed whether or not they are the newest of their key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from singerlake.format.log import Block
from singerlake.rows.blocks import positions


@dataclass(frozen=True)
class Activation:
    """An ACTIVATE_VERSION message: ``rows`` rows of its block came before it."""

    block: int
    rows: int
    version: int

    @property
    def code(self) -> int:
        """Its position, that of the first row after it, as one number."""
        return positions.code(self.block, self.rows)


@dataclass(frozen=True)
class Survival:
    """The activations that decide whether a row is removed.

    Attributes:
        last: The last activation; None where there is none and all rows survive.
        different: The last one with another version.
    """

    last: Activation | None = None
    different: Activation | None = None

    @property
    def first_block(self) -> int:
        """The first block that can hold a surviving row."""
        return self.different.block if self.different else 0

    def mask(
        self, position_codes: NDArray[np.int64], versions: pa.Array | None
    ) -> NDArray[np.bool_]:
        """Tell which rows are left by all activations. Spark has the same in ``fold.py``.

        Args:
            position_codes: The rows' positions.
            versions: Their Singer versions; None keeps also those that the last activation
                removed, for they hide older rows of their keys.
        """
        if self.last is None:
            return np.ones(len(position_codes), dtype=bool)
        named = position_codes >= (self.different.code if self.different else 0)
        if versions is not None:
            named &= pc.fill_null(pc.equal(versions, self.last.version), False).to_numpy(
                zero_copy_only=False
            )
        mask: NDArray[np.bool_] = named | (position_codes >= self.last.code)
        return mask


def survival(blocks: Sequence[Block]) -> Survival:
    """Find the two activations that matter."""
    last: Activation | None = None
    for block in reversed(blocks):
        for rows, version in reversed(block.activations):
            activation = Activation(block.number, rows, version)
            if last is None:
                last = activation
            elif version != last.version:
                return Survival(last, activation)
    return Survival(last)


def survivals(blocks: Sequence[Block], ends: list[int]) -> list[Survival]:
    """Find what :func:`survival` does of the blocks up to each of some numbers, in one pass.

    Args:
        blocks: In order of number.
        ends: Numbers of last blocks, rising.
    """
    results: list[Survival] = []
    last: Activation | None = None
    different: Activation | None = None
    remaining = iter([*ends, None])
    end = next(remaining)
    for block in blocks:
        while end is not None and block.number > end:
            results.append(Survival(last, different))
            end = next(remaining)
        for rows, version in block.activations:
            if last is not None and version != last.version:
                different = last
            last = Activation(block.number, rows, version)
    results += [Survival(last, different)] * (len(ends) - len(results))
    return results


def needed(blocks: Sequence[Block], rule: Survival) -> list[Block]:
    """Return the blocks that can hold a row of the state."""
    return [b for b in blocks if b.number >= rule.first_block and b.rows]


def all_of(blocks: Sequence[Block]) -> list[Activation]:
    """Return every activation of some blocks, in order."""
    return [Activation(b.number, rows, version) for b in blocks for rows, version in b.activations]


def first_removal(
    activations: list[Activation],
    after: tuple[int, int],
    until: tuple[int, int],
    version: int | None,
) -> Activation | None:
    """Find the activation that removes a row before the next row of its key comes.

    Args:
        activations: In order.
        after: The row's position.
        until: That of the next row of its key, or one past the end.
    """
    start, end = positions.code(*after), positions.code(*until)
    # An activation lies before the row whose position it has.
    return next((a for a in activations if start < a.code <= end and a.version != version), None)
