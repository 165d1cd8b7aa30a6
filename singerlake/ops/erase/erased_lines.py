"""Finds the lines of rows that a condition in SQL names: all that these rows ever were."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.format.log import Block
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.erase.lines import BY_BLOCK, ByBlock, ErasedLines, FoundRows
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, aliases
from singerlake.rows.changes import row_ids
from singerlake.rows.state.activations import Survival
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.sql import conditions
from singerlake.sql.state import fold, frames


@dataclass(frozen=True)
class ByCondition:
    """Finds lines, as ``ByIds`` does.

    Attributes:
        where: The condition; a row is meant if it held for the row as it was at any time.
    """

    spark: SparkSession
    table: Table
    where: str

    @plain_errors()
    def find(self, state: TableState, most_keys: int, most_ids: int) -> FoundRows:
        """Find all lines of the rows.

        Args:
            state: The table: rows are told apart by its key.
            most_keys: As many keys are wanted at most.
            most_ids: Of no more rows the ids are wanted.

        Raises:
            InvalidQueryError: The condition is none.
            DamagedError: A block cannot be read, or a key's column would have to round some.
        """
        columns = shape_of(state).key_columns
        names = aliases(columns)
        with ExitStack() as stack:

            def kept(frame: DataFrame) -> DataFrame:
                """Have a frame computed once; it stays on the executors' disks for as long."""
                frame.persist(StorageLevel.DISK_ONLY)
                stack.callback(frame.unpersist)
                return frame

            if columns:
                keys = kept(self._keys(state, state.blocks))
                gone = kept(self._of_keys(state, state.blocks, keys))
                lone = F.when(fold.lacks(names), F.struct("block", "row"))
                count = gone.select(*names, lone).distinct().count()
                found = keys.limit(most_keys).toArrow()
            else:
                gone = kept(self._single(state, state.blocks))
                count, found = gone.count(), pa.table({})
            lines = self._lines(gone, state.blocks)
            ids = None
            if count <= most_ids:
                named = gone.select(*(names or ["block", "row"])).dropna("any").distinct()
                rows = named.toArrow().to_pylist()
                ids = sorted(row_ids.id_text([*row.values()], columns) for row in rows)
        return FoundRows(lines, count, found, found, ids)

    @plain_errors()
    def any_in(self, state: TableState, blocks: Sequence[Block]) -> bool:
        """Tell whether some blocks have lines of the rows.

        Args:
            state: The table that they are of.
            blocks: In order.
        """
        if not state.key:
            return not self._single(state, blocks).isEmpty()
        # The condition may not hold for the new line of a row that is to go.
        keys = self._keys(state, state.blocks)
        return not self._of_keys(state, blocks, keys).isEmpty()

    def _keys(self, state: TableState, blocks: Sequence[Block]) -> DataFrame:
        """The keys of the rows, each once; a row with a null in its key has none."""
        shape = _shape(state)
        rows = conditions.selected(self._rows(state, blocks, shape), shape, self.where)
        keys = rows.select(*shape.key_aliases).toDF(*aliases(shape.key_columns))
        return keys.dropna("any").distinct()

    def _of_keys(self, state: TableState, blocks: Sequence[Block], keys: DataFrame) -> DataFrame:
        """The lines of some keys: these, and their positions as ``block`` and ``row``.

        A row with a null in its key for which the condition holds is a line by itself.
        """
        shape = _shape(state)
        columns = shape.key_columns
        names = aliases(columns)
        keyed = Shape(columns, tuple(range(len(columns))), Survival())
        found = self._rows(state, blocks, keyed).join(keys, names, "left_semi")
        selected = conditions.selected(self._rows(state, blocks, shape), shape, self.where)
        own = shape.key_aliases
        lone = selected.where(fold.lacks(own)).select(*own, BLOCK, ORDINAL)
        whole = found.select(*names, BLOCK, ORDINAL).unionAll(lone.toDF(*names, BLOCK, ORDINAL))
        return whole.select(*names, *_place())

    def _single(self, state: TableState, blocks: Sequence[Block]) -> DataFrame:
        """The lines, in a table without a key."""
        shape = _shape(state)
        rows = conditions.selected(self._rows(state, blocks, shape), shape, self.where)
        return rows.select(*_place())

    def _rows(self, state: TableState, blocks: Sequence[Block], shape: Shape) -> DataFrame:
        return frames.read_blocks(self.spark, self.table, state, blocks, shape)

    def _lines(self, gone: DataFrame, blocks: Sequence[Block]) -> ErasedLines:
        numbers = np.array([block.number for block in blocks], dtype=np.int64)
        engine = SparkEngine(self.spark)
        places = SparkRows(gone.select("block", "row"))
        # At most eight bytes for each line that goes, and never rows.
        return ErasedLines.of(engine.collect(engine.map(places, ByBlock(numbers), BY_BLOCK)))


def _place() -> tuple[Column, Column]:
    return F.col(BLOCK).alias("block"), F.col(ORDINAL).alias("row")


def _shape(state: TableState) -> Shape:
    return replace(shape_of(state), survival=Survival())
