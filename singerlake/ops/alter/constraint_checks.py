"""Checks of rows that only SQL can do, before a table is altered: on DuckDB or on Spark."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.errors import InvalidQueryError
from singerlake.lake import Table
from singerlake.ops.change.outcome_checks import check_defaults
from singerlake.overlay.alter import AlterPlan
from singerlake.rows.batches.violations import Violation
from singerlake.rows.blocks.misfits import NULL
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot import building
from singerlake.snapshot.from_blocks import local_rows
from singerlake.sql.constraints import broken_in_index, check_constraints

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def asked_in_sql(wanted: AlterPlan) -> dict[str, Any]:
    """Return the constraints that rows or defaults are held against, by name."""
    return {**wanted.new_constraints, **wanted.rechecked, **wanted.checked_defaults}


def broken(
    choice: EngineChoice, engine: Engine[Any], table: Table, wanted: AlterPlan
) -> list[Violation]:
    """Find what rows do not keep, as they will be read.

    Args:
        choice: The engines that may check them.
        engine: The one that was chosen.

    Raises:
        InvalidQueryError: A condition cannot be computed.
        UsageError: Defaults break a condition.
    """
    if asked := wanted.checked_defaults:
        check_defaults(asked, _broken_defaults(engine, wanted))
    found: list[Violation] = []
    if wanted.new_constraints:
        now = building.ensure(engine, table, wanted.head, shown=True)
        found += broken_in_index(choice, engine, now, wanted.new_constraints)
    if wanted.rechecked:
        found += _as_after(choice, engine, table, wanted)
    if one := next((one for one in found if one.why), None):
        raise InvalidQueryError(one.untold)
    return found


def _broken_defaults(engine: Engine[Any], wanted: AlterPlan) -> Collection[str]:
    laid, asked = wanted.after, wanted.checked_defaults
    if isinstance(engine, LocalEngine):
        from singerlake.ops.change.rows_after import broken_defaults as broken_here

        return broken_here(laid, shape_of(laid), asked)
    from singerlake.engine.spark.engine import SparkEngine
    from singerlake.engine.spark.jvm.failures import plain_errors
    from singerlake.ops.change.sql.state_after import broken_defaults

    assert isinstance(engine, SparkEngine)  # noqa: S101  # there are two engines
    with plain_errors():
        return broken_defaults(engine.spark, laid, shape_of(laid), asked)


def _as_after(
    choice: EngineChoice, engine: Engine[Any], table: Table, wanted: AlterPlan
) -> list[Violation]:
    laid, asked = wanted.after, wanted.rechecked
    shape = shape_of(laid)

    def on_spark(spark: SparkSession) -> list[Violation]:
        from singerlake.sql import violations
        from singerlake.sql.state import from_blocks

        rows = from_blocks.state_rows(spark, table, laid, NULL)
        return violations.check_constraints(rows, shape, asked)

    def here(_: list[str]) -> Any:
        return local_rows(table, laid)

    return check_constraints(choice, engine, shape, asked, here, on_spark)
