"""Lines of older blocks, written again as new blocks, on the executors.

A row that a revert puts back is the line that was there: the same bytes under the same schema
line, in a block of the folder of the schema it was written under. So no value changes by
being written again, whatever the table's schema says today.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from singerlake.format import block as format_block
from singerlake.format import rewritten, times
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.names import TableName
from singerlake.spark.fold import decoded
from singerlake.spark.placing import MARK
from singerlake.spark.rows import kind_of, record_lines
from singerlake.storage.base import Store
from singerlake.transactions.blocks import read_block
from singerlake.transactions.staging import StagedTable

BLOCK_BYTES = 16 * 1024 * 1024
ACTIONS = "task int, block long, row int, gone boolean, work binary"
"""What a partition must hold, as ``placing.place`` brings it: rows by position, and whether each
is to be deleted."""
WRITTEN = "first_block long, first_row int, rows long, gone long, block binary"
"""What comes back for each block: where its first row came from, and its description."""


class _Envelope(msgspec.Struct):
    record: dict[str, msgspec.Raw]
    time_extracted: str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_activation(line: bytes) -> bool:
    """Whether a line of a block is an ACTIVATE_VERSION message rather than a RECORD."""
    return kind_of(line) == "ACTIVATE_VERSION"


def placed_lines(text: bytes, block: Block) -> dict[tuple[int, int], bytes]:
    """A block's RECORD lines by the position of their rows."""
    found = rewritten.positions(text, block)
    lines = (line[:-1] for line in record_lines(text, block))
    return dict(zip(found, lines, strict=True))


def block_of(blocks: list[Block], version: int) -> Block:
    """The block that rows of a version lie in: a vacuum may have put theirs into a later one."""
    return blocks[bisect_left(blocks, version, key=lambda block: block.number)]


def with_version(line: bytes, version: int) -> bytes:
    """A RECORD line under another Singer version; all else as it was."""
    members = _MEMBERS.decode(line)
    members["version"] = msgspec.Raw(str(version).encode("ascii"))
    return msgspec.json.encode(members)


def as_deletion(line: bytes, stamp: str) -> bytes:
    """A RECORD line that deletes the row it was; all else as it was."""
    members = _MEMBERS.decode(line)
    record = _ENVELOPE.decode(line).record
    mark = msgspec.Raw(f'"{stamp}"'.encode("ascii"))
    record["_sdc_deleted_at"] = mark
    members["record"] = msgspec.Raw(msgspec.json.encode(record))
    return msgspec.json.encode(members)


@dataclass
class _Pile:
    """Lines on their way into a block."""

    schema_line: bytes
    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    gone: int = 0
    origin: tuple[int, int] = (0, 0)


@dataclass
class LineWriter:
    """Writes rows again. Sent to the executors by value: the store goes with it.

    Attributes:
        store: The lake's store.
        table: Whose rows.
        blocks: The blocks that rows come from, in order of number; where there are several
            tasks, each is told its own by its mark.
        version: The Singer version to write rows under; None leaves them as they are.
        stamp: When deleted rows are said to have been deleted.
        block_rows: Rows in a block.
        file_bytes: Compressed size of a file.
        deletions: By the hash of a row's schema, the hash and the SCHEMA line to delete the row
            under, where these are not its own.
    """

    store: Store
    table: TableName
    blocks: list[Block]
    version: int | None
    stamp: str
    block_rows: int
    file_bytes: int
    deletions: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)

    def __call__(self, actions: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a partition's rows; its files are durable when the descriptions come out."""
        staged = StagedTable(self.store, self.table, self.file_bytes)
        origins: list[tuple[int, int, int]] = []
        try:
            for pile, schema_hash in self._piles(actions):
                staged.add(schema_hash, *self._block(pile))
                origins.append((*pile.origin, pile.gone))
            staged.publish()
            written = staged.numbered(0)
        finally:
            staged.discard()
        if written:
            yield pa.RecordBatch.from_pydict(
                {
                    "first_block": [origin[0] for origin in origins],
                    "first_row": pa.array([origin[1] for origin in origins], pa.int32()),
                    "rows": [block.rows for block in written],
                    "gone": [origin[2] for origin in origins],
                    "block": [msgspec.json.encode(block) for block in written],
                }
            )

    def _piles(self, actions: Iterator[pa.RecordBatch]) -> Iterator[tuple[_Pile, str]]:
        piles: dict[str, _Pile] = {}
        blocks = self.blocks
        number, lines, first_line = 0, {}, b""
        for batch in actions:
            rows = zip(*(column.to_pylist() for column in batch.columns[1:]), strict=True)
            for block_number, row, gone, work in rows:
                if row == MARK:
                    blocks = decoded(work)
                    continue
                block = block_of(blocks, block_number)
                if block.number != number:
                    text = read_block(self.store, self.table, block)
                    number, lines = block.number, placed_lines(text, block)
                    first_line = format_block.lines(text)[0]
                under, head = block.schema_hash, first_line
                if gone:
                    under, head = self.deletions.get(under, (under, head))
                pile = piles.get(under)
                if pile is not None and pile.schema_line != head:
                    yield piles.pop(under), under
                    pile = None
                if pile is None:
                    pile = _Pile(head, origin=(block_number, row))
                    piles[under] = pile
                self._pile_up(pile, lines[block_number, row], gone=gone)
                if len(pile.lines) >= self.block_rows or pile.size >= BLOCK_BYTES:
                    yield piles.pop(under), under
        for schema_hash, pile in piles.items():
            yield pile, schema_hash

    def _pile_up(self, pile: _Pile, line: bytes, *, gone: bool) -> None:
        if gone:
            line = as_deletion(line, self.stamp)
            pile.gone += 1
        elif self.version is not None:
            line = with_version(line, self.version)
        pile.lines.append(line + b"\n")
        pile.size += len(line) + 1

    def _block(self, pile: _Pile) -> tuple[bytes, Block]:
        text = b"".join((pile.schema_line, *pile.lines))
        rows = len(pile.lines)
        data = format_block.encode(text, rows, times.micros(times.now()))
        block = Block(
            number=0,
            file="",
            offset=0,
            length=len(data),
            rows=rows,
            bytes=len(text),
            first=_stamp(pile.lines[0]),
            last=_stamp(pile.lines[-1]),
        )
        return data, block


def schema_line(table: TableName, schema: SchemaEntry) -> bytes:
    """A SCHEMA line, with its newline."""
    message = {
        "type": "SCHEMA",
        "stream": table.stream,
        "schema": schema.schema,
        "key_properties": schema.key_properties,
    }
    return msgspec.json.encode(message) + b"\n"


def activation_block(
    table: TableName, schema: SchemaEntry, versions: list[int]
) -> tuple[bytes, Block]:
    """A block of ACTIVATE_VERSION lines alone."""
    messages = (
        {"type": "ACTIVATE_VERSION", "stream": table.stream, "version": version}
        for version in versions
    )
    lines = (msgspec.json.encode(message) + b"\n" for message in messages)
    text = b"".join((schema_line(table, schema), *lines))
    data = format_block.encode(text, 0, times.micros(times.now()))
    activations = [(0, version) for version in versions]
    return data, Block(0, "", 0, len(data), 0, len(text), activations=activations)


def _stamp(line: bytes) -> str:
    text = _ENVELOPE.decode(line).time_extracted
    instant = times.parse(text) if text else None
    return times.iso(instant or times.now())
