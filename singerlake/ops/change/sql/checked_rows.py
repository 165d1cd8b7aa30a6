"""The rows that a change begins with, where SQL has to check them or the outcome.

Where people say in the same change what the columns and the key are, no index has the rows so.
Under a new key, rows that were replaced or deleted under the old one may come back; then all rows
of the state are written again, as ``alter`` does.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame

from singerlake.engine.base import Engine, Schema
from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import ViolationsError
from singerlake.lake import Table
from singerlake.log.snapshot import Snapshot
from singerlake.ops.change.asked_rows import Asked
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.plan import ChangePlan
from singerlake.ops.change.present_rows import PresentRows, codes_of
from singerlake.ops.change.sql.state_after import check_outcome
from singerlake.rows.batches.row_columns import BLOCK, DELETED, ORDINAL
from singerlake.rows.batches.steps import Pipeline, Step
from singerlake.rows.changes.asked_rows import SHARED
from singerlake.rows.state.shape import Shape
from singerlake.sql.state import frames, from_blocks, index_build, index_rows
from singerlake.sql.state.key_violations import folds_alike, key_violations
from singerlake.sql.violations import check_constraints, violations_error


class CheckedRows(PresentRows):
    """The rows that there are, on Spark; arguments are those of :class:`PresentRows`."""

    def __init__(self, engine: Engine[Any], table: Table, wanted: ChangePlan, shape: Shape) -> None:
        super().__init__(engine, table, wanted, shape)
        if not isinstance(engine, SparkEngine):
            raise TypeError("SQL is Spark's")
        self.spark = engine.spark
        self._all_go = False

    @property
    def new_key(self) -> bool:
        """Whether rows are told apart otherwise from then on."""
        return self.wanted.altered is not None and not self.wanted.altered.same_key

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
        # Which rows there are, the key of until now says.
        now = index_rows.rows(spark, index_build.ensure(spark, table, self.wanted.head))
        shape = Shape(self.shape.columns, (), self.shape.survival)
        every = frames.read_blocks(spark, table, state, state.blocks, shape).drop(DELETED)
        return every.join(now.select(BLOCK, ORDINAL), [BLOCK, ORDINAL], "left_semi")

    def meant(self, asked: Asked) -> list[Any]:
        """Share out the rows that may be meant; see :meth:`PresentRows.meant`."""
        if not self.new_key:
            return super().meant(asked)
        with plain_errors():
            rows = SparkRows(self.frame)
        return [self.engine.map(rows, self._present_step(asked), SHARED)]

    def places(self, step: Step, schema: Schema) -> Any:
        """Give the positions of all rows; see :meth:`PresentRows.places`."""
        if not self.new_key:
            return super().places(step, schema)
        with plain_errors():
            rows = SparkRows(self.frame.select(BLOCK, ORDINAL))
        return self.engine.map(rows, Pipeline((codes_of, step)), schema)

    @cached_property
    def written_again(self) -> bool:  # type: ignore[override]
        """Whether all rows must be, lest others come back under a new key."""
        if not self.new_key:
            return False
        with plain_errors():
            state = self.wanted.state
            return self._all_go or not folds_alike(self.spark, self.table, state, self.frame)

    @plain_errors()
    def check_key(self, *, replaced: bool) -> None:
        """Refuse a new key that the rows cannot have; see :meth:`PresentRows.check_key`.

        Where others take their place, none of them is found by it, and all go.
        """
        shape, table = self.shape, self.wanted.head.table
        if not self.new_key:
            return
        if found := key_violations(self.frame, shape.key_aliases, shape.key_names):
            if replaced:
                self._all_go = True
                return
            raise ViolationsError.of_lines(
                f"{table} cannot have the key {', '.join(shape.key_names)}, and nothing was "
                "changed:",
                *found.lines(),
                "correct these rows in a change before this one, or name more columns that tell "
                "them apart",
            )

    @plain_errors()
    def check_outcome(self, found: Delta) -> None:
        """Refuse rows that break constraints; see :meth:`PresentRows.check_outcome`."""
        check_outcome(self.spark, found, lambda: self.frame, self.wanted, self.shape)

    @plain_errors()
    def check_version(self, after: Snapshot) -> None:
        """Refuse to freeze such rows; see :meth:`PresentRows.check_version`."""
        if constraints := after.overlay.constraints:
            rows = from_blocks.rows(self.spark, self.table, after)
            if broken := check_constraints(rows, self.shape, constraints):
                raise violations_error(after, broken)
