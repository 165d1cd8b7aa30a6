"""A table found by its files alone, for when the log and the manifest are lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from singerlake.errors import DamagedError, SingerlakeError
from singerlake.format import block as format_block
from singerlake.format import rewritten, times
from singerlake.format.log import Block, Entry, Operation, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.format.sealed import UNREADABLE
from singerlake.log import catalogue, files, log
from singerlake.log.blocks import fetch
from singerlake.log.commit import draft_entry, stamped
from singerlake.log.folding import fold
from singerlake.log.table_state import TableState
from singerlake.storage.base import Listed, Store

logger = logging.getLogger(__name__)


class _Line(msgspec.Struct, tag_field="type"):
    pass


class _SchemaLine(_Line, tag="SCHEMA"):
    stream: str
    schema: dict[str, object]
    key_properties: list[str] | None = None


class _RecordLine(_Line, tag="RECORD"):
    time_extracted: str | None = None
    row_version: int | None = None
    row_ordinal: int | None = None


class _ActivateLine(_Line, tag="ACTIVATE_VERSION"):
    version: int


_LINES = msgspec.json.Decoder(_SchemaLine | _RecordLine | _ActivateLine)


def read_files(store: Store, table: TableName) -> TableState | None:
    """Look through a table's files, for it has neither log nor manifest.

    A folder with a lock in it is no part of it: a writer makes files durable under its lock
    before it commits them, so such files may be of a transaction that never was. Where there
    are others as well, that is an error: the locked ones may be the table's too.

    Returns:
        One transaction, ``adopt``, of all blocks in the order they were written; None where
        there are no files but locked ones.

    Raises:
        DamagedError: A file is not made of blocks, or some lie beside a lock and some do not.
    """
    present = files.list_files(store, table)
    if not present.free:
        if present.locked and not catalogue.is_uncommitted(store, table, present):
            logger.warning("%s", files.left_aside(table, present, all_there_is=True))
        return None
    if present.locked:
        raise DamagedError(files.left_aside(table, present))
    entry = adopting_entry(store, table, present.free)
    if entry is None:
        return None
    logger.warning(
        "%s has neither log nor manifest, so it is read from its files, which may contain rows of "
        "writers that were killed before they committed; rebuild log and manifest with: "
        "singerlake rebuild %s",
        table,
        table,
    )
    return fold(TableState(table, from_log=False), [entry])


def is_table(store: Store, table: TableName) -> bool:
    """Say whether anything was ever committed of a table; a damaged one counts."""
    try:
        if log.read_snapshot(store, table) is not None:
            return True
    except SingerlakeError:
        return True
    return not catalogue.is_uncommitted(store, table, files.list_files(store, table))


def adopting_entry(
    store: Store,
    table: TableName,
    present: list[Listed],
    *,
    known: frozenset[tuple[str, int]] = frozenset(),
) -> Entry | None:
    """The transaction that takes a table's files in, ready to be committed as number 1.

    Args:
        store: The lake's store.
        table: The table.
        present: The files.
        known: Blocks that log entries still name, as file and offset; left out.

    Raises:
        DamagedError: A file is not made of blocks.
    """
    everything = [*_blocks_of_all(store, table, present)]
    schemas = {item.block.schema_hash: item.schema for item in everything}
    unnamed = [
        item
        for item in _without_replaced(everything)
        if (item.block.file, item.block.offset) not in known
    ]
    return _adopting(table, unnamed, schemas) if unnamed else None


def unnamed_entry(store: Store, snapshot: TableState, present: list[Listed]) -> Entry | None:
    """The transaction that takes in what nothing names, behind what is left of a log.

    Copies that a vacuum had begun to make of blocks which are named are left out.

    Args:
        store: The lake's store.
        snapshot: What is left.
        present: Files that it does not name.

    Raises:
        DamagedError: A file is not made of blocks; or a lost vacuum has put blocks together
            with later ones than any that is known, or has deleted what they replace: which rows
            these were cannot be told.
    """
    table = snapshot.table
    scanned = _without_replaced([*_blocks_of_all(store, table, present)])
    copied = _identities(store, snapshot, {item.identity[1:] for item in scanned})
    scanned = [item for item in scanned if item.identity not in copied]
    rewritten_since = [item.block.number for item in scanned if item.block.number]
    if rewritten_since and (
        max(rewritten_since) > snapshot.last_block or _lacks_files(store, snapshot)
    ):
        raise DamagedError(
            f"{table} has lost the end of its log, and blocks that a vacuum has compacted since: "
            "restore the log from a backup"
        )
    # What a vacuum has rewritten, of blocks that are all still where they were, adds nothing.
    scanned = [item for item in scanned if not item.block.number]
    if not scanned:
        return None
    schemas = {item.block.schema_hash: item.schema for item in scanned}
    new = {name: schema for name, schema in schemas.items() if name not in snapshot.schemas}
    entry = _adopting(table, scanned, new)
    blocks = [
        replace(block, number=snapshot.last_block + n) for n, block in enumerate(entry.blocks, 1)
    ]
    return replace(entry, number=snapshot.number + 1, blocks=blocks)


def _lacks_files(store: Store, snapshot: TableState) -> bool:
    """Whether a file is gone that a block lies in."""
    present = {item.key for item in store.list(snapshot.table.folder)}
    used = {snapshot.table.data(block.file) for block in snapshot.blocks}
    return not used <= present


def _identities(
    store: Store, snapshot: TableState, like: set[tuple[int, bytes]]
) -> set[tuple[int, int, bytes]]:
    """What tells known blocks apart, of those as long and with the trailer of some others."""
    identities: set[tuple[int, int, bytes]] = set()
    lengths = {length for length, _ in like}
    for block in snapshot.blocks:
        if block.length in lengths:
            data = fetch(store, snapshot.table, [block])
            head = format_block.header(data, block.file)
            identities.add((head.written, head.length, data[-format_block.TRAILER_BYTES :]))
    return identities


def _adopting(
    table: TableName, scanned: list[_ScannedBlock], schemas: dict[str, SchemaEntry]
) -> Entry:
    blocks: list[Block] = []
    number = 0
    for item in sorted(
        scanned, key=lambda item: (item.written, item.block.file, item.block.offset)
    ):
        # What a vacuum put together says where its rows were, so its number must stay above.
        number = max(number + 1, item.block.number)
        blocks.append(replace(item.block, number=number))
    draft = draft_entry(
        table,
        Operation.ADOPT,
        schema_hash=blocks[-1].schema_hash,
        schemas=schemas,
        blocks=blocks,
        last_block=number if number > len(blocks) else 0,
        floor=1 if number > len(blocks) else 0,  # a vacuum had dropped history
    )
    return stamped(draft, 1, "adopted")


@dataclass(frozen=True)
class _ScannedBlock:
    """A block in a file, as far as its own bytes tell.

    Attributes:
        written: When it was made.
        identity: What no two blocks have in common but copies of one.
        block: Its description; the number is 0 unless a vacuum put it together.
        schema: What its SCHEMA line says.
        replaced: When the blocks were made that it replaces.
    """

    written: int
    identity: tuple[int, int, bytes]
    block: Block
    schema: SchemaEntry
    replaced: tuple[int, ...]

    def replaces(self, other: _ScannedBlock) -> bool:
        """Whether this block was put together from the other one and perhaps more.

        One put together before says when the last of its own was made; the later one holds
        all that it held, and may hold fewer rows.
        """
        return {*other.replaced} <= {*self.replaced} and (
            (len(self.replaced), -self.block.rows) > (len(other.replaced), -other.block.rows)
        )


def _without_replaced(scanned: list[_ScannedBlock]) -> list[_ScannedBlock]:
    """Each block once: vacuums leave what they copied or replaced until its time is over."""
    by_replaced: dict[tuple[str, int], list[_ScannedBlock]] = {}
    for item in scanned:
        for written in item.replaced:
            by_replaced.setdefault((item.block.schema_hash, written), []).append(item)
    kept: dict[tuple[int, int, bytes], _ScannedBlock] = {}
    for item in scanned:
        others = by_replaced.get((item.block.schema_hash, item.written), [])
        if not any(other.replaces(item) for other in others):
            kept.setdefault(item.identity, item)
    return list(kept.values())


def _blocks_of_all(
    store: Store, table: TableName, present: list[Listed]
) -> Iterator[_ScannedBlock]:
    for listed in present:
        yield from _blocks_of(store, listed, listed.key[len(table.folder) :])


def _blocks_of(store: Store, listed: Listed, file: str) -> Iterator[_ScannedBlock]:
    offset = 0
    while offset < listed.size:
        where = f"{listed.key} at byte {offset}"
        head = format_block.header(
            store.get_range(listed.key, offset, format_block.HEADER_BYTES), where
        )
        if offset + head.length > listed.size:
            raise DamagedError(f"{where} is cut: the file ends early")
        data = store.get_range(listed.key, offset, head.length)
        size = format_block.inflated_size(data)
        if size > format_block.MAX_BLOCK_BYTES:
            raise DamagedError(f"{where} declares an uncompressed size of {size} bytes")
        text = format_block.decode(data, size, where)
        origin = format_block.origin(data, where)
        number = origin.number if origin is not None else 0
        crc = format_block.checksum(data)
        shell = Block(number, file, offset, head.length, head.rows, len(text), crc=crc)
        block, schema = _describe(text, where, shell, put_together=origin is not None)
        identity = (head.written, head.length, data[-format_block.TRAILER_BYTES :])
        yield _ScannedBlock(
            head.written, identity, block, schema, origin.replaced if origin else ()
        )
        offset += head.length


def _describe(
    text: bytes, where: str, shell: Block, *, put_together: bool
) -> tuple[Block, SchemaEntry]:
    """Fill in what the block's lines tell."""
    schema_line, rest = format_block.lines(text)
    try:
        schema = _LINES.decode(schema_line)
        lines = _LINES.decode_lines(rest)
    except UNREADABLE as error:
        raise DamagedError(f"{where} holds a line that is not a Singer message: {error}") from error
    if not isinstance(schema, _SchemaLine):
        raise DamagedError(f"{where} does not begin with a SCHEMA line")
    stamps: list[str | None] = []
    sequence: list[tuple[int, int] | int] = []
    for line in lines:
        if isinstance(line, _RecordLine):
            position = rewritten.position(line, shell.number, len(stamps), rewritten=put_together)
            sequence.append(position)
            stamps.append(line.time_extracted)
        elif isinstance(line, _ActivateLine):
            sequence.append(line.version)
    entry = SchemaEntry(dict(schema.schema), list(schema.key_properties or []))
    if schema_hash(entry.schema, entry.key_properties) != shell.schema_hash:
        raise DamagedError(f"{where} has a schema whose hash is not its folder's name")
    positions = [item for item in sequence if isinstance(item, tuple)]
    block = replace(
        shell,
        rows=len(stamps),
        first=_iso(stamps[0]) if stamps else "",
        last=_iso(stamps[-1]) if stamps else "",
        activations=[
            (least, version)
            for least, _, version in rewritten.activation_positions(sequence, shell.number)
        ],
        first_version=max(1, positions[0][0]) if put_together and positions else 0,
    )
    if block.rewritten:
        rewritten.check_positions(positions, block)
    return block, entry


def _iso(stamp: str | None) -> str:
    instant = times.parse(stamp) if stamp else None
    return times.iso(instant) if instant else ""
