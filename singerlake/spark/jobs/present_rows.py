"""The rows that a change begins with: those that there are, as they will be read.

Where people say in the same change what the columns and the key are, no index has the rows so.
Under a new key, rows that were replaced or deleted under the old one may come back; then all rows
of the state are written again, as ``alter`` does.
"""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from singerlake.errors import ViolationsError
from singerlake.lake import Table
from singerlake.maintenance.change import ChangePlan
from singerlake.records.block_reader import combined
from singerlake.records.row_columns import BLOCK, DELETED, ORDINAL
from singerlake.records.shape import Shape
from singerlake.spark.state import frames, from_blocks, index_build, index_rows
from singerlake.spark.state.key_violations import folds_alike, key_violations


class PresentRows:
    """The rows that there are.

    Args:
        spark: The session.
        table: The table.
        wanted: The plan.
        shape: The table's, as it is read after the change.
    """

    def __init__(self, spark: SparkSession, table: Table, wanted: ChangePlan, shape: Shape) -> None:
        self._spark = spark
        self._table = table
        self._wanted = wanted
        self._shape = shape

    @property
    def new_key(self) -> bool:
        """Whether rows are told apart otherwise from then on."""
        return self._wanted.altered is not None and not self._wanted.altered.same_key

    @cached_property
    def frame(self) -> DataFrame:
        """The rows, with provenance and misfits."""
        spark, table, state = self._spark, self._table, self._wanted.state
        if self._wanted.overlay is None:
            return index_rows.rows(spark, index_build.ensure(spark, table, state))
        # An index is filed by what the log says of columns, and the log does not say this yet.
        schema = frames.frame_schema(self._shape.columns)
        if not self.new_key:
            return from_blocks.through(
                spark, from_blocks.planned(spark, table, state), combined, schema
            )
        # Which rows there are, the key of until now says.
        now = index_rows.rows(spark, index_build.ensure(spark, table, self._wanted.head))
        shape = Shape(self._shape.columns, (), self._shape.survival)
        every = frames.read_blocks(spark, table, state, state.blocks, shape).drop(DELETED)
        return every.join(now.select(BLOCK, ORDINAL), [BLOCK, ORDINAL], "left_semi")

    @cached_property
    def written_again(self) -> bool:
        """Whether all rows must be, lest others come back under a new key."""
        if not self.new_key:
            return False
        return not folds_alike(self._spark, self._table, self._wanted.state, self.frame)

    def check_key(self) -> None:
        """Refuse a new key that the rows cannot have.

        Raises:
            ViolationsError: Rows lack a value of it, or have the same.
        """
        shape, table = self._shape, self._wanted.head.table
        if not self.new_key:
            return
        if found := key_violations(self.frame, shape.key_aliases, shape.key_names):
            raise ViolationsError.of_lines(
                f"{table} cannot have the key {', '.join(shape.key_names)}, and nothing was "
                "changed:",
                *found.lines(),
                "correct these rows in a change before this one, or name more columns that tell "
                "them apart",
            )
