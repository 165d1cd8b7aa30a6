"""The diff job: what differs between two states of a table, row by row and cell by cell."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.lake import Table
from singerlake.maintenance.difference import Comparison, plan
from singerlake.records.blocks import block_tasks
from singerlake.records.blocks.block_reader import BlockReader
from singerlake.records.blocks.misfits import AS_TEXT, FAIL
from singerlake.records.rows.row_columns import MISFITS, alias
from singerlake.records.state.rows_at import RowsAt
from singerlake.records.state.shape import Shape, shape_of
from singerlake.spark.jvm import many_columns
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.progress import stages
from singerlake.spark.jvm.session import cores
from singerlake.spark.sql import row_weight
from singerlake.spark.sql.result import QueryResult
from singerlake.spark.state import frames
from singerlake.spark.state.differing import AFTER, BEFORE, Differing, differing
from singerlake.spark.state.requested_rows import check_choice, with_text
from singerlake.spark.write import routing
from singerlake.transactions.lease import ReaderLease
from singerlake.transactions.snapshot import Snapshot

ADDED, CHANGED, REMOVED = "added", "changed", "removed"
_RESPELLED = "respelled"
PAIR = ("pair_block", "pair_row")
"""A position that names a pair: that in the second state, or where there is none, in the first."""
IS_AFTER = "is_after"
_WORDS = ("comparing keys", "reading rows that differ", "comparing rows")


@dataclass(frozen=True)
class Counts:
    """How much differs.

    Attributes:
        added: Rows that only the second state has.
        changed: Rows of which a cell differs.
        removed: Rows that only the first state has.
        unchanged: All others.
        respelled: Those of the unchanged whose record is other bytes than it was, though every
            column reads as before: ``1.10`` and ``1.1``, or a member that is in no column.
        cells: Of the changed rows, how many cells of a column differ; by column, in order.
    """

    added: int
    changed: int
    removed: int
    unchanged: int
    respelled: int
    cells: Mapping[str, int]


class Diff:
    """What differs between two states of a table. Rows are computed when they are taken.

    While it is held, no vacuum deletes what it reads; :meth:`close` ends that.

    Args:
        compared: The states.
        pairs: Where rows lie that may differ.
        rows: These rows: ``change``, ``changed``, ``before``, ``after``, and what names the pair.
        shape: The columns that are compared.
        misfits: How many values of a column were replaced.
        lease: Held while this is.

    Attributes:
        compared: The states, how their schemas differ, and how rows find each other.
        misfits: How many values of a column were replaced because they do not fit it, of the rows
            that differ.
    """

    def __init__(
        self,
        compared: Comparison,
        pairs: Differing,
        rows: DataFrame,
        shape: Shape,
        misfits: Mapping[str, int],
        lease: ReaderLease,
    ) -> None:
        self.compared = compared
        self.misfits = misfits
        self._pairs = pairs
        self._rows = rows
        self._shape = shape
        self._release = weakref.finalize(self, lease.release)

    def __enter__(self) -> Diff:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up what was kept: nothing more is read. May be called again."""
        if self._release.alive:
            self._rows.unpersist()
        self._release()

    def keep(self) -> None:
        """Keep the rows that differ on the executors' disks once they were computed."""
        self._rows.persist()

    @property
    def names(self) -> list[str]:
        """The columns that are compared: the second state's."""
        return self._shape.names

    @property
    def key(self) -> list[str]:
        """The columns by which rows are told apart; empty where it is by position."""
        return self._shape.key_names

    @property
    def frame(self) -> DataFrame:
        """The rows that differ, in order of their keys, or of position.

        Its columns: ``change`` (``added``, ``changed`` or ``removed``); ``key``, a struct of the
        key's columns, or without a key ``row_id`` (``block:ordinal``); ``changed``, the names of
        the columns that differ, null unless the row is in both states; and ``before`` and
        ``after``, structs of all columns, null where the row is not in that state.
        """
        sides = [f"{_struct(side, self._shape)} as {side}" for side in ("before", "after")]
        columns = ["change", self._identity(), "changed", *sides]
        return row_weight.limited(many_columns.selected(self._ordered(), columns))

    @property
    def flat(self) -> DataFrame:
        """The same without structs: ``key.id``, ``before.total``, ``after.total``.

        Key columns are there once.
        """
        columns = [("change", "change")]
        if self._shape.keys:
            columns += [(f"key.{self.names[index]}", _either(index)) for index in self._shape.keys]
        else:
            columns.append(("row_id", self._identity()))
        columns.append(("changed", "changed"))
        for index, name in enumerate(self.names):
            if index not in self._shape.keys:
                columns += [
                    (f"{side}.{name}", f"{side}.{alias(index)}") for side in ("before", "after")
                ]
        flat = many_columns.selected(self._ordered(), (column for _, column in columns))
        return row_weight.limited(many_columns.named(flat, (name for name, _ in columns)))

    def rows(self, most: int | None = None) -> QueryResult:
        """The rows of :attr:`frame`, or the first of them, to be fetched."""
        return _result(self.frame, most)

    def flat_rows(self, most: int | None = None) -> QueryResult:
        """The rows of :attr:`flat`, or the first of them, to be fetched."""
        return _result(self.flat, most)

    def counts(self) -> Counts:
        """Count rows and cells that differ.

        Raises:
            DamagedError: A block cannot be read, or a value that differs does not fit.
        """
        # A row as itself, by null, and once for each of its cells: so one pass counts both.
        each = F.concat(
            F.array(F.lit(None).cast("string")),
            F.coalesce("changed", F.array().cast("array<string>")),
        )
        counted = self._rows.select("change", F.explode(each).alias("column"))
        with plain_errors(), stages(self._rows.sparkSession, *_WORDS):
            groups = counted.groupBy("change", "column").count().collect()
            cells = {row["column"]: row["count"] for row in groups if row["column"] is not None}
            rows = Counter({row["change"]: row["count"] for row in groups if row["column"] is None})
            there = rows[REMOVED] if self._pairs.in_first else rows[ADDED]
            same = self._pairs.count() - rows[CHANGED] - there
        return Counts(
            added=rows[ADDED],
            changed=rows[CHANGED],
            removed=rows[REMOVED],
            unchanged=same,
            respelled=rows[_RESPELLED],
            cells={name: cells[name] for name in self.names if name in cells},
        )

    def _ordered(self) -> DataFrame:
        rows = self._rows.where(F.col("change") != _RESPELLED)
        keys = [F.expr(_either(index)) for index in self._shape.keys]
        return rows.orderBy(*(keys or PAIR))

    def _identity(self) -> str:
        if not self._shape.keys:
            return f"concat_ws(':', {', '.join(PAIR)}) as row_id"
        parts = [(self.names[index], _either(index)) for index in self._shape.keys]
        return f"{many_columns.struct(parts)} as key"


def diff(
    spark: SparkSession,
    table: Table,
    before: str,
    after: str | None = None,
    *,
    misfits: str = FAIL,
) -> Diff:
    """Compare two states of a table. See :func:`singerlake.spark.diff`."""
    check_choice(misfits)
    lease = table.lease().acquire()
    try:
        compared = plan(lease.snapshot, before, after)
        with plain_errors(), stages(spark, *_WORDS):
            return _Job(spark, table, compared).diff(lease, misfits)
    except BaseException:
        lease.release()
        raise


class _Job:
    def __init__(self, spark: SparkSession, table: Table, compared: Comparison) -> None:
        self._spark = spark
        self._table = table
        self._compared = compared

    def diff(self, lease: ReaderLease, misfits: str) -> Diff:
        after = self._compared.after.snapshot
        pairs = differing(self._spark, self._table, self._compared)
        counts: Mapping[str, int] = {}
        if misfits != FAIL:
            # Those of the rows that are read; an index knows only those of a whole state.
            counts = self._misfits(pairs.pairs, after)
        if misfits == AS_TEXT:
            # What is text now fits; what does not all the same must not become null.
            after, misfits = with_text(after, counts), FAIL
        shape = shape_of(after)
        read = self._read(pairs.pairs, after, shape)
        every = range(len(shape.columns))
        read = frames.guarded(read, shape, self._table.name, every, misfits)
        return Diff(self._compared, pairs, _paired(read, shape), shape, counts, lease)

    def _misfits(self, pairs: DataFrame, after: Snapshot) -> dict[str, int]:
        shape = shape_of(after)
        rows = self._read(pairs, after, shape)
        each = rows.select(F.explode(F.map_keys(MISFITS)).alias("column"))
        counted = {row["column"]: row["count"] for row in each.groupBy("column").count().collect()}
        return {shape.names[index]: counted[index] for index in sorted(counted)}

    def _read(self, pairs: DataFrame, after: Snapshot, shape: Shape) -> DataFrame:
        return read_both(self._spark, self._table, self._compared, pairs, after, shape)


def read_both(
    spark: SparkSession,
    table: Table,
    compared: Comparison,
    pairs: DataFrame,
    after: Snapshot,
    shape: Shape,
) -> DataFrame:
    """Read both rows of each pair, as the second state reads them; of each which of the two.

    Args:
        spark: The session.
        table: The table.
        compared: The states.
        pairs: Their positions, as ``Differing`` has them.
        after: The second state; its columns may be read otherwise.
        shape: Its shape.

    Returns:
        The columns of the shape, misfits, ``PAIR`` and ``IS_AFTER``.
    """
    states = (compared.before.snapshot, compared.after.snapshot)
    blocks = max(states, key=lambda state: state.number).blocks
    tasks = block_tasks.split(blocks, 2 * cores(spark), block_tasks.TASK_BYTES)
    reader = BlockReader.of(table.store, after, tasks, shape.columns, shape.key_names)
    # Each task is sent its own blocks with its rows.
    reader = replace(reader, tasks=[])
    alone = b"" if len(tasks) > 1 else block_tasks.encode(tasks[0] if tasks else [])
    requests = _requests(pairs)
    if len(tasks) > 1:
        shared = [routing.Task(task, block_tasks.encode(task)) for task in tasks]
        routed = routing.route(spark, requests, shared)
    else:  # marks and their shuffle would take longer than the reading
        nothing = F.lit(None).cast("binary").alias(routing.WORK)
        routed = requests.select(F.lit(0).alias(routing.TASK), "*", nothing)
        routed = routed.repartition(1).sortWithinPartitions("block", "row")
    schema = frames.frame_schema(shape.columns, (MISFITS,))
    for name in (*PAIR, IS_AFTER):
        schema = schema.add(requests.schema[name])
    return routed.mapInArrow(RowsAt(reader, alone, (*PAIR, IS_AFTER)), schema)


def _requests(pairs: DataFrame) -> DataFrame:
    """The positions of both rows of each pair."""
    names = [F.coalesce(*both).alias(name) for *both, name in zip(AFTER, BEFORE, PAIR, strict=True)]
    sides = (
        F.struct(
            *(F.col(own).alias(name) for own, name in zip(side, ("block", "row"), strict=True)),
            *names,
            F.lit(side is AFTER).alias(IS_AFTER),
        )
        for side in (BEFORE, AFTER)
    )
    each = pairs.select(F.explode(F.array(*sides)).alias("one")).select("one.*")
    return each.where(F.col("block").isNotNull())


def _paired(read: DataFrame, shape: Shape) -> DataFrame:
    """Each pair as one row: its two rows, what kind of change it is, and which columns differ."""
    cells, is_after = F.expr(f"struct({', '.join(shape.aliases)})"), F.col(IS_AFTER)
    sides = read.groupBy(*PAIR).agg(
        F.first(F.when(~is_after, cells), ignorenulls=True).alias("before"),
        F.first(F.when(is_after, cells), ignorenulls=True).alias("after"),
    )
    before, after = F.col("before"), F.col("after")
    differing_names = [
        f"case when not (before.{name} <=> after.{name}) then {many_columns.text(own)} end"
        for index, (name, own) in enumerate(zip(shape.aliases, shape.names, strict=True))
        if index not in shape.keys
    ]
    names = f"array_compact(array({', '.join([*differing_names, 'cast(null as string)'])}))"
    both = before.isNotNull() & after.isNotNull()
    named = sides.withColumn("changed", F.when(both, F.expr(names)))
    change = (
        F.when(before.isNull(), ADDED)
        .when(after.isNull(), REMOVED)
        .when(F.size("changed") > 0, CHANGED)
        .otherwise(_RESPELLED)
    )
    return named.withColumn("change", change)


def _result(frame: DataFrame, most: int | None) -> QueryResult:
    return QueryResult(frame if most is None else frame.limit(most), [])


def _either(index: int) -> str:
    """A key column, which is the same on both sides where there are both."""
    return f"coalesce(after.{alias(index)}, before.{alias(index)})"


def _struct(side: str, shape: Shape) -> str:
    """A side's row under the columns' own names."""
    own = ((name, f"{side}.{alias(n)}") for n, name in enumerate(shape.names))
    return f"case when {side} is not null then {many_columns.struct(own)} end"
