"""Verifying the files that blocks lie in: that they are there, and that nothing else is in them.

Readers take blocks by their places, so they never see what stands behind the last one. Whoever
reads a file as a whole does: ``zcat``, for example.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from singerlake.errors import DataError, SingerlakeError
from singerlake.format import block as format_block
from singerlake.format.log import Block, Entry
from singerlake.format.names import TableName
from singerlake.log.table_state import TableState
from singerlake.ops.verify.problems import BACKUP, Problem
from singerlake.storage.base import KeyMissingError, Listed, Store


def file_ends(blocks: Iterable[Block]) -> dict[str, int]:
    """Where the last block of each file ends, by the file's path in the table's folder."""
    ends: dict[str, int] = {}
    for block in blocks:
        ends[block.file] = max(block.offset + block.length, ends.get(block.file, 0))
    return ends


def ends_before(snapshot: TableState, entries: Iterable[Entry]) -> dict[str, int]:
    """Where the files end that have lost their last blocks to other files.

    Args:
        snapshot: The table.
        entries: All of its log.

    Returns:
        For those of its files of which entries say more than what the snapshot has of them.
    """
    ends = file_ends([*snapshot.blocks, *(snapshot.restorable or ())])
    before: dict[str, int] = {}
    for entry in entries:
        for block in (*entry.blocks, *entry.moved):
            end = block.offset + block.length
            if end > before.get(block.file, ends.get(block.file, end)):
                before[block.file] = end
    return before


def check_files(
    snapshot: TableState, listing: Iterable[Listed]
) -> tuple[list[Problem], list[Block]]:
    """Hold a listing against what blocks say of their files.

    Args:
        snapshot: The table by its log.
        listing: The table's folder, listed after the log was read, so that all it names has been
            made durable before.

    Returns:
        Problems, and the blocks that a file is there for.
    """
    table = snapshot.table
    locations: set[tuple[str, int]] = set()
    problems = []
    for block in snapshot.blocks:
        if (location := (block.file, block.offset)) in locations:
            where = f"block {block.number}, {table.data(block.file)} at byte {block.offset}"
            problems.append(Problem("block", where, "a place of its own", "an earlier block's"))
        locations.add(location)
    sizes = {item.key: item.size for item in listing}
    for file, end in file_ends(snapshot.blocks).items():
        size = sizes.get(table.data(file))
        if size is None or size < end:
            actual = "nothing" if size is None else f"{size} bytes"
            problems.append(Problem("file", table.data(file), f"{end} bytes", actual, BACKUP))
    readable = [
        block
        for block in snapshot.blocks
        if sizes.get(table.data(block.file), -1) >= block.offset + block.length
    ]
    return problems, readable


def check_ends(
    store: Store, snapshot: TableState, before: Mapping[str, int], listing: Iterable[Listed]
) -> tuple[list[Problem], list[str]]:
    """Look at what stands in files behind their last blocks.

    Args:
        store: The lake's store.
        snapshot: The table by its log.
        before: What :func:`ends_before` gives.
        listing: The table's folder.

    Returns:
        Problems; and notes on blocks that no entry names. Those are there where a version was
        copied alone, or where a rebuild has made the log.
    """
    table = snapshot.table
    sizes = {item.key: item.size for item in listing}
    ends = {file: max(end, before.get(file, 0)) for file, end in file_ends(snapshot.blocks).items()}
    longer = {file: end for file, end in ends.items() if sizes.get(table.data(file), 0) > end}
    blocks: dict[str, list[Block]] = {file: [] for file in longer}
    for block in snapshot.blocks if longer else ():
        if block.file in blocks:
            blocks[block.file].append(block)
    problems: list[Problem] = []
    unnamed: list[str] = []
    for file, end in longer.items():
        try:
            found = _behind(store, table, blocks[file], end, sizes[table.data(file)])
        except KeyMissingError:
            continue  # which who reads its blocks tells of
        if found is None:
            unnamed.append(table.data(file))
        else:
            problems.append(found)
    if not unnamed:
        return problems, []
    note = (
        f"{len(unnamed)} of its data files (the first is {unnamed[0]}) end in blocks that no log "
        "entry lists, for example because only a version was copied, or a rebuild wrote the log: "
        "readers of the lake ignore them, but zcat shows them"
    )
    return problems, [note]


def _behind(
    store: Store, table: TableName, blocks: Sequence[Block], end: int, size: int
) -> Problem | None:
    """What is wrong with a file's bytes from one on; nothing where they are blocks of their own."""
    key = table.data(blocks[0].file)

    def head(at: int) -> bytes:
        return store.get_range(key, at, format_block.HEADER_BYTES)

    def problem(found: str) -> Problem:
        hint = f"no row of the lake is in them: cut the file to {at} bytes, or {BACKUP}"
        found = f"{size} bytes, of which the last {size - at} are {found}"
        return Problem("file", key, f"{at} bytes", found, hint)

    at, there = end, {head(block.offset) for block in blocks}
    while at < size:
        try:
            data = head(at)
            length = format_block.header(data, "it").length
        except KeyMissingError:
            raise
        except DataError:
            return problem("no blocks")
        except SingerlakeError as error:
            return problem(f"not to be read: {error}")
        if not format_block.HEADER_BYTES < length <= size - at:
            return problem("no whole block")
        if data in there:  # no two blocks of a file were made at the same microsecond
            return problem("blocks that stand in it before")
        at += length
    return None
