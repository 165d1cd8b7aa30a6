"""The rows that a table will have after a change, as a frame, before anything is written.

For what the schema that new records are held against cannot say: that a column is unique, for one,
or a condition in SQL.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it

from singerlake.errors import ViolationsError
from singerlake.format.json_schema import resolved
from singerlake.format.overlay import Constraint
from singerlake.format.types import Kind, Type
from singerlake.format.values import converter
from singerlake.records.problems import MOST, Problems, RowProblem, merged
from singerlake.records.row_columns import BLOCK, ORDINAL, alias
from singerlake.records.shape import Shape
from singerlake.spark.jobs.delta import (
    CHANGED,
    DELETED,
    INSERTED,
    POSITION_BLOCK,
    STATUS,
    UPDATED,
    Delta,
    found_by,
)
from singerlake.spark.jobs.row_set import LINE, SOURCE
from singerlake.spark.sql import violations
from singerlake.spark.sql.violations import Violation
from singerlake.spark.state.frames import row_id, spark_type
from singerlake.transactions.snapshot import Snapshot


def check_constraints(found: Delta, present: DataFrame, state: Snapshot, shape: Shape) -> None:
    """Make sure that a change leaves rows that keep what no schema asks of a record.

    What several rows keep together is asked of all of them; a condition, of those that the change
    touches: it is not to blame for others.

    Args:
        found: What changes.
        present: The rows that there are, with provenance.
        state: The table; knows the constraints.
        shape: The table's.

    Raises:
        ViolationsError: Rows would not keep them; nothing was changed.
    """
    constraints = state.overlay.constraints
    together = {n: one for n, one in constraints.items() if one.kind == "unique"}
    each = {n: one for n, one in constraints.items() if _beyond_schemas(one, shape)}
    if not (together or each) or not found.changes:
        return
    after = rows_after(found, present, state, shape)
    changed = after.where(F.col(SOURCE).isNotNull())
    broken = violations.check_constraints(after, shape, together)
    broken += violations.check_constraints(changed, shape, each)
    if broken:
        error = ViolationsError.of_lines(
            f"rows of {state.table} would not keep what is asked of them; nothing was changed:",
            *(line for one in broken for line in one.lines()),
            "give these rows other values, or drop the constraint first",
        )
        error.problems = merged(
            _named(one, constraints[one.name], after, found, shape) for one in broken
        )
        raise error


def _named(
    broken: Violation, one: Constraint, after: DataFrame, found: Delta, shape: Shape
) -> Problems:
    """Name the rows of a change that break a constraint."""
    columns = [alias(shape.names.index(name)) for name in one.columns]
    if one.kind == "unique":
        there = reduce(and_, (F.col(name).isNotNull() for name in columns))
        times = F.count(F.lit(1)).over(Window.partitionBy(*columns))
        rows = after.where(there).withColumn("n", times).where("n > 1")
        rows = rows.where(F.col(SOURCE).isNotNull())
        words = F.format_string("would be in %,d rows, and is to be unique", "n")
    elif broken.breaking is None:
        return Problems()
    else:
        rows, words = broken.breaking, F.lit(f"breaks {broken.name} ({broken.words})")
    problems = Problems(rows.count())
    shown = F.concat_ws(", ", *(F.col(name).cast("string") for name in columns)).alias("value")
    id_ = row_id(shape) if shape.keys else F.concat_ws(":", BLOCK, ORDINAL)
    selected = rows.select(SOURCE, LINE, id_.alias("id"), shown, words.alias("words"))
    names = ", ".join(one.columns)
    for source, line, row, value, reason in (
        selected.orderBy(SOURCE, LINE, "id").limit(MOST).collect()
    ):
        problem = RowProblem(0, names, value, reason)
        problems.first.append(problem.at(found.wanted.sources[source], line, row))
    return problems


def _beyond_schemas(one: Constraint, shape: Shape) -> bool:
    """Whether a constraint is about single rows, and no schema says it."""
    if one.kind == "enum":
        types = dict(shape.columns)
        decimal = any(c in types and types[c].kind is Kind.DECIMAL for c in one.columns)
        return decimal and any(isinstance(value, str) for value in one.values)
    return one.kind == "check"


def rows_after(found: Delta, present: DataFrame, state: Snapshot, shape: Shape) -> DataFrame:
    """Return the rows as they will be; those that are new have no position yet.

    ``SOURCE`` and ``LINE`` are where a row comes from that changes.
    """
    named = set(found.wanted.columns)
    changed = found.frame.where(F.col(STATUS).isin(UPDATED, DELETED)).select(
        *(F.col(mine).alias(f"asked_{mine}") for mine in found.wanted.join),
        *(F.col(alias(i)).alias(f"asked_cell_{i}") for i in found.wanted.columns),
        F.col(STATUS),
        F.col(CHANGED),
        F.col(POSITION_BLOCK).isNull().alias("anew"),
        SOURCE,
        LINE,
    )
    pairs = zip(found.wanted.join, found_by(shape), strict=True)
    same = reduce(and_, (F.col(f"asked_{mine}") == F.col(theirs) for mine, theirs in pairs))
    both = present.join(changed, same, "left_outer")
    gone = (F.col(STATUS) == DELETED) | F.col("anew")
    stay = both.where(~F.coalesce(gone, F.lit(False))).select(
        *(_cell(index, named).alias(alias(index)) for index in range(len(shape.columns))),
        BLOCK,
        ORDINAL,
        SOURCE,
        LINE,
    )
    new = found.frame.where(F.col(STATUS).isin(INSERTED, UPDATED) & F.col(POSITION_BLOCK).isNull())
    defaults = _defaults(state, shape)
    return stay.unionByName(
        new.select(
            *(
                _new_cell(index, named, shape, defaults[index])
                for index in range(len(shape.columns))
            ),
            F.lit(None).cast("bigint").alias(BLOCK),
            F.lit(None).cast("int").alias(ORDINAL),
            SOURCE,
            LINE,
        )
    )


def _cell(index: int, named: set[int]) -> Column:
    own = F.col(alias(index))
    if index not in named:
        return own
    other = F.array_contains(CHANGED, F.lit(index))
    return F.when(F.coalesce(other, F.lit(False)), F.col(f"asked_cell_{index}")).otherwise(own)


def _new_cell(index: int, named: set[int], shape: Shape, default: Column) -> Column:
    name = alias(index)
    if index in shape.keys:
        return F.col(name)
    if index not in named:
        return default.alias(name)
    is_set = F.array_contains(CHANGED, F.lit(index))
    return F.when(is_set, F.col(name)).otherwise(default).alias(name)


def _defaults(state: Snapshot, shape: Shape) -> list[Column]:
    """What new rows have in columns that they do not name."""
    schema = state.schema.schema
    properties = resolved(schema, schema).get("properties", {})
    return [_default(resolved(properties.get(n, {}), schema), type_) for n, type_ in shape.columns]


def _default(spec: dict[str, object], type_: Type) -> Column:
    value = spec.get("default")
    if value is not None:
        value = converter(type_, loose=True)(msgspec.json.encode(value))
    return F.lit(value).cast(spark_type(type_))
