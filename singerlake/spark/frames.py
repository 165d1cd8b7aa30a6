"""A table's state at a transaction as a Spark frame: plan, read, fold.

Inside, columns are named by place (``c0``, ``c1``, …), because a property may have any name:
with dots, in two cases, or equal to one of ours. They get their own names at the very end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812

from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.lake import Table
from singerlake.maintenance.misfits import reader_ways_out
from singerlake.spark import failures, fold, rows
from singerlake.spark.columns import Columns, Kind, Type, arrow_type, columns_of, key_positions
from singerlake.spark.fold import Survival
from singerlake.spark.session import cores
from singerlake.storage.base import Store
from singerlake.transactions import blocks as stored
from singerlake.transactions.snapshot import Snapshot

BLOCK, ORDINAL, VERSION, DIGEST, MISFIT, GONE = "p0", "p1", "p2", "p3", "p4", "p5"
PROVENANCE = (BLOCK, ORDINAL, VERSION, DIGEST)
"""Where a row lies, under which Singer version it came, and its record's digest, null where
nobody asked for it; every frame inside carries them."""
_PROVENANCE_TYPES = {
    BLOCK: T.LongType(),
    ORDINAL: T.IntegerType(),
    VERSION: T.LongType(),
    DIGEST: T.BinaryType(),
    MISFIT: T.MapType(T.IntegerType(), T.StringType()),
    GONE: T.BooleanType(),
}
FAIL, NULL, AS_TEXT = "fail", "null", "text"
"""What may become of a value that its column cannot hold, where it is read."""
TASK_BYTES = 128 << 20
SHUFFLE_BYTES = 128 << 20
BATCH_ROWS = 16_384

_SPARK = {
    Kind.INTEGER: T.LongType(),
    Kind.NUMBER: T.DoubleType(),
    Kind.STRING: T.StringType(),
    Kind.TEXT: T.StringType(),
    Kind.DATE: T.DateType(),
    Kind.TIMESTAMP: T.TimestampType(),
    Kind.BOOLEAN: T.BooleanType(),
}


@dataclass(frozen=True)
class Shape:
    """What a table looks like at a transaction.

    Attributes:
        columns: Its columns.
        keys: Places of the key columns; empty for a keyless table.
        survival: What the activations leave.
    """

    columns: Columns
    keys: tuple[int, ...]
    survival: Survival

    @property
    def names(self) -> list[str]:
        """The columns' own names."""
        return [name for name, _ in self.columns]

    @property
    def places(self) -> list[str]:
        """The columns' names inside."""
        return [f"c{place}" for place in range(len(self.columns))]


def shape_of(snapshot: Snapshot) -> Shape:
    """A table's shape, from its log alone.

    Raises:
        DamagedError: The schema in effect is not in the log, or lacks a key column.
    """
    columns = columns_of(snapshot.schema, snapshot.rules, snapshot.retyped)
    keys = key_positions(snapshot.schema, columns, snapshot.table)
    return Shape(columns, keys, fold.survival(snapshot.blocks))


def with_provenance(frame: DataFrame, shape: Shape) -> DataFrame:
    """Columns under their own names, and before them ``_row_id`` and ``_row_version``.

    A row's id is its key, as text, or as a JSON array of texts where the key has several
    parts; without a key ``block:ordinal``. Its version is its block's number. Where the table
    has such a column itself, ours get more underscores in front.
    """
    keys = [F.col(f"c{place}").cast("string") for place in shape.keys]
    if not keys:
        row_id = F.concat_ws(":", BLOCK, ORDINAL)
    else:
        row_id = keys[0] if len(keys) == 1 else F.to_json(F.array(*keys))
    taken = {name.casefold() for name in shape.names}
    front = "_"
    while {f"{front}row_id", f"{front}row_version"} & taken:
        front += "_"
    names = (f"{front}row_id", f"{front}row_version")
    placed = frame.select(row_id, F.col(BLOCK), *shape.places)
    return placed.toDF(*names, *shape.names)


def renamed(frame: DataFrame, shape: Shape) -> DataFrame:
    """Give the columns their own names, and drop where the rows came from.

    As :func:`with_provenance`, it takes rows that :func:`guarded` gave.
    """
    return frame.select(*shape.places).toDF(*shape.names)


def read_blocks(
    spark: SparkSession,
    table: Table,
    snapshot: Snapshot,
    blocks: list[Block],
    shape: Shape,
    *,
    digests: bool = False,
) -> DataFrame:
    """All rows of some blocks, deleted ones too, in the shape of the table.

    Blocks whose rows no activation leaves are not read.

    Args:
        spark: The session.
        table: The table.
        snapshot: Knows the schemas.
        blocks: In order of number.
        shape: The table's shape.
        digests: Whether the records' digests are wanted.
    """
    least = 2 * cores(spark)
    tasks = fold.tasks(fold.needed(blocks, shape.survival), least, TASK_BYTES)
    keys = frozenset(shape.columns[place][0] for place in shape.keys)
    reader = block_reader(table, snapshot, tasks, shape.columns, keys, digests=digests)
    count = len(tasks)
    schema = frame_schema(shape, judged=False)
    return spark.range(count, numPartitions=max(1, count)).mapInArrow(reader, schema)


def block_reader(
    table: Table,
    snapshot: Snapshot,
    tasks: list[list[Block]],
    target: Columns,
    keys: frozenset[str],
    *,
    digests: bool = False,
) -> BlockReader:
    """What reads some columns of some blocks on the executors.

    Args:
        table: The table.
        snapshot: Knows the schemas.
        tasks: The blocks of each task.
        target: The columns wanted.
        keys: Names of those by which rows are told apart.
        digests: Whether the records' digests are wanted.
    """
    hashes = {block.schema_hash for run in tasks for block in run}
    rules, retyped = snapshot.rules, snapshot.retyped
    return BlockReader(
        store=table.store,
        table=table.name,
        tasks=[fold.encoded(run) for run in tasks],
        sources={name: columns_of(snapshot.schema_of(name), rules, retyped) for name in hashes},
        target=target,
        keys=keys,
        digests=digests,
    )


def fold_rows(frame: DataFrame, shape: Shape, size: int) -> DataFrame:
    """Leave the rows of the state, with what in them does not fit.

    Args:
        frame: Rows with where they lie and whether they are deletions.
        shape: The table's shape.
        size: Bytes about to be shuffled, for the number of parts.
    """
    stays = ~F.col(GONE)
    if (rule := _survives(shape.survival)) is not None:
        stays &= rule
    return newest(frame, shape, size).where(stays).select(*shape.places, *PROVENANCE, MISFIT)


def newest(frame: DataFrame, shape: Shape, size: int) -> DataFrame:
    """The newest row of each key, whole; without keys, all rows.

    Args:
        frame: Rows with where they lie.
        shape: The table's shape.
        size: Bytes about to be shuffled, for the number of parts.
    """
    if not shape.keys:
        return frame
    keys = [F.col(f"c{place}") for place in shape.keys]
    window = Window.partitionBy(*keys).orderBy(F.desc(BLOCK), F.desc(ORDINAL))
    parts = max(2 * cores(frame.sparkSession), -(-size // SHUFFLE_BYTES))
    if size < SHUFFLE_BYTES // 16:
        parts = 1
    ranked = frame.repartition(parts, *keys).withColumn("rank", F.row_number().over(window))
    return ranked.where(F.col("rank") == 1).drop("rank")


def unjudged(frame: DataFrame) -> DataFrame:
    """Rows of a state beside rows that are still to be judged: none is gone."""
    return frame.withColumn(GONE, F.lit(False))


def guarded(
    frame: DataFrame,
    shape: Shape,
    table: TableName,
    places: Iterable[int],
    misfits: str = FAIL,
) -> DataFrame:
    """Rows without what is said of misfits: to read a value that does not fit is an error.

    Only that: who reads other columns, or only counts, is not disturbed.

    Args:
        frame: Rows with what in them does not fit.
        shape: The table's shape.
        table: The table's name, for what is said.
        places: The columns that may have misfits.
        misfits: ``null`` to read a misfit as null all the same.
    """
    poisoned = {f"c{place}": place for place in places} if misfits == FAIL else {}
    kept = [name for name in frame.columns if name != MISFIT]
    columns = []
    for name in kept:
        column = F.col(name)
        if name in poisoned:
            said = F.try_element_at(MISFIT, F.lit(poisoned[name]))
            column_name = shape.columns[poisoned[name]][0]
            ways_out = f"; {reader_ways_out(table, column_name, keyed=bool(shape.keys))}"
            error = F.raise_error(F.concat(F.lit(failures.MISFIT_MARK), said, F.lit(ways_out)))
            column = F.when(said.isNull(), column).otherwise(error).alias(name)
        columns.append(column)
    return frame.select(*columns)


def _survives(rule: Survival) -> Column | None:
    if rule.last is None:
        return None
    kept = F.col(VERSION).eqNullSafe(rule.last.version)
    if rule.different is not None:
        kept &= _from(rule.different.block, rule.different.rows)
    return kept | _from(rule.last.block, rule.last.rows)


def _from(block: int, ordinal: int) -> Column:
    """Whether a row lies at or after a position."""
    same = (F.col(BLOCK) == block) & (F.col(ORDINAL) >= ordinal)
    return (F.col(BLOCK) > block) | same


def frame_schema(shape: Shape, *, judged: bool = True) -> T.StructType:
    """The schema of a frame inside: columns by place, then where the rows come from.

    Args:
        shape: The table's.
        judged: Whether only rows of the state are in it; else it says of each whether it is
            a deletion.
    """
    fields = [
        T.StructField(place, spark_type(type_))
        for place, (_, type_) in zip(shape.places, shape.columns, strict=True)
    ]
    extra = [*PROVENANCE, MISFIT] if judged else [*PROVENANCE, MISFIT, GONE]
    return T.StructType([*fields, *(T.StructField(n, _PROVENANCE_TYPES[n]) for n in extra)])


def spark_type(type_: Type) -> T.DataType:
    """The Spark type that holds a column's values."""
    if type_.kind is Kind.DECIMAL:
        arrow = arrow_type(type_)
        return T.DecimalType(arrow.precision, arrow.scale)
    if type_.kind is Kind.STRUCT:
        return T.StructType(
            [T.StructField(name, spark_type(inner)) for name, inner in type_.fields]
        )
    if type_.item is not None:
        return T.ArrayType(spark_type(type_.item))
    return _SPARK[type_.kind]


@dataclass
class BlockReader:
    """Reads blocks on an executor. Sent there by value: the store goes with it.

    Attributes:
        store: The lake's store.
        table: Whose blocks.
        tasks: The blocks of each task, encoded: each task is sent all of them, and decodes
            its own.
        sources: Columns of each schema that the blocks were written under.
        target: Columns of the table.
        keys: Names of those by which rows are told apart.
        digests: Whether the records' digests are wanted.
    """

    store: Store
    table: TableName
    tasks: list[bytes]
    sources: dict[str, Columns]
    target: Columns
    keys: frozenset[str]
    digests: bool = False

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the tasks whose numbers come in."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from gathered(self.rows(self.run(number)))

    def run(self, number: int) -> list[Block]:
        """The blocks of a task."""
        return fold.decoded(self.tasks[number])

    def texts(self, blocks: Iterable[Block]) -> Iterator[tuple[Block, bytes]]:
        """Blocks with their lines, inflated and checked."""
        return stored.read_blocks(self.store, self.table, blocks)

    def about(self, block: Block) -> rows.BlockRows:
        """What is needed to read a block."""
        return rows.BlockRows(
            where=f"block {block.number} of {self.table}",
            block=block,
            source=self.sources[block.schema_hash],
            target=self.target,
            keys=self.keys,
            digests=self.digests,
            table=self.table,
        )

    def rows(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """All rows, block by block, with columns named by place."""
        for block, text in self.texts(blocks):
            yield self._placed(rows.read(text, self.about(block)))

    def read_some(self, block: Block, text: bytes, places: NDArray[np.int64]) -> pa.RecordBatch:
        """Some rows of a block that is inflated already."""
        return self._placed(rows.read_some(text, self.about(block), places))

    def _placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        places = [f"c{place}" for place in range(len(self.target))]
        return batch.rename_columns([*places, *PROVENANCE, MISFIT, GONE])


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
