"""The choice of what checks the constraints of a table: DuckDB in this process, or Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from singerlake import extras
from singerlake.engine.base import Engine
from singerlake.engine.choice import LOCAL, SPARK, EngineChoice
from singerlake.engine.local import LocalEngine
from singerlake.errors import UsageError
from singerlake.format.overlay import Constraint
from singerlake.lake import Table
from singerlake.log.table_state import TableState
from singerlake.overlay.alter import OverlayChange
from singerlake.overlay.overlay_changes import with_constraint
from singerlake.rows.batches.steps import Batches
from singerlake.rows.batches.violations import Violation
from singerlake.rows.state.shape import Shape, shape_of
from singerlake.snapshot import building
from singerlake.snapshot.index import Index
from singerlake.snapshot.state_reader import StateReader
from singerlake.sql.answers import LIBRARIES, first_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHAT = "checking constraints"


def with_check(choice: EngineChoice, present: TableState, name: str, sql: str) -> OverlayChange:
    """Return the change that adds a condition as a constraint on all rows.

    Args:
        choice: The engines that may read the condition.
        present: The table, whose columns it names.
        sql: The condition, with columns by the names that people see.

    Raises:
        InvalidQueryError: It is no condition of a row.
        UsageError: Only this process may be used, and the condition is outside of the set.
        RuntimeMissingError: The engine that reads the condition is not installed.
    """

    def here() -> OverlayChange:
        from singerlake.sql.local.condition import constraint_of
        from singerlake.sql.local.constraints import check_in_set

        one = constraint_of([column for column, _ in present.columns], sql)
        check_in_set(shape_of(present), {name: one})
        return partial(with_constraint, name=name, constraint=one)

    def on_spark(what: str) -> OverlayChange:
        from singerlake.sql import conditions

        return conditions.with_check(choice.session(what), name, sql)

    return first_here(choice, "a constraint", here, on_spark)


def asked_of_spark(
    choice: EngineChoice, state: TableState, constraints: Mapping[str, Constraint]
) -> str | None:
    """Say what only Spark can check of some constraints, in words; None if there is nothing.

    Args:
        state: The table, as its rows are read.

    Raises:
        RuntimeMissingError: Only this process may be used, and DuckDB is not installed.
    """
    if not constraints or choice.name == SPARK:
        return None
    if not _installed(choice, "a constraint"):
        return f"the constraints of {state.table}"
    from singerlake.sql.local.constraints import check_in_set
    from singerlake.sql.local.outside import OutsideError

    try:
        check_in_set(shape_of(state), constraints)
    except OutsideError as error:
        return f"{error.construct} of {state.table}"
    return None


def condition_of_spark(choice: EngineChoice, state: TableState, where: str) -> str | None:
    """Say what only Spark can tell of a condition on rows, in words; None if DuckDB can.

    Args:
        state: The table, as its rows are read.

    Raises:
        InvalidQueryError: It names a column that the table does not have.
        RuntimeMissingError: Only this process may be used, and DuckDB is not installed.
    """
    if choice.name == SPARK:
        return None
    if not _installed(choice, "a condition"):
        return "a condition in SQL"
    from singerlake.sql.local.condition import constraint_of
    from singerlake.sql.local.constraints import ConstraintChecks
    from singerlake.sql.local.outside import OutsideError

    shape = shape_of(state)
    try:
        ConstraintChecks(shape, {where: constraint_of(shape.names, where)}).write(where)
    except OutsideError as error:
        return f"a condition with {error.construct}"
    return None


def _installed(choice: EngineChoice, what: str) -> bool:
    if extras.installed(*LIBRARIES):
        return True
    if choice.name == LOCAL:
        for library in LIBRARIES:
            extras.require(library, f"{what} with the engine local", extra="sql")
    return False


def check_constraints(
    choice: EngineChoice,
    engine: Engine[Any],
    shape: Shape,
    constraints: Mapping[str, Constraint],
    here: Callable[[list[str]], Batches],
    on_spark: Callable[[SparkSession], list[Violation]],
) -> list[Violation]:
    """Find the rows that violate constraints.

    Args:
        choice: The engines that may check them.
        engine: The one that was chosen; see :func:`asked_of_spark`.
        constraints: By name.
        here: Gives the rows, as DuckDB reads them.
        on_spark: Has Spark find them.

    Raises:
        UsageError: Only this process may be used, and DuckDB cannot check them.
    """
    if not constraints:
        return []
    if isinstance(engine, LocalEngine):
        from singerlake.sql.local.constraints import ConstraintChecks
        from singerlake.sql.local.outside import OutsideError

        try:
            return ConstraintChecks(shape, constraints).violations(here)
        except OutsideError as error:  # such as of memory that is not enough
            if choice.name == LOCAL:
                raise UsageError(
                    f"{WHAT} with {error.construct} needs Spark: use the engine auto or spark"
                ) from None
            engine = choice.spark_engine(WHAT)
    from singerlake.engine.spark.engine import SparkEngine
    from singerlake.engine.spark.jvm.failures import plain_errors

    if not isinstance(engine, SparkEngine):
        raise TypeError("constraints are checked by DuckDB or Spark")
    with plain_errors():
        return on_spark(engine.spark)


def broken_constraints(
    choice: EngineChoice, engine: Engine[Any], table: Table, snapshot: TableState
) -> list[Violation]:
    """Find the constraints that the rows of a state violate, in its materialized snapshot.

    Args:
        choice: The engines that may check them.
        engine: The one that was chosen.
    """
    if not (asked := snapshot.overlay.constraints):
        return []
    built = building.ensure(engine, table, snapshot, shown=True)
    return broken_in_index(choice, engine, built, asked)


def broken_in_index(
    choice: EngineChoice, engine: Engine[Any], built: Index, asked: Mapping[str, Constraint]
) -> list[Violation]:
    """Find the constraints that the rows of a materialized snapshot violate.

    Args:
        choice: The engines that may check them.
        engine: The one that was chosen.
        asked: The constraints, by name.
    """

    def on_spark(spark: SparkSession) -> list[Violation]:
        from singerlake.sql import violations
        from singerlake.sql.state import index_rows

        return violations.check_constraints(index_rows.rows(spark, built), built.shape, asked)

    here = StateReader.proven(built).rows
    return check_constraints(choice, engine, built.shape, asked, here, on_spark)
