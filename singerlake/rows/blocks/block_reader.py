"""Reads the rows of blocks on an executor, task by task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.format.overlaid import BlockColumns
from singerlake.format.types import EXACT_KEYS, Columns
from singerlake.log import blocks as stored
from singerlake.log.table_state import TableState
from singerlake.rows.batches.steps import BATCH_ROWS
from singerlake.rows.blocks import block_tasks, decoding
from singerlake.rows.blocks.asked_keys import AskedKeys, Sought, may_hold
from singerlake.rows.blocks.decoding import BlockSpec
from singerlake.rows.blocks.defaults import ColumnDefault, wanted_defaults
from singerlake.storage import side_by_side
from singerlake.storage.base import Store


class BlockText(NamedTuple):
    """A block that was read.

    Attributes:
        block: Its entry in the log.
        text: Its lines, inflated and checked.
        proved: Whether it says that its types are proved.
    """

    block: Block
    text: bytes
    proved: bool


@dataclass
class BlockReader:
    """Reads some columns of some blocks. Sent to executors by value: the store goes with it.

    Attributes:
        tasks: The blocks of each task, encoded: each task is sent all of them, and decodes
            its own. Empty where they are too many for that: a task is sent its own then.
        sources: What each schema that the blocks were written under has of the table's columns.
        target: The columns wanted.
        keys: Names of those by which rows are told apart.
        digests: Whether the records' digests are wanted.
        defaults: What rows have in columns that people added, by name.
        asked: Keys; blocks that are certain to hold none of them are passed over.
        lenient: As in a ``BlockSpec``.
    """

    store: Store
    table: TableName
    tasks: list[bytes]
    sources: dict[str, BlockColumns]
    target: Columns
    keys: frozenset[str]
    digests: bool = False
    defaults: Mapping[str, ColumnDefault] = field(default_factory=dict)
    asked: AskedKeys | None = None
    lenient: bool = False

    @property
    def apart(self) -> bool:
        """Whether a row with a null in its key is a row of its own: by the rules of the columns."""
        return all(source.rules >= EXACT_KEYS for source in self.sources.values())

    @classmethod
    def of(
        cls,
        store: Store,
        snapshot: TableState,
        blocks: list[list[Block]],
        target: Columns,
        keys: Iterable[str],
        *,
        digests: bool = False,
    ) -> BlockReader:
        """Make one for a table.

        Args:
            snapshot: Knows the schemas.
            blocks: Those of each task.
            target: The columns wanted.
            keys: Names of those by which rows are told apart.
            digests: Whether the records' digests are wanted.
        """
        hashes = {block.schema_hash for task in blocks for block in task}
        return cls(
            store=store,
            table=snapshot.table,
            tasks=[block_tasks.encode(task) for task in blocks],
            sources={name: snapshot.columns_of(name) for name in hashes},
            target=target,
            keys=frozenset(keys),
            digests=digests,
            defaults=wanted_defaults(snapshot, target),
        )

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tasks whose numbers come in."""
        for _, blocks in self.given(numbers):
            yield from combined(self.rows(blocks))

    def given(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[Block]]]:
        """Give the tasks whose numbers come in, each with its blocks."""
        for number, sent in block_tasks.given(numbers):
            yield number, self.task(number, sent)

    def task(self, number: int, sent: bytes | None = None) -> list[Block]:
        """Return the blocks of a task: those that it was sent, or else those that are known."""
        return block_tasks.decode(self.tasks[number] if sent is None else sent)

    def texts(self, blocks: Iterable[Block]) -> Iterator[BlockText]:
        """Give blocks with their lines.

        Those that are certain to hold no key that is asked for are left out.
        """
        for block, data in self._members(blocks):
            text = stored.inflate(self.table, block, data)
            yield BlockText(block, text, stored.proved_in(block, data))

    def _members(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, bytes]]:
        if self.asked is None:
            yield from stored.members(self.store, self.table, blocks)
            return
        sought = {
            name: self.asked.members(source, [*self.defaults])
            for name, source in self.sources.items()
        }
        holding = self._looked_at(self.asked.least, sought, blocks)
        for block, data in stored.members(self.store, self.table, holding):
            if may_hold(stored.bounds_in(block, data), sought[block.schema_hash]):
                yield block, data

    def _looked_at(
        self, least: int, sought: Mapping[str, Sought], blocks: Iterable[Block]
    ) -> Iterator[Block]:
        """Leave out large blocks that hold no key, by what their headers say."""

        def look(block: Block) -> Block | None:
            members = sought[block.schema_hash]
            if block.length < least or not members:
                return block
            bounds = stored.key_bounds(self.store, self.table, block)
            return block if may_hold(bounds, members) else None

        for found in side_by_side.in_order(self.store, look, blocks):
            if found is not None:
                yield found

    def spec(self, block: Block, *, proved: bool) -> BlockSpec:
        """Return what is needed to read a block besides its bytes.

        Args:
            proved: Whether it says that its types are proved.
        """
        source = self.sources[block.schema_hash]
        return BlockSpec(
            where=f"block {block.number} of {self.table}",
            block=block,
            source=source.columns,
            members=source.members,
            defaults=self.defaults,
            target=self.target,
            keys=self.keys,
            digests=self.digests,
            table=self.table,
            # What was proved are the types by rules 2, which are those of rules 3 but for keys.
            proved=proved and source.rules > 1,
            rules=source.rules,
            lenient=self.lenient,
        )

    def rows(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """Give all rows, block by block."""
        for block, text, proved in self.texts(blocks):
            yield decoding.read(text, self.spec(block, proved=proved))

    def some_rows(self, read: BlockText, picked: NDArray[np.int64]) -> pa.RecordBatch:
        """Read some rows of a block that is inflated already."""
        spec = self.spec(read.block, proved=read.proved)
        return decoding.read_some(read.text, spec, picked)


def combined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put small batches together: each one that crosses to Java has its price."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= BATCH_ROWS:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, count = [], 0
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
