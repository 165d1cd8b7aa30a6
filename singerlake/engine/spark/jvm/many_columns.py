"""Frames of many columns, asked for in as many calls as those of a few.

Each function of pyspark's that makes a column, and each name that it is handed in a list, is a call
to Java and back. Of 2,000 columns these took longer than all that Spark does. So here columns are
texts of SQL, and all texts go over at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812  # as everybody names it

from singerlake.format.sql_tokens import quote

_CHAIN = 32
"""Of more parts a sum is made of a list. Java compiles no plan of so many columns anyway."""
_SUBSTITUTES = "spark.sql.variable.substitute"


def selected(frame: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Do as ``frame.selectExpr``.

    Args:
        columns: In SQL; at least one.
    """
    spark, texts = frame.sparkSession, [*columns]
    with _as_written(spark) if any("${" in one for one in texts) else nullcontext():
        return DataFrame(frame._jdf.selectExpr(_texts(spark, texts)), spark)


def named(frame: DataFrame, names: Iterable[str]) -> DataFrame:
    """Do as ``frame.toDF``."""
    spark, names = frame.sparkSession, [*names]
    if not names:
        return frame
    return DataFrame(frame._jdf.toDF(_texts(spark, names)), spark)


def struct(members: Iterable[tuple[str, str]]) -> str:
    """Write a struct in SQL.

    Args:
        members: Name and value, in SQL, of each.
    """
    return f"named_struct({', '.join(f'{text(name)}, {value}' for name, value in members)})"


@contextmanager
def _as_written(spark: SparkSession) -> Iterator[None]:
    """Keep a session of the user's from putting what ``${env:HOME}`` says into a column's name."""
    before = str(spark.conf.get(_SUBSTITUTES))
    spark.conf.set(_SUBSTITUTES, "false")
    try:
        yield
    finally:
        spark.conf.set(_SUBSTITUTES, before)


def text(value: str) -> str:
    """Write a text as SQL's parser reads it back."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    # See _as_written.
    escaped = escaped.replace("$", "\\u0024")
    return f"'{escaped}'"


def ddl(type_: T.DataType) -> str:
    """Write a type in SQL, whatever names are in it."""
    if isinstance(type_, T.ArrayType):
        return f"array<{ddl(type_.elementType)}>"
    if isinstance(type_, T.MapType):
        return f"map<{ddl(type_.keyType)}, {ddl(type_.valueType)}>"
    if isinstance(type_, T.StructType):
        fields = (f"{quote(field.name)}: {ddl(field.dataType)}" for field in type_.fields)
        return f"struct<{', '.join(fields)}>"
    return type_.simpleString()


def member(value: str, name: str) -> str:
    """Write what a struct has under a name, in SQL."""
    return f"{value}[{text(name)}]"


def total(parts: Sequence[str]) -> str:
    """Write the sum of whole numbers in SQL; null counts as nothing.

    A chain of 500 is 500 deep to Java, whose stack ends there; parentheses would do, but Spark's
    parser reads what is in them over and over. A list is not deep.

    Args:
        parts: At least one.
    """
    if len(parts) > _CHAIN:
        return f"aggregate(array({', '.join(parts)}), 0L, (sum, one) -> sum + coalesce(one, 0))"
    return " + ".join(f"coalesce(cast({part} as bigint), 0L)" for part in parts)


def _texts(spark: SparkSession, texts: list[str]) -> Any:
    """Texts as a sequence of Scala's."""
    jvm: Any = spark._jvm
    between = uuid4().hex
    split = jvm.java.util.regex.Pattern.compile(between).split(between.join(texts), -1)
    return jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(split)
