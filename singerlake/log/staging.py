"""Blocks on their way into a table: gathered in files that nobody sees until the commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Protocol

import msgspec

from singerlake.errors import StoreError
from singerlake.format import block as format_block
from singerlake.format import content
from singerlake.format.content import Place
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.names import FileNamer, TableName
from singerlake.log import file_lists
from singerlake.storage.base import KeyExistsError, KeyMissingError, Staged, Store
from singerlake.storage.together import Together

if TYPE_CHECKING:
    from tempfile import SpooledTemporaryFile

FILE_BYTES = 128 * 1024 * 1024
"""Compressed size at which a file is closed and the next begun, unless a setting differs."""

NAMES_TRIED = 3
_PIECE = 4 * 1024 * 1024
_IN_MEMORY = 1 << 20
"""Bytes of lists that a transaction keeps in memory: those of some 20,000 files."""


@dataclass
class _File:
    staged: Staged
    schema_hash: str
    blocks: list[int] = field(default_factory=list)
    path: str = ""


class _Kept:
    """Small texts by number, in a temporary file once they are many.

    One list of files has some 45 bytes for each; a transaction may name a million.
    """

    def __init__(self) -> None:
        self._file: SpooledTemporaryFile[bytes] | None = None
        self._where: dict[int, tuple[int, int]] = {}
        self._size = 0

    def __iter__(self) -> Iterator[int]:
        return iter(self._where)

    def __getitem__(self, number: int) -> bytes:
        offset, length = self._where[number]
        with self._opened() as file:
            file.seek(offset)
            return file.read(length)

    def keep(self, number: int, data: bytes) -> None:
        with self._opened() as file:
            # Not to the file's end: a write that failed half-way may be repeated.
            file.seek(self._size)
            file.write(data)
        self._where[number] = self._size, len(data)
        self._size += len(data)

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()

    @contextmanager
    def _opened(self) -> Iterator[SpooledTemporaryFile[bytes]]:
        import tempfile  # late: few tables have lists

        try:
            if self._file is None:
                self._file = tempfile.SpooledTemporaryFile(  # noqa: SIM115
                    _IN_MEMORY, prefix="singerlake-"
                )
            yield self._file
        except OSError as error:
            raise StoreError(
                f"cannot keep lists of files in {tempfile.gettempdir()}: {error.strerror}: check "
                "that folder and its free space, or set TMPDIR to another"
            ) from error


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
        self._places: dict[str, Place | None] = {}
        self._lists = _Kept()
        self._listed: set[int] = set()
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
        if (place := self._place(schema_hash, data)) is not None:
            text = format_block.decode(data, block.bytes, "a new block")
            if named := content.named_in(text, place):
                listed, spelled = content.encode_list(named)
                self._lists.keep(len(self._blocks), spelled)
                block = msgspec.structs.replace(block, files=listed)
        self._blocks.append(replace_block(block, offset=offset, length=len(data), crc=crc))

    def members(self) -> Iterator[tuple[str, Block, bytes]]:
        """Read back what was staged: each block with its schema, in order."""
        where = {index: file for file in self._files for index in file.blocks}
        with ExitStack() as stack:
            readers: dict[int, BinaryIO] = {}
            for index, block in enumerate(self._blocks):
                file = where[index]
                if id(file) not in readers:
                    readers[id(file)] = stack.enter_context(file.staged.reader())
                readers[id(file)].seek(block.offset)
                yield file.schema_hash, block, readers[id(file)].read(block.length)

    def replace(self, members: Iterable[tuple[str, Block, bytes]]) -> None:
        """Stage other blocks in the place of those that were; nothing may be published yet.

        Args:
            members: As :meth:`members` gives them, whose blocks they may be.
        """
        other = StagedTable(self._store, self._table, self._file_bytes)
        other.schemas, other.schema_hash = self.schemas, self.schema_hash
        try:
            for schema_hash, block, data in members:
                other.add(schema_hash, data, block)
        except BaseException:
            other.discard()
            raise
        self.discard()
        vars(self).update(vars(other))

    def _place(self, schema_hash: str, data: bytes) -> Place | None:
        """Where rows of a schema name files; of one that nobody has set, the block tells."""
        if schema_hash not in self._places:
            known = self.schemas.get(schema_hash)
            self._places[schema_hash] = (
                content.place_in_line(content.schema_line_of(data))
                if known is None
                else content.place_in(known.schema)
            )
        return self._places[schema_hash]

    def publish(self) -> None:
        """Make every file durable under a name of its own. Nothing is visible before the commit.

        Raises:
            StoreError: The store refused.
        """
        for file in self._files:
            if not file.path:
                file.path = self._publish(file)
        for file in self._files:
            for index in file.blocks:
                self._blocks[index] = replace_block(self._blocks[index], file=file.path)
        for index in self._lists:
            listed = self._blocks[index].files
            if listed is not None and index not in self._listed:
                file_lists.publish(self._store, self._table, listed, self._lists[index])
                self._listed.add(index)

    def numbered(self, last_block: int) -> list[Block]:
        """Return the blocks as a log entry names them, numbered on from a table's last block."""
        return [
            replace_block(block, number=last_block + n)
            for n, block in enumerate(self._blocks, start=1)
        ]

    def withdraw(self) -> None:
        """Delete what was published, when it is certain that no log entry names it.

        Only what this object has put there itself: a file whose publication had no certain end
        keeps its name to itself, and is left to a vacuum.
        """
        for file in self._files:
            if file.path:
                self._store.delete(self._table.data(file.path))
                file.path = ""
        for index in sorted(self._listed):
            for path in self._blocks[index].paths[1:]:
                self._store.delete(self._table.key(path))
            self._listed.discard(index)

    def discard(self) -> None:
        """Drop the staged copies. Never touches a published file."""
        for file in self._files:
            file.staged.discard()
        self._lists.discard()

    def _publish(self, file: _File) -> str:
        first, last = self._blocks[file.blocks[0]].first, self._blocks[file.blocks[-1]].last
        namer = FileNamer(self._table, file.schema_hash, first, last)
        return publish_file(self._store, file.staged, namer)


def publish_blocks(
    store: Store,
    table: TableName,
    blocks: Iterable[tuple[str, bytes, Block]],
    file_bytes: int = FILE_BYTES,
) -> list[Block]:
    """Write blocks to files of their own. Nothing is visible before a log entry names them.

    Args:
        store: The lake's store.
        table: The table.
        blocks: As for :meth:`StagedTable.add`.
        file_bytes: Roll to a new file at this compressed size.

    Returns:
        The blocks, durable, numbered from 1.

    Raises:
        StoreError: The store refused.
    """
    staged = StagedTable(store, table, file_bytes)
    try:
        for schema_hash, data, block in blocks:
            staged.add(schema_hash, data, block)
        staged.publish()
        return staged.numbered(0)
    finally:
        staged.discard()


class Namer(Protocol):
    """Names a file of a table."""

    @property
    def table(self) -> TableName:
        """The table."""
        ...

    def new_path(self) -> str:
        """Give a path within the table that nobody has had."""
        ...


def publish_file(
    store: Store, staged: Staged, namer: Namer, together: Together | None = None
) -> str:
    """Make a staged file durable under a new name.

    The name has never been another's, so whoever gets it from here may delete it again.

    Args:
        store: The lake's store.
        staged: The file.
        namer: Gives its names.
        together: What makes it durable later, with others; None where it is to be so at once.

    Returns:
        Its path within the table.

    Raises:
        StoreError: The store refused.
    """
    table = namer.table
    for _ in range(NAMES_TRIED):
        path = namer.new_path()
        try:
            if together is None:
                staged.publish(table.key(path))
            else:
                together.publish(staged, table.key(path))
        except KeyExistsError:
            # By ourselves, in a request whose reply was lost and that was made again.
            if not holds(store, table.key(path), staged):
                continue
        return path
    raise StoreError(
        f"the store reports that {NAMES_TRIED} new names in {table.folder} are all taken: check it "
        "with: singerlake doctor"
    )


def holds(store: Store, key: str, staged: Staged) -> bool:
    """Whether an object is byte for byte what was staged."""
    with staged.reader() as file:
        for offset in range(0, staged.size + 1, _PIECE):  # one byte more: it must end there
            try:
                stored = store.get_range(key, offset, _PIECE)
            except KeyMissingError:
                return False
            if stored != file.read(_PIECE):
                return False
    return True


def replace_block(block: Block, **changes: int | str) -> Block:
    """Return a block's description with some fields changed."""
    return msgspec.structs.replace(block, **changes)
