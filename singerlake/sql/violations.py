"""The rows of a state that violate the table's constraints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812

from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import InvalidQueryError
from singerlake.format.constraint_types import NUMBERS, TEXTS, edge
from singerlake.format.overlay import Constraint
from singerlake.format.overlay_words import constraint_words
from singerlake.format.types import INTEGER, NUMBER, Kind, Type
from singerlake.rows.batches.row_columns import BLOCK, ORDINAL, alias
from singerlake.rows.batches.violations import FIRST, Violation, repeated, shown, shown_columns
from singerlake.rows.state.shape import Shape
from singerlake.rows.validation.pattern_step import PatternStep
from singerlake.sql import conditions
from singerlake.sql.state.frames import spark_type

_PARTED = (Kind.STRUCT, Kind.LIST)


def check_constraints(
    frame: DataFrame, shape: Shape, constraints: Mapping[str, Constraint]
) -> list[Violation]:
    """Find the rows that violate constraints.

    Args:
        frame: The rows of a state, with provenance; columns as they are called inside. A value
            that does not fit its column is null.
        constraints: By name. One that names a column which is not there is passed over.
    """
    indexes = {name: index for index, name in enumerate(shape.names)}
    asked = {
        name: one
        for name, one in constraints.items()
        if one.columns and all(column in indexes for column in one.columns)
    }
    found = _of_rows(frame, shape, {n: c for n, c in asked.items() if c.kind != "unique"})
    found += [
        _not_unique(frame, shape, name, one) for name, one in asked.items() if one.kind == "unique"
    ]
    return [one for one in found if one.rows or one.why]


def _of_rows(
    frame: DataFrame, shape: Shape, constraints: Mapping[str, Constraint]
) -> list[Violation]:
    """Check, in one pass, the constraints that each row keeps or breaks by itself."""
    if not constraints:
        return []
    indexes = {name: index for index, name in enumerate(shape.names)}
    patterns = [
        (indexes[column], one.pattern)
        for one in constraints.values()
        if one.kind == "pattern"
        for column in one.columns
    ]
    if patterns:
        added = [T.StructField(f"broken{n}", T.BooleanType()) for n in range(len(patterns))]
        schema = T.StructType([*frame.schema.fields, *added])
        frame = frame.mapInArrow(PatternStep(patterns), schema)
    frame = conditions.with_values(
        frame, shape, [one for one in constraints.values() if one.kind == "check"]
    )
    numbers = iter(range(len(patterns)))
    broken: dict[str, Column] = {}
    why: dict[str, str] = {}
    for name, one in constraints.items():
        if one.kind == "check":
            try:
                broken[name] = ~conditions.computed(frame, shape, one)
            except InvalidQueryError as error:
                why[name] = str(error)
            continue
        if one.kind == "pattern":
            parts = [F.col(f"broken{next(numbers)}") for _ in one.columns]
        else:
            parts = [
                _broken(F.col(alias(indexes[c])), dict(shape.columns)[c], one) for c in one.columns
            ]
        broken[name] = F.coalesce(reduce(or_, parts), F.lit(False))
    totals = _totals(frame, broken, why)
    return [
        Violation(
            name,
            constraint_words(one),
            totals.get(name, 0),
            _first(frame.where(broken[name]), shape, one) if totals.get(name) else [],
            totals.get(name, 0),
            why.get(name, ""),
            frame.where(broken[name]) if totals.get(name) else None,
        )
        for name, one in constraints.items()
    ]


def _totals(frame: DataFrame, broken: dict[str, Column], why: dict[str, str]) -> dict[str, int]:
    """Count the rows that break each constraint; ``why`` notes what cannot be computed."""
    if not broken:
        return {}
    counts = [F.count_if(column).alias(f"n{i}") for i, column in enumerate(broken.values())]
    try:
        with plain_errors():
            (row,) = frame.agg(*counts).collect()
        return dict(zip(broken, row, strict=True))
    except InvalidQueryError as error:  # such as a division by zero, in one of them
        if len(broken) == 1:
            why[next(iter(broken))] = str(error)
            return {}
    totals: dict[str, int] = {}
    for name, column in broken.items():
        totals |= _totals(frame, {name: column}, why)
    return totals


def _broken(column: Column, type_: Type, one: Constraint) -> Column:
    """Tell whether a value breaks a constraint.

    A tap may have given the column another type since, which the constraint is none for: then a
    value breaks it, unless it is the text of a number or of a value that keeps it.
    """
    if one.kind == "not-null":
        return column.isNull()
    if one.kind == "enum":
        same = (column == literal for value in one.values for literal in _literals(value, type_))
        return column.isNotNull() & ~F.coalesce(reduce(or_, same, F.lit(False)), F.lit(False))
    if one.kind == "length":
        if type_.kind not in TEXTS:
            return column.isNotNull()
        value, type_ = F.length(column), INTEGER
    elif type_.kind in NUMBERS:
        value = column
    else:
        value, type_ = column.cast("string").try_cast("double"), NUMBER
    ends = [_beyond(value, type_, one.minimum, least=True)] if one.minimum is not None else []
    if one.maximum is not None:
        ends.append(_beyond(value, type_, one.maximum, least=False))
    return column.isNotNull() & F.coalesce(reduce(or_, ends), F.lit(True))


def _beyond(value: Column, type_: Type, bound: float, *, least: bool) -> Column:
    """Tell whether numbers are below a minimum, or above a maximum."""
    nearest = edge(type_, bound, least=least)
    if isinstance(nearest, bool):
        return F.lit(nearest)
    return value < F.lit(nearest) if least else value > F.lit(nearest)


def _literals(value: Any, type_: Type) -> list[Column]:
    """Return a value in the column's type; nothing if it cannot have it."""
    if type_.kind in _PARTED:
        return []
    if isinstance(value, bool):
        text = "true" if value else "false"
    else:
        text = value if isinstance(value, str) else json.dumps(value)
    if type_.kind in TEXTS:
        return [F.lit(text)]
    return [F.lit(text).try_cast(spark_type(type_))]


def _not_unique(frame: DataFrame, shape: Shape, name: str, one: Constraint) -> Violation:
    columns = [alias(shape.names.index(column)) for column in one.columns]
    there = reduce(and_, (F.col(column).isNotNull() for column in columns))
    alike = frame.where(there).groupBy(*columns).count().where("count > 1")
    counted = alike.agg(F.sum("count").alias("rows"), F.count("*").alias("groups"))
    (totals,) = counted.collect()
    rows = totals["rows"] or 0
    first = alike.orderBy(F.desc("count"), *columns).select("count", *columns).limit(FIRST)
    texts = repeated(first.toArrow(), one.columns) if rows else []
    return Violation(name, constraint_words(one), rows, texts, totals["groups"])


def _first(broken: DataFrame, shape: Shape, one: Constraint) -> list[str]:
    columns = shown_columns(shape.key_names, one)
    names = (alias(shape.names.index(column)) for column in columns)
    # Ten rows, and of these only key and columns.
    rows = broken.orderBy(BLOCK, ORDINAL).limit(FIRST).select(BLOCK, ORDINAL, *names)
    return shown(rows.toArrow(), columns, keyed=bool(shape.keys))
