"""Rows that SQL selects, as row sets: for update and delete.

A condition and new values are parts of a SELECT over the table as it is, and are checked as any
query is. The rows come with their versions: one that somebody changes before the commit is
selected anew. A value must be of its column's type, or be one that the type holds as it is:
nothing is cast that could come out as another value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody names it
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type

from singerlake.engine.base import Engine
from singerlake.engine.spark.engine import SparkEngine, SparkRows
from singerlake.engine.spark.jvm.failures import plain_errors
from singerlake.errors import InvalidQueryError
from singerlake.format import sql_tokens
from singerlake.format.assignments import EXACT_DIGITS, INT_DIGITS, LONG_DIGITS
from singerlake.format.types import Kind, Type
from singerlake.lake import Lake, Table
from singerlake.log.table_state import TableState
from singerlake.ops.change.literal_rows import set_index
from singerlake.ops.change.row_set import GivenRows, RowSet
from singerlake.rows.batches.row_columns import alias
from singerlake.rows.input.rows import TYPES, special_names
from singerlake.rows.state.shape import shape_of
from singerlake.sql import plan
from singerlake.sql.queries.query import query
from singerlake.sql.result import QueryResult
from singerlake.sql.state.frames import spark_type

_WHOLE = {
    "byte": 3,
    "tinyint": 3,
    "short": 5,
    "smallint": 5,
    "integer": INT_DIGITS,
    "long": LONG_DIGITS,
}
"""The most digits of whole numbers, by their type."""


@dataclass
class Selection(GivenRows):
    """Selects rows by SQL; to be used as a context, because it holds leases.

    Attributes:
        table: The table that is changed.
        where: Which rows; all of them for None.
        values: New values by column, as SQL; none to select rows alone.
    """

    lake: Lake
    table: Table
    where: str | None
    values: Mapping[str, str] = field(default_factory=dict)
    of_spark = "SQL in --where or --set"
    _results: list[QueryResult] = field(default_factory=list)

    @plain_errors()
    def row_set(self, engine: Engine[Any], present: TableState, source: str) -> RowSet:
        """Select the rows of a table as it is; see :meth:`GivenRows.row_set`.

        Raises:
            InvalidQueryError: A condition or a value is no SQL, or does more than read, or a
                value is not of its column's type.
            UsageError: There is no such column, or it is of the key.
        """
        if not isinstance(engine, SparkEngine):
            raise TypeError("SQL is Spark's")
        spark, shape = engine.spark, shape_of(present)
        self._release()
        named = [
            (set_index(shape, self.table.name, name), text) for name, text in self.values.items()
        ]
        named.sort()
        special = special_names(shape.names)
        # The rows of a table with a key are named by it, the others by their positions.
        own = [*(shape.key_names or [special.row_id]), special.row_version]
        selected = list(map(sql_tokens.quote, own))
        for number, (_, text) in enumerate(named):
            plan.check_expression(spark, text)
            selected.append(f"({text}\n) as value_{number}")
        sql = f"select {', '.join(selected)} from {_at(present)}"  # noqa: S608  # read, not run
        if self.where is not None:
            plan.check_expression(spark, self.where)
            # In one pair, Spark takes the name of a column for that of an alias: where (paid).
            sql += f" where (({self.where}\n))"
        result = query(spark, self.lake, sql, row_metadata=True)
        self._results.append(result)
        frame = result.frame.toDF(
            *(f"own_{n}" for n in range(len(own) - 1)),
            "row_version",
            *(f"value_{n}" for n in range(len(named))),
        )
        cells = {index: f"own_{number}" for number, index in enumerate(shape.keys)}
        cells |= {
            index: _fitted(frame, f"value_{number}", *shape.columns[index])
            for number, (index, _) in enumerate(named)
        }
        known = {"source": F.lit(0), "row_version": F.col("row_version")}
        if not shape.keys:
            known["row_id"] = F.col("own_0")
        rows = frame.select(
            *(F.expr(cells[index]).alias(alias(index)) for index in sorted(cells)),
            *(
                known.get(name, F.lit(None)).cast(from_arrow_type(type_)).alias(name)
                for name, type_ in TYPES.items()
            ),
        )
        return RowSet(SparkRows(rows), tuple(sorted(cells)), (source,))

    def __enter__(self) -> Selection:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        for result in self._results:
            result.close()
        self._results.clear()


def _at(present: TableState) -> str:
    name = ".".join(map(sql_tokens.quote, (present.table.tap, present.table.stream)))
    return f"{name} version as of '@{present.number}'"


def _fitted(frame: DataFrame, value: str, name: str, type_: Type) -> str:
    """SQL that gives a value its column's type, where no value changes by that."""
    given, wanted = frame.schema[value].dataType, spark_type(type_)
    if _same(given, wanted):
        return value
    if _holds(type_, given):
        return f"cast({value} as {wanted.simpleString()})"
    raise InvalidQueryError(
        f"column {name!r} is {wanted.simpleString()}, and its new value is {given.simpleString()}: "
        f"{_advice(type_)}"
    )


def _same(given: T.DataType, wanted: T.DataType) -> bool:
    """Tell whether two types are the same but for what may be null."""
    if isinstance(given, T.StructType) and isinstance(wanted, T.StructType):
        return given.names == wanted.names and all(
            _same(a.dataType, b.dataType) for a, b in zip(given, wanted, strict=True)
        )
    if isinstance(given, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return _same(given.elementType, wanted.elementType)
    return given == wanted


def _holds(type_: Type, given: T.DataType) -> bool:
    """Tell whether a column holds each value of another type as it is."""
    if isinstance(given, T.NullType):
        return True
    digits, scale = _WHOLE.get(given.typeName()), 0
    if isinstance(given, T.DecimalType):
        digits, scale = given.precision, given.scale
    if type_.kind is Kind.NUMBER and isinstance(given, T.FloatType):
        return True
    if digits is None:
        return False
    if type_.kind is Kind.INTEGER:
        return not isinstance(given, T.DecimalType)
    if type_.kind is Kind.DECIMAL:
        return scale <= type_.scale and digits - scale <= 38 - type_.scale
    return type_.kind is Kind.NUMBER and digits <= EXACT_DIGITS


def _advice(type_: Type) -> str:
    literal = {
        Kind.DATE: "write date'2026-11-20'",
        Kind.TIMESTAMP: "write timestamp'2026-11-20T12:00:00Z'",
        Kind.STRING: "write text in single quotes",
        Kind.TEXT: "write text in single quotes",
        Kind.BOOLEAN: "write true or false",
    }.get(type_.kind, "specify how to convert it")
    return f"{literal}, or use cast(… as {spark_type(type_).simpleString()})"
