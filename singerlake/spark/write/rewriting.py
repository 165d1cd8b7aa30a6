"""Writing kept rows anew, on the executors: several blocks become one, lines keep their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

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
from singerlake.records.blocks import bounded_keys
from singerlake.records.blocks.block_tasks import MARK
from singerlake.records.blocks.decoding import message_type
from singerlake.records.rows.steps import Batches
from singerlake.storage.base import Store
from singerlake.transactions.blocks import inflate, members, proved_in
from singerlake.transactions.staging import publish_blocks, replace_block

KEPT = "task int, block long, row int, work binary"
"""What a partition must hold, as ``routing.route`` brings it: positions of kept rows by task."""
WRITTEN = "number long, block binary"

_WORK = msgspec.msgpack.Decoder(list[Rewrite])

Positions: TypeAlias = NDArray[np.int64]
"""Rows of two numbers: the block that a row came in, and its ordinal there."""


@dataclass
class Rewriter:
    """Writes new blocks. Sent to the executors by value: the store goes with it.

    Attributes:
        store: The lake's store.
        table: Whose rows.
        file_bytes: Compressed size of a file.
    """

    store: Store
    table: TableName
    file_bytes: int

    def __call__(self, kept: Batches) -> Batches:
        """Write the tasks that come in; files are durable when their descriptions come out."""
        for work, positions in by_task(kept):
            yield self._write(_WORK.decode(work), positions)

    def _write(self, rewrites: list[Rewrite], positions: Positions) -> pa.RecordBatch:
        made = (
            (rewrite.sources[-1].schema_hash, *self._block(rewrite, positions))
            for rewrite in rewrites
        )
        written = publish_blocks(self.store, self.table, made, self.file_bytes)
        return described(
            replace_block(block, number=rewrite.number)
            for rewrite, block in zip(rewrites, written, strict=True)
        )

    def _block(self, rewrite: Rewrite, positions: Positions) -> tuple[bytes, Block]:
        parts: list[bytes] = []
        stamps: list[int] = []
        written, rows, schema_line, proved = 0, 0, b"", True
        first = last = ""
        for source, member in members(self.store, self.table, rewrite.sources):
            where = f"block {source.number} of {self.table}"
            low = source.first_version or source.number
            begin, end = np.searchsorted(positions[:, 0], [low, source.number + 1])
            mine = positions[begin:end]
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
    text: bytes, source: Block, kept: Positions, activations: list[tuple[int, int]]
) -> Iterator[bytes]:
    """The lines of a block that are kept, in order, with where they came from."""
    wanted = {(int(block), int(row)) for block, row in kept}
    positions = iter(rewritten.positions(text, source))
    # Only the last source can have activations that are kept, and of these the later ones.
    dropped = len(source.activations) - len(activations) if source.activations else 0
    for line in format_block.lines(text)[1].split(b"\n")[:-1]:
        if source.activations and message_type(line) == "ACTIVATE_VERSION":
            if dropped > 0:
                dropped -= 1
            elif activations:
                yield line + b"\n"
            continue
        position = next(positions)
        if position in wanted:
            yield rewritten.with_position(line, *position) + b"\n"


def described(written: Iterable[Block]) -> pa.RecordBatch:
    """Return what was written, for the driver: a description a block."""
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


def by_task(batches: Batches) -> Iterator[tuple[bytes, Positions]]:
    """Give what each task must know, and its positions in order; see ``routing.route``."""
    present = -1
    work = b""
    gathered: list[Positions] = []
    for batch in batches:
        tasks = batch.column("task").to_numpy()
        rows = np.stack([batch.column("block").to_numpy(), batch.column("row").to_numpy()], axis=1)
        cuts = np.flatnonzero(np.diff(tasks)) + 1
        for begin, end in zip([0, *cuts], [*cuts, len(tasks)], strict=True):
            if begin == end:
                continue
            if tasks[begin] != present:
                if gathered:
                    yield work, _positions(gathered)
                present, gathered = int(tasks[begin]), []
                work = batch.column("work")[begin].as_py()
            gathered.append(rows[begin:end].astype(np.int64))
    if gathered:
        yield work, _positions(gathered)


def _positions(gathered: list[Positions]) -> Positions:
    rows: Positions = np.concatenate(gathered)
    kept: Positions = rows[rows[:, 1] != MARK]
    return kept
