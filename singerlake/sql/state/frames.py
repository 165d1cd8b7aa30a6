"""Rows as Spark frames: their schema inside, and the names and columns that people see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.spark.jvm import failures, many_columns
from singerlake.engine.spark.jvm.session import cores
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.format.types import Columns, Type
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.rows.batches.row_columns import (
    BLOCK,
    DELETED,
    MISFITS,
    ORDINAL,
    PROVENANCE,
    alias,
    aliases,
    row_schema,
)
from singerlake.rows.blocks import block_tasks
from singerlake.rows.blocks.block_reader import BlockReader
from singerlake.rows.blocks.misfits import FAIL, reader_ways_out
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.state import activations
from singerlake.rows.state.shape import Shape
from singerlake.sql.tables import metadata_names


def spark_type(type_: Type) -> T.DataType:
    """Return the Spark type that holds a column's values."""
    return from_arrow_type(arrow_type(type_))


def frame_schema(columns: Columns, extra: Iterable[str] = PROVENANCE) -> T.StructType:
    """Return the schema of a frame inside; arguments are those of ``row_schema``."""
    return from_arrow_schema(row_schema(columns, extra))


def cast_to(frame: DataFrame, columns: Columns) -> DataFrame:
    """Cast rows to exactly the types of a table, under the names that its columns have inside.

    Args:
        columns: The table's; what the frame has beyond them stays as it is.
    """
    names = aliases(len(frame.columns))
    cells = [
        f"cast({name} as {many_columns.ddl(spark_type(type_))}) as {name}"
        for name, (_, type_) in zip(names, columns, strict=False)
    ]
    return many_columns.selected(many_columns.named(frame, names), cells + names[len(cells) :])


def renamed(frame: DataFrame, shape: Shape) -> DataFrame:
    """Give columns their own names, and drop the provenance of rows that :func:`guarded` gave."""
    return many_columns.named(many_columns.selected(frame, shape.aliases), shape.names)


def with_provenance(frame: DataFrame, shape: Shape, snapshot: TableState) -> DataFrame:
    """Do as :func:`renamed`, with ``_row_id``, ``_row_version`` and ``_transaction`` in front.

    A row's version is its block's number, and the transaction is the one that brought this block,
    which may have brought many. If the table has such a column itself, ours get more underscores
    in front.

    Args:
        shape: The table's shape.
        snapshot: Knows which transaction brought which blocks.
    """
    names = metadata_names(shape.names)
    mine = [row_id(shape).alias(names[0]), F.col(BLOCK).alias(names[1])]
    own = frame.select(*mine, _transaction(snapshot).alias(names[2]), "*")
    selected = many_columns.selected(own, [*names, *shape.aliases])
    return many_columns.named(selected, [*names, *shape.names])


def row_id(shape: Shape) -> Column:
    """Return the id of a row of a shape.

    That is its key, as text, or as a JSON array of texts where the key has several parts; without
    a key ``block:ordinal``.
    """
    keys = [F.col(key).cast("string") for key in shape.key_aliases]
    if not keys:
        return F.concat_ws(":", BLOCK, ORDINAL)
    return keys[0] if len(keys) == 1 else F.to_json(F.array(*keys))


def _transaction(snapshot: TableState) -> Column:
    """Return the transaction of each row's block: a constant list, by the block's number."""
    numbers: list[str] = []
    for one in snapshot.transactions:
        numbers += [str(one.number)] * (one.last_block - len(numbers))
    if not numbers:  # there is no row; "" is no number
        return F.lit(None).cast("bigint")
    every_block = F.split(F.lit(",".join(numbers)), ",").cast("array<bigint>")
    return F.element_at(every_block, F.col(BLOCK).cast("int"))


def guarded(
    frame: DataFrame,
    shape: Shape,
    table: TableName,
    indexes: Iterable[int],
    misfits: str = FAIL,
) -> DataFrame:
    """Make it an error to read a value that does not fit, and drop the column of misfits.

    Only that: a query that reads other columns, or only counts, is not disturbed.

    Args:
        frame: Rows with provenance.
        shape: The table's shape.
        table: The table's name, for the error.
        indexes: Of the columns that may have misfits.
        misfits: ``null`` to read a misfit as null all the same.
    """
    columns = {name: name for name in frame.columns if name != MISFITS}
    mark = many_columns.text(failures.MISFIT_MARK)
    for index in indexes if misfits == FAIL else ():
        error = f"try_element_at({MISFITS}, {index})"
        ways_out = f"; {reader_ways_out(table, shape.names[index], keyed=bool(shape.keys))}"
        raised = f"raise_error(concat({mark}, {error}, {many_columns.text(ways_out)}))"
        name = alias(index)
        columns[name] = f"case when {error} is null then {name} else {raised} end as {name}"
    return many_columns.selected(frame, columns.values())


def read_blocks(
    spark: SparkSession,
    table: Table,
    snapshot: TableState,
    blocks: Sequence[Block],
    shape: Shape,
    *,
    digests: bool = False,
) -> DataFrame:
    """Read all rows of some blocks, deletions too, in the shape of the table.

    Blocks whose rows no activation leaves are not read.

    Args:
        blocks: In order of number.
        shape: The table's shape.
        digests: Whether the records' digests are wanted.
    """
    needed = activations.needed(blocks, shape.survival)
    shared = block_tasks.split(needed, 2 * cores(spark), block_tasks.TASK_BYTES)
    reader = BlockReader.of(
        table.store, snapshot, shared, shape.columns, shape.key_names, digests=digests
    )
    schema = frame_schema(shape.columns, (*PROVENANCE, DELETED))
    engine = SparkEngine(spark)
    sent, reader.tasks = reader.tasks, []
    return engine.map(engine.source(sent), reader, schema).frame


def numbered(spark: SparkSession, tasks: int) -> DataFrame:
    """Give each of some tasks its number, in a partition of its own."""
    return spark.range(tasks, numPartitions=max(1, tasks))
