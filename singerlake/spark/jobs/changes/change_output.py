"""What a change writes: blocks by the executors, then the one log entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.changes import changed_blocks
from singerlake.changes.change_writer import ChangeWriter, InsertWriter
from singerlake.changes.changed_blocks import Target
from singerlake.format import messages, times
from singerlake.format.block import MAX_ROWS
from singerlake.format.laid import block_columns
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.written import written_under
from singerlake.lake import Table
from singerlake.maintenance import change as plans
from singerlake.maintenance import revert
from singerlake.maintenance.change import ChangePlan, Frozen, Written
from singerlake.maintenance.deletion_schema import deletion_schemas, hash_of
from singerlake.records.blocks.defaults import wanted_defaults
from singerlake.records.blocks.positions import block_holding
from singerlake.records.lines import line_writer
from singerlake.records.lines.written_defaults import DefaultsWritten, defaults_written
from singerlake.records.rows import problems
from singerlake.records.rows.packing import Unpacked
from singerlake.records.rows.problems import Problems
from singerlake.records.rows.row_columns import BLOCK, ORDINAL, alias
from singerlake.records.rows.steps import Pipeline, Step
from singerlake.records.state.shape import Shape
from singerlake.spark.jobs.changes.delta import (
    CHANGED,
    DELETED,
    INSERTED,
    POSITION_BLOCK,
    POSITION_ROW,
    STATUS,
    UPDATED,
    Delta,
)
from singerlake.spark.jobs.changes.present_rows import PresentRows
from singerlake.spark.jobs.row_sets.row_set import LINE, ROW_ID, SOURCE
from singerlake.spark.jvm.progress import stages
from singerlake.spark.jvm.session import cores
from singerlake.spark.write import routing
from singerlake.transactions.commit import new_writer_id
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.staging import FILE_BYTES
from singerlake.transactions.writer import clean_up, hold_locks

MOST_INSERTED = 1_000_000
"""New records that one task writes, about."""


class ChangeOutput:
    """Writes a difference and commits it.

    Args:
        spark: The session.
        table: The table.
        wanted: The plan.
        shape: The table's, as it is read after the change.
        found: The difference; None where no row is asked for.
        now: The rows that there are.
        whole: Whether all rows are written anew.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        wanted: ChangePlan,
        shape: Shape,
        found: Delta | None,
        now: PresentRows,
        *,
        whole: bool,
    ) -> None:
        self._spark = spark
        self._table = table
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
        """Let the executors write; descriptions of blocks come back, never rows."""
        if self._found is None:
            return [], Problems()
        target = self._target(self._found, version, dry_run=dry_run)
        frames = [self._rewritten(self._found, target), self._inserted(self._found, target)]
        rows = []
        with stages(self._spark, "checking rows" if dry_run else "writing rows"):
            for frame in frames:
                if frame is not None:
                    rows += [frame.collect()]
        found = problems.merged(
            problems.decode(bytes(row["problems"]))
            for some in rows
            for row in some
            if row["problems"]
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

    def _inserted(self, found: Delta, target: Target) -> DataFrame | None:
        """New records."""
        counts = found.counts
        rows = counts.get(INSERTED, 0) + (counts.get(UPDATED, 0) if found.anew else 0)
        if not rows:
            return None
        parts = max(-(-rows // MOST_INSERTED), min(2 * cores(self._spark), -(-rows // MAX_ROWS)))
        writer = Pipeline((Unpacked(), InsertWriter(target)))
        return found.new.coalesce(parts).mapInArrow(writer, changed_blocks.WRITTEN)

    def _rewritten(self, found: Delta, target: Target) -> DataFrame | None:
        """Rows that are there: those that change or go; where all are written, all of them."""
        counts = found.counts
        if not self._whole and not (counts.get(UPDATED) or counts.get(DELETED)):
            return None
        rows, known, first = self._routed(found)
        state = self._wanted.state
        writer = ChangeWriter(
            target,
            known,
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
        return rows.mapInArrow(Pipeline((*first, writer)), changed_blocks.WRITTEN)

    def _routed(self, found: Delta) -> tuple[DataFrame, Sequence[Block], tuple[Step, ...]]:
        """The rows on their way to the tasks that write them, what those know, and read first."""
        blocks = self._head.blocks
        if not self._whole:
            held = {(one := block_holding(blocks, n)).number: one for n in found.summary.blocks}
            touched = [held[number] for number in sorted(held)]
            packed, known = routing.packed_by_blocks(self._spark, found.there, touched)
            return packed, known, (routing.InOrder(),)
        actions = found.frame.where(F.col(POSITION_BLOCK).isNotNull()).select(
            POSITION_BLOCK,
            POSITION_ROW,
            STATUS,
            CHANGED,
            *(alias(index) for index in found.wanted.columns),
            SOURCE,
            LINE,
            ROW_ID,
        )
        return *routing.by_blocks(self._spark, self._with_all_others(actions), blocks), ()

    def _with_all_others(self, actions: DataFrame) -> DataFrame:
        """The rows of the whole new state that are there now."""
        now = self._now.frame.select(
            F.col(BLOCK).alias(POSITION_BLOCK), F.col(ORDINAL).alias(POSITION_ROW)
        )
        both = now.join(actions, [POSITION_BLOCK, POSITION_ROW], "left_outer")
        return both.where(~F.coalesce(F.col(STATUS) == DELETED, F.lit(False)))

    def _withdraw(self, blocks: list[Block]) -> None:
        for file in {block.file for block in blocks}:
            self._table.store.delete(self._head.table.data(file))
        blocks.clear()
