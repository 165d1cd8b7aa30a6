"""The revert job: compute the difference between two states, write it, commit it.

A keyed table gets the difference: rows that changed in a byte, or went, come back as the lines
they were, rows that came since are deleted. A keyless table has no key to tell rows apart by, so
all of the old rows are written anew under a Singer version of their own, behind ACTIVATE_VERSION
messages that remove everything before. A keyed table is done so as well where the keys of rows
written since cannot be read under the old schema: from then on nobody has to.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.format.laid import block_columns, reading_of
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.types import never_fails
from singerlake.lake import Table
from singerlake.lineage import same_columns, told
from singerlake.maintenance import revert as plans
from singerlake.maintenance.revert import RevertPlan
from singerlake.reading.index import Index
from singerlake.records.rows.row_columns import BLOCK, DIGEST, ORDINAL, PROVENANCE, alias, aliases
from singerlake.records.state import activations
from singerlake.records.state.shape import Shape
from singerlake.spark.jobs.reverting.revert_checks import Outcome, check_outcome
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.state import fold, frames, index_build, index_rows
from singerlake.spark.write.lines_again import LinesAgain, Written
from singerlake.transactions.commit import current_user
from singerlake.transactions.snapshot import Snapshot
from singerlake.transactions.writer import WriteOptions

logger = logging.getLogger(__name__)
MOST_RANGES = 200


@dataclass(frozen=True)
class Reverted:
    """What a revert did, or would do.

    Attributes:
        to: The transaction that was gone back to.
        transaction: The transaction it made; None where it made none.
        put_back: Rows written as they were.
        deleted: Rows that had come since and are gone again; None where all rows were written
            anew, in place of whatever there was.
        unchanged: Rows that were as they should be. A keyless table is written whole and
            has none.
        schema_hash: The schema in effect.
        whole: Whether all rows of the old state were written anew, behind ACTIVATE_VERSION.
        violations: The names of the constraints that its rows do not keep.
        misfits: The columns with values that do not fit the type they have by now.
    """

    to: int
    transaction: int | None
    put_back: int
    deleted: int | None
    unchanged: int
    schema_hash: str
    whole: bool = False
    violations: Sequence[str] = field(default_factory=list)
    misfits: Sequence[str] = field(default_factory=list)


def revert(
    spark: SparkSession,
    table: Table,
    to: int,
    *,
    dry_run: bool = False,
    options: WriteOptions | None = None,
    etag: int | None = None,
    allow_violations: bool = False,
    allow_misfits: bool = False,
) -> Reverted:
    """Turn a table's present state into that of an earlier transaction.

    Args:
        spark: The session.
        table: The table.
        to: The transaction to go back to.
        dry_run: Only say what would be done.
        options: Locks, and what to keep with the transaction.
        etag: The transaction that the table must still be at.
        allow_violations: Revert even if the old rows do not keep the constraints that the table
            has now; the transaction says so.
        allow_misfits: Revert even if old values do not fit the type that their column has now;
            the transaction says so.

    Raises:
        NotFoundError: There is no such transaction.
        UsageError: The old state lacks a column of the key that the table has now.
        ViolationsError: Its rows cannot have that key or these types, or do not keep the
            constraints.
        DamagedError: The old state cannot be read any more; what is missing is named.
        ConflictError: Somebody changed the table meanwhile; nothing was changed.
        LockTimeoutError: A writer did not give its lock up in time.
    """
    telling = told(table, "revert", active=not dry_run)
    with telling as run, table.lease() as lease, plain_errors():
        wanted = plans.plan(table.store, lease.snapshot, to, etag)
        old = index_build.ensure(spark, table, wanted.to)
        if wanted.same_state:
            return Reverted(to, None, 0, 0, index_rows.count(spark, old), wanted.to.schema_hash)
        outcome = check_outcome(
            spark,
            table,
            wanted,
            old,
            allow_violations=allow_violations,
            allow_misfits=allow_misfits,
        )
        job = Job(spark, table, wanted, old, options or WriteOptions(), outcome=outcome)
        done = job.run(dry_run=dry_run)
        if done.transaction is not None:
            run.read(wanted.to, rows=done.put_back)
            rows = done.put_back + (done.deleted or 0)
            run.wrote(table.snapshot, rows=rows, columns=same_columns(wanted.to))
        return done


class Job:
    """Writes rows of an old state again.

    Args:
        spark: The session.
        table: The table.
        wanted: The plan.
        old: The index of the old state.
        options: Locks, and what to keep with the transaction.
        whole: Whether to write all rows of it, whatever there is now.
        outcome: What is wrong with its rows.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        wanted: RevertPlan,
        old: Index,
        options: WriteOptions,
        *,
        whole: bool = False,
        outcome: Outcome | None = None,
    ) -> None:
        self._spark = spark
        self._table = table
        self._wanted = wanted
        self._old = old
        self._options = options
        self._outcome = outcome or Outcome()
        self._whole = whole or not old.shape.keys or not self._keys_readable()
        since = {block.schema_hash for block in wanted.head.blocks_after(wanted.to.number)}
        self._lines = LinesAgain.of(
            spark,
            table,
            wanted.head,
            wanted.to.schema_hash,
            deleted_under=() if self._whole else since,
            put_back_under={block.schema_hash for block in wanted.to.blocks},
        )

    def run(self, *, dry_run: bool) -> Reverted:
        """Write the difference and commit it, or only say what it is."""
        actions = self._everything() if self._whole else self._difference()
        if dry_run:
            return self._result(None, *self._count(actions))
        return self._write(actions)

    @property
    def schemas(self) -> dict[str, SchemaEntry]:
        """Those that rows may be written under, by hash."""
        return self._lines.schemas

    def write_whole(self, blocks: list[Block]) -> None:
        """Write all rows behind ACTIVATE_VERSION lines; to be called under the schemas' locks.

        Args:
            blocks: Takes what was written, in order.
        """
        self._lines.write(self._everything(), blocks, whole=True)

    def withdraw(self, blocks: list[Block]) -> None:
        """Delete the files of blocks that no log entry names."""
        self._lines.withdraw(blocks)

    def _keys_readable(self) -> bool:
        """Whether rows written since can be told apart by the old keys, whatever came."""
        shape = self._old.shape
        target = dict(shape.key_columns)
        head, to = self._wanted.head, self._wanted.to
        if to.overlay.key != head.overlay.key:
            return False
        if len({reading_of(one.overlay, target) for one in (to, head)}) > 1:
            return False
        for schema_hash in {block.schema_hash for block in head.blocks_after(to.number)}:
            schema = head.schema_of(schema_hash)
            # What is one key by the rules of today may be two by those of the old version:
            # 1.5 and 1.50, where a decimal was a string. Then neither can speak for the other.
            by_old_rules = dict(block_columns(schema, head.overlay, to.rules).columns)
            for name, type_ in head.columns_of(schema_hash).columns:
                if name not in target:
                    continue
                if type_ != by_old_rules.get(name) or not never_fails(type_, target[name]):
                    return False
        return True

    def _old_rows(self) -> DataFrame:
        """The old state: its keys and provenance. Values do not matter."""
        keys = self._old.shape.key_aliases
        named = [F.col(key).alias(alias(n)) for n, key in enumerate(keys)]
        return index_rows.rows(self._spark, self._old, digests=True).select(*named, *PROVENANCE)

    def _present(self) -> DataFrame:
        """The state now, under the old keys, in the same columns."""
        head = self._wanted.head
        since = head.blocks_after(self._wanted.to.number)
        columns = self._old.shape.key_columns
        shape = Shape(columns, tuple(range(len(columns))), activations.survival(head.blocks))
        size = sum(block.bytes for block in since) + 3 * self._old.bytes
        later = frames.read_blocks(self._spark, self._table, head, since, shape, digests=True)
        earlier = fold.undeleted(self._old_rows())
        return fold.fold(earlier.unionAll(later), shape, size)

    def _difference(self) -> DataFrame:
        """Rows to put back and rows to delete, by position."""
        old, now = self._old_rows().alias("old"), self._present().alias("now")
        same_key = _all_equal(aliases(len(self._old.shape.keys)))
        same_row = _all_equal((BLOCK, ORDINAL))
        # By the bytes of the record: two values may look alike as columns, or be in none. A row
        # that came under another schema would read otherwise once that schema is back, and beyond
        # a change of defaults it shows another one.
        same_record = _all_equal((DIGEST,)) & ~_within(
            F.col(f"now.{BLOCK}"), self._under_other_schemas()
        )
        for side in ("old", "now"):
            same_record &= F.col(f"{side}.{BLOCK}").between(*self._wanted.default_span)
        came = F.col(f"old.{BLOCK}").isNull()
        went = F.col(f"now.{BLOCK}").isNull()
        return (
            old.join(now, same_key, "full_outer")
            .where(came | went | ~(same_row | same_record))
            .select(
                F.coalesce(f"old.{BLOCK}", f"now.{BLOCK}").alias("block"),
                F.coalesce(f"old.{ORDINAL}", f"now.{ORDINAL}").alias("row"),
                came.alias("deleted"),
            )
        )

    def _under_other_schemas(self) -> list[tuple[int, int]]:
        """Ranges of row versions since the old state that came under another schema."""
        head, to = self._wanted.head, self._wanted.to
        ranges: list[tuple[int, int]] = []
        for block in head.blocks_after(to.number):
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
        old = index_rows.rows(self._spark, self._old)
        return old.select(
            F.col(BLOCK).alias("block"), F.col(ORDINAL).alias("row"), F.lit(False).alias("deleted")
        )

    def _count(self, actions: DataFrame) -> tuple[int, int]:
        groups = actions.groupBy("deleted").count().collect()
        counted = {row["deleted"]: row["count"] for row in groups}
        return counted.get(False, 0), counted.get(True, 0)

    def _result(self, transaction: int | None, put_back: int, deleted: int) -> Reverted:
        unchanged = 0 if self._whole else index_rows.count(self._spark, self._old) - put_back
        to = self._wanted.to
        return Reverted(
            to.number,
            transaction,
            put_back,
            None if self._whole else deleted,
            unchanged,
            to.schema_hash,
            whole=self._whole,
            **asdict(self._outcome),
        )

    def _write(self, actions: DataFrame) -> Reverted:
        wanted = self._wanted
        made: list[int] = []

        def committed(written: Written) -> Snapshot | None:
            if not written.blocks and wanted.head.schema_hash == wanted.to.schema_hash:
                return None
            gone = {} if self._whole else {"deleted": written.deleted}
            done = plans.commit_revert(
                self._table.store,
                wanted,
                written.blocks,
                self.schemas,
                writer_id=written.writer_id,
                metrics={"put_back": written.put_back, **gone},
                metadata={**self._options.metadata, **self._said()},
            )
            made.append(done.number)
            return done

        written = self._lines.commit(actions, self._options, committed, whole=self._whole)
        if not made:
            return self._result(None, 0, 0)
        return self._result(made[0], written.put_back, written.deleted)

    def _said(self) -> dict[str, Any]:
        wrong = {word: names for word, names in asdict(self._outcome).items() if names}
        return {"by": current_user(), "reverted_to": self._wanted.to.number, **wrong}


def _within(column: Column, ranges: list[tuple[int, int]]) -> Column:
    within = F.lit(False)
    for first, last in ranges:
        within |= column.between(first, last)
    return F.coalesce(within, F.lit(False))


def _all_equal(names: Iterable[str]) -> Column:
    equal = F.lit(True)
    for name in names:
        equal &= F.col(f"old.{name}").eqNullSafe(F.col(f"now.{name}"))
    return equal
