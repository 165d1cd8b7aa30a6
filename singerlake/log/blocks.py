"""Reading blocks by byte range, each checked against what the log says of it.

Neighbours in a file are read together: on S3 a request takes as long as a megabyte, and a
vacuum or a large sync leaves many blocks one behind the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format.key_bounds import Bounds
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.storage.base import KeyMissingError, Store

RUN_BYTES = 4 * 1024 * 1024
"""Read at a time, unless one block is longer. More would make the first row wait."""
HEADER_BYTES = 4096
"""Read to see what a block says of itself: nearly always all of it."""


def key_bounds(store: Store, table: TableName, block: Block) -> Bounds:
    """Return what a block says of its keys; nothing where that is not certain.

    What is wrong with it is for who reads it to say.
    """
    if block.crc is None:
        return {}
    key = table.data(block.file)
    try:
        data = store.get_range(key, block.offset, min(block.length, HEADER_BYTES))
        if len(data) < (size := format_block.noted_bytes(data)) <= block.length:
            data = store.get_range(key, block.offset, size)
    except KeyMissingError:
        return {}
    return bounds_in(block, data)


def bounds_in(block: Block, data: bytes) -> Bounds:
    """Return what a block's bytes, or the first of them, say of its keys, as :func:`key_bounds`."""
    return {} if block.crc is None else format_block.bounds_in(data, block.crc, block.bytes)


def proved_in(block: Block, data: bytes) -> bool:
    """Tell whether a block's bytes, or the first of them, say that its types are proved."""
    if block.crc is None:
        return False
    return format_block.proved_in(data, block.schema_hash, block.crc, block.bytes)


def read_block(store: Store, table: TableName, block: Block) -> bytes:
    """Return a block's lines: the SCHEMA line, then the rest as they arrived.

    Raises:
        DamagedError: The file is missing, cut, or not what the log says.
    """
    return inflate(table, block, fetch(store, table, [block]))


def members(
    store: Store, table: TableName, blocks: Iterable[Block]
) -> Iterator[tuple[Block, bytes]]:
    """Blocks with their bytes as they lie in the file, for :func:`inflate`.

    Raises:
        DamagedError: A file is missing.
    """
    for run in runs(blocks):
        data = fetch(store, table, run)
        for block in run:
            yield block, member(run, block, data)


def runs(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Blocks that lie one behind the other in one file, up to ``RUN_BYTES`` together."""
    run: list[Block] = []
    for block in blocks:
        if run and (
            (run[-1].file, run[-1].offset + run[-1].length) != (block.file, block.offset)
            or block.offset + block.length - run[0].offset > RUN_BYTES
        ):
            yield run
            run = []
        run.append(block)
    if run:
        yield run


def fetch(store: Store, table: TableName, run: list[Block]) -> bytes:
    """Return the bytes of a run, by one request; fewer where the file ends earlier.

    Raises:
        DamagedError: The file is missing.
    """
    first, last = run[0], run[-1]
    key = table.data(first.file)
    try:
        return store.get_range(key, first.offset, last.offset + last.length - first.offset)
    except KeyMissingError as error:
        problem = f"{_where(table, first)} is missing: the file does not exist"
        raise DamagedError(f"{problem}; {_next_step(table)}") from error


def member(run: list[Block], block: Block, data: bytes) -> bytes:
    """Return one block's part of what :func:`fetch` found."""
    start = block.offset - run[0].offset
    return data if len(run) == 1 else data[start : start + block.length]


def inflate(table: TableName, block: Block, data: bytes) -> bytes:
    """Return a block's lines out of its bytes.

    Raises:
        DamagedError: They are cut, or not what the log says.
    """
    where = _where(table, block)
    try:
        if len(data) != block.length:
            raise DamagedError(f"{where} is cut: the file ends early")
        format_block.check_is(data, block.rows, block.crc, where)
        return format_block.decode(data, block.bytes, where)
    except DamagedError as error:
        raise DamagedError(f"{error}; {_next_step(table)}") from error


def _where(table: TableName, block: Block) -> str:
    return f"block {block.number} of {table} ({table.data(block.file)} at byte {block.offset})"


def _next_step(table: TableName) -> str:
    return f"check for other damage with: singerlake verify {table}"
