"""Checks of rows that only SQL can do, before a table is altered."""

from __future__ import annotations

from singerlake.engine.spark.engine import SparkEngine
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import InvalidQueryError
from singerlake.lake import Table
from singerlake.ops.change.outcome_checks import check_defaults
from singerlake.ops.change.sql.state_after import broken_defaults
from singerlake.overlay.alter import AlterPlan
from singerlake.rows.batches.violations import Violation
from singerlake.rows.blocks.misfits import NULL
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import building
from singerlake.sql.state import from_blocks, index_rows
from singerlake.sql.violations import check_constraints


@plain_errors()
def broken(engine: SparkEngine, table: Table, wanted: AlterPlan) -> list[Violation]:
    """Find what rows do not keep, as they will be read.

    Raises:
        InvalidQueryError: A condition cannot be computed.
        UsageError: Defaults break a condition.
    """
    spark, laid = engine.spark, wanted.after
    asked = wanted.checked_defaults
    check_defaults(asked, broken_defaults(spark, laid, shape_of(laid), asked))
    found: list[Violation] = []
    if wanted.new_constraints:
        now = building.ensure(engine, table, wanted.head, shown=True)
        rows = index_rows.rows(spark, now)
        found += check_constraints(rows, now.shape, wanted.new_constraints)
    if wanted.rechecked:
        after = from_blocks.state_rows(spark, table, laid, NULL)
        found += check_constraints(after, shape_of(laid), wanted.rechecked)
    if one := next((one for one in found if one.why), None):
        raise InvalidQueryError(one.untold)
    return found
