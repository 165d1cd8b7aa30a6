"""Blocks on their way into a table: gathered in files that nobody sees until the commit."""

from __future__ import annotations

import random
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import msgspec

from singerlake.format import block as format_block
from singerlake.format import names, times
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.names import TableName
from singerlake.storage.base import KeyExistsError, Staged, Store

FILE_BYTES = 128 * 1024 * 1024
"""Compressed size at which a file is closed and the next begun, unless a setting differs."""

MAX_DRAWN = 10**18
"""Where the store cannot tell whether a name is taken, its number is drawn below this."""


@dataclass
class _File:
    staged: Staged
    schema_hash: str
    blocks: list[int] = field(default_factory=list)
    path: str = ""


class StagedTable:
    """What one update will add to one table.

    Args:
        store: The lake's store.
        table: The table.
        file_bytes: Roll to a new file at this compressed size.
    """

    def __init__(self, store: Store, table: TableName, file_bytes: int = FILE_BYTES) -> None:
        self._store = store
        self._table = table
        self._file_bytes = file_bytes
        self._files: list[_File] = []
        self._open: dict[str, _File] = {}
        self._blocks: list[Block] = []
        self._next_attempt: dict[str, int] = {}
        self.schemas: dict[str, SchemaEntry] = {}
        self.schema_hash = ""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to publish."""
        return not self._blocks

    @property
    def rows(self) -> int:
        """RECORD lines gathered."""
        return sum(block.rows for block in self._blocks)

    @property
    def size(self) -> int:
        """Compressed bytes gathered."""
        return sum(file.staged.size for file in self._files)

    def set_schema(self, schema_hash: str, schema: SchemaEntry) -> None:
        """Put a schema into effect for what comes after."""
        self.schemas[schema_hash] = schema
        self.schema_hash = schema_hash

    def add(self, schema_hash: str, data: bytes, block: Block) -> None:
        """Append a block.

        Args:
            schema_hash: The schema it was written under.
            data: The whole gzip member.
            block: What it holds; number, file, offset and checksum are filled in.
        """
        file = self._open.get(schema_hash)
        if file is None or file.staged.size + len(data) > self._file_bytes:
            file = _File(self._store.stage(), schema_hash)
            self._files.append(file)
            self._open[schema_hash] = file
        offset = file.staged.size
        file.staged.write(data)
        file.blocks.append(len(self._blocks))
        crc = format_block.checksum(data)
        self._blocks.append(replace_block(block, offset=offset, length=len(data), crc=crc))

    def publish(self, taken: Container[str] = (), present: Sequence[Block] = ()) -> None:
        """Make every file durable under its name. Nothing is visible before the commit.

        Args:
            taken: Paths to leave alone although nothing may be there: a vacuum may be about
                to delete what is.
            present: The table's blocks, as far as they are known; looked at where a name is
                taken, for what else is.

        Raises:
            StoreError: The store refused.
        """
        for file in self._files:
            if not file.path:
                file.path = self._publish(file, taken, present)
        for file in self._files:
            for index in file.blocks:
                self._blocks[index] = replace_block(self._blocks[index], file=file.path)

    def numbered(self, last_block: int) -> list[Block]:
        """The blocks as a log entry names them, numbered on from a table's last block."""
        return [
            replace_block(block, number=last_block + n)
            for n, block in enumerate(self._blocks, start=1)
        ]

    def withdraw(self) -> None:
        """Delete what was published, when it is certain that no log entry names it."""
        for file in self._files:
            if file.path:
                self._store.delete(self._table.data(file.path))
                file.path = ""

    def discard(self) -> None:
        """Drop the staged copies. Never touches a published file."""
        for file in self._files:
            file.staged.discard()

    def _publish(self, file: _File, taken: Container[str], present: Sequence[Block]) -> str:
        first, last = self._blocks[file.blocks[0]].first, self._blocks[file.blocks[-1]].last
        # Names taken by this update's own files are known; others' are found by trying.
        return publish_file(
            self._store,
            file.staged,
            self._table,
            file.schema_hash,
            first,
            last,
            self._next_attempt,
            taken,
            present,
        )


def publish_file(
    store: Store,
    staged: Staged,
    table: TableName,
    schema_hash: str,
    first: str,
    last: str,
    next_attempt: dict[str, int] | None = None,
    taken: Container[str] = (),
    present: Sequence[Block] = (),
) -> str:
    """Make a staged file durable under the first name for it that nobody has taken.

    Args:
        store: The lake's store.
        staged: The file.
        table: Whose.
        schema_hash: Its folder.
        first: ``time_extracted`` of its first record.
        last: The same of its last.
        next_attempt: Attempts to begin with, by name, where some are known to be taken.
        taken: Paths that must not be used whatever lies there.
        present: The table's blocks, as far as they are known.

    Returns:
        Its path within the table.

    Raises:
        StoreError: The store refused.
    """
    known = next_attempt if next_attempt is not None else {}
    base = f"{schema_hash}/{table.file_base(_compact(first), _compact(last))}"
    attempt = known.get(base, 1)
    occupied: set[int] = set()
    while True:
        if not store.keeps_conditions:
            attempt = random.SystemRandom().randrange(MAX_DRAWN // 2, MAX_DRAWN)
        path = names.file_name(base, attempt)
        attempt += 1
        if path in taken or attempt - 1 in occupied:
            continue
        try:
            staged.publish(table.data(path))
        except KeyExistsError:
            if base not in known:
                # Not all one by one on the store: a source may give all records one time.
                occupied = names.attempts(base, {block.file for block in present})
                known[base] = attempt
            continue
        known[base] = attempt
        return path


def replace_block(block: Block, **changes: int | str) -> Block:
    """A block's description with some fields changed."""
    return msgspec.structs.replace(block, **changes)


def _compact(iso: str) -> str:
    instant = times.parse(iso)
    return times.compact(instant or times.now())
