"""The rows that a change begins with, where SQL has to check them or the outcome."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame

from singerlake.engine.base import Engine
from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.outcome_checks import check_outcome
from singerlake.ops.change.plan import ChangePlan
from singerlake.ops.change.present_rows import PresentRows
from singerlake.ops.change.sql.state_after import SparkChecks
from singerlake.ops.freeze import violations_error
from singerlake.rows.batches.row_columns import PROVENANCE, row_schema
from singerlake.rows.blocks.block_reader import combined
from singerlake.rows.state.shape import Shape
from singerlake.sql.state import from_blocks, index_build, index_rows
from singerlake.sql.violations import check_constraints


class SparkCheckedRows(PresentRows):
    """The rows that there are, on Spark; arguments are those of :class:`PresentRows`."""

    def __init__(self, engine: Engine[Any], table: Table, wanted: ChangePlan, shape: Shape) -> None:
        super().__init__(engine, table, wanted, shape)
        if not isinstance(engine, SparkEngine):
            raise TypeError("SQL is Spark's")
        self.spark = engine.spark

    @property
    def frame(self) -> DataFrame:
        """The rows, with provenance and misfits."""
        return self._frame.limit(0) if self._all_go else self._frame

    @cached_property
    def _frame(self) -> DataFrame:
        spark, table, state = self.spark, self.table, self.wanted.state
        if self.wanted.overlay is None:
            return index_rows.rows(spark, index_build.ensure(spark, table, state))
        # An index is filed by what the log says of columns, and the log does not say this yet.
        if not self.new_key:
            return from_blocks.rows(spark, table, state)
        rows = self.read(self.shape.columns, combined, row_schema(self.shape.columns, PROVENANCE))
        frame: DataFrame = rows.frame
        return frame

    @plain_errors()
    def check_outcome(self, found: Delta) -> None:
        """Refuse rows that break constraints; see :meth:`PresentRows.check_outcome`."""
        super().check_outcome(found)
        state = self.wanted.state
        checks = SparkChecks(self.spark, found, lambda: self.frame, state, self.shape)
        check_outcome(checks, found, self.wanted, self.shape)

    @plain_errors()
    def check_version(self, after: TableState) -> None:
        """Refuse to freeze such rows; see :meth:`PresentRows.check_version`."""
        if constraints := after.overlay.constraints:
            rows = from_blocks.rows(self.spark, self.table, after)
            if broken := check_constraints(rows, self.shape, constraints):
                raise violations_error(after, broken)
