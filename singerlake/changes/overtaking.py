"""Whether others changed rows that a change is asked for, told from the keys alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from singerlake.changes.asked_rows import Asked
from singerlake.format.log import Block
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.records.blocks.block_reader import BlockReader
from singerlake.records.changes.asked_rows import SHARED, compared_keys, shared
from singerlake.records.rows import packing
from singerlake.records.rows.row_columns import BLOCK, aliases
from singerlake.records.rows.steps import Batches
from singerlake.records.state import keys
from singerlake.records.state.activations import Survival
from singerlake.records.state.shape import Shape
from singerlake.snapshot.from_blocks import planned
from singerlake.transactions.snapshot import Snapshot

_MET = "met boolean"


def are_changed(
    table: Table,
    present: Snapshot,
    since: Sequence[Block],
    after: int,
    wanted: Asked,
    survival: Survival,
) -> bool:
    """Tell whether blocks have rows of the keys that are asked for.

    That is also asked of rows that are as they should be.

    Args:
        table: The table, which has a key.
        present: As it is now.
        since: What others committed.
        after: The last block before: one that a vacuum put together may hold older rows too.
        wanted: What is asked.
        survival: What the activations leave of what there was before.
    """
    engine, columns = wanted.engine, wanted.spec.key_columns
    shape = Shape(columns, tuple(range(len(columns))), survival)
    plan = planned(engine, table, present, shape=shape, blocks=since)
    later = _LaterKeys(plan.reader, columns, after, wanted.parts)
    both = engine.union(wanted.packed, engine.map(engine.source(plan.sent), later, SHARED))
    parts = engine.exchange(both, wanted.parts, "part")
    return bool(engine.collect(engine.map(parts, _Met(columns, wanted.spec.join), _MET)))


@dataclass
class _LaterKeys:
    """Shares out the keys of blocks, deletions too.

    Attributes:
        reader: Reads the key's columns.
        columns: Those of the key.
        after: As for :func:`are_changed`.
        parts: Parts that keys are shared out to.
    """

    reader: BlockReader
    columns: Columns
    after: int
    parts: int

    def __call__(self, numbers: Batches) -> Batches:
        """Read the blocks of the tasks that come in."""
        for _, blocks in self.reader.given(numbers):
            for batch in self.reader.rows(blocks):
                later = pa.array(batch.column(BLOCK).to_numpy() > self.after)
                rows = pa.Table.from_batches([batch]).filter(later)
                own = compared_keys(rows, aliases(len(self.columns)), self.columns)
                yield from shared(own, keys.parts_of(own, self.parts), self.parts, present=True)


@dataclass
class _Met:
    """Gives a row for a part in which some key is asked for, and is there.

    Attributes:
        columns: Those of the key.
        names: What these are called in rows that are asked for.
    """

    columns: Columns
    names: Sequence[str]

    def __call__(self, batches: Batches) -> Batches:
        """Take all keys of some parts."""
        tables: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        for batch in batches:
            pairs = (batch.column(name).to_pylist() for name in ("present", "rows"))
            for present, data in zip(*pairs, strict=True):
                rows = packing.unpack(data)
                own = rows if present else compared_keys(rows, self.names, self.columns)
                tables[present].append(own)
        asked, there = tables
        if asked and there:
            codes = keys.numbered(pa.concat_tables([*asked, *there]))
            count = sum(map(len, asked))
            if len(np.intersect1d(codes[:count], codes[count:])):
                yield pa.RecordBatch.from_pydict({"met": [True]})
