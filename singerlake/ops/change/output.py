"""The output of a change: blocks by the engine's tasks, then the one log entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from singerlake.engine.base import Engine
from singerlake.format import messages, times
from singerlake.format.block import MAX_ROWS
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.overlaid import block_columns
from singerlake.format.written import written_under
from singerlake.log.commit import new_writer_id
from singerlake.log.deletion_schema import deletion_schemas, hash_of
from singerlake.log.staging import FILE_BYTES
from singerlake.log.table_state import TableState
from singerlake.log.writer import clean_up, hold_locks
from singerlake.ops.change import changed_blocks
from singerlake.ops.change import plan as plans
from singerlake.ops.change.change_writer import ChangeWriter, InsertWriter
from singerlake.ops.change.changed_blocks import WRITTEN, Target
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.plan import ChangePlan, Frozen, Written
from singerlake.ops.change.present_rows import PresentRows
from singerlake.ops.rows_back import revert_plan as revert
from singerlake.rows.batches import packing, problems
from singerlake.rows.batches.packing import Unpacked, one_array
from singerlake.rows.batches.problems import Problems
from singerlake.rows.batches.steps import BATCH_ROWS, Batches, Pipeline
from singerlake.rows.blocks import block_tasks, positions
from singerlake.rows.blocks.defaults import wanted_defaults
from singerlake.rows.blocks.positions import block_holding
from singerlake.rows.changes.merge_terms import (
    DELETED,
    INSERTED,
    POSITION_BLOCK,
    POSITION_ROW,
    STATUS,
    UPDATED,
    changed_schema,
)
from singerlake.rows.lines import line_writer
from singerlake.rows.lines.written_defaults import DefaultsWritten, defaults_written
from singerlake.rows.state.shape import Shape

MOST_INSERTED = 1_000_000
"""New records that one task writes, about."""


class ChangeOutput:
    """Writes a difference and commits it.

    Args:
        shape: The table's, as it is read after the change.
        found: The difference; None where no row is asked for.
        whole: Whether all rows are written anew.
    """

    def __init__(
        self,
        wanted: ChangePlan,
        shape: Shape,
        found: Delta | None,
        now: PresentRows,
        *,
        whole: bool,
    ) -> None:
        self._engine = now.engine
        self._table = now.table
        self._wanted = wanted
        self._head = wanted.head
        self._shape = shape
        self._found = found
        self._now = now
        self._whole = whole
        state = wanted.state
        self._under = written_under(state.tap_schema, state.overlay, state.rules)
        self._entry = self._under.entry
        same = self._entry == self._head.tap_schema
        self._hash = self._head.schema_hash if same else hash_of(self._entry)

    @cached_property
    def _deletions(self) -> dict[str, SchemaEntry]:
        """The schemas that rows are deleted under, by the hash of the rows' own."""
        if self._whole or self._found is None or not self._found.counts.get(DELETED):
            return {}
        return deletion_schemas(self._head, self._own_schemas)

    @cached_property
    def _defaults(self) -> dict[str, DefaultsWritten]:
        """The defaults to write into rows that stay as they are, if all are written again."""
        return defaults_written(self._wanted.state, self._own_schemas) if self._whole else {}

    @cached_property
    def _own_schemas(self) -> set[str]:
        return {block.schema_hash for block in self._head.blocks}

    def problems(self) -> Problems:
        """Find what the schema does not allow, without writing anything."""
        return self._run(None, dry_run=True)[1]

    def write(
        self,
        metrics: Mapping[str, int],
        *,
        still_apart: Callable[[TableState], None],
        frozen: Frozen | None,
    ) -> TableState:
        """Write and commit.

        Args:
            still_apart: As for ``commit_change``.
            frozen: As for ``commit_change``.

        Raises:
            RejectedRowsError: The schema does not allow a record; nothing was changed.
            ConflictError: Somebody else's commit stands in the way.
        """
        store, table, options = self._table.store, self._head.table, self._wanted.options
        writer_id = new_writer_id()
        with hold_locks(store, table, self._written_under(), writer_id, options.writing) as locks:
            blocks: list[Block] = []
            try:
                blocks += self._blocks()
                locks.check()
                new = {self._hash: self._entry}
                new |= {hash_of(entry): entry for entry in self._deletions.values()}
                new |= {one.hash: one.entry for one in self._defaults.values()}
                written = Written(
                    blocks, {**self._head.schemas, **new}, self._head.schema_hash, metrics
                )
                return plans.commit_change(
                    store,
                    self._wanted,
                    written,
                    writer_id=writer_id,
                    still_apart=still_apart,
                    frozen=frozen,
                    waiting=options.writing.waiting,
                    check=locks.check,
                )
            except BaseException as error:
                clean_up(error, locks, lambda: self._withdraw(blocks))
                raise

    def _written_under(self) -> set[str]:
        """The hashes of the schemas that blocks may be written under."""
        if self._whole:
            return {self._hash, *self._own_schemas, *(d.hash for d in self._defaults.values())}
        if self._found is None or not self._found.counts.get(DELETED):
            return {self._hash}
        deleted = {
            hash_of(self._deletions[own]) if own in self._deletions else own
            for own in self._own_schemas
        }
        return {self._hash, *deleted}

    def _blocks(self) -> list[Block]:
        if self._found is None or not (self._found.changes or self._whole):
            return []
        version = revert.new_singer_version(self._head) if self._whole else None
        blocks: list[Block] = []
        if version is not None:
            blocks += line_writer.publish_activation(
                self._table.store, self._head.table, self._hash, self._entry, version
            )
        written, found = self._run(version, dry_run=False)
        blocks += written
        if found.total:
            self._withdraw(blocks)
            raise problems.rejected(found)
        return blocks

    def _run(self, version: int | None, *, dry_run: bool) -> tuple[list[Block], Problems]:
        """Let tasks write; descriptions of blocks come back, never rows."""
        if self._found is None:
            return [], Problems()
        target = self._target(self._found, version, dry_run=dry_run)
        read = [self._rewritten(self._found, target), self._inserted(self._found, target)]
        with self._engine.stages("checking rows" if dry_run else "writing rows"):
            rows = [self._engine.collect(some) for some in read if some is not None]
        found = problems.merged(
            problems.decode(row["problems"]) for some in rows for row in some if row["problems"]
        )
        blocks = [block for some in rows for block in line_writer.in_order(some, self._hash)]
        return blocks, found

    def _target(self, found: Delta, version: int | None, *, dry_run: bool) -> Target:
        last = self._shape.survival.last
        return Target(
            store=self._table.store,
            table=self._head.table,
            under=self._under,
            schema_hash=self._hash,
            columns=self._shape.columns,
            cells=found.wanted.columns,
            version=version,
            new_version=version if version is not None or last is None else last.version,
            stamp=times.iso(times.now()),
            sources=found.wanted.sources,
            block_rows=MAX_ROWS,
            file_bytes=FILE_BYTES,
            dry_run=dry_run,
        )

    def _inserted(self, found: Delta, target: Target) -> Any:
        """New records; None if there are none."""
        counts, engine = found.counts, self._engine
        rows = counts.get(INSERTED, 0) + (counts.get(UPDATED, 0) if found.anew else 0)
        if not rows:
            return None
        parts = max(-(-rows // MOST_INSERTED), min(engine.parts, -(-rows // MAX_ROWS)))
        # Where rows were compared in many parts, each of them would write a small file.
        new = engine.exchange(found.new, parts, "part") if parts < found.parts else found.new
        writer = Pipeline((Unpacked(column="new"), InsertWriter(target)))
        return engine.map(new, writer, changed_blocks.WRITTEN)

    def _rewritten(self, found: Delta, target: Target) -> Any:
        """Rows that are there: those that change or go; if all are written, all of them."""
        counts, engine = found.counts, self._engine
        if not self._whole and not (counts.get(UPDATED) or counts.get(DELETED)):
            return None
        tasks = self._tasks(found)
        route = Route.to(tasks)
        routed = engine.map(found.there, route, ROUTED)
        if self._whole:
            routed = engine.union(routed, self._now.places(route, ROUTED))
        schema = changed_schema(found.wanted.spec)
        return written(engine, routed, tasks, self._writer(target), schema)

    def _tasks(self, found: Delta) -> list[list[Block]]:
        """Share out the blocks of which rows are written again."""
        blocks = self._head.blocks
        if self._whole:
            return block_tasks.to_write(blocks)
        held = {(one := block_holding(blocks, n)).number: one for n in found.summary.blocks}
        touched = [held[number] for number in sorted(held)]
        return block_tasks.split(touched, self._engine.parts, block_tasks.WRITE_BYTES)

    def _writer(self, target: Target) -> ChangeWriter:
        state = self._wanted.state
        return ChangeWriter(
            target,
            (),
            {
                own: (hash_of(entry), messages.schema_line(self._head.table.stream, entry))
                for own, entry in self._deletions.items()
            },
            {
                own: block_columns(state.schema_of(own), self._under.overlay, state.rules)
                for own in self._own_schemas
            },
            wanted_defaults(state, self._shape.columns),
            self._defaults,
        )

    def _withdraw(self, blocks: list[Block]) -> None:
        for file in {block.file for block in blocks}:
            self._table.store.delete(self._head.table.data(file))
        blocks.clear()


# Rows that are there on their way to the tasks that write them again, each with its blocks.

ROUTED = "task int, rows binary, places binary"
"""What goes to a task: packed rows that change, or positions of all rows, int64 each."""


@dataclass
class Route:
    """Sends rows, or all positions of a table, to the tasks that write them.

    Attributes:
        first: The first row version of each task, rising: a vacuum puts rows into later blocks
            only, and blocks that follow each other have versions that do.
    """

    first: NDArray[np.int64]

    @classmethod
    def to(cls, tasks: Sequence[Sequence[Block]]) -> Route:
        """Make one for tasks by their blocks."""
        return cls(np.array([task[0].lowest_version for task in tasks]))

    def __call__(self, batches: Batches) -> Batches:
        """Split the packed rows in the column ``there``, or the positions in ``codes``."""
        for batch in batches:
            if "codes" in batch.schema.names:
                codes = batch.column("codes").to_numpy()
                tasks = self._tasks(positions.blocks_of(codes))
                for number in np.unique(tasks).tolist():
                    yield _routed(number, None, codes[tasks == number].tobytes())
                continue
            for data in batch.column("there").to_pylist():
                rows = packing.unpack(data)
                tasks = self._tasks(rows.column(POSITION_BLOCK).to_numpy())
                for number, some in packing.split(rows, tasks, len(self.first)):
                    yield _routed(number, packing.pack(some), None)

    def _tasks(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.searchsorted(self.first, blocks, "right") - 1
        return found


def _routed(task: int, rows: bytes | None, places: bytes | None) -> pa.RecordBatch:
    types = (pa.int32(), pa.binary(), pa.binary())
    arrays = [pa.array([v], t) for v, t in zip((task, rows, places), types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["task", "rows", "places"])


def written(
    engine: Engine[Any],
    routed: Any,
    tasks: Sequence[list[Block]],
    writer: ChangeWriter,
    schema: pa.Schema,
) -> Any:
    """Have rows written by their tasks; gives what writers give.

    Args:
        routed: Of :data:`ROUTED`.
        tasks: The blocks of each.
        writer: Writes rows, once it knows their blocks.
        schema: Of the packed rows.
    """
    told = engine.exchange(routed, len(tasks), "task", [*map(block_tasks.encode, tasks)])
    return engine.map(told, _Write(writer, schema), WRITTEN)


@dataclass
class _Write:
    """Writes the rows of a task in the order of their positions.

    Attributes:
        writer: As for :func:`written`.
    """

    writer: ChangeWriter
    schema: pa.Schema

    def __call__(self, batches: Batches) -> Batches:
        """Take all rows of one task, and its blocks."""
        tables, places = [self.schema.empty_table()], list[bytes]()
        blocks: list[Block] = []
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("rows", "places"))
            for data, some, sent in zip(*columns, block_tasks.sent(batch), strict=True):
                if data is not None:
                    tables.append(self._unpacked(data))
                elif some is not None:
                    places.append(some)
                elif sent is not None:
                    blocks = block_tasks.decode(sent)
        rows = pa.concat_tables(tables)
        if places:
            rows = _with_others(rows, np.sort(np.frombuffer(b"".join(places), dtype=np.int64)))
        else:
            rows = rows.sort_by([(POSITION_BLOCK, "ascending"), (POSITION_ROW, "ascending")])
        if len(rows):
            ready = rows.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
            yield from replace(self.writer, blocks=blocks)(iter(ready))

    def _unpacked(self, data: bytes) -> pa.Table:
        return packing.unpack(data).select(self.schema.names).cast(self.schema)


def _with_others(changed: pa.Table, codes: NDArray[np.int64]) -> pa.Table:
    """Put rows that stay as they are between those that change, without those that go.

    Args:
        changed: Rows that change or go.
        codes: The positions of all rows, rising.
    """
    block, row = (one_array(changed.column(n)).to_numpy() for n in (POSITION_BLOCK, POSITION_ROW))
    own = positions.codes(block, row)
    order = np.argsort(own)
    at = np.searchsorted(own[order], codes)
    known = at < len(own)
    known[known] = own[order[at[known]]] == codes[known]
    chosen = np.full(len(codes), -1, dtype=np.int64)
    chosen[known] = order[at[known]]
    rows = changed.take(pa.array(chosen, mask=chosen < 0))
    for name, values in (
        (POSITION_BLOCK, positions.blocks_of(codes)),
        (POSITION_ROW, positions.ordinals_of(codes)),
    ):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
    gone = np.array([status == DELETED for status in rows.column(STATUS).to_pylist()], dtype=bool)
    return rows.filter(pa.array(~gone))
