"""What an entry must be to go on with a table's log, and what the manifest keeps of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from singerlake.errors import DamagedError, InvalidNameError
from singerlake.format.file_paths import is_list
from singerlake.format.log import Block, Entry, Operation
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
        raise DamagedError(f"the log of {table} jumps from {head} to {entry.number}")
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


def check_blocks(table: TableName, entry: Entry, last: int) -> int:
    """Make sure that an entry's blocks go on from the last there is, and lie in its folder.

    Args:
        table: Whose log.
        entry: The entry.
        last: The last block before it.

    Returns:
        The number of the last block after it.

    Raises:
        DamagedError: They do not.
    """
    for block in entry.blocks:
        # Only an entry that a rebuild wrote after a vacuum may leave numbers out.
        if block.number != last + 1 and not (entry.last_block and block.number > last):
            raise DamagedError(
                f"transaction {entry.number} of {table} adds block {block.number} "
                f"where {last + 1} comes next"
            )
        last = block.number
        check_path(table, entry, block)
    return last


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
    if entry.format == PLAIN and form > PLAIN:
        raise DamagedError(
            f"transaction {entry.number} of {table} has format {PLAIN} and comes after one of "
            f"format {form}: no release writes such a log"
        )
    if entry.format > PLAIN and chain and entry.previous != chain:
        raise DamagedError(
            f"transaction {entry.number} of {table} was written after a different transaction "
            f"{entry.number - 1} than the present one: one of the two was changed or comes from "
            "elsewhere; restore the log from a backup"
        )


class Rewritings:
    """The entries of a log that an erasure had rewritten, noted as the log is read.

    Args:
        table: Whose log.
    """

    def __init__(self, table: TableName) -> None:
        self._table = table
        self._noted: dict[int, int] = {}

    def noted(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Yield entries, and note those that were rewritten."""
        for entry in entries:
            if entry.rewritten:
                self._noted[entry.number] = entry.rewritten
            yield entry

    @property
    def last(self) -> int:
        """The last transaction that is said to have announced an erasure; 0 for none."""
        return max(self._noted.values(), default=0)

    def check(self, transactions: Sequence[TransactionSummary], *, to_end: bool) -> None:
        """Make sure that the log announces the erasures that they were rewritten for.

        Args:
            transactions: The log's, from the first on.
            to_end: Whether these are all there are; if not, what comes later is not looked at.

        Raises:
            DamagedError: It does not.
        """
        for number, by in self._noted.items():
            if by <= len(transactions):
                allowed = transactions[by - 1].operation == Operation.ERASE_START
            else:
                allowed = not to_end
            if not allowed:
                raise DamagedError(
                    f"transaction {number} of {self._table} was rewritten for an erasure that "
                    f"transaction {by} should announce, but does not: restore the log from a "
                    "backup"
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
