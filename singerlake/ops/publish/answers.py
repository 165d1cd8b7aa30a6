"""Readers of a projection's rows: any engine if they are columns of a table, or SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singerlake.engine.choice import EngineChoice
from singerlake.lake import Lake
from singerlake.ops.publish.answer import Answer
from singerlake.ops.publish.table_columns import TableColumns, wanted
from singerlake.publish.projection import Projection
from singerlake.publish.versions import rows_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHAT = "publishing"


def opened(
    choice: EngineChoice, lake: Lake, name: str, sql: str, at: str | None = None
) -> Answer[Any]:
    """Begin to read the rows of a projection.

    Args:
        name: What messages call the projection.
        sql: One SELECT.
        at: The version, by number or label, in which tables are read that the SQL names without
            one; their heads by default.

    Raises:
        InvalidQueryError: It is no SELECT, or names a column that is not there.
        NotFoundError: It names a table or a version that is not there.
        UsageError: It has to be asked in SQL, and only this process may be used.
    """
    plain = wanted(lake, sql, at)
    if plain is not None:
        return TableColumns(choice.engine_for(plain.work(), WHAT), plain)
    spark = session(choice, f"the SQL of {name}")
    from singerlake.ops.publish.projected import Projected

    return Projected(spark, lake, sql, at=at)


def session(choice: EngineChoice, sql: str) -> SparkSession:
    """Start Spark, or find the session that runs.

    Args:
        choice: Whether it may be used.

    Raises:
        UsageError: Only this process may be used.
    """
    choice.need_spark(WHAT, sql)
    engine: Any = choice.spark_engine(WHAT)
    spark: SparkSession = engine.spark
    return spark


def needs_spark(choice: EngineChoice, lake: Lake, projection: Projection) -> bool:
    """Tell, without reading a row, whether Spark is needed to publish a projection anew."""
    if projection.stage is not None:
        return True
    plain = wanted(lake, rows_query(projection))
    return plain is None or not choice.takes(plain.work())
