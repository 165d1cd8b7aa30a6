"""The lines that an erasure takes out: all that the asked rows ever were, found by their keys.

In a table with a key a row goes with every line of its key, deletions and what an activation
removed among them. Without one, single lines go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import UsageError
from singerlake.format.log import Block
from singerlake.format.types import Columns
from singerlake.lake import Table
from singerlake.maintenance import blocking
from singerlake.records.blocks.asked_keys import AskedKeys
from singerlake.records.changes import row_ids
from singerlake.records.columns.arrow_types import arrow_type
from singerlake.records.rows.row_columns import BLOCK, ORDINAL, alias, aliases
from singerlake.records.state.activations import Survival
from singerlake.records.state.shape import Shape, shape_of
from singerlake.spark.sql import conditions
from singerlake.spark.state import fold, frames
from singerlake.transactions.snapshot import Snapshot


@dataclass(frozen=True)
class AskedRows:
    """Which rows are to be erased: by their ids, or by a condition.

    Attributes:
        ids: As ``_row_id`` shows them.
        where: A condition in SQL; a row is meant if it held for the row as it was at any time.
    """

    ids: tuple[str, ...] = ()
    where: str | None = None


@dataclass(frozen=True)
class Lines:
    """Finds lines in a table's blocks.

    Attributes:
        spark: The session.
        table: The table.
        snapshot: Its head: rows are told apart by its key.
        asked: Which rows.
    """

    spark: SparkSession
    table: Table
    snapshot: Snapshot
    asked: AskedRows

    @property
    def keyed(self) -> bool:
        """Whether rows have a key."""
        return bool(self.snapshot.key)

    def keys(self, blocks: Sequence[Block]) -> DataFrame:
        """Return the keys of the rows that are asked for, each once, as ``c0`` and so on.

        Args:
            blocks: Where rows are looked for that a condition names.

        Returns:
            Them; a row with a null in its key has none.

        Raises:
            UsageError: An id can be none of a row of this table.
            InvalidQueryError: The condition is none.
        """
        shape = self._shape
        if self.asked.where is None:
            return self._named_keys(shape)
        rows = conditions.selected(self._rows(blocks, shape), shape, self.asked.where)
        keys = rows.select(*shape.key_aliases).toDF(*aliases(shape.key_columns))
        return keys.dropna("any").distinct()

    def of_keys(self, blocks: Sequence[Block], keys: DataFrame) -> DataFrame:
        """Return the lines of some keys: these, and their positions as ``block`` and ``row``.

        A row with a null in its key for which the condition holds is a line by itself.
        """
        columns = self._shape.key_columns
        shape = Shape(columns, tuple(range(len(columns))), Survival())
        # A condition names keys only once all blocks are read.
        by_ids = self.asked.where is None
        asked = AskedKeys.of(columns, self._values(columns)) if by_ids else None
        rows = self._rows(blocks, shape, asked)
        names = aliases(columns)
        few = keys if self.asked.where is not None else F.broadcast(keys)
        found = rows.join(few, names, "left_semi")
        if self.asked.where is not None:
            every = self._rows(blocks, self._shape)
            selected = conditions.selected(every, self._shape, self.asked.where)
            own = self._shape.key_aliases
            lone = selected.where(fold.lacks(own))
            found = found.select(*names, BLOCK, ORDINAL).unionAll(
                lone.select(*own, BLOCK, ORDINAL).toDF(*names, BLOCK, ORDINAL)
            )
        return found.select(*names, F.col(BLOCK).alias("block"), F.col(ORDINAL).alias("row"))

    def single(self, blocks: Sequence[Block]) -> DataFrame:
        """Return the lines that are asked for in a table without a key.

        Raises:
            UsageError: An id names no line.
            InvalidQueryError: The condition is none.
        """
        shape = self._shape
        if self.asked.where is not None:
            rows = conditions.selected(self._rows(blocks, shape), shape, self.asked.where)
            return rows.select(F.col(BLOCK).alias("block"), F.col(ORDINAL).alias("row"))
        numbers, ordinals = row_ids.positions(pa.array(self.asked.ids, pa.string()))
        self._check_ids(numbers)
        named = pa.table({"block": numbers, "row": ordinals})
        rows = self._rows(blocks, Shape((), (), Survival()))
        places = rows.select(F.col(BLOCK).alias("block"), F.col(ORDINAL).alias("row"))
        frame = self.spark.createDataFrame(named).distinct()
        return places.join(F.broadcast(frame), ["block", "row"], "left_semi")

    @property
    def _shape(self) -> Shape:
        return replace(shape_of(self.snapshot), survival=Survival())

    def _rows(
        self, blocks: Sequence[Block], shape: Shape, asked: AskedKeys | None = None
    ) -> DataFrame:
        return frames.read_blocks(self.spark, self.table, self.snapshot, blocks, shape, asked=asked)

    def _values(self, columns: Columns) -> list[pa.Array]:
        """The values of the key's columns that the ids name."""
        values = row_ids.key_values(pa.array(self.asked.ids, pa.string()), columns)
        for one in values:
            self._check_ids(one)
        return values

    def _named_keys(self, shape: Shape) -> DataFrame:
        columns = shape.key_columns
        values = self._values(columns)
        fields = [
            pa.field(alias(index), arrow_type(type_)) for index, (_, type_) in enumerate(columns)
        ]
        named = pa.Table.from_arrays(values, schema=pa.schema(fields))
        return self.spark.createDataFrame(named, frames.frame_schema(columns, ())).distinct()

    def _check_ids(self, values: pa.Array) -> None:
        if values.null_count:
            # Which one is not said: what is printed is kept for longer than the rows may be.
            at = values.is_null().to_pylist().index(True) + 1
            raise UsageError(
                f"id {at} can be none of a row of {self.table.name}: give ids as _row_id shows them"
                + blocking.rounding_words(self.snapshot)
            )
