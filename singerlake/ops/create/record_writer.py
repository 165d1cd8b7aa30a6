"""Writes the rows of a new table as RECORD lines.

A row's record is its canonical text (``canonical_text.py``): the text that the fingerprint
hashes, so that what is written and what is proved later are the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from singerlake.format import block as format_block
from singerlake.format import messages, times
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.types import Columns
from singerlake.log.staging import publish_blocks
from singerlake.rows.batches.steps import Batches
from singerlake.rows.blocks import bounded_keys, type_prover
from singerlake.rows.columns import canonical_text, text_bytes
from singerlake.rows.columns.canonical_text import Around
from singerlake.storage.base import Store

WRITTEN = "part int, block binary"


@dataclass
class RecordWriter:
    """Writes rows as blocks. Sent to tasks by value: the store goes with it.

    Each part has a time of its own, one microsecond after the one before: its files' names are then
    its own, and nobody has to try for a free one.

    Attributes:
        columns: Its columns, in the order in which they come.
        schema_hash: That schema's hash.
        micros: ``time_extracted`` of the first part, since 1970.
        file_bytes: Compressed size of a file.
    """

    store: Store
    table: TableName
    columns: Columns
    schema: SchemaEntry
    schema_hash: str
    micros: int
    block_rows: int
    file_bytes: int

    def write(self, batches: Batches, part: int) -> Batches:
        """Write a part of some number; its files are durable when the descriptions come out."""
        stamp = times.iso(times.from_micros(self.micros + part))
        made = ((self.schema_hash, *one) for one in self._blocks(batches, stamp))
        written = publish_blocks(self.store, self.table, made, self.file_bytes)
        if written:
            yield pa.RecordBatch.from_pydict(
                {
                    "part": pa.array([part] * len(written), pa.int32()),
                    "block": [msgspec.json.encode(block) for block in written],
                }
            )

    def lines(self, batch: pa.RecordBatch, around: Around) -> pa.Array:
        """Return the lines of a batch's rows: the JSON of each, and what is put around it."""
        return canonical_text.row_texts(batch, self.columns, around)

    def _blocks(self, batches: Batches, stamp: str) -> Iterator[tuple[bytes, Block]]:
        before, after = messages.around_record(self.table.stream, stamp)
        around = before.decode(), after.decode()
        head = messages.schema_line(self.table.stream, self.schema)
        pieces: list[bytes | memoryview] = [head]
        rows = size = 0
        for batch in batches:
            lines = self.lines(batch, around)
            ends, written = text_bytes.ends(lines), text_bytes.written(lines)
            at = 0
            while at < len(lines):
                full = np.searchsorted(ends, ends[at] + format_block.BLOCK_BYTES - size)
                stop = min(at + self.block_rows - rows, int(full), len(lines))
                pieces.append(written[ends[at] - ends[0] : ends[stop] - ends[0]].data)
                rows, size, at = rows + stop - at, size + len(pieces[-1]), stop
                if rows >= self.block_rows or size >= format_block.BLOCK_BYTES:
                    yield self._block(pieces, rows, stamp)
                    pieces, rows, size = [head], 0, 0
        if rows:
            yield self._block(pieces, rows, stamp)

    def _block(
        self, pieces: Sequence[bytes | memoryview], rows: int, stamp: str
    ) -> tuple[bytes, Block]:
        size = sum(map(len, pieces))
        proved = type_prover.proved_by(bytes(pieces[0]), pieces[1:])
        bounds = bounded_keys.of_lines(pieces[1:], bounded_keys.members(self.schema))
        now = times.micros(times.now())
        data = format_block.encode_pieces(pieces, rows, now, bounds, proved)
        return data, Block(0, "", 0, len(data), rows, size, stamp, stamp)
