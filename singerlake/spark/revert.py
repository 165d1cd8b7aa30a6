"""The revert job: find the difference between two states, write it, commit it.

A keyed table gets the difference: rows that changed in a byte, or went, come back as the lines
they were, rows that came since are deleted. A keyless table has no key to tell rows apart by, so
all of the old rows are written anew under a Singer version of their own, behind ACTIVATE_VERSION
messages that remove everything before. A keyed table is done so as well where the keys of rows
written since cannot be read under the old schema: from then on nobody has to.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.format import times
from singerlake.format.block import MAX_ROWS
from singerlake.format.log import Block, SchemaEntry, decode_block
from singerlake.lake import Table
from singerlake.maintenance import revert as plans
from singerlake.maintenance.deletion_schema import deletion_schemas, hash_of
from singerlake.maintenance.revert import RevertPlan
from singerlake.spark import fold, frames, index, lines, placing
from singerlake.spark.casts import never_fails
from singerlake.spark.columns import columns_of
from singerlake.spark.failures import plain_errors
from singerlake.spark.frames import BLOCK, DIGEST, MISFIT, ORDINAL, PROVENANCE, Shape
from singerlake.spark.index import Index
from singerlake.transactions.commit import new_writer_id
from singerlake.transactions.staging import FILE_BYTES, StagedTable
from singerlake.transactions.writer import (
    WriteOptions,
    clean_up,
    hold_locks,
    update_checkpoint,
    update_lake,
)

logger = logging.getLogger(__name__)
WRITE_BYTES = 128 << 20
"""Inflated bytes that one task writes again, about."""
MOST_RANGES = 200


@dataclass(frozen=True)
class Reverted:
    """What a revert did, or would do.

    Attributes:
        to: The transaction that was gone back to.
        transaction: The transaction it made; None where it made none.
        put_back: Rows written as they were.
        deleted: Rows that had come since and are gone again.
        unchanged: Rows that were as they should be. A keyless table is written whole and
            has none.
        schema_hash: The schema in effect.
        whole: Whether all rows of the old state were written anew, behind ACTIVATE_VERSION.
    """

    to: int
    transaction: int | None
    put_back: int
    deleted: int
    unchanged: int
    schema_hash: str
    whole: bool = False


def revert(
    spark: SparkSession,
    table: Table,
    to: int,
    *,
    dry_run: bool = False,
    options: WriteOptions | None = None,
) -> Reverted:
    """Turn a table's present state into that of an earlier transaction.

    Args:
        spark: The session.
        table: The table.
        to: The transaction to go back to.
        dry_run: Only say what would be done.
        options: Locks, and what to keep with the transaction.

    Raises:
        NotFoundError: There is no such transaction.
        DamagedError: The old state cannot be read any more; what is missing is named.
        ConflictError: Somebody changed the table meanwhile; nothing was changed.
        LockTimeoutError: A writer did not give its lock up in time.
    """
    with table.lease() as lease, plain_errors():
        wanted = plans.plan(table.store, lease.snapshot, to)
        old = index.ensure(spark, table, wanted.to)
        if wanted.same_state:
            return Reverted(to, None, 0, 0, index.count_rows(spark, old), wanted.to.schema_hash)
        return _Job(spark, table, wanted, old, options or WriteOptions()).run(dry_run=dry_run)


class _Job:
    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        wanted: RevertPlan,
        old: Index,
        options: WriteOptions,
    ) -> None:
        self._spark = spark
        self._table = table
        self._wanted = wanted
        self._old = old
        self._options = options
        self._whole = not old.shape.keys or not self._keys_readable()
        since = {block.schema_hash for block in wanted.head.blocks_after(wanted.to.head)}
        self._deletions = {} if self._whole else deletion_schemas(wanted.head, since)

    def run(self, *, dry_run: bool) -> Reverted:
        actions = self._everything() if self._whole else self._difference()
        if dry_run:
            return self._said(None, *self._count(actions))
        return self._write(actions)

    def _keys_readable(self) -> bool:
        """Whether rows written since can be told apart by the old keys, whatever came."""
        shape = self._old.shape
        target = dict(shape.columns[place] for place in shape.keys)
        head, to = self._wanted.head, self._wanted.to
        for schema_hash in {block.schema_hash for block in head.blocks_after(to.head)}:
            schema = head.schema_of(schema_hash)
            # What is one key by the rules of today may be two by those of the old version:
            # 1.5 and 1.50, where a decimal was a string. Then neither can speak for the other.
            by_old_rules = dict(columns_of(schema, to.rules, head.retyped))
            for name, type_ in columns_of(schema, head.rules, head.retyped):
                if name not in target:
                    continue
                if type_ != by_old_rules.get(name) or not never_fails(type_, target[name]):
                    return False
        return True

    def _old_rows(self) -> DataFrame:
        """The old state: its keys, and what :data:`PROVENANCE` says. Values do not matter."""
        keys = self._old.shape.keys
        named = [F.col(f"c{place}").alias(f"c{n}") for n, place in enumerate(keys)]
        old = index.rows_inside(self._spark, self._old, digests=True)
        return old.select(*named, *PROVENANCE, MISFIT)

    def _present(self) -> DataFrame:
        """The state now, under the old keys, in the same columns."""
        head = self._wanted.head
        since = head.blocks_after(self._wanted.to.head)
        columns = tuple(self._old.shape.columns[place] for place in self._old.shape.keys)
        shape = Shape(columns, tuple(range(len(columns))), fold.survival(head.blocks))
        size = sum(block.bytes for block in since) + 3 * self._old.bytes
        later = frames.read_blocks(self._spark, self._table, head, since, shape, digests=True)
        earlier = frames.unjudged(self._old_rows())
        return frames.fold_rows(earlier.unionAll(later), shape, size)

    def _difference(self) -> DataFrame:
        """Rows to put back and rows to delete, by position."""
        old, now = self._old_rows().alias("old"), self._present().alias("now")
        same_key = _all_equal(f"c{n}" for n in range(len(self._old.shape.keys)))
        same_row = _all_equal((BLOCK, ORDINAL))
        # By the bytes of the record: two values may look alike as columns, or be in none. A row
        # that came under another schema would read otherwise once that schema is back.
        same_record = _all_equal((DIGEST,)) & ~_within(
            F.col(f"now.{BLOCK}"), self._under_other_schemas()
        )
        came = F.col(f"old.{BLOCK}").isNull()
        went = F.col(f"now.{BLOCK}").isNull()
        return (
            old.join(now, same_key, "full_outer")
            .where(came | went | ~(same_row | same_record))
            .select(
                F.coalesce(f"old.{BLOCK}", f"now.{BLOCK}").alias("block"),
                F.coalesce(f"old.{ORDINAL}", f"now.{ORDINAL}").alias("row"),
                came.alias("gone"),
            )
        )

    def _under_other_schemas(self) -> list[tuple[int, int]]:
        """Ranges of row versions since the old state that came under another schema."""
        head, to = self._wanted.head, self._wanted.to
        ranges: list[tuple[int, int]] = []
        for block in head.blocks_after(to.head):
            if block.schema_hash == to.schema_hash:
                continue
            start = block.first_version or block.number
            if ranges and ranges[-1][1] == start - 1:
                ranges[-1] = (ranges[-1][0], block.number)
            else:
                ranges.append((start, block.number))
        # Too many make too large an expression; more rows than needed do no harm.
        return ranges if len(ranges) <= MOST_RANGES else [(ranges[0][0], ranges[-1][1])]

    def _everything(self) -> DataFrame:
        old = index.read_inside(self._spark, self._old)
        return old.select(
            F.col(BLOCK).alias("block"), F.col(ORDINAL).alias("row"), F.lit(False).alias("gone")
        )

    def _count(self, actions: DataFrame) -> tuple[int, int]:
        counted = {row["gone"]: row["count"] for row in actions.groupBy("gone").count().collect()}
        return counted.get(False, 0), counted.get(True, 0)

    def _said(self, transaction: int | None, put_back: int, deleted: int) -> Reverted:
        unchanged = 0 if self._whole else index.count_rows(self._spark, self._old) - put_back
        schema_hash = self._wanted.to.schema_hash
        to = self._wanted.to.head
        return Reverted(
            to, transaction, put_back, deleted, unchanged, schema_hash, whole=self._whole
        )

    def _write(self, actions: DataFrame) -> Reverted:
        store, head = self._table.store, self._wanted.head
        writer_id = new_writer_id()
        # Any schema the table ever had may be written under again.
        schemas = {**head.schemas, **self._new_schemas()}
        with hold_locks(store, head.table, schemas, writer_id, self._options) as locks:
            blocks: list[Block] = []
            try:
                version = plans.new_singer_version(head) if self._whole else None
                if version is not None:
                    blocks += self._activation(version)
                written, deleted = self._write_lines(actions, version)
                blocks += written
                if not blocks and head.schema_hash == self._wanted.to.schema_hash:
                    return self._said(None, 0, 0)
                put_back = sum(block.rows for block in written) - deleted
                locks.check()
                done = plans.commit_revert(
                    store,
                    self._wanted,
                    blocks,
                    schemas,
                    writer_id=writer_id,
                    metrics={"put_back": put_back, "deleted": deleted},
                    metadata={**self._options.metadata, "reverted_to": self._wanted.to.head},
                )
            except BaseException as error:
                clean_up(error, locks, lambda: self._withdraw(blocks))
                raise
        update_checkpoint(store, done)
        update_lake(store, [done])
        return self._said(done.head, put_back, deleted)

    def _new_schemas(self) -> dict[str, SchemaEntry]:
        return {hash_of(entry): entry for entry in self._deletions.values()}

    def _activation(self, version: int) -> list[Block]:
        """Two activations at once: rows before both are gone, whatever their version."""
        to = self._wanted.to
        staged = StagedTable(self._table.store, to.table)
        data, block = lines.activation_block(to.table, to.schema, [version - 1, version])
        try:
            staged.add(to.schema_hash, data, block)
            staged.publish()
            return staged.numbered(0)
        finally:
            staged.discard()

    def _write_lines(self, actions: DataFrame, version: int | None) -> tuple[list[Block], int]:
        head = self._wanted.head
        runs = _runs(head.blocks)
        writer = lines.LineWriter(
            store=self._table.store,
            table=head.table,
            blocks=[] if len(runs) > 1 else head.blocks,
            version=version,
            stamp=times.iso(times.now()),
            block_rows=MAX_ROWS,
            file_bytes=FILE_BYTES,
            deletions={
                name: (hash_of(entry), lines.schema_line(head.table, entry))
                for name, entry in self._deletions.items()
            },
        )
        if len(runs) > 1:
            tasks = [placing.Task(run, fold.encoded(run)) for run in runs]
            placed = placing.place(self._spark, actions, tasks)
        else:  # most tables: marks and their shuffle would take longer than the writing
            alone = actions.select(
                F.lit(0).alias(placing.TASK), "*", F.lit(None).cast("binary").alias(placing.WORK)
            )
            placed = alone.repartition(1).sortWithinPartitions("block", "row")
        # A description a block comes back to the driver, never rows.
        described = placed.mapInArrow(writer, lines.WRITTEN).collect()
        found = [
            (row["first_block"], row["first_row"], decode_block(row["block"])) for row in described
        ]
        # Under the old schema last, so that it is the one a reader of the stream ends with.
        last = self._wanted.to.schema_hash
        found.sort(key=lambda item: (item[2].schema_hash == last, item[0], item[1], item[2].offset))
        return [block for _, _, block in found], sum(row["gone"] for row in described)

    def _withdraw(self, blocks: list[Block]) -> None:
        for file in {block.file for block in blocks}:
            self._table.store.delete(self._wanted.head.table.data(file))


def _runs(blocks: list[Block]) -> list[list[Block]]:
    """The blocks that each task writes rows of again."""
    runs: list[list[Block]] = []
    size = WRITE_BYTES
    for block in blocks:
        if size >= WRITE_BYTES:
            runs.append([])
            size = 0
        runs[-1].append(block)
        size += block.bytes
    return runs


def _within(column: Column, ranges: list[tuple[int, int]]) -> Column:
    found = F.lit(False)
    for first, last in ranges:
        found |= column.between(first, last)
    return F.coalesce(found, F.lit(False))


def _all_equal(names: Iterable[str]) -> Column:
    found = F.lit(True)
    for name in names:
        found &= F.col(f"old.{name}").eqNullSafe(F.col(f"now.{name}"))
    return found
