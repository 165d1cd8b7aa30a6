"""Options and results of a copy of a table; and the files that a table needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from singerlake.format.log import Block, FrozenVersion
from singerlake.format.names import TableName
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions
from singerlake.ops.copy.comparing import Rebuilt


@dataclass(frozen=True)
class CopyOptions:
    """The options of a copy.

    Attributes:
        sync: Also delete at the destination what the source's log says was deleted.
        verify: Also read again all that the destination has.
        dry_run: Only find out what would be done.
        transfers: Files that are moved at the same time.
        tables: Tables that are copied at the same time.
        lease_wait_seconds: How long to wait for the destination's readers before a deletion.
        writing: How to treat the locks of others at the destination.
    """

    sync: bool = False
    verify: bool = False
    dry_run: bool = False
    transfers: int = 8
    tables: int = 4
    lease_wait_seconds: float = 120.0
    writing: WriteOptions = field(default_factory=WriteOptions)


@dataclass(frozen=True)
class Copied:
    """The result of a copy for one table.

    Attributes:
        table: Which.
        snapshot: The table as the destination has it now.
        transactions: Log entries that were copied.
        files: Data files that were copied.
        bytes: What these have.
        deleted: Data files that were deleted, because the source's log says that it did.
        kept: Such files that readers of the destination still need.
        verified: Data files that were read again.
        versions: The versions that were asked for; none for all of the table.
        rebuilt: Log entries that are a rebuild's, as far as both logs were read again.
    """

    table: TableName
    snapshot: TableState
    transactions: int = 0
    files: int = 0
    bytes: int = 0
    deleted: int = 0
    kept: int = 0
    verified: int = 0
    versions: Sequence[FrozenVersion] = ()
    rebuilt: Rebuilt = field(default_factory=Rebuilt)


def needed_files(head: TableState) -> dict[str, list[Block]]:
    """The data files of a table, and of one that can be brought back, with what lies in them."""
    needed: dict[str, list[Block]] = {}
    for block in (*head.blocks, *(head.restorable or ())):
        needed.setdefault(block.file, []).append(block)
    return needed


def end(blocks: Iterable[Block]) -> int:
    """Return where the last of a file's blocks ends."""
    return max(block.offset + block.length for block in blocks)
