"""Reading blocks by byte range, each checked against what the log says of it."""

from __future__ import annotations

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.storage.base import KeyMissingError, Store


def read_block(store: Store, table: TableName, block: Block) -> bytes:
    """A block's lines: the SCHEMA line, then the rest as they arrived.

    Raises:
        DamagedError: The file is missing, cut, or not what the log says.
    """
    key = table.data(block.file)
    where = f"block {block.number} of {table} ({key} at byte {block.offset})"
    try:
        data = store.get_range(key, block.offset, block.length)
        if len(data) != block.length:
            raise DamagedError(f"{where} is cut: the file ends early")
        return format_block.decode(data, block.bytes, where)
    except KeyMissingError as error:
        said = f"{where} is gone: the file is not there"
        raise DamagedError(f"{said}; {_next_step(table)}") from error
    except DamagedError as error:
        raise DamagedError(f"{error}; {_next_step(table)}") from error


def _next_step(table: TableName) -> str:
    return f"see what else is wrong with: singerlake verify {table}"
