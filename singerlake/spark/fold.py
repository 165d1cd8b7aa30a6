"""What of the blocks makes the state: which blocks must be read, which rows survive.

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

from dataclasses import dataclass

import msgspec

from singerlake.format.log import Block


@dataclass(frozen=True)
class Activation:
    """An ACTIVATE_VERSION message: rows below this position came before it."""

    block: int
    rows: int
    version: int


@dataclass(frozen=True)
class Survival:
    """What decides whether a row is removed by an activation.

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

    def survives(self, block: int, ordinal: int, version: int | None) -> bool:
        """Whether a row is left by all activations. Spark says the same in ``frames.py``."""
        if self.last is None or (block, ordinal) >= (self.last.block, self.last.rows):
            return True
        after = self.different is None or (block, ordinal) >= (
            self.different.block,
            self.different.rows,
        )
        return after and version == self.last.version


def survival(blocks: list[Block]) -> Survival:
    """Find the two activations that matter."""
    last: Activation | None = None
    for block in reversed(blocks):
        for rows, version in reversed(block.activations):
            found = Activation(block.number, rows, version)
            if last is None:
                last = found
            elif version != last.version:
                return Survival(last, found)
    return Survival(last)


def survivals(blocks: list[Block], ends: list[int]) -> list[Survival]:
    """What :func:`survival` says of the blocks up to each of some numbers, in one pass.

    Args:
        blocks: In order of number.
        ends: Numbers of last blocks, rising.
    """
    found: list[Survival] = []
    last: Activation | None = None
    different: Activation | None = None
    wanted = iter([*ends, None])
    end = next(wanted)
    for block in blocks:
        while end is not None and block.number > end:
            found.append(Survival(last, different))
            end = next(wanted)
        for rows, version in block.activations:
            if last is not None and version != last.version:
                different = last
            last = Activation(block.number, rows, version)
    found += [Survival(last, different)] * (len(ends) - len(found))
    return found


def needed(blocks: list[Block], rule: Survival) -> list[Block]:
    """The blocks that can hold a row of the state."""
    return [b for b in blocks if b.number >= rule.first_block and b.rows]


def tasks(blocks: list[Block], least: int, task_bytes: int) -> list[list[Block]]:
    """Share blocks out into runs of neighbours of about equal size.

    Args:
        blocks: In order of number.
        least: Tasks to make where there is enough to do.
        task_bytes: Inflated bytes that a task should not exceed.

    Returns:
        Runs of blocks; none is empty.
    """
    total = sum(block.bytes for block in blocks)
    count = max(least if total >= least * _WORTHWHILE else 1, -(-total // task_bytes))
    share = max(1, -(-total // count))
    runs: list[list[Block]] = []
    filled = 0
    for block in blocks:
        # A block goes to the task in whose share its middle lies.
        if not runs or (filled + block.bytes // 2) // share >= len(runs):
            runs.append([])
        runs[-1].append(block)
        filled += block.bytes
    return runs


def encoded(run: list[Block]) -> bytes:
    """Blocks as a task is sent them."""
    return msgspec.msgpack.encode(run)


def decoded(run: bytes) -> list[Block]:
    """The same blocks again."""
    return _RUN.decode(run)


_RUN = msgspec.msgpack.Decoder(list[Block])
_WORTHWHILE = 1 << 20
"""Inflated bytes below which another task costs more than it saves."""
