"""SQL conditions on single rows, as constraints have them: their check and their computation.

A condition is an expression under the rules of any query (``plan.py``). Beyond these it may ask
nothing but its own row, and must say the same whenever it is asked. In the log each of its columns
stands in backticks and nothing else does but what follows a dot, so that a column can be renamed
without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812

from singerlake.engine.spark.jvm.failures import first_line
from singerlake.format import sql_tokens
from singerlake.format.overlay import Constraint, Overlay
from singerlake.log.table_state import TableState
from singerlake.overlay.alter import OverlayChange
from singerlake.overlay.constraint_checks import no_such_column, not_a_condition
from singerlake.overlay.overlay_changes import with_constraint
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.state.shape import Shape
from singerlake.sql import functions, plan, plan_columns


class _Reference(NamedTuple):
    """A column that a condition names: its name, and where that stands in the text."""

    name: str
    start: int
    end: int


def with_check(spark: SparkSession, name: str, sql: str) -> OverlayChange:
    """Return the change that adds a condition as a constraint on all rows.

    Args:
        spark: The session, whose parser reads the condition.
        sql: The condition, with columns by the names that people see.
    """

    def change(present: TableState) -> Overlay:
        names = [column for column, _ in present.columns]
        return with_constraint(present, name, _constraint(spark, names, sql))

    return change


def computed(frame: DataFrame, shape: Shape, one: Constraint) -> Column:
    """Return whether rows keep a condition; null is kept too, as in SQL's CHECK.

    Args:
        frame: From :func:`with_values`.

    Raises:
        InvalidQueryError: It is no condition of a row of such columns.
    """
    return F.coalesce(_condition(frame, shape, one), F.lit(True))


def _condition(frame: DataFrame, shape: Shape, one: Constraint) -> Column:
    spark = frame.sparkSession
    places = [
        (start, end, sql_tokens.quote(_value(shape.names.index(name))))
        for name, start, end in _references(spark, shape.names, one.sql)
    ]
    condition = F.expr(sql_tokens.edit(one.sql, places))
    try:
        probe = frame.select(condition.alias("kept"))
    except AnalysisException as error:
        raise not_a_condition(one.sql, first_line(error)) from None
    _check_analyzed(frame, probe, one.sql)
    return condition


def selected(frame: DataFrame, shape: Shape, sql: str) -> DataFrame:
    """Return the rows for which a condition is true; null counts as false.

    Args:
        frame: Rows, columns as they are called inside.
        sql: The condition, with columns by the names that people see.

    Raises:
        InvalidQueryError: It is no condition of a row of such columns.
    """
    one = _constraint(frame.sparkSession, shape.names, sql)
    with_its_own = with_values(frame, shape, [one])
    condition = _condition(with_its_own, shape, one)
    return with_its_own.where(F.coalesce(condition, F.lit(False))).select(*frame.columns)


def with_values(frame: DataFrame, shape: Shape, constraints: Sequence[Constraint]) -> DataFrame:
    """Add a second copy, under its own name, of each column that a condition names.

    Args:
        frame: Rows, columns as they are called inside.
    """
    indexes = {shape.names.index(name) for one in constraints for name in one.columns}
    return frame.withColumns({_value(index): F.col(alias(index)) for index in sorted(indexes)})


def _value(index: int) -> str:
    """Return a name that no variable in a condition has: it contains a blank."""
    return f"value of {index}"


def _constraint(spark: SparkSession, names: Sequence[str], sql: str) -> Constraint:
    """Return a condition as the log keeps it."""
    found = _references(spark, names, sql)
    starts = {one.start for one in found}
    tokens = sql_tokens.tokens(sql)
    before = [None, *tokens]
    for ahead, token in zip(before, tokens, strict=False):
        member = ahead is not None and ahead.text == "."
        if token.kind == "quoted" and not member and token.start not in starts:
            raise not_a_condition(
                sql, f"only columns stand in backticks here, and {token.text} is none"
            )
    if not found:
        raise not_a_condition(sql, "it names no column")
    places = [(start, end, sql_tokens.quote(name)) for name, start, end in found]
    columns = list(dict.fromkeys(one.name for one in found))
    return Constraint("check", columns, sql=sql_tokens.edit(sql, places))


def _references(spark: SparkSession, names: Sequence[str], sql: str) -> list[_Reference]:
    if "${" in sql:  # a query has a session of its own, where Spark leaves that as it is
        raise not_a_condition(
            sql, "Spark would put a setting or a variable of its environment for '${'"
        )
    expression = plan.check_row_expression(spark, sql)
    found: dict[int, _Reference] = {}
    for parts, start in _named(expression, frozenset()):
        if parts[0] not in names:
            raise no_such_column(sql, parts[0], names)
        end = next(token.end for token in sql_tokens.tokens(sql) if token.start == start)
        found[start] = _Reference(parts[0], start, end)
    return [found[start] for start in sorted(found)]


def _named(expression: Any, bound: frozenset[str]) -> Iterator[tuple[list[str], int]]:
    """Find the columns that an expression names, with their places; not a lambda's variables."""
    kind = plan.kind_of(expression)
    if kind in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable"):
        parts = plan_columns.items(expression.nameParts())
        if kind == "UnresolvedAttribute" or parts[0].casefold() not in bound:
            yield parts, expression.origin().startIndex().get()
        return
    if kind == "LambdaFunction":
        variables = (
            plan_columns.items(one.nameParts())[0]
            for one in plan_columns.items(expression.arguments())
        )
        inner = bound | {name.casefold() for name in variables}
        yield from _named(expression.function(), inner)
        return
    for child in plan_columns.items(expression.children()):
        yield from _named(child, bound)


def _check_analyzed(frame: DataFrame, probe: DataFrame, sql: str) -> None:
    """Make sure that a condition depends on one row alone, and is deterministic."""
    analyzed = probe._jdf.queryExecution().analyzed()
    below = frame._jdf.queryExecution().analyzed()
    own = plan.kind_of(analyzed) == "Project" and analyzed.children().apply(0).fastEquals(below)
    if not own:
        raise not_a_condition(sql, "it asks more than one row")
    for expression in plan_columns.items(analyzed.expressions()):
        plan.check_resolved(expression)
        kinds = {plan.kind_of(one) for one in plan.tree(expression)}
        if not expression.deterministic() or not kinds.isdisjoint(functions.OF_THE_MOMENT):
            raise not_a_condition(sql, "it would not say the same of a row each time it is asked")
    if not isinstance(probe.schema[0].dataType, T.BooleanType):
        type_ = probe.schema[0].dataType.simpleString()
        raise not_a_condition(sql, f"it is {type_}, and a condition is boolean")
