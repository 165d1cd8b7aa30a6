"""The rows that a table will have after a change, as a frame, before anything is written.

For what the schema that new records are held against cannot say: that a column is unique, for one,
or a condition in SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql.pandas.types import from_arrow_schema

from singerlake.format.overlay import Constraint
from singerlake.log.table_state import TableState
from singerlake.ops.change.delta import Delta
from singerlake.ops.change.outcome_checks import OutcomeChecks, defaults_of
from singerlake.rows.batches.packing import Unpacked
from singerlake.rows.batches.problems import MOST
from singerlake.rows.batches.row_columns import BLOCK, MISFITS, ORDINAL, alias
from singerlake.rows.batches.violations import Violation
from singerlake.rows.changes.merge_terms import (
    CHANGED,
    DELETED,
    STATUS,
    UPDATED,
    changed_schema,
)
from singerlake.rows.input.rows import LINE, SOURCE
from singerlake.rows.state.shape import Shape
from singerlake.sql import conditions, violations
from singerlake.sql.state.frames import row_id, spark_type

_ANEW = "anew"
"""Whether a row that changes is written as a new record."""


@dataclass
class SparkChecks(OutcomeChecks):
    """Checks of the rows that a change leaves, on Spark.

    Attributes:
        present: Gives the rows that there are.
        state: The table as it will be read.
    """

    spark: SparkSession
    found: Delta
    present: Callable[[], DataFrame]
    state: TableState
    shape: Shape

    @cached_property
    def after(self) -> DataFrame:
        """The rows as they will be."""
        return rows_after(self.found, self.present(), self.state, self.shape)

    def violations(  # noqa: D102
        self, constraints: Mapping[str, Constraint], *, changed: bool
    ) -> list[Violation]:
        rows = self.after.where(F.col(SOURCE).isNotNull()) if changed else self.after
        return violations.check_constraints(rows, self.shape, constraints)

    def broken_defaults(self, constraints: Mapping[str, Constraint]) -> Collection[str]:  # noqa: D102
        return broken_defaults(self.spark, self.state, self.shape, constraints)

    def breaking(self, broken: Violation, one: Constraint) -> tuple[int, pa.Table]:  # noqa: D102
        shape = self.shape
        columns = [alias(shape.names.index(name)) for name in one.columns]
        if one.kind == "unique":
            there = reduce(and_, (F.col(name).isNotNull() for name in columns))
            times = F.count(F.lit(1)).over(Window.partitionBy(*columns))
            rows = self.after.where(there).withColumn("n", times).where("n > 1")
        else:
            rows = broken.breaking.withColumn("n", F.lit(None).cast("bigint"))
        rows = rows.where(F.col(SOURCE).isNotNull())
        id_ = row_id(shape) if shape.keys else F.concat_ws(":", BLOCK, ORDINAL)
        named = [*(shape.key_aliases or [BLOCK, ORDINAL]), *columns]
        first = rows.orderBy(SOURCE, LINE, id_).limit(MOST)
        cells = (F.col(name).alias(f"cell{number}") for number, name in enumerate(named))
        return rows.count(), first.select(SOURCE, LINE, "n", *cells).toArrow()


def broken_defaults(
    spark: SparkSession, state: TableState, shape: Shape, asked: Mapping[str, Constraint]
) -> list[str]:
    """Return the names of conditions that a row of nothing but defaults breaks.

    Args:
        state: The table as it will be read.
        asked: The conditions, by their names.
    """
    if not asked:
        return []
    defaults = zip(shape.aliases, _defaults(state, shape), strict=True)
    row = spark.range(1).select(*(default.alias(name) for name, default in defaults))
    row = conditions.with_values(row, shape, list(asked.values()))
    keeps = [
        conditions.computed(row, shape, one).alias(f"k{n}") for n, one in enumerate(asked.values())
    ]
    (kept,) = row.select(*keeps).collect()
    return [name for name, is_kept in zip(asked, kept, strict=True) if not is_kept]


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
        F.col(_ANEW),
        SOURCE,
        LINE,
    )
    pairs = zip(join, shape.key_aliases or [BLOCK, ORDINAL], strict=True)
    same = reduce(and_, (F.col(f"asked_{mine}") == F.col(theirs) for mine, theirs in pairs))
    both = present.join(changed, same, "left_outer")
    gone = (F.col(STATUS) == DELETED) | F.col(_ANEW)
    stay = both.where(~F.coalesce(gone, F.lit(False))).select(
        *(_cell(index, named).alias(alias(index)) for index in range(len(shape.columns))),
        BLOCK,
        ORDINAL,
        F.map_filter(MISFITS, _unchanged).alias(MISFITS),
        SOURCE,
        LINE,
    )
    new = whole.where(F.col(_ANEW))
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
    """The rows that change: ``merge_terms.changed_schema``, and whether they are new records."""
    schema = from_arrow_schema(changed_schema(found.wanted.spec))
    engine = found.wanted.engine
    there: DataFrame = engine.map(found.there, Unpacked(column="there"), schema).frame
    new: DataFrame = engine.map(found.new, Unpacked(column="new"), schema).frame
    return there.withColumn(_ANEW, F.lit(False)).unionAll(new.withColumn(_ANEW, F.lit(True)))


def _unchanged(index: Column, _: Column) -> Column:
    """Tell whether a column of a row is as it was."""
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
    """Return the values of new rows in columns that they do not name."""
    values = zip(defaults_of(state, shape), shape.columns, strict=True)
    return [F.lit(value).cast(spark_type(type_)) for value, (_, type_) in values]
