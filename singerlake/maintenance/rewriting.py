"""Writing the rows that stay anew: several blocks become one, and lines keep their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.errors import DamagedError
from singerlake.format import block as format_block
from singerlake.format import rewritten
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.maintenance.drop_history import Rewrite
from singerlake.records.blocks import bounded_keys, positions
from singerlake.records.blocks.decoding import message_type
from singerlake.records.rows.steps import Batches
from singerlake.records.state.newest_rows import gathered
from singerlake.storage.base import Store
from singerlake.transactions.blocks import inflate, members, proved_in
from singerlake.transactions.staging import publish_blocks, replace_block

WRITTEN = "number long, block binary"
"""What :class:`Rewriter` gives: a description a block."""
_WORK = msgspec.msgpack.Decoder(list[Rewrite])
_NONE = np.empty(0, dtype=np.int64)


@dataclass
class Rewriter:
    """Writes new blocks, of the rows that are sent to each task, with what it is to write.

    Attributes:
        store: The lake's store.
        table: Whose rows.
        file_bytes: Compressed size of a file.
    """

    store: Store
    table: TableName
    file_bytes: int

    def __call__(self, batches: Batches) -> Batches:
        """Write the tasks that come in; files are durable when their descriptions come out."""
        kept, known = gathered(batches)
        for number, work in known.items():
            yield self._write(_WORK.decode(work), np.unique(kept.pop(number, _NONE)))

    def _write(self, rewrites: list[Rewrite], kept: NDArray[np.int64]) -> pa.RecordBatch:
        made = (
            (rewrite.sources[-1].schema_hash, *self._block(rewrite, kept)) for rewrite in rewrites
        )
        written = publish_blocks(self.store, self.table, made, self.file_bytes)
        return described(
            replace_block(block, number=rewrite.number)
            for rewrite, block in zip(rewrites, written, strict=True)
        )

    def _block(self, rewrite: Rewrite, kept: NDArray[np.int64]) -> tuple[bytes, Block]:
        parts: list[bytes] = []
        stamps: list[int] = []
        written, rows, schema_line, proved = 0, 0, b"", True
        first = last = ""
        for source, member in members(self.store, self.table, rewrite.sources):
            where = f"block {source.number} of {self.table}"
            low = source.lowest_version
            ends = [positions.code(low, 0), positions.code(source.number + 1, 0)]
            begin, end = np.searchsorted(kept, ends)
            mine = kept[begin:end]
            text = inflate(self.table, source, member)
            written = format_block.header(member, where).written
            origin = format_block.origin(member, where)
            proved = proved and proved_in(source, member)
            stamps += [*(origin.replaced if origin is not None else ()), written]
            schema_line = format_block.lines(text)[0]
            parts += _kept_lines(text, source, mine, rewrite.activations)
            rows += len(mine)
            first = first or source.first
            last = source.last or last
        if rows != rewrite.rows:
            raise DamagedError(
                f"block {rewrite.number} of {self.table} would hold {rows} rows, "
                f"and {rewrite.rows} were to be kept"
            )
        text = b"".join((schema_line, *parts))
        made_of = format_block.Origin(rewrite.number, tuple(stamps[-format_block.MAX_REPLACED :]))
        bounds = bounded_keys.of_block(text)
        # Sources are of one schema, and lines keep their values.
        types = rewrite.sources[-1].schema_hash if proved else ""
        data = format_block.encode(text, rows, written, made_of, bounds, types)
        block = Block(
            number=rewrite.number,
            file="",
            offset=0,
            length=len(data),
            rows=rows,
            bytes=len(text),
            first=first,
            last=last,
            activations=rewrite.activations,
            first_version=rewrite.first_version,
        )
        return data, block


def _kept_lines(
    text: bytes, source: Block, kept: NDArray[np.int64], activations: list[tuple[int, int]]
) -> Iterator[bytes]:
    """The lines of a block that are kept, in order, with where they came from."""
    wanted = set(
        zip(positions.blocks_of(kept).tolist(), positions.ordinals_of(kept).tolist(), strict=True)
    )
    places = iter(rewritten.positions(text, source))
    # Only the last source can have activations that are kept, and of these the later ones.
    dropped = len(source.activations) - len(activations) if source.activations else 0
    for line in format_block.lines(text)[1].split(b"\n")[:-1]:
        if source.activations and message_type(line) == "ACTIVATE_VERSION":
            if dropped > 0:
                dropped -= 1
            elif activations:
                yield line + b"\n"
            continue
        place = next(places)
        if place in wanted:
            yield rewritten.with_position(line, *place) + b"\n"


def described(written: Iterable[Block]) -> pa.RecordBatch:
    """Return what was written, a description a block."""
    blocks = [*written]
    return pa.RecordBatch.from_pydict(
        {
            "number": pa.array([block.number for block in blocks], pa.int64()),
            "block": [msgspec.json.encode(block) for block in blocks],
        }
    )


def encode(rewrites: list[Rewrite]) -> bytes:
    """Encode what a task must know."""
    return msgspec.msgpack.encode(rewrites)
