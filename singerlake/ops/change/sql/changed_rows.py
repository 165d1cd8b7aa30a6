"""The rows that a transaction wrote: their ids and versions, read from its own blocks.

They are never collected: a change may be of any size, so whoever made it gets a frame, and reads
as much of it as is wanted.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.lake import Table
from singerlake.rows.batches.row_columns import BLOCK, DELETED
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.sql.state import frames

NAMES = ("_row_id", "_row_version", "_deleted")
"""The columns: what names the row, the version that it was written in, and whether it went."""


def changed_rows(spark: SparkSession, table: Table, transaction: int | None) -> DataFrame:
    """Give the rows that a transaction inserted, changed or deleted, as a frame of :data:`NAMES`.

    Where a transaction wrote all rows of a table without a key anew, these are all of them. Only
    the key is read of each, when the frame is.

    Args:
        transaction: Which; None gives no row.

    Raises:
        NotFoundError: There is no such transaction, or its rows were dropped with the history.
    """
    if transaction is None:
        return spark.createDataFrame([], "_row_id string, _row_version bigint, _deleted boolean")
    snapshot = table.snapshot().at(transaction)
    before = snapshot.summary(transaction - 1).last_block if transaction > 1 else 0
    whole = shape_of(snapshot)
    keys = whole.key_columns
    shape = Shape(keys, tuple(range(len(keys))), whole.survival)
    blocks = snapshot.blocks_after(transaction - 1)
    rows = frames.read_blocks(spark, table, snapshot, blocks, shape)
    # A block that a vacuum put together may hold rows of other transactions too.
    own = rows.where(F.col(BLOCK) > before)
    return own.select(frames.row_id(shape), BLOCK, DELETED).toDF(*NAMES)
