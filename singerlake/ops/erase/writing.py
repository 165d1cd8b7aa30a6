"""Writing files again without erased lines; all other lines keep their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import pyarrow as pa

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format import rewritten
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.log.blocks import inflate, members, proved_in
from singerlake.log.staging import publish_blocks, replace_block
from singerlake.ops.erase.lines import ErasedLines, unpack
from singerlake.ops.erase.plan import Rewriting
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import block_tasks, bounded_keys, positions
from singerlake.rows.blocks.decoding import message_type
from singerlake.storage.base import Store

WRITE_BYTES = 128 << 20
"""Inflated bytes that one task writes again, about."""
WRITTEN = "block binary"
"""What :class:`Eraser` gives: a description of each block."""
_Work: TypeAlias = "list[tuple[Rewriting, bytes]]"
_WORK = msgspec.msgpack.Decoder(list[tuple[Rewriting, bytes]])


@dataclass
class Eraser:
    """Writes blocks again. Sent to the executors by value: the store goes with it.

    Attributes:
        store: The lake's store.
        table: Whose rows.
        file_bytes: Compressed size of a file.
    """

    store: Store
    table: TableName
    file_bytes: int

    def __call__(self, tasks: Batches) -> Batches:
        """Write the tasks that come in; files are durable when their descriptions come out."""
        for _, work in block_tasks.given(tasks):
            yield self._write(_WORK.decode(work or b""))

    def _write(self, work: _Work) -> pa.RecordBatch:
        written = publish_blocks(self.store, self.table, self._made(work), self.file_bytes)
        described = [
            msgspec.json.encode(replace_block(block, number=one.block.number))
            for (one, _), block in zip(work, written, strict=True)
        ]
        return pa.RecordBatch.from_arrays([pa.array(described, pa.binary())], ["block"])

    def _made(self, work: _Work) -> Iterator[tuple[str, bytes, Block]]:
        blocks = [one.block for one, _ in work]
        for (one, gone), (block, member) in zip(
            work, members(self.store, self.table, blocks), strict=True
        ):
            text = inflate(self.table, block, member)  # checks what is only copied, too
            data = member
            if one.erased:
                data, block = self._less(block, member, text, gone)  # noqa: PLW2901
            yield block.schema_hash, data, block

    def _less(self, block: Block, member: bytes, text: bytes, gone: bytes) -> tuple[bytes, Block]:
        """A block without some lines."""
        where = f"block {block.number} of {self.table}"
        going = {*unpack(gone).tolist()}
        schema_line, rest = format_block.lines(text)
        kept = [schema_line]
        places = iter(rewritten.positions(text, block))
        rows = 0
        for line in rest.split(b"\n")[:-1]:
            if block.activations and message_type(line) == "ACTIVATE_VERSION":
                kept.append(line + b"\n")
                continue
            if positions.code(*(place := next(places))) not in going:
                kept.append(rewritten.with_position(line, *place) + b"\n")
                rows += 1
        if rows + len(going) != block.rows:
            raise DamagedError(
                f"{where} would have {rows} rows without the {len(going)} that are erased, and has "
                f"{block.rows}; check for damage with: singerlake verify {self.table}"
            )
        left = b"".join(kept)
        written = format_block.header(member, where).written
        origin = format_block.origin(member, where)
        stamps = (*(origin.replaced if origin is not None else ()), written)
        made_of = format_block.Origin(block.number, stamps[-format_block.MAX_REPLACED :])
        # Anew: what the old block says of its keys may be the very one that goes.
        bounds = bounded_keys.of_block(left)
        proved = block.schema_hash if proved_in(block, member) else ""
        data = format_block.encode(left, rows, written, made_of, bounds, proved)
        return data, Block(
            number=block.number,
            file=block.file,
            offset=0,
            length=len(data),
            rows=rows,
            bytes=len(left),
            first=block.first if rows else "",
            last=block.last if rows else "",
            activations=block.activations,
            first_version=block.lowest_version,
        )


def encode(rewritings: list[Rewriting], gone: ErasedLines) -> bytes:
    """Encode what a task must know: its blocks, and which of their lines go."""
    return msgspec.msgpack.encode([(one, gone.of_block(one.block)) for one in rewritings])


def tasks_of(files: list[list[Rewriting]]) -> list[list[Rewriting]]:
    """Share files out to tasks: a file's blocks stay together, and small ones share a task."""
    tasks: dict[str, list[list[Rewriting]]] = {}
    filled: dict[str, int] = {}
    for file in files:
        folder = file[0].block.schema_hash
        some = tasks.setdefault(folder, [])
        if not some or filled[folder] >= WRITE_BYTES:
            some.append([])
            filled[folder] = 0
        some[-1] += file
        filled[folder] += sum(one.block.bytes for one in file)
    return [task for some in tasks.values() for task in some]
