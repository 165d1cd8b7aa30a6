"""Checks a query's rows, and writes them as RECORD lines, on the executors.

A row's record is its canonical text (``canonical_text.py``): the text that the fingerprint
hashes, so that what is written and what is proved later are the same bytes. Values that a lake
cannot hold (NaN, a year past 9999, text that is no UTF-8) are refused by name, never turned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from singerlake.errors import InvalidQueryError
from singerlake.format import block as format_block
from singerlake.format import messages, times
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.types import Columns, Kind, Type
from singerlake.records.blocks import bounded_keys, type_prover
from singerlake.records.blocks.exact_decoding import DELETED_AT
from singerlake.records.columns import canonical_text, text_bytes
from singerlake.records.columns.arrow_types import DAYS, MICROS
from singerlake.records.columns.canonical_text import Around
from singerlake.records.rows.row_columns import alias
from singerlake.records.rows.steps import Batches
from singerlake.records.state.fingerprint import SUMMED, Proof, Sums
from singerlake.storage.base import Store
from singerlake.transactions.staging import publish_blocks

WRITTEN = "part int, block binary"
CHECKED = f"{SUMMED}, bytes long, nulls array<long>"


@dataclass
class RowChecker:
    """Looks at a query's rows on the executors: what they come down to, and that all may be.

    Attributes:
        columns: The new table's columns, in the order in which they come.
        keys: Indexes of the key columns.
    """

    columns: Columns
    keys: list[int]

    def __call__(self, batches: Batches) -> Batches:
        """Give one row a partition: the rows' sums, their bytes, and nulls of each key column."""
        sums = Sums((Proof.VALUES,))
        size = 0
        nulls = [0] * len(self.keys)
        for batch in batches:
            for index, (name, type_) in enumerate(self.columns):
                check_values(batch.column(alias(index)), name, type_)
            size += batch.nbytes
            sums.take(batch, self.columns)
            for n, index in enumerate(self.keys):
                nulls[n] += batch.column(alias(index)).null_count
        summed = sums.batch().append_column("bytes", pa.array([size], pa.int64()))
        yield summed.append_column("nulls", pa.array([nulls], pa.list_(pa.int64())))


def check_values(array: pa.Array, name: str, type_: Type) -> None:
    """Make sure that every value of a column can be written and read back the same.

    Raises:
        InvalidQueryError: One cannot; names the column.
    """
    if name == DELETED_AT and array.null_count < len(array):
        raise InvalidQueryError(
            f"column {name!r} marks deleted rows, which a table does not show: leave it out, or "
            "give it another name"
        )
    if (misfit := _misfit(array, type_)) is not None:
        raise InvalidQueryError(f"column {name!r} holds {misfit}, which a lake cannot keep")


def _misfit(array: pa.Array, type_: Type) -> str | None:
    if type_.kind is Kind.NUMBER:
        finite = pc.all(pc.is_finite(array)).as_py()
        return None if finite in (True, None) else "NaN or Infinity"
    if type_.kind is Kind.DATE:
        return _outside(pc.cast(array, pa.int32()), DAYS, "a date")
    if type_.kind is Kind.TIMESTAMP:
        return _outside(pc.cast(array, pa.int64()), MICROS, "a time")
    if type_.kind is Kind.STRING:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            return "text that is not UTF-8"
    inner = [(array.flatten(), type_.item)] if type_.item else []
    if type_.fields:
        members = [member for _, member in type_.fields]
        inner = list(zip(array.flatten(), members, strict=True))
    misfits = (_misfit(values, member) for values, member in inner)
    return next((misfit for misfit in misfits if misfit is not None), None)


def _outside(numbers: pa.Array, bounds: tuple[int, int], what: str) -> str | None:
    extremes = pc.min_max(numbers).as_py()
    if extremes["min"] is None or bounds[0] <= extremes["min"] <= extremes["max"] <= bounds[1]:
        return None
    return f"{what} outside the years 1 to 9999"


@dataclass
class RecordWriter:
    """Writes rows as blocks. Sent to the executors by value: the store goes with it.

    Each partition has a time of its own, one microsecond after the one before: its files' names
    are then its own, and nobody has to try for a free one.

    Attributes:
        store: The lake's store.
        table: The new table.
        columns: Its columns, in the order in which they come.
        schema: Its schema.
        schema_hash: That schema's hash.
        micros: ``time_extracted`` of the first partition, since 1970.
        block_rows: Rows in a block.
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

    def __call__(self, batches: Batches) -> Batches:
        """Write a partition; its files are durable when the descriptions come out."""
        part = part_number()
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


def part_number() -> int:
    """Return the number of the partition that this executor works on."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("rows are written by Spark's tasks only")
    return context.partitionId()
