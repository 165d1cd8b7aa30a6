"""Makes the index of a transaction: from an earlier one where there is one, else from the blocks.

A small change to a large state becomes a layer on it (``layers.py``), anything else a whole
state again. Transactions that changed no row share the index of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import DamagedError
from singerlake.format.log import Block
from singerlake.format.names import IndexFolder
from singerlake.format.types import is_exact
from singerlake.lake import Table
from singerlake.reading import index
from singerlake.reading.index import Index
from singerlake.records.rows.row_columns import BLOCK, file_schema
from singerlake.records.state.parquet_parts import WRITTEN, PartWriter
from singerlake.records.state.shape import Shape, shape_of
from singerlake.spark.jvm.failures import plain_errors
from singerlake.spark.jvm.progress import stages
from singerlake.spark.state import candidates, fold, frames, from_blocks, index_rows, layers
from singerlake.transactions.snapshot import Snapshot


def ensure(
    spark: SparkSession,
    table: Table,
    snapshot: Snapshot,
    *,
    fresh: bool = False,
    shown: bool = False,
) -> Index:
    """Return the index of a transaction: the one that is there, or a new one.

    Args:
        spark: The session.
        table: The table.
        snapshot: The table at the transaction, read from its log.
        fresh: Start from the blocks alone, past any earlier index.
        shown: Whether rows are only shown, and not found by their keys.

    Raises:
        DamagedError: A block that is needed cannot be read; or a column of the key would have to
            round some of its values, where rows are found by these.
        StoreError: The store refused.
    """
    snapshot = snapshot.earliest_equal()
    found = index.sound(table, snapshot) or _build(spark, table, snapshot, fresh)
    return found if shown else found.with_keys()


def at_hand(table: Table, snapshot: Snapshot) -> Index | None:
    """Return the index of a transaction if there is one, for somebody who finds rows by keys."""
    found = index.sound(table, snapshot.earliest_equal())
    return None if found is None else found.with_keys()


def has_base(table: Table, snapshot: Snapshot) -> bool:
    """Tell whether an index of a transaction can begin with an earlier one."""
    return _base(table, snapshot, shape_of(snapshot)) is not None


def _build(spark: SparkSession, table: Table, snapshot: Snapshot, fresh: bool) -> Index:
    base = None if fresh else _base(table, snapshot, shape_of(snapshot))
    if base is None:
        return _whole(spark, table, snapshot)
    try:
        return _on_base(spark, snapshot, base)
    except DamagedError:
        if not any(is_exact(type_) for _, type_ in base.shape.key_columns):
            raise
    return _whole(spark, table, snapshot)  # some later key may be one that its column rounds


def _whole(spark: SparkSession, table: Table, snapshot: Snapshot) -> Index:
    shape = shape_of(snapshot)
    parts, words = _from_blocks(spark, table, snapshot, _writer(table, snapshot, shape))
    return index.finish(table, snapshot, shape, _written(spark, parts, words))


def _on_base(spark: SparkSession, snapshot: Snapshot, base: Index) -> Index:
    shape = shape_of(snapshot)
    parts, below = _from_index(spark, snapshot, shape, base)
    with plain_errors():
        written = _written(spark, parts, ("reading what is new", "writing the index"))
    return index.finish(base.table, snapshot, shape, written, below)


def _written(
    spark: SparkSession, parts: DataFrame, words: tuple[str, ...]
) -> list[dict[str, object]]:
    with stages(spark, *words):
        # A few words a file come to the driver, never rows.
        return [row.asDict() for row in parts.collect()]


def _from_blocks(
    spark: SparkSession, table: Table, snapshot: Snapshot, writer: PartWriter
) -> tuple[DataFrame, tuple[str, ...]]:
    """The files of a whole state, and what Spark's stages do for them."""
    plan = from_blocks.planned(spark, table, snapshot, digests=True, shown=True)
    if once := candidates.likely(snapshot, plan):
        return candidates.written(spark, plan, once, writer), candidates.STAGES
    return from_blocks.through(spark, plan, writer, WRITTEN), from_blocks.stage_words(plan)


def _from_index(
    spark: SparkSession, snapshot: Snapshot, shape: Shape, base: Index
) -> tuple[DataFrame, Index | None]:
    """A layer on an earlier index's whole state, or a new whole state; and what is below."""
    table = base.table
    since = snapshot.blocks_after(base.marker.transaction)
    later = frames.read_blocks(spark, table, snapshot, since, shape, digests=True)
    # A block that a vacuum put together may hold older rows too: a layer must not hide a newer
    # one below behind them.
    later = later.where(F.col(BLOCK) > base.snapshot.last_block)
    size = sum(block.bytes for block in since)
    if (below := _worth_a_layer(base, since)) is not None:
        if base is not below:
            later = index_rows.own_rows(spark, base, digests=True).unionAll(later)
        writer = _writer(table, snapshot, shape, layer=True)
        return layers.layer(later, shape, size).mapInArrow(writer, WRITTEN), below
    size += 3 * base.bytes
    earlier = fold.undeleted(index_rows.rows(spark, base, digests=True))
    writer = _writer(table, snapshot, shape)
    return fold.fold(earlier.unionAll(later), shape, size).mapInArrow(writer, WRITTEN), None


def _worth_a_layer(base: Index, since: Sequence[Block]) -> Index | None:
    """The index that a layer with some later blocks should lie on; None for no layer."""
    below = base.below or base
    changed = sum(block.rows for block in since) + (_file_rows(base) if base is not below else 0)
    if any(block.activations for block in since):
        return None  # it may remove rows of any key
    return below if layers.worthwhile(_file_rows(below), changed) else None


def _writer(table: Table, snapshot: Snapshot, shape: Shape, *, layer: bool = False) -> PartWriter:
    schema = file_schema(shape.columns, layer=layer)
    return PartWriter(table.store, index.folder_of(table, snapshot), schema)


def _file_rows(built: Index) -> int:
    return sum(file.rows for file in built.marker.files)


def _base(table: Table, snapshot: Snapshot, shape: Shape) -> Index | None:
    """The newest earlier index under the same schema, if it can hold rows of the state."""
    folders = map(IndexFolder.parse, table.store.folders(table.name.indexes))
    numbers = {one.transaction for one in folders if one and one.rules == snapshot.rules}
    for number in sorted((n for n in numbers if 0 < n < snapshot.number), reverse=True):
        if not snapshot.readable(number):
            continue  # its rows may be gone from the blocks, and nobody keeps it
        earlier = snapshot.at(number)
        if earlier.last_block < shape.survival.first_block:
            return None  # an activation has removed all of it since
        if not earlier.reads_like(snapshot):
            continue
        if (base := index.sound(table, earlier)) is not None:
            # Rows cannot be laid over others by keys that columns would have to round.
            return None if base.misfits.intersection(shape.keys) else base
    return None
