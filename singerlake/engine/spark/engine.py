"""Steps run on Spark's executors: what is large, or what somebody asks Spark for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from singerlake.engine.base import SOURCE, Engine, Schema, task_row
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.engine.spark.jvm.progress import followed_by, stages
from singerlake.engine.spark.jvm.session import cores, runs_here
from singerlake.rows.batches.steps import Batches, Pipeline, Step
from singerlake.rows.blocks.block_tasks import SENT, grouped

CARRIED_BYTES = 1 << 16
"""What tasks are told goes with the step up to here, to all of them. Of a table of millions of
blocks each task would read a hundred megabytes to find the few kilobytes that are its own."""
_SHARE_BYTES = 1 << 16
"""Of what tasks are told on the way to a later stage: about what one task passes on."""
_LOCAL_ROWS = "spark.sql.execution.arrow.localRelationThreshold"


@dataclass(frozen=True)
class SparkRows:
    """Rows as a frame, and the step that has to begin whatever is done with them, if any."""

    frame: DataFrame
    first: Step | None = None


class SparkEngine(Engine[SparkRows]):
    """Runs steps on a session's executors."""

    @plain_errors()
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.parts = 2 * cores(spark)
        self.here = runs_here(spark)

    @plain_errors()
    def source(self, tasks: Sequence[bytes]) -> SparkRows:  # noqa: D102
        if _are_carried(tasks):
            numbers = self.spark.range(len(tasks), numPartitions=max(1, len(tasks)))
            return SparkRows(numbers, _TasksStep([*tasks]))
        alone = [([number], [task]) for number, task in enumerate(tasks)]
        return SparkRows(_frame(self.spark, SOURCE, alone))

    @plain_errors()
    def map(self, rows: SparkRows, step: Step, schema: Schema | StructType) -> SparkRows:
        """Do as :meth:`Engine.map`; a schema may also be one of Spark's."""
        whole = step if rows.first is None else Pipeline((rows.first, step))
        given = from_arrow_schema(schema) if isinstance(schema, pa.Schema) else schema
        return SparkRows(rows.frame.mapInArrow(whole, given))

    @plain_errors()
    def union(self, *rows: SparkRows) -> SparkRows:  # noqa: D102
        return SparkRows(reduce(DataFrame.unionByName, (one.frame for one in rows)))

    @plain_errors()
    def exchange(  # noqa: D102
        self, rows: SparkRows, parts: int, by: str, tasks: Sequence[bytes] | None = None
    ) -> SparkRows:
        if tasks is None:
            return SparkRows(rows.frame.repartitionById(parts, F.col(by) % parts))
        if _are_carried(tasks):
            told = _ToldStep(by, [*tasks])
            return SparkRows(rows.frame.repartitionById(parts, by), told)
        return SparkRows(_beside(self.spark, rows.frame, by, tasks).repartitionById(parts, by))

    @contextmanager
    def keep(self, rows: SparkRows) -> Iterator[SparkRows]:
        """Do as :meth:`Engine.keep`, on the executors' disks."""
        with plain_errors():
            kept = rows.frame.persist(StorageLevel.DISK_ONLY)
        try:
            yield SparkRows(kept)
        finally:
            # If Java is gone, the error of the work within says so.
            with suppress(Exception):
                kept.unpersist()

    @plain_errors()
    def having(self, rows: SparkRows, column: str) -> SparkRows:  # noqa: D102
        return SparkRows(rows.frame.where(F.col(column).isNotNull()))

    @plain_errors()
    def collect(self, rows: SparkRows) -> list[dict[str, Any]]:  # noqa: D102
        return [row.asDict() for row in rows.frame.collect()]

    def stages(self, *words: str, more: int = 0) -> AbstractContextManager[None]:  # noqa: D102
        return stages(self.spark, *words, more=more)

    def followed_by(self, count: int) -> AbstractContextManager[None]:  # noqa: D102
        return followed_by(count)


@dataclass
class _TasksStep:
    """Tells each part its task, of all that go with the step."""

    tasks: list[bytes]

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            told = [self.tasks[number] for number in batch.column("id").to_pylist()]
            yield pa.RecordBatch.from_arrays([batch.column("id"), pa.array(told)], schema=SOURCE)


@dataclass
class _ToldStep:
    """The same behind an exchange: a row with its task comes before the others of a number."""

    by: str
    tasks: list[bytes]

    def __call__(self, batches: Batches) -> Batches:
        told: set[int] = set()
        for batch in batches:
            for number in sorted({*batch.column(self.by).to_pylist()} - told):
                yield task_row(batch.schema, self.by, number, self.tasks[number])
                told.add(number)
            yield batch


def _are_carried(tasks: Sequence[bytes]) -> bool:
    return sum(map(len, tasks)) <= CARRIED_BYTES


def _beside(spark: SparkSession, rows: DataFrame, by: str, tasks: Sequence[bytes]) -> DataFrame:
    """Add a row for each task to the rows that go there."""
    shares = grouped(range(len(tasks)), lambda number: len(tasks[number]), _SHARE_BYTES)
    groups = [(share, [tasks[number] for number in share]) for share in shares]
    told = _frame(spark, pa.schema({by: pa.int32(), SENT: pa.binary()}), groups)
    nothing = [
        F.lit(None).cast(field.dataType).alias(field.name)
        for field in rows.schema.fields
        if field.name != by
    ]
    whole = told.select(by, *nothing, SENT)
    return rows.withColumn(SENT, F.lit(None).cast("binary")).unionByName(whole)


def _frame(
    spark: SparkSession, schema: pa.Schema, groups: list[tuple[list[int], list[bytes]]]
) -> DataFrame:
    """A frame with a partition for each of some groups of rows."""
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)],
            schema=schema,
        )
        for columns in groups
    ]
    before = spark.conf.get(_LOCAL_ROWS)
    # Otherwise Spark makes rows of a few batches, in few tasks; so it keeps them as they are.
    spark.conf.set(_LOCAL_ROWS, "0")
    try:
        return spark.createDataFrame(pa.Table.from_batches(batches))
    finally:
        if before is not None:
            spark.conf.set(_LOCAL_ROWS, before)
