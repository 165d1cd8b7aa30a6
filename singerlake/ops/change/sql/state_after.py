"""The rows that a table will have after a change, as a frame, before anything is written.

For what the schema that new records are held against cannot say: that a column is unique, for one,
or a condition in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql.pandas.types import from_arrow_schema

from singerlake.errors import InvalidQueryError, UsageError
from singerlake.format.json_schema import resolved
from singerlake.format.overlay import Constraint
from singerlake.format.types import Type
from singerlake.format.values import converter
from singerlake.log.table_state import TableState
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.plan import ChangePlan
from singerlake.ops.change.present_rows import broken_error, misfits_error
from singerlake.overlay.constraint_checks import beyond_schemas
from singerlake.rows.batches.packing import Unpacked
from singerlake.rows.batches.problems import MOST, Problems, RowProblem, merged
from singerlake.rows.batches.row_columns import BLOCK, MISFITS, ORDINAL, alias
from singerlake.rows.batches.violations import Violation
from singerlake.rows.changes.merge_terms import (
    CHANGED,
    DELETED,
    INSERTED,
    POSITION_BLOCK,
    STATUS,
    UPDATED,
    changed_schema,
)
from singerlake.rows.given.rows import LINE, SOURCE
from singerlake.rows.state.shape import Shape
from singerlake.safe_text import visible
from singerlake.sql import conditions, violations
from singerlake.sql.state import content
from singerlake.sql.state.frames import row_id, spark_type


def check_outcome(
    spark: SparkSession,
    found: Delta,
    present: Callable[[], DataFrame],
    wanted: ChangePlan,
    shape: Shape,
) -> None:
    """Make sure that a change leaves rows that keep what no schema asks of a record.

    What is said anew is asked of all rows, and so is what they keep together. A condition that
    was there is asked of those that the change touches: it is not to blame for others.

    Args:
        spark: The session.
        found: What changes.
        present: Gives the rows that there are.
        wanted: The plan.
        shape: The table's.

    Raises:
        InvalidQueryError: A condition that is said anew cannot be computed; nothing was changed.
        UsageError: Defaults that are said anew break a condition; nothing was changed.
        ViolationsError: Rows would not keep them; nothing was changed.
    """
    state, altered = wanted.state, wanted.altered
    constraints = state.overlay.constraints
    digits = {} if altered is None else altered.declared_digits
    anew = {} if altered is None else {**altered.new_constraints, **altered.rechecked}
    retyped = set() if altered is None else altered.retyped
    if altered is not None:
        check_defaults(spark, state, shape, altered.checked_defaults)
    if not (found.changes or anew or retyped or digits):
        return
    every = {n: one for n, one in constraints.items() if one.kind == "unique" or n in anew}
    types = dict(shape.columns)
    each = {n: one for n, one in constraints.items() if beyond_schemas(one, types)}
    each = {n: one for n, one in each.items() if n not in anew}
    every |= digits
    if not (every or each or retyped):
        return
    after = rows_after(found, present(), state, shape)
    _check_values(after, state, shape, retyped)
    changed = after.where(F.col(SOURCE).isNotNull())
    broken = violations.check_constraints(after, shape, every)
    broken += violations.check_constraints(changed, shape, each)
    if none := next((one for one in broken if one.why and one.name in anew), None):
        raise InvalidQueryError(none.untold)
    if broken:
        error = broken_error(state.table, broken)
        error.problems = merged(
            _named(one, {**constraints, **digits}[one.name], after, found, shape) for one in broken
        )
        raise error


def check_defaults(
    spark: SparkSession, state: TableState, shape: Shape, asked: Mapping[str, Constraint]
) -> None:
    """Refuse defaults that break a condition: no row could do without the columns that it names.

    Args:
        spark: The session.
        state: The table as it will be read.
        shape: Its shape.
        asked: The conditions, by their names.

    Raises:
        UsageError: They do.
    """
    if not asked:
        return
    defaults = zip(shape.aliases, _defaults(state, shape), strict=True)
    row = spark.range(1).select(*(default.alias(name) for name, default in defaults))
    row = conditions.with_values(row, shape, list(asked.values()))
    keeps = [
        conditions.computed(row, shape, one).alias(f"k{n}") for n, one in enumerate(asked.values())
    ]
    (kept,) = row.select(*keeps).collect()
    for (name, one), is_kept in zip(asked.items(), kept, strict=True):
        if not is_kept:
            columns = ", ".join(one.columns)
            raise UsageError(
                f"the default of {columns} breaks {name} ({visible(one.sql)}), and nothing was "
                f"changed: a row without a value of {columns} could not be accepted; set another "
                "default, or drop the constraint"
            )


def _check_values(after: DataFrame, state: TableState, shape: Shape, retyped: set[str]) -> None:
    """Refuse a type that values of the column do not fit which fit before."""
    found = content.frame_misfits(after, shape) if retyped else []
    if bad := [one for one in found if one.column in retyped]:
        raise misfits_error(state.table, bad)


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
        words = F.format_string("would be in %,d rows, and must be unique", "n")
    elif broken.breaking is None:  # nobody knows which
        return Problems()
    else:
        rows = broken.breaking.where(F.col(SOURCE).isNotNull())
        words = F.lit(f"breaks {broken.name} ({broken.words})")
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


def rows_after(found: Delta, present: DataFrame, state: TableState, shape: Shape) -> DataFrame:
    """Return the rows as they will be; those that are new have no position yet.

    ``SOURCE`` and ``LINE`` are where a row comes from that changes.
    """
    named = set(found.wanted.columns)
    join, whole = found.wanted.spec.join, _frame(found)
    changed = whole.where(F.col(STATUS).isin(UPDATED, DELETED)).select(
        *(F.col(mine).alias(f"asked_{mine}") for mine in join),
        *(F.col(alias(i)).alias(f"asked_cell_{i}") for i in found.wanted.columns),
        F.col(STATUS),
        F.col(CHANGED),
        F.col(POSITION_BLOCK).isNull().alias("anew"),
        SOURCE,
        LINE,
    )
    pairs = zip(join, shape.key_aliases or [BLOCK, ORDINAL], strict=True)
    same = reduce(and_, (F.col(f"asked_{mine}") == F.col(theirs) for mine, theirs in pairs))
    both = present.join(changed, same, "left_outer")
    gone = (F.col(STATUS) == DELETED) | F.col("anew")
    stay = both.where(~F.coalesce(gone, F.lit(False))).select(
        *(_cell(index, named).alias(alias(index)) for index in range(len(shape.columns))),
        BLOCK,
        ORDINAL,
        F.map_filter(MISFITS, _unchanged).alias(MISFITS),
        SOURCE,
        LINE,
    )
    new = whole.where(F.col(STATUS).isin(INSERTED, UPDATED) & F.col(POSITION_BLOCK).isNull())
    defaults = _defaults(state, shape)
    return stay.unionByName(
        new.select(
            *(
                _new_cell(index, named, shape, defaults[index])
                for index in range(len(shape.columns))
            ),
            F.lit(None).cast("bigint").alias(BLOCK),
            F.lit(None).cast("int").alias(ORDINAL),
            F.lit(None).cast(present.schema[MISFITS].dataType).alias(MISFITS),
            SOURCE,
            LINE,
        )
    )


def _frame(found: Delta) -> DataFrame:
    """The rows that change, as a frame of ``merge_terms.changed_schema``."""
    schema = from_arrow_schema(changed_schema(found.wanted.spec))
    packed = [(found.there, "there"), (found.new, "new")]
    engine = found.wanted.engine
    rows = [engine.map(some, Unpacked(column=name), schema) for some, name in packed]
    frame: DataFrame = engine.union(*rows).frame
    return frame


def _unchanged(index: Column, _: Column) -> Column:
    """Whether a column of a row is as it was."""
    return ~F.coalesce(F.array_contains(CHANGED, index), F.lit(False))


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


def _defaults(state: TableState, shape: Shape) -> list[Column]:
    """What new rows have in columns that they do not name."""
    schema = state.schema.schema
    properties = resolved(schema, schema).get("properties", {})
    return [_default(resolved(properties.get(n, {}), schema), type_) for n, type_ in shape.columns]


def _default(spec: dict[str, object], type_: Type) -> Column:
    value = spec.get("default")
    if value is not None:
        value = converter(type_, loose=True)(msgspec.json.encode(value))
    return F.lit(value).cast(spark_type(type_))
