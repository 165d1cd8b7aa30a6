"""Combining: many small files into few large ones, by copying gzip members.

Nothing is inflated: a block is the same bytes in another file, and keeps its number. Blocks
that a file still carries and nothing names are left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from singerlake.engine.work import SMALL, Work
from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format.block import TRAILER_BYTES
from singerlake.format.log import Block, Entry, Operation
from singerlake.format.names import FileNamer, TableName
from singerlake.log import conflicts
from singerlake.log.blocks import runs
from singerlake.log.commit import commit, draft_entry
from singerlake.log.staging import publish_file, replace_block
from singerlake.log.table_state import TableState
from singerlake.storage.base import KeyMissingError, Listed, Range, Staged, Store

LITTLE_BYTES = 256 << 20
"""Compressed bytes that one process copies in less time than Java takes to start: the system moves
them, and nothing is inflated."""


@dataclass(frozen=True)
class Group:
    """Files that become one.

    Attributes:
        blocks: What goes into it, in order.
        files: How many files they come from.
    """

    blocks: list[Block]
    files: int

    @property
    def bytes(self) -> int:
        """Compressed bytes of the new file."""
        return sum(block.length for block in self.blocks)


def plan_listed(
    snapshot: TableState, target_bytes: int, listed: Iterable[Listed] | None
) -> list[Group]:
    """Do as :func:`plan_combine`, by the objects in the table's folder; None if not listed."""
    start = len(snapshot.table.folder)
    sizes = None if listed is None else {item.key[start:]: item.size for item in listed}
    return plan_combine(snapshot, target_bytes, sizes)


def plan_combine(
    snapshot: TableState, target_bytes: int, sizes: Mapping[str, int] | None = None
) -> list[Group]:
    """Which files to put together.

    Neighbours up to the target size are packed as far as they fit into one file. So after a
    run any two neighbours are together above the target, and a second run finds nothing.

    Args:
        snapshot: The table's head.
        target_bytes: No new file grows beyond, unless one block does.
        sizes: Bytes of the files there are, by path; a file of which more than half is no
            block's any more is written anew.
    """
    files: dict[str, list[Block]] = {}
    for block in snapshot.blocks:
        files.setdefault(block.file, []).append(block)
    groups: list[Group] = []
    gathering: dict[str, list[list[Block]]] = {}
    together: dict[str, int] = {}
    for path, blocks in files.items():
        folder = path.partition("/")[0]
        used = sum(block.length for block in blocks)
        if used > target_bytes:
            # Alone, and its neighbours are put together past it: so it is in the next plan too.
            groups += _closed([blocks], sizes)
            continue
        if folder in gathering and together[folder] + used > target_bytes:
            groups += _closed(gathering.pop(folder), sizes)
            together[folder] = 0
        gathering.setdefault(folder, []).append(blocks)
        together[folder] = together.get(folder, 0) + used
    for gathered in gathering.values():
        groups += _closed(gathered, sizes)
    return groups


def _closed(gathered: list[list[Block]], sizes: Mapping[str, int] | None) -> list[Group]:
    blocks = [block for one in gathered for block in one]
    used = sum(block.length for block in blocks)
    if len(gathered) == 1 and not _mostly_dead(blocks[0].file, used, sizes):
        return []
    blocks.sort(key=lambda block: block.number)
    return [Group(blocks, len(gathered))]


def _mostly_dead(path: str, used: int, sizes: Mapping[str, int] | None) -> bool:
    return sizes is not None and sizes.get(path, 0) > 2 * used


def write_group(store: Store, table: TableName, group: Group) -> str:
    """Copy a group's blocks into one new file.

    Returns:
        The new file's path within the table. Nothing names it before the commit.

    Raises:
        DamagedError: A file is gone, cut, or does not hold the blocks that it should.
        StoreError: The store refused.
    """
    staged = store.stage()
    try:
        _copy(store, table, group.blocks, staged)
        _check(table, group.blocks, staged)
        first, last = group.blocks[0], group.blocks[-1]
        namer = FileNamer(table, first.schema_hash, first.first, last.last)
        return publish_file(store, staged, namer)
    finally:
        staged.discard()


def work_of(groups: Iterable[Group]) -> Work:
    """Estimate the copying of groups: ``LITTLE_BYTES`` are as much work as what is just small."""
    return Work(-(-sum(group.bytes for group in groups) * SMALL.bytes // LITTLE_BYTES))


def withdraw(store: Store, table: TableName, files: Iterable[str]) -> None:
    """Delete new files that no log entry names."""
    for path in files:
        store.delete(table.data(path))


def _copy(store: Store, table: TableName, blocks: list[Block], staged: Staged) -> None:
    ranges = [
        Range(table.data(run[0].file), run[0].offset, sum(block.length for block in run))
        for run in runs(blocks)
    ]
    try:
        counts = store.copy(ranges, staged)
    except KeyMissingError as error:
        raise DamagedError(
            f"{error}; check for other damage with: singerlake verify {table}"
        ) from error
    for wanted, count in zip(ranges, counts, strict=True):
        if count < wanted.length:
            raise DamagedError(
                f"{wanted.key} is cut: {wanted.length} bytes should follow byte {wanted.offset} "
                f"on, and {count} are; check for other damage with: singerlake verify {table}"
            )


def _check(table: TableName, blocks: list[Block], staged: Staged) -> None:
    """Make sure that the new file is these blocks, by the first and last bytes of each.

    What lies between, each block's own checksum covers, which has come along: damage there is
    found by who reads the block, in the new file as in the old one. See decision 018.
    """
    offset = 0
    with staged.reader() as file:
        head = file.read(format_block.HEADER_BYTES)
        for block in blocks:
            offset += block.length
            file.seek(max(0, offset - TRAILER_BYTES))
            both = file.read(TRAILER_BYTES + format_block.HEADER_BYTES)  # and what follows it
            tail, after = both[:TRAILER_BYTES], both[TRAILER_BYTES:]
            if not _is(head, tail, block):
                where = f"{table.data(block.file)} at byte {block.offset}"
                raise DamagedError(
                    f"block {block.number} of {table} ({where}) does not match the log; check for "
                    f"other damage with: singerlake verify {table}"
                )
            head = after


def _is(head: bytes, tail: bytes, block: Block) -> bool:
    try:
        header = format_block.header(head, "it")
    except DamagedError:
        return False
    if (header.length, header.rows, len(tail)) != (block.length, block.rows, TRAILER_BYTES):
        return False
    if block.crc not in (None, format_block.checksum(tail)):
        return False
    return format_block.inflated_size(tail) == block.bytes % 2**32


def commit_combine(
    store: Store, snapshot: TableState, written: list[tuple[Group, str]], *, writer_id: str
) -> TableState:
    """Let the log say where the blocks lie now.

    Args:
        store: The lake's store.
        snapshot: The table by which the groups were planned.
        written: Each group and the file it was written to.
        writer_id: Who vacuums.

    Raises:
        ConflictError: Another vacuum moved blocks meanwhile; nothing was changed.
        StoreError: The store refused.
    """
    moved: list[Block] = []
    for group, path in written:
        offset = 0
        for block in group.blocks:
            moved.append(replace_block(block, file=path, offset=offset))
            offset += block.length
    moved.sort(key=lambda block: block.number)
    planned = snapshot.number

    def draft(present: TableState) -> Entry:
        conflicts.check_blocks_unmoved(present, planned)
        return draft_entry(
            present.table,
            Operation.COMBINE,
            writer=writer_id,
            moved=moved,
            metrics={
                "files_in": sum(group.files for group, _ in written),
                "files_out": len(written),
                "bytes_copied": sum(group.bytes for group, _ in written),
            },
        )

    return commit(store, snapshot, draft)
