"""What an entry must be to go on with a table's log, and what the manifest keeps of it."""

from __future__ import annotations

from singerlake.errors import DamagedError, InvalidNameError
from singerlake.format.file_paths import is_list
from singerlake.format.log import Block, Entry
from singerlake.format.metadata import TransactionSummary
from singerlake.format.names import TableName
from singerlake.format.sealed import PLAIN


class ForeignEntryError(DamagedError):
    """A log holds an entry of another stream's."""


def check_next(table: TableName, head: int, entry: Entry) -> None:
    """Make sure that an entry is the table's, and has the number after its head.

    Raises:
        DamagedError: It has another.
        ForeignEntryError: It is another stream's.
    """
    if entry.number != head + 1:
        raise DamagedError(f"the log of {table} goes from {head} to {entry.number}")
    if entry.stream != table.stream:
        raise ForeignEntryError(
            f"the log of {table} holds transaction {entry.number} of the stream "
            f"{entry.stream!r}: put the table's own log there"
        )


def check_path(table: TableName, entry: Entry, block: Block) -> None:
    """Make sure that a block which an entry names lies in the table's folder.

    Raises:
        DamagedError: It does not.
    """
    try:
        table.data(block.file)
        if block.files is not None and not is_list(block.files.path):
            raise InvalidNameError(f"{block.files.path[:200]!r} is not the path of a list of files")
    except InvalidNameError as error:
        raise DamagedError(
            f"transaction {entry.number} of {table} cannot be read: {error}"
        ) from error


def check_link(table: TableName, form: int, chain: str, entry: Entry) -> None:
    """Make sure that an entry of the log follows the one before it.

    Args:
        table: Whose log.
        form: The format's number of the entry before.
        chain: That entry's chain id; empty where it is not known.
        entry: The entry.

    Raises:
        DamagedError: It was written after another one.
    """
    if entry.format < form:
        raise DamagedError(
            f"transaction {entry.number} of {table} has format {entry.format} and comes after one "
            f"of format {form}: no release writes such a log"
        )
    if entry.format > PLAIN and chain and entry.previous != chain:
        raise DamagedError(
            f"transaction {entry.number} of {table} was written after another transaction "
            f"{entry.number - 1} than the one that is there: one of the two was changed or put "
            "there from elsewhere; bring the log back from a backup"
        )


def summarize(entry: Entry, last_block: int, schema_hash: str) -> TransactionSummary:
    """Return what the manifest keeps of an entry.

    Args:
        entry: The entry.
        last_block: The table's last block after it.
        schema_hash: The schema before it, kept where the entry names none.
    """
    return TransactionSummary(
        number=entry.number,
        commit=entry.commit,
        operation=entry.operation,
        time=entry.time,
        writer=entry.writer,
        software=entry.software,
        schema_hash=entry.schema_hash or schema_hash,
        rows=entry.rows,
        bytes=entry.bytes,
        blocks=len(entry.blocks),
        last_block=last_block,
    )
