"""Combining: many small files into few large ones, by copying gzip members.

Nothing is inflated: a block is the same bytes in another file, and keeps its number. Blocks
that a file still carries and nothing names are left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from singerlake import FORMAT
from singerlake.errors import ConflictError, DamagedError
from singerlake.format import block as format_block
from singerlake.format.log import COMBINE, MOVING, Block, Entry
from singerlake.format.names import TableName
from singerlake.storage.base import KeyMissingError, Staged, Store
from singerlake.transactions.commit import SOFTWARE, commit
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.staging import publish_file, replace_block

COPY_BYTES = 16 * 1024 * 1024
"""Read and written at a time."""


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


def plan_combine(
    snapshot: Snapshot, target_bytes: int, sizes: Mapping[str, int] | None = None
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
        for run in _runs(group.blocks):
            _copy(store, table, run, staged)
        first, last = group.blocks[0], group.blocks[-1]
        return publish_file(store, staged, table, first.schema_hash, first.first, last.last)
    finally:
        staged.discard()


def _runs(blocks: list[Block]) -> Iterable[list[Block]]:
    """Blocks that lie one behind the other in one file are read together."""
    run: list[Block] = []
    for block in blocks:
        if run:
            end = run[-1].offset + run[-1].length
            large = end - run[0].offset >= COPY_BYTES
            if (run[-1].file, end) != (block.file, block.offset) or large:
                yield run
                run = []
        run.append(block)
    yield run


def _copy(store: Store, table: TableName, run: list[Block], staged: Staged) -> None:
    start = run[0].offset
    length = run[-1].offset + run[-1].length - start
    key = table.data(run[0].file)
    try:
        data = store.get_range(key, start, length)
    except KeyMissingError as error:
        raise DamagedError(f"{key} is gone; see what else with: singerlake verify {table}") from (
            error
        )
    for block in run:
        where = f"block {block.number} of {table} ({key} at byte {block.offset})"
        at = block.offset - start
        if not _is(data[at : at + format_block.HEADER_BYTES], block) or len(data) < length:
            raise DamagedError(f"{where} is not what the log says: singerlake verify {table}")
    staged.write(data)


def _is(head: bytes, block: Block) -> bool:
    try:
        found = format_block.header(head, "it")
    except DamagedError:
        return False
    return (found.length, found.rows) == (block.length, block.rows)


def commit_combine(
    store: Store, snapshot: Snapshot, written: list[tuple[Group, str]], *, writer_id: str
) -> Snapshot:
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
    planned = snapshot.head

    def build(present: Snapshot, number: int, commit_id: str, time: str) -> Entry:
        check_unmoved(present, planned)
        return Entry(
            format=FORMAT,
            number=number,
            commit=commit_id,
            operation=COMBINE,
            stream=present.table.stream,
            time=time,
            writer=writer_id,
            software=SOFTWARE,
            moved=moved,
            metrics={
                "files_in": sum(group.files for group, _ in written),
                "files_out": len(written),
                "bytes_copied": sum(group.bytes for group, _ in written),
            },
        )

    return commit(store, snapshot, build)


def check_unmoved(present: Snapshot, planned: int) -> None:
    """Make sure that no other vacuum has moved blocks since a plan was made.

    Raises:
        ConflictError: One has.
    """
    for later in present.transactions[planned:]:
        if later.operation in MOVING:
            raise ConflictError(
                f"another vacuum (transaction {later.number}, {later.operation}) changed "
                f"{present.table} meanwhile: nothing was changed; run it again"
            )
