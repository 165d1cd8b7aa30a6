"""A table found by its files alone, for when the log and the manifest are lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from singerlake import FORMAT
from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format import times
from singerlake.format.log import UNREADABLE, Block, Entry, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.storage.base import Listed, Store
from singerlake.transactions.commit import SOFTWARE
from singerlake.transactions.files import data_files
from singerlake.transactions.snapshot import Snapshot

logger = logging.getLogger(__name__)
MAX_BLOCK_BYTES = 1 << 31
"""No writer makes a block that inflates to more; a header that says so is forged."""


class _Line(msgspec.Struct, tag_field="type"):
    pass


class _SchemaLine(_Line, tag="SCHEMA"):
    stream: str
    schema: dict[str, object]
    key_properties: list[str] | None = None


class _RecordLine(_Line, tag="RECORD"):
    time_extracted: str | None = None


class _ActivateLine(_Line, tag="ACTIVATE_VERSION"):
    version: int


_LINES = msgspec.json.Decoder(_SchemaLine | _RecordLine | _ActivateLine)


def read_files(store: Store, table: TableName) -> Snapshot | None:
    """Look through a table's files.

    A schema folder with a lock in it is left out: a writer makes files durable under its
    lock before it commits them, so such files may be of a transaction that never was.

    Returns:
        One transaction, ``adopt``, of all blocks in the order they were written; None where
        there are no files.

    Raises:
        DamagedError: A file is not made of blocks.
    """
    entry = adopting_entry(store, table)
    if entry is None:
        return None
    logger.warning(
        "%s has neither log nor manifest: read from its files; make them again with: "
        "singerlake rebuild %s",
        table,
        table,
    )
    snapshot = Snapshot(table, from_log=False)
    return snapshot.applied([entry])


def adopting_entry(
    store: Store,
    table: TableName,
    *,
    known: frozenset[tuple[str, int]] = frozenset(),
    include_locked: bool = False,
) -> Entry | None:
    """The transaction that takes a table's files in, ready to be committed as number 1.

    Args:
        store: The lake's store.
        table: The table.
        known: Blocks that log entries still name, as file and offset; left out.
        include_locked: Whether to take in folders with a writer's lock in them too.

    Raises:
        DamagedError: A file is not made of blocks.
    """
    found: list[tuple[int, Block, SchemaEntry]] = []
    for listed in data_files(store, table, include_locked=include_locked):
        found.extend(_blocks_of(store, listed, listed.key[len(table.folder) :]))
    schemas = {block.schema_hash: schema for _, block, schema in found}
    found = [item for item in found if (item[1].file, item[1].offset) not in known]
    if not found:
        return None
    found.sort(key=lambda item: (item[0], item[1].file, item[1].offset))
    blocks = [
        msgspec.structs.replace(block, number=number)
        for number, (_, block, _) in enumerate(found, start=1)
    ]
    return Entry(
        format=FORMAT,
        number=1,
        commit="adopted",
        operation="adopt",
        stream=table.stream,
        time=times.iso(times.now()),
        software=SOFTWARE,
        schema_hash=blocks[-1].schema_hash,
        schemas=schemas,
        blocks=blocks,
    )


def _blocks_of(store: Store, listed: Listed, file: str) -> Iterator[tuple[int, Block, SchemaEntry]]:
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
        if size > MAX_BLOCK_BYTES:
            raise DamagedError(f"{where} says that it inflates to {size} bytes")
        text = format_block.decode(data, size, where)
        block, schema = _describe(text, where, file, offset, head)
        yield head.written, block, schema
        offset += head.length


def _describe(
    text: bytes, where: str, file: str, offset: int, head: format_block.Header
) -> tuple[Block, SchemaEntry]:
    schema_line, rest = format_block.lines(text)
    try:
        schema = _LINES.decode(schema_line)
        lines = _LINES.decode_lines(rest)
    except UNREADABLE as error:
        raise DamagedError(f"{where} holds a line that is no Singer message: {error}") from error
    if not isinstance(schema, _SchemaLine):
        raise DamagedError(f"{where} does not begin with a SCHEMA line")
    stamps: list[str | None] = []
    activations: list[tuple[int, int]] = []
    for line in lines:
        if isinstance(line, _RecordLine):
            stamps.append(line.time_extracted)
        elif isinstance(line, _ActivateLine):
            activations.append((len(stamps), line.version))
    entry = SchemaEntry(dict(schema.schema), list(schema.key_properties or []))
    if schema_hash(entry.schema, entry.key_properties) != file.partition("/")[0]:
        raise DamagedError(f"{where} has a schema of another hash than its folder's name")
    block = Block(
        number=0,
        file=file,
        offset=offset,
        length=head.length,
        rows=len(stamps),
        bytes=len(text),
        first=_iso(stamps[0]) if stamps else "",
        last=_iso(stamps[-1]) if stamps else "",
        activations=activations,
    )
    return block, entry


def _iso(stamp: str | None) -> str:
    instant = times.parse(stamp) if stamp else None
    return times.iso(instant) if instant else ""
