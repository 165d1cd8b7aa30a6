"""What a change writes: blocks by the engine's tasks, then the one log entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from singerlake.changes import changed_blocks
from singerlake.changes.change_writer import ChangeWriter, InsertWriter
from singerlake.changes.changed_blocks import Target
from singerlake.changes.delta import Delta
from singerlake.changes.present_rows import PresentRows
from singerlake.changes.writing import ROUTED, Route, written
from singerlake.format import messages, times
from singerlake.format.block import MAX_ROWS
from singerlake.format.laid import block_columns
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.written import written_under
from singerlake.maintenance import change as plans
from singerlake.maintenance import revert
from singerlake.maintenance.change import ChangePlan, Frozen, Written
from singerlake.maintenance.deletion_schema import deletion_schemas, hash_of
from singerlake.records.blocks import block_tasks
from singerlake.records.blocks.defaults import wanted_defaults
from singerlake.records.blocks.positions import block_holding
from singerlake.records.changes.merge_terms import DELETED, INSERTED, UPDATED, changed_schema
from singerlake.records.lines import line_writer
from singerlake.records.lines.written_defaults import DefaultsWritten, defaults_written
from singerlake.records.rows import problems
from singerlake.records.rows.packing import Unpacked
from singerlake.records.rows.problems import Problems
from singerlake.records.rows.steps import Pipeline
from singerlake.records.state.shape import Shape
from singerlake.transactions.commit import new_writer_id
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.staging import FILE_BYTES
from singerlake.transactions.writer import clean_up, hold_locks

MOST_INSERTED = 1_000_000
"""New records that one task writes, about."""


class ChangeOutput:
    """Writes a difference and commits it.

    Args:
        wanted: The plan.
        shape: The table's, as it is read after the change.
        found: The difference; None where no row is asked for.
        now: The rows that there are.
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
        """How rows that stay as they are say what they showed, where all are written again."""
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
        still_apart: Callable[[Snapshot], None],
        frozen: Frozen | None,
    ) -> Snapshot:
        """Write and commit.

        Args:
            metrics: Counts for the log entry.
            still_apart: As for ``commit_change``.
            frozen: As for ``commit_change``.

        Raises:
            RejectedRowsError: The schema does not allow a record; nothing was changed.
            ConflictError: Somebody else's commit stands in the way.
            StoreError: The store refused.
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
