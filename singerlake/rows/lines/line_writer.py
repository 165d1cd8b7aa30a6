"""Lines of older blocks, written again as new blocks; by Spark, on the executors.

A row that a revert puts back is the line that was there: the same bytes under the same schema
line, in a block of the folder of the schema it was written under. So no value changes by
being written again, whatever the table's schema says today.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from singerlake.errors import ViolationsError
from singerlake.format import block as format_block
from singerlake.format import messages, rewritten, times
from singerlake.format.log import Block, SchemaEntry, decode_block
from singerlake.format.names import TableName
from singerlake.log.blocks import read_block
from singerlake.log.staging import publish_blocks
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks
from singerlake.rows.blocks.block_tasks import MARK
from singerlake.rows.blocks.decoding import record_lines
from singerlake.rows.blocks.positions import block_holding
from singerlake.rows.lines.members import patched
from singerlake.rows.lines.pile import Pile
from singerlake.rows.lines.written_defaults import DefaultsWritten
from singerlake.storage.base import Store

ACTIONS = "task int, block long, row int, deleted boolean, work binary"
"""What a part must hold: rows by position, in order within a task, and whether each
is to be deleted."""
WRITTEN = "first_block long, first_row int, rows long, deleted long, block binary"
"""What comes back for each block: where its first row came from, how many of its rows are
deletions, and its description."""


class _Record(msgspec.Struct):
    record: dict[str, msgspec.Raw]


_RECORD = msgspec.json.Decoder(_Record)
NULL = msgspec.Raw(b"null")


class Described(Protocol):
    """A row of :data:`WRITTEN`, of Spark's or a dictionary."""

    def __getitem__(self, name: str, /) -> Any:
        """Return one of its values."""


def lines_by_position(text: bytes, block: Block) -> dict[tuple[int, int], bytes]:
    """Return a block's RECORD lines by the position of their rows."""
    lines = (line[:-1] for line in record_lines(text, block))
    return dict(zip(rewritten.positions(text, block), lines, strict=True))


def cannot_delete(table: object, block: int, row: int, name: str) -> ViolationsError:
    """Return the error of a row without a value of a part of its key, which is to be deleted.

    Args:
        table: The table.
        block: The row's block.
        row: Its place among the block's records.
        name: The member of its record.
    """
    return ViolationsError(
        f"row {block}:{row} of {table} has no value of {name!r}, which is part of its key, so no "
        "deletion can reach it; nothing was changed. Give the table a key that every row has: "
        f"singerlake alter {table} set-key COLUMN"
    )


@dataclass
class LineWriter:
    """Writes rows again. Sent to the executors by value: the store goes with it.

    Attributes:
        store: The lake's store.
        table: Whose rows.
        blocks: The blocks that rows come from, in order of number; where there are several
            tasks, each gets its own with its mark.
        version: The Singer version to write rows under; None leaves them as they are.
        stamp: The time at which deleted rows were deleted.
        block_rows: Rows in a block.
        file_bytes: Compressed size of a file.
        deletions: By the hash of a row's schema, the hash and the SCHEMA line to delete the row
            under, where these are not its own.
        defaults: By the hash of a row's schema, what its line must say of columns that people
            added, where a new block would tell otherwise.
        key: The members of records without which no line deletes a row.
    """

    store: Store
    table: TableName
    blocks: Sequence[Block]
    version: int | None
    stamp: str
    block_rows: int
    file_bytes: int
    deletions: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    defaults: Mapping[str, DefaultsWritten] = field(default_factory=dict)
    key: Sequence[str] = ()

    def __call__(self, actions: Batches) -> Batches:
        """Write a partition's rows; its files are durable when the descriptions come out."""
        origins: list[tuple[int, int, int]] = []

        def made() -> Iterator[tuple[str, bytes, Block]]:
            for pile, schema_hash in self._piles(actions):
                origins.append((*pile.origin, pile.deleted))
                yield schema_hash, *pile.block()

        written = publish_blocks(self.store, self.table, made(), self.file_bytes)
        if written:
            yield pa.RecordBatch.from_pydict(
                {
                    "first_block": [origin[0] for origin in origins],
                    "first_row": pa.array([origin[1] for origin in origins], pa.int32()),
                    "rows": [block.rows for block in written],
                    "deleted": [origin[2] for origin in origins],
                    "block": [msgspec.json.encode(block) for block in written],
                }
            )

    def _piles(self, actions: Batches) -> Iterator[tuple[Pile, str]]:
        piles: dict[str, Pile] = {}
        blocks = self.blocks
        number, lines, schema_line = 0, {}, b""
        for version, row, deleted, work in _actions(actions):
            if row == MARK:
                blocks = block_tasks.decode(work)
                continue
            block = block_holding(blocks, version)
            if block.number != number:
                text = read_block(self.store, self.table, block)
                number, lines = block.number, lines_by_position(text, block)
                schema_line = format_block.lines(text)[0]
            line, own = lines[version, row], (block.schema_hash, schema_line)
            if deleted:
                self._check_key(line, version, row)
            under, head, line = self._under(line, version, own, deleted=deleted)
            pile = piles.get(under)
            if pile is not None and pile.schema_line != head:
                yield piles.pop(under), under
                pile = None
            if pile is None:
                pile = Pile(head, origin=(version, row))
                piles[under] = pile
            self._add(pile, line, deleted=deleted)
            if pile.full(self.block_rows):
                yield piles.pop(under), under
        for schema_hash, pile in piles.items():
            yield pile, schema_hash

    def _under(
        self, line: bytes, version: int, own: tuple[str, bytes], *, deleted: bool
    ) -> tuple[str, bytes, bytes]:
        """Find the schema that a row is written under, and what its line says then."""
        if deleted:
            return *self.deletions.get(own[0], own), line
        defaults = self.defaults.get(own[0])
        if defaults is not None and (said := defaults.members(version)):
            return defaults.hash, defaults.schema_line, patched(line, said)
        return *own, line

    def _check_key(self, line: bytes, version: int, row: int) -> None:
        """Refuse to delete a row of which a line with its key says nothing."""
        record = _RECORD.decode(line).record
        for name in self.key:
            if record.get(name, NULL) == NULL:
                raise cannot_delete(self.table, version, row, name)

    def _add(self, pile: Pile, line: bytes, *, deleted: bool) -> None:
        if deleted:
            line = messages.as_deletion(line, self.stamp)
            pile.deleted += 1
        elif self.version is not None:
            line = messages.with_version(line, self.version)
        pile.add(line)


def _actions(batches: Batches) -> Iterator[tuple[int, int, bool, bytes]]:
    """The rows of :data:`ACTIONS` without their tasks."""
    for batch in batches:
        columns = (batch.column(name) for name in ("block", "row", "deleted", "work"))
        yield from zip(*(column.to_pylist() for column in columns), strict=True)


def publish_activation(
    store: Store, table: TableName, schema_hash: str, schema: SchemaEntry, version: int
) -> list[Block]:
    """Write a block of ACTIVATE_VERSION lines alone, behind which a version's rows come.

    Args:
        store: The lake's store.
        table: The table.
        schema_hash: The schema that the block is under.
        schema: That schema.
        version: The version; the one before is activated too. Then all rows before both are gone,
            whatever their version.
    """
    versions = [version - 1, version]
    lines = (messages.activate_version_line(table.stream, one) for one in versions)
    text = b"".join((messages.schema_line(table.stream, schema), *lines))
    data = format_block.encode(text, 0, times.micros(times.now()))
    activations = [(0, one) for one in versions]
    block = Block(0, "", 0, len(data), 0, len(text), activations=activations)
    return publish_blocks(store, table, [(schema_hash, data, block)])


def in_order(rows: Iterable[Described], last: str) -> list[Block]:
    """Read descriptions of blocks, in the order in which the table has them.

    Args:
        rows: As writers describe what they wrote; those that describe no block are left out.
        last: The schema in effect: blocks under it come last, so that a reader of the stream ends
            with it.
    """
    found = [
        (row["first_block"], row["first_row"], decode_block(row["block"]))
        for row in rows
        if row["block"]
    ]
    found.sort(key=lambda one: (one[2].schema_hash == last, one[:2], one[2].offset))
    return [block for *_, block in found]
