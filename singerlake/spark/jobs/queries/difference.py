"""The diff job: what differs between two states of a table, row by row and cell by cell."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from singerlake.format.sql_tokens import quote
from singerlake.lake import Table
from singerlake.maintenance.difference import Comparison, plan
from singerlake.records.blocks import block_tasks
from singerlake.records.blocks.block_reader import BlockReader
from singerlake.records.blocks.misfits import AS_TEXT, FAIL
from singerlake.records.rows.row_columns import MISFITS
from singerlake.records.rows.steps import Pipeline
from singerlake.records.state.paired_rows import (
    ADDED,
    CHANGED,
    IS_AFTER,
    PAIR,
    PART,
    PARTS,
    REMOVED,
    RESPELLED,
    FlatStep,
    MisfitStep,
    PairStep,
    PartStep,
)
from singerlake.records.state.rows_at import RowsAt
from singerlake.records.state.shape import Shape, shape_of
from singerlake.spark.jvm import failures, many_columns
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
        rows: Gives these rows as ``PairStep`` does, with their cells or without.
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
        rows: Callable[[bool], DataFrame],
        shape: Shape,
        misfits: Mapping[str, int],
        lease: ReaderLease,
    ) -> None:
        self.compared = compared
        self.misfits = misfits
        self._pairs = pairs
        self._rows_of = rows
        self._rows = rows(True)
        self._is_kept = False
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
        self._is_kept = True

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
        # To read what does not fit is an error, and so is a row that is too heavy.
        mark = many_columns.text(failures.MISFIT_MARK)
        refused = f"raise_error(concat({mark}, misfit))"
        sides = [
            f"case when misfit is null then {side} else {refused} end as {side}"
            for side in ("before", "after")
        ]
        change = row_weight.checked("change", "weight")
        identity = "key" if self._shape.keys else "row_id"
        order = [f"key.{quote(name)}" for name in self.key] or PAIR
        rows = self._rows.where(F.col("change") != RESPELLED)
        columns = [f"{change} as change", identity, "changed", *sides]
        checked = many_columns.selected(rows, [*columns, *PAIR]).orderBy(*order)
        return checked.drop(*PAIR)

    @property
    def flat(self) -> DataFrame:
        """The same without structs: ``key.id``, ``before.total``, ``after.total``.

        Key columns are there once.
        """
        return self._flat(self.frame)

    def rows(self, most: int | None = None) -> QueryResult:
        """The rows of :attr:`frame`, or the first of them, to be fetched."""
        return QueryResult(_first(self.frame, most), [])

    def flat_rows(self, most: int | None = None) -> QueryResult:
        """The rows of :attr:`flat`, or the first of them, to be fetched."""
        return QueryResult(self._flat(_first(self.frame, most)), [])

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
        rows = self._rows if self._is_kept else self._rows_of(False)
        counted = rows.select("change", F.explode(each).alias("column"))
        with plain_errors(), stages(self._rows.sparkSession, *_WORDS):
            groups = counted.groupBy("change", "column").count().collect()
            cells = {row["column"]: row["count"] for row in groups if row["column"] is not None}
            kinds = Counter(
                {one["change"]: one["count"] for one in groups if one["column"] is None}
            )
            there = kinds[REMOVED] if self._pairs.in_first else kinds[ADDED]
            same = self._pairs.count() - kinds[CHANGED] - there
        return Counts(
            added=kinds[ADDED],
            changed=kinds[CHANGED],
            removed=kinds[REMOVED],
            unchanged=same,
            respelled=kinds[RESPELLED],
            cells={name: cells[name] for name in self.names if name in cells},
        )

    def _flat(self, frame: DataFrame) -> DataFrame:
        # Thousands of columns taken out of a struct keep Spark's optimizer busy for seconds.
        step = FlatStep(self._shape.columns, self._shape.keys)
        return frame.mapInArrow(step, from_arrow_schema(step.schema))


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
        compared.warn_of_rules()
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
        reading = self._reading(pairs.pairs, after, shape)

        def rows(cells: bool) -> DataFrame:
            step = PairStep(shape.columns, shape.keys, self._table.name, misfits != FAIL, cells)
            return _paired(reading, step)

        return Diff(self._compared, pairs, rows, shape, counts, lease)

    def _misfits(self, pairs: DataFrame, after: Snapshot) -> dict[str, int]:
        shape = shape_of(after)
        reading = self._reading(pairs, after, shape)
        step = Pipeline((reading.step, MisfitStep()))
        each = reading.routed.mapInArrow(step, "column int")
        counted = {row["column"]: row["count"] for row in each.groupBy("column").count().collect()}
        return {shape.names[index]: counted[index] for index in sorted(counted)}

    def _reading(self, pairs: DataFrame, after: Snapshot, shape: Shape) -> _Reading:
        return _reading(self._spark, self._table, self._compared, pairs, after, shape)


@dataclass(frozen=True)
class _Reading:
    """How both rows of each pair are read.

    Attributes:
        routed: The positions, each where it is read.
        step: Reads them.
        tasks: How many tasks do.
        schema: The columns of the shape, misfits, ``PAIR`` and ``IS_AFTER``.
    """

    routed: DataFrame
    step: RowsAt
    tasks: int
    schema: T.StructType


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
    reading = _reading(spark, table, compared, pairs, after, shape)
    return reading.routed.mapInArrow(reading.step, reading.schema)


def _reading(
    spark: SparkSession,
    table: Table,
    compared: Comparison,
    pairs: DataFrame,
    after: Snapshot,
    shape: Shape,
) -> _Reading:
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
    return _Reading(routed, RowsAt(reader, alone, (*PAIR, IS_AFTER)), len(tasks), schema)


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


def _paired(reading: _Reading, step: PairStep) -> DataFrame:
    """Each pair as one row."""
    schema = from_arrow_schema(step.schema)
    if reading.tasks <= 1:
        return reading.routed.mapInArrow(Pipeline((reading.step, step)), schema)
    parts = 2 * reading.tasks
    shared = reading.routed.mapInArrow(Pipeline((reading.step, PartStep(parts))), PARTS)
    # As routing does: a partition may have several parts, of which one at a time is in memory.
    partitions = min(parts, 4 * cores(reading.routed.sparkSession) + parts // 4)
    meeting = shared.repartitionById(partitions, F.col(PART) % partitions)
    return meeting.sortWithinPartitions(PART).mapInArrow(step, schema)


def _first(frame: DataFrame, most: int | None) -> DataFrame:
    return frame if most is None else frame.limit(most)
