"""The raw files that a state's rows lie in, for tools that read them past Singerlake."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.errors import DamagedError
from singerlake.format.log import Block
from singerlake.log.table_state import TableState
from singerlake.storage.base import Store

_MOST_INFLATED = 1032
"""Bytes that DEFLATE makes at most of one."""


@dataclass(frozen=True)
class StateFile:
    """A data file with blocks of a state.

    Attributes:
        key: Its key on the store.
        bytes: Its size.
        blocks: Its blocks that belong to the state, in order of number.
    """

    key: str
    bytes: int
    blocks: list[Block]

    @property
    def holds_more(self) -> bool:
        """Whether there are blocks in it of another state too: later ones, or dropped ones."""
        return self._others > 0

    @property
    def longest_line(self) -> int:
        """A number of bytes that no line of the file exceeds, of other states' blocks neither."""
        return max([self._others * _MOST_INFLATED, *(block.bytes for block in self.blocks)])

    @property
    def _others(self) -> int:
        return self.bytes - sum(block.length for block in self.blocks)


def state_files(store: Store, snapshot: TableState) -> list[StateFile]:
    """The files of a state, in the order of their first blocks; by one listing.

    Files that a vacuum has replaced, and those that were never committed, are not among them.

    Raises:
        DamagedError: A file is gone or cut.
    """
    table = snapshot.table
    blocks: dict[str, list[Block]] = {}
    for block in snapshot.blocks:
        blocks.setdefault(block.file, []).append(block)
    sizes = {item.key: item.size for item in store.list(table.folder)}
    files = [
        StateFile(key, sizes.get(key, -1), mine)
        for file, mine in blocks.items()
        for key in (table.data(file),)
    ]
    for one in files:
        if one.bytes < max(block.offset + block.length for block in one.blocks):
            raise DamagedError(
                f"{one.key}, with blocks of {table}, is missing or cut: check for other damage "
                f"with: singerlake verify {table}"
            )
    return files


def missing(store: Store, snapshot: TableState) -> list[str]:
    """Files of a state that are not there, or shorter than its blocks say."""
    needed: dict[str, int] = {}
    for block in snapshot.blocks:
        end = block.offset + block.length
        needed[block.file] = max(end, needed.get(block.file, 0))
    folder = snapshot.table.folder
    present = {item.key: item.size for item in store.list(folder)}
    return [file for file, end in needed.items() if present.get(folder + file, -1) < end]


def last_readable(store: Store, snapshot: TableState) -> int:
    """The last transaction whose state needs no file that is gone; by one listing."""
    gone = set(missing(store, snapshot))
    first = next((block for block in snapshot.blocks if block.file in gone), None)
    if first is None:
        return snapshot.number
    return snapshot.transaction_of_block(first.lowest_version) - 1
